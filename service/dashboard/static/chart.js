// The interactive chart of a page of results. What is shown stands in the address; the server says what that means
// (#chart-data), where the rows are (the same CSV that the API serves), and makes the table below.

import { Chart } from "./chart_draw.js";
import { legendOf, marked } from "./chart_legend.js";
import { Table, axisOf, categories, figure, isDisturbed, seriesOf } from "./chart_rows.js";
import { saveCsv, savePng, saveSvg } from "./chart_save.js";
import { nearPeaks } from "./chart_scale.js";
import { isTouched } from "./touched.js";

/** @typedef {import("./chart_rows.js").Point} Point */
/** @typedef {import("./chart_rows.js").Source} Source */
/** @typedef {import("./chart_rows.js").Choice} Choice */
/** @typedef {import("./chart_draw.js").Scene} Scene */
/** @typedef {import("./chart_draw.js").Style} Style */

const PARTS = ["tabs-now", "plots-now", "cases-kept", "cases-now"]; // that follow the address
const UNANSWERED = "This view did not come: there was no answer. Choose it again, or load the page again.";
const ARROWS = new Map([
  ["ArrowLeft", [-1, 0]],
  ["ArrowRight", [1, 0]],
  ["ArrowUp", [0, -1]],
  ["ArrowDown", [0, 1]],
]);

/** @typedef {{fixed: Record<string, Style>, free: Style[]}} Looks */

/** @type {Looks | null} */
let known = null;
const host = /** @type {HTMLElement | null} */ (document.getElementById("chart"));
const form = /** @type {HTMLFormElement | null} */ (document.getElementById("chart-form"));

/** @param {string} tag @param {string} kind @param {HTMLElement} parent */
function made(tag, kind, parent) {
  const element = document.createElement(tag);
  element.className = kind;
  parent.append(element);
  return element;
}

/** @param {HTMLElement} page @param {HTMLFormElement} fields */
function start(page, fields) {
  const frame = made("div", "chart-frame", page);
  const ring = made("div", "chart-ring", frame);
  const words = made("div", "tip-words", frame);
  const legend = made("ul", "legend", page);
  const note = made("p", "faint", page);
  const spoken = made("p", "unseen", page);
  const buttons = made("p", "chart-buttons", page);
  ring.hidden = words.hidden = true;
  words.setAttribute("aria-hidden", "true");
  spoken.setAttribute("aria-live", "polite");
  frame.tabIndex = 0;
  frame.setAttribute("role", "group");

  const chart = new Chart(frame, (point, left, top) => {
    ring.hidden = words.hidden = !point;
    if (!point || !scene) return;
    words.textContent = told(point, scene.choice);
    ring.style.left = `${left}px`;
    ring.style.top = `${top}px`;
    words.style.left = `${Math.max(0, Math.min(left + 14, frame.clientWidth - words.offsetWidth))}px`;
    words.style.top = `${Math.max(0, top - words.offsetHeight - 10)}px`;
  });
  /** @type {Scene | null} */
  let scene = null;
  /** @type {Map<string, Table>} */
  const tables = new Map();
  /** @type {Map<string, Style>} */
  const styles = new Map();
  let asked = 0; // how often for rows: answers may overtake each other
  let drawn = 0; // which of these is drawn
  let chosen = 0; // how often by the form: so may its answers

  /** Draws the rows as they are now, unless later ones are drawn already. Over a slow line the next ones are asked for
   * before these have come. */
  async function draw() {
    const mine = ++asked;
    const { csv, kinds: types } = dataOf();
    if (!csv) return;
    const kinds = JSON.parse(types ?? "{}");
    const sources = await Promise.all([
      fetched(tables, csv, kinds).then((rows) => ({ rows, device: null })),
      ...overlays().map(async ({ name, device }) => ({
        rows: await fetched(tables, `/ui/published/${name}/results.csv`, kinds),
        device,
      })),
    ]);
    await new Promise((done) => setTimeout(done)); // a frame may come before it is drawn
    if (mine < drawn) return;
    drawn = mine;
    const data = dataOf(); // what is chosen by now
    const begun = performance.now();
    scene = sceneOf(data, sources, styles);
    page.hidden = scene.series.length === 0;
    const section = document.getElementById("charts");
    section?.classList.toggle("has-chart", !page.hidden);
    section?.classList.toggle("has-no-chart", page.hidden); // the server's picture is fetched only then
    if (!page.hidden) chart.show(scene);
    const count = scene.series.reduce((sum, one) => sum + one.points.length, 0);
    frame.setAttribute("aria-label", `Chart of ${count} points. Arrow keys go to each; the table has all.`);
    legendOf(legend, scene, toggle);
    note.textContent = noteOf(scene, chart.shape.y);
    offer(fields, new Set(JSON.parse(data.known ?? "[]")));
    await null; // uPlot draws at the end of the turn
    performance.measure("chart update", { start: begun, end: performance.now() });
  }

  /** @param {string} label */
  function toggle(label) {
    if (!scene) return;
    if (!scene.hidden.delete(label)) scene.hidden.add(label);
    const query = new URLSearchParams(location.search);
    query.delete("hide");
    for (const each of scene.hidden) query.append("hide", each);
    history.replaceState(null, "", addressOf(query));
    chart.show(scene);
    marked(legend, scene);
  }

  /** To what the form asks for. */
  async function choose() {
    const query = new URLSearchParams();
    for (const [name, value] of new FormData(fields)) if (value !== "") query.append(name, String(value));
    for (const label of new URLSearchParams(location.search).getAll("hide")) query.append("hide", label);
    history.replaceState(null, "", addressOf(query));
    const mine = ++chosen;
    const reply = await fetch(location.href, { cache: "no-store" }).catch(() => null);
    const text = reply && reply.status < 500 ? await reply.text().catch(() => null) : null;
    if (mine !== chosen) return;
    if (text === null) {
      note.textContent = spoken.textContent = UNANSWERED;
      return;
    }
    const now = new DOMParser().parseFromString(text, "text/html");
    for (const id of PARTS) {
      const fresh = now.getElementById(id);
      if (fresh) document.getElementById(id)?.replaceWith(fresh);
    }
    await draw();
  }

  fields.querySelector("button")?.remove();
  fields.addEventListener("change", choose);
  fields.addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("matmul:taken", draw);
  frame.addEventListener("keydown", (event) => {
    const step = ARROWS.get(event.key);
    if (event.key === "Escape") chart.point(null);
    if (!step) return;
    event.preventDefault();
    chart.step(step[0], step[1]);
    if (chart.at && scene) spoken.textContent = told(chart.at, scene.choice);
  });
  const whole = button(buttons, "Show all again", () => chart.setZoom(null));
  whole.hidden = true;
  frame.addEventListener("zoom", () => {
    whole.hidden = chart.zoom === null;
  });
  button(buttons, "Save this view as PNG", () => chart.plot && scene && savePng(chart, scene));
  button(buttons, "Save this view as SVG", () => scene && saveSvg(chart, scene));
  button(buttons, "Save this view as CSV", () => scene && saveCsv(scene));
  const link = button(buttons, "Copy the link to this view", async () => {
    await navigator.clipboard.writeText(location.href);
    link.textContent = "Copied";
  });
  link.hidden = !navigator.clipboard;
  draw();
  if (isTouched(fields)) choose();
}

/** @param {HTMLElement} parent @param {string} words @param {() => void} act */
function button(parent, words, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "quiet";
  made.textContent = words;
  made.addEventListener("click", act);
  parent.append(made, " ");
  return made;
}

/** @param {URLSearchParams} query */
function addressOf(query) {
  return `${location.pathname}?${query}${location.hash}`;
}

/** @returns {DOMStringMap} */
function dataOf() {
  return document.getElementById("chart-data")?.dataset ?? {};
}

/** Rows of a CSV as it is now.
 * @param {Map<string, Table>} tables @param {string} address @param {any} kinds */
async function fetched(tables, address, kinds) {
  const table = tables.get(address) ?? new Table(kinds);
  tables.set(address, table);
  const reply = await fetch(address);
  return reply.ok ? table.rows(await reply.text()) : [];
}

function overlays() {
  const found = [...document.querySelectorAll("#chart-form input[name=over]:checked")];
  return found.map((box) => {
    const { value, dataset } = /** @type {HTMLInputElement} */ (box);
    return { name: value, device: dataset.device ?? "" };
  });
}

/** @param {DOMStringMap} data @param {Source[]} sources @param {Map<string, Style>} styles @returns {Scene} */
function sceneOf(data, sources, styles) {
  const query = new URLSearchParams(location.search);
  /** @type {Choice} */
  const choice = {
    x: data.x ?? "",
    y: data.y ?? "",
    colour: data.colour ?? "",
    configs: data.configs ?? "fastest",
    xscale: query.get("xscale") ?? "",
    yscale: query.get("yscale") ?? "",
    bands: JSON.parse(data.bands ?? "{}"),
    kinds: JSON.parse(data.kinds ?? "{}"),
    words: JSON.parse(data.words ?? "{}"),
    rules: JSON.parse(data.rules ?? "{}"),
  };
  const words = categories(sources, choice);
  const series = seriesOf(sources, choice, words);
  const { fixed, free } = looks(data);
  for (const { label } of series) {
    if (styles.has(label)) continue;
    const taken = [...styles.values()];
    const own = fixed[label] ?? (choice.colour === "kernel" ? fixed[label.split(", ")[0]] : undefined);
    const next = free.find((one) => !taken.includes(one)) ?? free[0];
    styles.set(label, own && !taken.includes(own) ? own : next);
  }
  const hidden = new Set(query.getAll("hide"));
  return { series, words, choice, peaks: JSON.parse(data.peaks ?? "[]"), styles, hidden };
}

/** Read once: the same look is the same object.
 * @param {DOMStringMap} data @returns {Looks} */
function looks(data) {
  known ??= { fixed: JSON.parse(data.styles ?? "{}"), free: JSON.parse(data.free ?? "[]") };
  return known;
}

/** A point in words: case, figure, interval, and what disturbed it.
 * @param {Point} point @param {Choice} choice */
function told(point, choice) {
  const { row, y, lo, hi } = point;
  const shape = row.m === row.n && row.n === row.k ? `N = ${row.n}` : `${row.m}×${row.n}×${row.k}`;
  const config = row.config ? `, ${row.config}` : "";
  const [words, unit] = axisOf(choice, choice.y, y);
  const between = lo === null || hi === null ? "" : ` (${figure(lo / unit)} to ${figure(hi / unit)})`;
  const foot = ["n", "size", "config", "kernel"].includes(choice.x)
    ? ""
    : `\n${axisOf(choice, choice.x, 0)[0]}: ${row[choice.x]}`;
  const doubt = isDisturbed(row) ? `\n${row.condition}: not to be compared` : "";
  return `${point.series}\n${row.kernel}, ${row.dtype}, ${shape}${config}\n${words}: ${figure(y / unit)}${between}${foot}${doubt}`;
}

/** Only what has values can be chosen.
 * @param {HTMLFormElement} fields @param {Set<string>} known */
function offer(fields, known) {
  for (const name of ["x", "y", "colour"]) {
    const select = fields.elements.namedItem(name);
    if (!(select instanceof HTMLSelectElement)) continue;
    for (const option of select.options) option.hidden = option.value !== "" && !known.has(option.value);
  }
}

/** How to use the chart, and its ceilings in words.
 * @param {Scene} scene @param {[number, number]} y */
function noteOf(scene, y) {
  const near = nearPeaks(scene, y);
  const far = scene.choice.y === "gflops" ? scene.peaks.filter((peak) => !near.includes(peak)) : [];
  const parts = ["Drag to zoom in, double-click to see all again. Hollow marks: overlaid, or disturbed."];
  if (near.length) parts.push(`Ceilings: ${near.map((peak) => peak.words).join("; ")}.`);
  if (far.length) parts.push(`Far above: ${far.map((peak) => peak.words).join("; ")}.`);
  return parts.join(" ");
}

if (host && form) start(host, form);

// What a chart shows as a file.

import { labelsOf } from "./chart_labels.js";
import { axisOf, isDisturbed } from "./chart_rows.js";

/** @typedef {import("./chart_draw.js").Chart} Chart */
/** @typedef {import("./chart_draw.js").Scene} Scene */

const LINE = 18;
const ROOM = 12;

/** @param {Scene} scene */
export function saveCsv(scene) {
  const { x, y } = scene.choice;
  const rows = scene.series
    .filter((one) => !scene.hidden.has(one.label))
    .flatMap((one) => one.points.map((point) => [one.label, point.row[x], point.y, point.lo, point.hi]));
  const lines = [["series", x, y, "lo", "hi"], ...rows].map((row) => row.map(cell).join(","));
  save(new Blob([`${lines.join("\r\n")}\r\n`], { type: "text/csv" }), `${y}.csv`);
}

/** @param {string | number | null} value */
function cell(value) {
  const text = String(value ?? "");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const WIDTH = 960;
const HEIGHT = 480;
const EDGE = { left: 84, right: 220, top: 16, bottom: 64 };

/** As a drawing of lines and words, in the colours of the page.
 * @param {Chart} chart @param {Scene} scene */
export function saveSvg(chart, scene) {
  const plot = chart.plot;
  if (!plot) return;
  const { width, height } = plot.over.getBoundingClientRect();
  const inner = { width: WIDTH - EDGE.left - EDGE.right, height: HEIGHT - EDGE.top - EDGE.bottom };
  const x = (/** @type {number} */ value) => EDGE.left + (plot.valToPos(value, "x") / width) * inner.width;
  const y = (/** @type {number} */ value) => EDGE.top + (plot.valToPos(value, "y") / height) * inner.height;
  const [ink, faint, line, ground] = ["ink", "faint", "line", "ground"].map((name) => chart.colour(name));
  const text = (/** @type {string} */ words, /** @type {number} */ left, /** @type {number} */ top, more = "") =>
    `<text x="${left.toFixed(1)}" y="${top.toFixed(1)}" fill="${faint}" ${more}>${escaped(words)}</text>`;
  const parts = [`<rect width="${WIDTH}" height="${HEIGHT}" fill="${ground}"/>`];
  const foot = EDGE.top + inner.height;
  for (const tick of ticksOf(plot, 0)) {
    parts.push(`<path d="M${x(tick.at).toFixed(1)} ${EDGE.top}V${foot}" stroke="${line}"/>`);
    parts.push(text(tick.words, x(tick.at), foot + 18, 'text-anchor="middle"'));
  }
  for (const tick of ticksOf(plot, 1)) {
    parts.push(`<path d="M${EDGE.left} ${y(tick.at).toFixed(1)}H${EDGE.left + inner.width}" stroke="${line}"/>`);
    parts.push(text(tick.words, EDGE.left - 8, y(tick.at) + 4, 'text-anchor="end"'));
  }
  const { choice } = scene;
  const [along, upwards] = [axisOf(choice, choice.x, 0)[0], axisOf(choice, choice.y, chart.shape.y[1])[0]];
  parts.push(text(along, EDGE.left + inner.width / 2, HEIGHT - 16, 'text-anchor="middle"'));
  parts.push(text(upwards, 0, 0, `text-anchor="middle" transform="translate(18 ${EDGE.top + inner.height / 2}) rotate(-90)"`));
  for (const one of scene.series.filter((each) => !scene.hidden.has(each.label))) {
    const [hue, dash, outline] = scene.styles.get(one.label) ?? ["ink", "", ""];
    const colour = chart.colour(hue);
    const points = one.points.filter(chart.fits, chart);
    if (one.joined && points.length > 1) {
      const path = points.map((point) => `${x(point.x).toFixed(1)} ${y(point.y).toFixed(1)}`).join("L");
      parts.push(`<path d="M${path}" fill="none" stroke="${colour}" stroke-width="2" stroke-dasharray="${dash}"/>`);
    }
    for (const point of points) {
      const place = `translate(${x(point.x).toFixed(1)} ${y(point.y).toFixed(1)}) scale(4)`;
      const fill = one.own && !isDisturbed(point.row) ? colour : ground;
      parts.push(`<path d="${outline}" transform="${place}" fill="${fill}" stroke="${colour}" stroke-width=".4"/>`);
    }
  }
  for (const { label, hue, y: top } of labelsOf(chart, scene)) {
    const level = EDGE.top + (top / height) * inner.height + 4;
    parts.push(text(label, EDGE.left + inner.width + 10, level).replace(faint, chart.colour(hue)));
  }
  const size = `viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}"`;
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="sans-serif" font-size="12" color="${ink}">`;
  save(new Blob([`${svg}${parts.join("\n")}</svg>\n`], { type: "image/svg+xml" }), `${scene.choice.y}.svg`);
}

/** Values along an axis as it tells them.
 * @param {any} plot @param {number} axis @returns {{at: number, words: string}[]} */
function ticksOf(plot, axis) {
  const { _splits, _values } = plot.axes[axis];
  const places = /** @type {(number | null)[]} */ (_splits ?? []);
  return places.flatMap((at, place) => (at === null || !_values[place] ? [] : [{ at, words: String(_values[place]) }]));
}

/** @param {string} words */
function escaped(words) {
  return words.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}

/** With the names of its lines below.
 * @param {Chart} chart @param {Scene} scene */
export function savePng(chart, scene) {
  const drawn = chart.plot?.ctx.canvas;
  if (!drawn) return;
  const ratio = devicePixelRatio;
  const labels = scene.series.map((one) => one.label).filter((label) => !scene.hidden.has(label));
  const canvas = document.createElement("canvas");
  canvas.width = drawn.width;
  canvas.height = drawn.height + (labels.length * LINE + ROOM) * ratio;
  const ctx = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  ctx.fillStyle = chart.colour("ground");
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.drawImage(drawn, 0, 0);
  ctx.font = `${12 * ratio}px system-ui, sans-serif`;
  labels.forEach((label, place) => {
    const [hue, , outline] = scene.styles.get(label) ?? ["ink", "", ""];
    const y = drawn.height + (place + 0.5) * LINE * ratio;
    ctx.fillStyle = chart.colour(hue);
    ctx.setTransform(5 * ratio, 0, 0, 5 * ratio, 80 * ratio, y);
    ctx.fill(new Path2D(outline));
    ctx.resetTransform();
    ctx.fillStyle = chart.colour("ink");
    ctx.fillText(label, 96 * ratio, y + 4 * ratio);
  });
  canvas.toBlob((blob) => blob && save(blob, `${scene.choice.y}.png`));
}

/** @param {Blob} blob @param {string} name */
function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

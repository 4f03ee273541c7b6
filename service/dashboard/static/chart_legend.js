// The legend of a chart: an entry for each line, which hides and shows it.

/** @typedef {import("./chart_draw.js").Scene} Scene */
/** @typedef {import("./chart_draw.js").Style} Style */

const SVG = "http://www.w3.org/2000/svg";

/** @param {HTMLElement} list @param {Scene} scene @param {(label: string) => void} toggle */
export function legendOf(list, scene, toggle) {
  const ordered = [...scene.series].sort((a, b) => (b.points.at(-1)?.y ?? 0) - (a.points.at(-1)?.y ?? 0));
  const labels = ordered.map((one) => one.label);
  const before = [...list.children].map((item) => item.textContent);
  if (labels.length !== before.length || labels.some((label, place) => label !== before[place])) {
    const focused = document.activeElement?.closest(".legend") === list ? document.activeElement?.textContent : null;
    list.replaceChildren(...labels.map((label) => entry(label, scene.styles.get(label), toggle)));
    if (focused) [...list.querySelectorAll("button")].find((one) => one.textContent === focused)?.focus();
  }
  marked(list, scene);
}

/** @param {HTMLElement} list @param {Scene} scene */
export function marked(list, scene) {
  for (const one of list.querySelectorAll("button")) {
    one.setAttribute("aria-pressed", String(!scene.hidden.has(one.textContent ?? "")));
  }
}

/** @param {string} label @param {Style | undefined} style @param {(label: string) => void} toggle */
function entry(label, style, toggle) {
  const item = document.createElement("li");
  const button = document.createElement("button");
  button.type = "button";
  button.append(swatch(style ?? ["ink", "", ""]), label);
  button.addEventListener("click", () => toggle(label));
  item.append(button);
  return item;
}

/** A piece of the line with its mark.
 * @param {Style} style */
function swatch([hue, dash, outline]) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "drawn");
  svg.setAttribute("width", "34");
  svg.setAttribute("height", "12");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(SVG, "path");
  line.setAttribute("class", `line ${hue}`);
  line.setAttribute("d", "M0 6H34");
  line.setAttribute("stroke-dasharray", dash);
  const mark = document.createElementNS(SVG, "path");
  mark.setAttribute("class", `mark full ${hue}`);
  mark.setAttribute("d", outline);
  mark.setAttribute("transform", "translate(17 6) scale(4.5)");
  svg.append(line, mark);
  return svg;
}

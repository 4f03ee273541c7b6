// Names of lines at their ends, so that nobody has to look them up in the legend.

import uPlot from "./vendor/uplot/uPlot.esm.js";

/** @typedef {import("./chart_rows.js").Series} Series */
/** @typedef {import("./chart_draw.js").Chart} Chart */
/** @typedef {import("./chart_draw.js").Scene} Scene */
/** Where a line ends, and where its name stands.
 * @typedef {{label: string, x: number, at: number, y: number}} Label */

const LETTER = 6.6; // pixels, about
const LINE = 14;
const LONGEST = 26; // letters
const MOST = 24; // lines; more have no room
const NARROW = 640; // pixels of a chart below which names go to the legend alone

/** Pixels that names need beside a chart of this width; 0 where there are none.
 * @param {Series[]} series @param {number} width */
export function roomFor(series, width) {
  if (width < NARROW || series.length > MOST || series.length < 2) return 0;
  return 14 + LETTER * Math.max(0, ...series.map((one) => cut(one.label).length));
}

/** Names of the lines, right of the frame.
 * @param {Chart} chart @param {Scene} scene */
export function drawLabels(chart, scene) {
  const plot = chart.plot;
  if (!plot || !hasRoom(scene, chart.host.clientWidth)) return;
  const { ctx, bbox } = plot;
  const ratio = uPlot.pxRatio;
  const end = bbox.left + bbox.width;
  ctx.save();
  ctx.font = `${12 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  for (const { label, hue, x, at, y } of labelsOf(chart, scene)) {
    ctx.strokeStyle = ctx.fillStyle = chart.colour(hue);
    ctx.lineWidth = 0.75 * ratio;
    ctx.globalAlpha = 0.5;
    ctx.beginPath();
    ctx.moveTo(bbox.left + (x + 6) * ratio, at * ratio + bbox.top);
    ctx.lineTo(end + 8 * ratio, y * ratio + bbox.top);
    ctx.stroke();
    ctx.globalAlpha = 1;
    ctx.fillText(label, end + 10 * ratio, y * ratio + bbox.top);
  }
  ctx.restore();
}

/** @param {Scene} scene @param {number} width */
function hasRoom(scene, width) {
  return !(scene.words && scene.choice.x === "kernel") && roomFor(scene.series, width) > 0;
}

/** Names with their colours, where they stand in pixels below the frame's top: of lines that end inside.
 * @param {Chart} chart @param {Scene} scene */
export function labelsOf(chart, scene) {
  const plot = /** @type {uPlot} */ (chart.plot);
  const height = plot.over.clientHeight;
  const found = scene.series
    .filter((one) => !scene.hidden.has(one.label))
    .map((one) => ({ one, last: one.points.filter(chart.fits, chart).at(-1) }))
    .flatMap(({ one, last }) => (last ? [{ label: one.label, x: plot.valToPos(last.x, "x"), at: plot.valToPos(last.y, "y") }] : []))
    .filter(({ at }) => at >= 0 && at <= height)
    .sort((one, other) => one.at - other.at);
  const names = placed(found, 6, height - 6);
  return names.map((name, place) => ({ ...name, hue: scene.styles.get(found[place].label)?.[0] ?? "ink" }));
}

/** Names beside the last points, moved apart where they would overlap; `at` is where a line ends, `y` where its name is.
 * @param {{label: string, x: number, at: number}[]} ends @param {number} top @param {number} bottom @returns {Label[]} */
export function placed(ends, top, bottom) {
  const ordered = ends.map((one) => ({ ...one, y: one.at })).sort((one, other) => one.at - other.at);
  ordered.forEach((one, place) => {
    const before = ordered[place - 1];
    one.y = Math.max(one.y, before ? before.y + LINE : top);
  });
  let limit = bottom;
  for (const one of [...ordered].reverse()) {
    one.y = Math.min(one.y, limit);
    limit = one.y - LINE;
  }
  return ordered.map((one) => ({ ...one, label: cut(one.label) }));
}

/** @param {string} label */
function cut(label) {
  return label.length <= LONGEST ? label : `${label.slice(0, LONGEST - 1)}…`;
}

// What is painted on a chart besides its lines.

import uPlot from "./vendor/uplot/uPlot.esm.js";

/** @typedef {import("./chart_rows.js").Point} Point */
/** @typedef {import("./chart_draw.js").Peak} Peak */
/** @typedef {import("./chart_draw.js").Span} Span */

const LETTERS = 14; // height of a line of words

/** Intervals of the points, along a line as a band.
 * @param {CanvasRenderingContext2D} ctx @param {uPlot} plot @param {Point[]} points @param {boolean} isLine */
export function band(ctx, plot, points, isLine) {
  const at = (/** @type {Point} */ one, /** @type {number} */ value) => /** @type {Span} */ ([
    plot.valToPos(one.x, "x", true),
    plot.valToPos(value, "y", true),
  ]);
  ctx.beginPath();
  ctx.lineWidth = 3 * uPlot.pxRatio;
  for (const one of points) {
    ctx.moveTo(...at(one, Number(one.lo)));
    ctx.lineTo(...at(one, Number(one.hi)));
  }
  ctx.globalAlpha = 0.35;
  ctx.stroke();
  if (!isLine || points.length < 2) return;
  ctx.beginPath();
  for (const one of points) ctx.lineTo(...at(one, Number(one.hi)));
  for (const one of [...points].reverse()) ctx.lineTo(...at(one, Number(one.lo)));
  ctx.closePath();
  ctx.globalAlpha = 0.18;
  ctx.fill();
}

/** @param {CanvasRenderingContext2D} ctx @param {uPlot} plot @param {Peak[]} peaks */
export function ceilings(ctx, plot, peaks) {
  const { left, width } = plot.bbox;
  const ratio = uPlot.pxRatio;
  for (const peak of peaks) {
    const y = plot.valToPos(peak.gflops, "y", true);
    ctx.beginPath();
    ctx.lineWidth = ratio;
    ctx.setLineDash(peak.kind === "theoretical" ? [7 * ratio, 4 * ratio] : []);
    ctx.moveTo(left, y);
    ctx.lineTo(left + width, y);
    ctx.stroke();
  }
  ctx.setLineDash([]);
}

/** Words of the ceilings where there is room for them, above all that is drawn: ceilings may be close.
 * @param {CanvasRenderingContext2D} ctx @param {uPlot} plot @param {Peak[]} peaks @param {string} ground */
export function ceilingWords(ctx, plot, peaks, ground) {
  const ratio = uPlot.pxRatio;
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  /** @type {Map<boolean, number[]>} */
  const taken = new Map([[false, []], [true, []]]);
  const room = plot.bbox.width / 2;
  for (const peak of peaks) {
    const y = plot.valToPos(peak.gflops, "y", true);
    const isRight = peak.kind === "measured";
    const isNarrow = ctx.measureText(peak.words).width > room;
    const others = isNarrow ? [...taken.values()].flat() : taken.get(isRight) ?? [];
    const level = y + (y - plot.bbox.top < LETTERS * ratio ? 14 : -6) * ratio;
    if (others.some((other) => Math.abs(other - level) < LETTERS * ratio)) continue;
    taken.get(isRight)?.push(level);
    const gap = 4 * ratio;
    ctx.textAlign = isRight ? "right" : "left";
    haloed(ctx, peak.words, isRight ? plot.bbox.left + plot.bbox.width - gap : plot.bbox.left + gap, level, ground);
  }
}

/** Words that lines do not strike through.
 * @param {CanvasRenderingContext2D} ctx @param {string} text @param {number} x @param {number} y
 * @param {string} ground */
function haloed(ctx, text, x, y, ground) {
  ctx.strokeStyle = ground;
  ctx.lineWidth = 4 * uPlot.pxRatio;
  ctx.lineJoin = "round";
  ctx.strokeText(text, x, y);
  ctx.fillText(text, x, y);
}

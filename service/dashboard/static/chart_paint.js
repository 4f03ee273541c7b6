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

/** Lines, with words where there is room for them: ceilings may be close.
 * @param {CanvasRenderingContext2D} ctx @param {uPlot} plot @param {Peak[]} peaks */
export function ceilings(ctx, plot, peaks) {
  ctx.font = `${11 * uPlot.pxRatio}px system-ui, sans-serif`;
  /** @type {Map<boolean, number[]>} */
  const taken = new Map([[false, []], [true, []]]);
  const room = plot.bbox.width / 2;
  for (const peak of peaks) {
    const y = line(ctx, plot, peak);
    const isRight = peak.kind === "measured";
    const isNarrow = ctx.measureText(peak.words).width > room;
    const others = isNarrow ? [...taken.values()].flat() : taken.get(isRight) ?? [];
    const level = y + (y - plot.bbox.top < LETTERS * uPlot.pxRatio ? 13 : -4) * uPlot.pxRatio;
    if (others.some((other) => Math.abs(other - level) < LETTERS * uPlot.pxRatio)) continue;
    taken.get(isRight)?.push(level);
    words(ctx, plot, peak.words, level, isRight);
  }
}

/** @param {CanvasRenderingContext2D} ctx @param {uPlot} plot @param {Peak} peak */
function line(ctx, plot, peak) {
  const { left, width } = plot.bbox;
  const y = plot.valToPos(peak.gflops, "y", true);
  const ratio = uPlot.pxRatio;
  ctx.beginPath();
  ctx.lineWidth = ratio;
  ctx.setLineDash(peak.kind === "theoretical" ? [7 * ratio, 4 * ratio] : []);
  ctx.moveTo(left, y);
  ctx.lineTo(left + width, y);
  ctx.stroke();
  return y;
}

/** At one end of a line.
 * @param {CanvasRenderingContext2D} ctx @param {uPlot} plot @param {string} text @param {number} y
 * @param {boolean} isRight */
function words(ctx, plot, text, y, isRight) {
  const { left, width } = plot.bbox;
  const gap = 4 * uPlot.pxRatio;
  ctx.textAlign = isRight ? "right" : "left";
  ctx.fillText(text, isRight ? left + width - gap : left + gap, y);
}

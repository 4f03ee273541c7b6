// What is painted on a chart besides its lines.

import uPlot from "./vendor/uplot/uPlot.esm.js";

/** @typedef {import("./chart_rows.js").Point} Point */
/** @typedef {import("./chart_draw.js").Peak} Peak */
/** @typedef {import("./chart_draw.js").Span} Span */

const LETTERS = 14; // height of a line of words

/** Intervals of the points, along a line as a band.
 * @param {CanvasRenderingContext2D} ctx @param {uPlot} plot @param {Point[]} points @param {boolean} isLine */
export function band(ctx, plot, points, isLine) {
  const spans = columns(plot, points);
  ctx.beginPath();
  ctx.lineWidth = 3 * uPlot.pxRatio;
  for (const { x, lo, hi } of spans) {
    ctx.moveTo(x, lo);
    ctx.lineTo(x, hi);
  }
  ctx.globalAlpha = 0.35;
  ctx.stroke();
  if (!isLine || spans.length < 2) return;
  ctx.beginPath();
  for (const { x, hi } of spans) ctx.lineTo(x, hi);
  for (const { x, lo } of spans.reverse()) ctx.lineTo(x, lo);
  ctx.closePath();
  ctx.globalAlpha = 0.18;
  ctx.fill();
}

/** Ends of the intervals in pixels. Neighbours in one column of pixels are one: an outline that goes up and down within
 * a pixel takes long to fill.
 * @param {uPlot} plot @param {Point[]} points @returns {{x: number, lo: number, hi: number}[]} */
function columns(plot, points) {
  /** @type {{x: number, lo: number, hi: number}[]} */
  const found = [];
  for (const one of points) {
    const x = plot.valToPos(one.x, "x", true);
    const lo = plot.valToPos(Number(one.lo), "y", true);
    const hi = plot.valToPos(Number(one.hi), "y", true);
    const last = found.at(-1);
    if (last && x - last.x < 1) {
      last.lo = Math.max(last.lo, lo);
      last.hi = Math.min(last.hi, hi);
    } else found.push({ x, lo, hi });
  }
  return found;
}

/** A mark as a picture, an even number of pixels wide: copies of it take a fifth of the time that outlines take.
 * @param {string} outline @param {number} size @param {string} stroke @param {string} fill */
export function stamp(outline, size, stroke, fill) {
  const scale = size * uPlot.pxRatio;
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 4 * Math.ceil(scale);
  const ctx = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  ctx.setTransform(scale, 0, 0, scale, canvas.width / 2, canvas.height / 2);
  ctx.lineWidth = 1.5 / size;
  ctx.strokeStyle = stroke;
  ctx.fillStyle = fill;
  const path = new Path2D(outline);
  ctx.fill(path);
  ctx.stroke(path);
  return canvas;
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

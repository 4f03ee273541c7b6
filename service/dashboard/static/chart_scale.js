// Scales of a chart: how far they go, whether by ratios, and what is told along them.

import { isWide } from "./chart_rows.js";

/** @typedef {import("./vendor/uplot/uPlot.esm.js")} Plot */
/** @typedef {import("./vendor/uplot/uPlot.esm.js").Axis} Axis */
/** @typedef {import("./chart_rows.js").Point} Point */
/** @typedef {import("./chart_draw.js").Scene} Scene */
/** @typedef {import("./chart_draw.js").Peak} Peak */
/** @typedef {import("./chart_draw.js").Span} Span */

export const LONGEST_WORD = 26; // letters along the x axis
const AXIS_WIDTH = 90; // before the first drawing knows it
const WORD_HEIGHT = 16; // of slanted words along the x axis

/** Scales and their ends.
 * @param {Scene} scene */
export function shapeOf(scene) {
  const points = scene.series.filter((one) => !scene.hidden.has(one.label)).flatMap((one) => one.points);
  const x = points.map((one) => one.x);
  const y = points.flatMap((one) => [one.y, ...(one.lo === null || one.hi === null ? [] : [one.lo, one.hi])]);
  const { xscale, yscale, rules } = scene.choice;
  const xlog = scene.words === null && (xscale ? xscale === "log" : isWide(x, rules.wide) || scene.choice.x === "n");
  const ylog = yscale ? yscale === "log" : isWide(y, rules.wide);
  const top = Math.max(...y, ...nearPeaks(scene, [0, Math.max(...y)]).map((peak) => peak.gflops * 1.04));
  return { xlog, ylog, x: along(x, xlog, scene.words), y: upwards([...y, top], ylog, rules.minLogSpan) };
}

/** @param {number[]} values @param {boolean} log @param {string[] | null} words @returns {Span} */
function along(values, log, words) {
  if (words) return [-0.5, words.length - 0.5];
  const known = log ? values.filter((value) => value > 0) : values;
  if (!known.length) return [1, 2];
  const [lo, hi] = [Math.min(...known), Math.max(...known)];
  if (log) return lo === hi ? [lo / 2, lo * 2] : [lo / 1.12, hi * 1.12];
  const room = (hi - lo) * 0.04 || Math.abs(lo) / 2 || 1;
  return [lo - room, hi + room];
}

/** @param {number[]} values @param {boolean} log @param {number} minLogSpan @returns {Span} */
function upwards(values, log, minLogSpan) {
  const known = log ? values.filter((value) => value > 0) : values;
  if (!known.length || !known.every(Number.isFinite)) return log ? [1, 10] : [0, 1];
  const [lo, hi] = [Math.min(...known), Math.max(...known)];
  if (!log) return [Math.min(0, lo * 1.05), hi * 1.06 || 1];
  const room = Math.max(1.25, Math.sqrt((minLogSpan * lo) / hi));
  return [lo / room, hi * room];
}

/** Ceilings of the types that are shown, as far as they are near; of speed alone.
 * @param {Scene} scene @param {Span} y @returns {Peak[]} */
export function nearPeaks(scene, y) {
  const { y: field, rules } = scene.choice;
  return field === "gflops" ? scene.peaks.filter((peak) => peak.gflops <= rules.far * y[1]) : [];
}

/** `unit`: by what values are divided to be told.
 * @param {boolean} log @param {number} base @param {string[] | null} words @param {number} [unit]
 * @returns {Partial<Axis>} */
export function ticks(log, base, words, unit = 1) {
  const values = (/** @type {Plot} */ _, /** @type {number[]} */ places) => places.map((place) => short(place / unit));
  if (words) {
    /** @type {Axis["values"]} */
    const names = (_, places) => places.map((place) => cut(words[place] ?? ""));
    const splits = (/** @type {Plot} */ plot) => {
      const room = Math.max(1, plot.over.clientWidth || plot.width - AXIS_WIDTH);
      const step = Math.max(1, Math.ceil((words.length * WORD_HEIGHT) / room));
      return words.map((_, place) => place).filter((place) => place % step === 0);
    };
    return { splits, values: names, filter: (_, places) => places };
  }
  if (!log) return { values };
  /** @type {Axis["splits"]} */
  const splits = (plot, _, lo, hi) => (base === 2 ? doublings(lo, hi, plot.width) : decades(lo, hi));
  return { splits, values, filter: (_, places) => places };
}

/** Whether two neighbours among words that stand side by side in this many pixels would meet.
 * @param {string[]} words @param {number} room @param {number} letter pixels of a letter */
export function meet(words, room, letter) {
  const lengths = words.map((one) => Math.min(LONGEST_WORD, one.length) + 2);
  return lengths.some((length, place) => ((length + (lengths[place - 1] ?? 0)) / 2) * letter > room / words.length);
}

/** @param {number} lo @param {number} hi @param {number} width */
function doublings(lo, hi, width) {
  const first = Math.ceil(Math.log2(lo));
  const count = Math.floor(Math.log2(hi)) - first + 1;
  if (count < 2) return [lo, hi].map((value) => Number(value.toPrecision(3)));
  const step = Math.ceil(count / Math.max(2, Math.floor(width / 70)));
  return Array.from({ length: Math.ceil(count / step) }, (_, place) => 2 ** (first + place * step));
}

/** @param {number} lo @param {number} hi */
function decades(lo, hi) {
  const parts = hi / lo < 1000 ? [1, 2, 5] : [1];
  const found = [];
  for (let power = Math.floor(Math.log10(lo)); power <= Math.log10(hi); power++) {
    found.push(...parts.map((part) => part * 10 ** power).filter((value) => value >= lo && value <= hi));
  }
  return found;
}

/** @param {string} word */
function cut(word) {
  return word.length <= LONGEST_WORD ? word : `${word.slice(0, LONGEST_WORD - 1)}…`;
}

/** @param {number} value */
export function short(value) {
  const size = Math.abs(value);
  if (size >= 1e7 || (size < 1e-3 && size > 0)) return value.toExponential(0);
  if (size >= 1000) return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
  return String(Number(value.toPrecision(6)));
}

/** Place of the point that is closest along the x axis.
 * @param {Point[]} points @param {number} x */
export function nearestAlong(points, x) {
  const far = points.map((one) => Math.abs(one.x - x));
  return far.indexOf(Math.min(...far));
}

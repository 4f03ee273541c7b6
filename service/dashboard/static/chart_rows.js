// Rows of a CSV, and the series that they make: pure functions, nothing of the page.

/** @typedef {string | number | null} Value */
/** @typedef {Record<string, Value>} Row */
/** @typedef {"text" | "integer" | "number" | "truth"} Kind */
/** A place on the chart: figures, the ends of its interval where they are known, and whose it is.
 * @typedef {{x: number, y: number, lo: number | null, hi: number | null, row: Row, series: string}} Point */
/** `joined`: by a line, since no two points have the same x.
 * @typedef {{label: string, own: boolean, points: Point[], joined: boolean}} Series */
/** What is shown: fields, scales (null: by the values), and the ends of intervals by field.
 * @typedef {object} Choice
 * @property {string} x
 * @property {string} y
 * @property {string} colour
 * @property {string} configs
 * @property {string} xscale
 * @property {string} yscale
 * @property {Record<string, [string, string, number]>} bands
 * @property {Record<string, Kind>} kinds
 * @property {Record<string, string>} words  what fields are called
 * @property {Rules} rules */
/** As analysis/plots/description.py has them for every plot.
 * @typedef {{wide: number, far: number, minLogSpan: number}} Rules */
/** Rows of one source; the device is told where they are another's.
 * @typedef {{rows: Row[], device: string | null}} Source */

/** @typedef {(row: Row, device: string | null) => string} Naming the series of a row */

const MAX_FORMS = 6; // of products, that have series of their own
const NUMBERS = ["integer", "number"];

/** Remembers records by their text: of a growing table only what is new is taken apart. */
export class Table {
  /** @param {Record<string, Kind>} kinds */
  constructor(kinds) {
    this.kinds = kinds;
    /** @type {Map<string, Row>} */
    this.known = new Map();
  }

  /** @param {string} csv @returns {Row[]} */
  rows(csv) {
    const [head, ...records] = split(csv);
    const names = cells(head ?? "");
    /** @type {Map<string, Row>} */
    const now = new Map();
    for (const record of records) now.set(record, this.known.get(record) ?? this.row(names, record));
    this.known = now;
    return [...now.values()];
  }

  /** @param {string[]} names @param {string} record @returns {Row} */
  row(names, record) {
    const found = cells(record);
    return Object.fromEntries(names.map((name, place) => [name, value(found[place] ?? "", this.kinds[name])]));
  }
}

/** Records of RFC 4180, of which quotes may hold line ends.
 * @param {string} csv */
function split(csv) {
  const records = [];
  let open = "";
  for (const line of csv.split("\r\n")) {
    const whole = open === "" ? line : `${open}\r\n${line}`;
    const isOpen = (whole.split('"').length - 1) % 2 === 1;
    open = isOpen ? whole : "";
    if (!isOpen && whole !== "") records.push(whole);
  }
  return records;
}

/** @param {string} record */
function cells(record) {
  if (!record.includes('"')) return record.split(",");
  const found = `,${record}`.matchAll(/,(?:"((?:[^"]|"")*)"|([^,]*))/g);
  return [...found].map((cell) => (cell[1] === undefined ? cell[2] : cell[1].replaceAll('""', '"')));
}

/** @param {string} cell @param {Kind | undefined} kind @returns {Value} */
function value(cell, kind) {
  if (cell === "") return null;
  return kind && NUMBERS.includes(kind) ? Number(cell) : cell;
}

/** What a field's words along an axis stand for: sizes as they rise, others in order of appearance. Null for numbers.
 * @param {Source[]} sources @param {Choice} choice @returns {string[] | null} */
export function categories(sources, choice) {
  if (NUMBERS.includes(choice.kinds[choice.x])) return null;
  const found = sources.flatMap((source) => source.rows.filter((row) => isShown(row, choice)));
  if (choice.x === "size") found.sort((one, other) => Number(one.flops) - Number(other.flops));
  return [...new Set(found.map((row) => String(row[choice.x])))];
}

/** @param {Row} row @param {Choice} choice */
function isShown(row, choice) {
  return row.status === "ok" && row[choice.x] !== null && typeof row[choice.y] === "number";
}

/** @param {Source[]} sources @param {Choice} choice @param {string[] | null} words @returns {Series[]} */
export function seriesOf(sources, choice, words) {
  /** @type {Map<string, Series>} */
  const found = new Map();
  const naming = withForms(sources, choice, namingOf(sources, choice));
  for (const { rows, device } of sources) {
    for (const row of choice.configs === "all" ? rows : fastest(rows)) {
      if (!isShown(row, choice)) continue;
      const label = naming(row, device);
      const one = found.get(label) ?? { label, own: device === null, points: [], joined: true };
      found.set(label, one);
      one.points.push(point(row, choice, words, label));
    }
  }
  for (const one of found.values()) {
    one.points.sort((a, b) => a.x - b.x);
    one.joined = one.points.every((each, place) => place === 0 || each.x > one.points[place - 1].x);
  }
  return [...found.values()];
}

/** A name for each form of product, where products of several forms have the same x: a line would join what differs in
 * more than x. Without forms where they are too many for names.
 * @param {Source[]} sources @param {Choice} choice @param {Naming} naming @returns {Naming} */
function withForms(sources, choice, naming) {
  /** @type {Map<string, Map<Value, Set<string>>>} */
  const bySeries = new Map();
  const forms = new Set();
  for (const { rows, device } of sources) {
    for (const row of rows.filter((each) => isShown(each, choice))) {
      const byX = bySeries.get(naming(row, device)) ?? new Map();
      bySeries.set(naming(row, device), byX);
      byX.set(row[choice.x], (byX.get(row[choice.x]) ?? new Set()).add(form(row)));
      forms.add(form(row));
    }
  }
  const areMixed = [...bySeries.values()].some((byX) => [...byX.values()].some((known) => known.size > 1));
  if (!areMixed || forms.size > MAX_FORMS) return naming;
  return (row, device) => `${naming(row, device)}, ${form(row)}`;
}

/** As in 16×N×N: m, n and k, the largest of them as N.
 * @param {Row} row */
function form(row) {
  const extents = [row.m, row.n, row.k].map(Number);
  const named = extents.map((extent) => (extent === Math.max(...extents) ? "N" : String(extent))).join("×");
  return Number(row.batch) > 1 ? `${row.batch} of ${named}` : named;
}

/** Names of series: the colour's value, and of the kernel, type and device what else tells rows apart.
 * @param {Source[]} sources @param {Choice} choice @returns {Naming} */
function namingOf(sources, choice) {
  const shown = sources.flatMap((source) => source.rows.filter((row) => isShown(row, choice)));
  const also = ["kernel", "dtype"].filter(
    (name) => name !== choice.colour && name !== choice.x && new Set(shown.map((row) => row[name])).size > 1,
  );
  const plain = choice.colour === "kernel" ? "" : `${choice.colour} `;
  return (row, device) => {
    const parts = [plain + (row[choice.colour] ?? "unknown"), ...also.map((name) => String(row[name]))];
    return parts.join(", ") + (device === null ? "" : ` (${device})`);
  };
}

/** Each kernel's fastest config of each product.
 * @param {Row[]} rows */
function fastest(rows) {
  /** @type {Map<string, Row>} */
  const best = new Map();
  for (const row of rows) {
    if (row.status !== "ok") continue;
    const key = [row.kernel, row.device_class, row.dtype, row.m, row.n, row.k, row.batch].join();
    const before = best.get(key);
    if (!before || Number(row.gflops) > Number(before.gflops)) best.set(key, row);
  }
  return [...best.values()];
}

/** @param {Row} row @param {Choice} choice @param {string[] | null} words @param {string} series @returns {Point} */
function point(row, choice, words, series) {
  const [lo, hi, factor] = choice.bands[choice.y] ?? ["", "", 1];
  const x = words ? words.indexOf(String(row[choice.x])) : Number(row[choice.x]);
  return { x, y: Number(row[choice.y]), lo: end(row[lo], factor), hi: end(row[hi], factor), row, series };
}

/** @param {Value | undefined} value @param {number} factor */
function end(value, factor) {
  return typeof value === "number" ? value * factor : null;
}

/** Whether only a logarithmic scale shows them all: those that are more than `wide` times apart.
 * @param {number[]} values @param {number} wide */
export function isWide(values, wide) {
  const least = Math.min(...values);
  return least > 0 && Math.max(...values) / least > wide;
}

/** To four digits, thousands apart, as the tables have it.
 * @param {number} value */
export function figure(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
  return size >= 1e-3 ? String(Number(value.toPrecision(4))) : value.toExponential(1);
}

const TERA = 1000; // GFLOP/s, from which an axis tells TFLOP/s

/** Words of an axis, and by what its values are divided to have its unit.
 * @param {Choice} choice @param {string} field @param {number} top @returns {[string, number]} */
export function axisOf(choice, field, top) {
  const words = choice.words[field] ?? field;
  return field === "gflops" && top >= 2 * TERA ? [words.replace("GFLOP/s", "TFLOP/s"), TERA] : [words, 1];
}

/** Whether something disturbed the measurement, so that it carries no conclusion.
 * @param {Row} row */
export function isDisturbed(row) {
  return row.condition !== null && row.condition !== undefined && row.condition !== "clean";
}

// What a chart shows as a file.

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

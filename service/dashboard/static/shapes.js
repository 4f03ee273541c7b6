// Says what chosen files hold, from their first bytes, before anything is sent: shape, type, size, and whether they can be
// multiplied. A form that the server refuses loses its files; this way they stay.

const HEAD = 128; // bytes of an .npy file that hold its header, nearly always
const MAX_HEADER = 1 << 20;
const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB"];
const OPERANDS = ["a", "b", "c"];

/** What a file says of an operand: extents, element type.
 * @typedef {{shape: number[], dtype: string}} Header */

const form = /** @type {HTMLFormElement | null} */ (document.querySelector("form[data-limit]"));

/** Operands in a file, by name; none where it is neither .npy nor safetensors.
 * @param {File} file @param {string} operand @returns {Promise<Record<string, Header>>} */
async function headersOf(file, operand) {
  const head = new DataView(await file.slice(0, HEAD).arrayBuffer());
  if (head.byteLength < 10) return {};
  if (head.getUint32(0) === 0x934e554d) {
    const isLong = head.getUint8(6) > 1;
    const [start, length] = isLong ? [12, head.getUint32(8, true)] : [10, head.getUint16(8, true)];
    return npy(await file.slice(start, start + Math.min(length, MAX_HEADER)).text(), operand);
  }
  const length = Number(head.getBigUint64(0, true));
  if (head.getUint8(8) !== 0x7b || length > MAX_HEADER) return {};
  return tensors(await file.slice(8, 8 + length).text());
}

/** @param {string} text @param {string} operand @returns {Record<string, Header>} */
function npy(text, operand) {
  const shape = /'shape':\s*\(([^)]*)\)/.exec(text);
  const dtype = /'descr':\s*'([^']*)'/.exec(text);
  if (!shape || !dtype) return {};
  return { [operand]: { shape: shape[1].split(",").filter((one) => one.trim()).map(Number), dtype: dtype[1] } };
}

/** @param {string} text @returns {Record<string, Header>} */
function tensors(text) {
  try {
    const found = Object.entries(JSON.parse(text)).filter(([name]) => OPERANDS.includes(name));
    return Object.fromEntries(found.map(([name, { shape, dtype }]) => [name, { shape, dtype }]));
  } catch {
    return {};
  }
}

/** @param {number} bytes */
function inWords(bytes) {
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${Number((bytes / 2 ** (10 * power)).toPrecision(4))} ${UNITS[power]}`;
}

/** Rows and columns as they are multiplied.
 * @param {Header} header @param {boolean} isTransposed */
function extents({ shape }, isTransposed) {
  const [rows, columns] = shape.slice(-2);
  return isTransposed ? [columns, rows] : [rows, columns];
}

/** Why these cannot be multiplied; empty where they can, as far as can be seen.
 * @param {HTMLFormElement} fields @param {Record<string, Header>} known @param {number} bytes */
function wrong(fields, known, bytes) {
  const limit = Number(fields.dataset.limit);
  if (bytes > limit) return `The files have ${inWords(bytes)}; the service takes ${inWords(limit)} at a time.`;
  const vector = OPERANDS.find((name) => known[name] && known[name].shape.length < 2);
  if (vector) return `${vector.toUpperCase()} has one dimension; a vector is a matrix of one column: reshape it to (n, 1).`;
  if (!known.a || !known.b) return "";
  const data = new FormData(fields);
  const a = extents(known.a, data.has("transpose_a"));
  const b = extents(known.b, data.has("transpose_b"));
  if (a[1] === b[0]) return "";
  return `A is ${a.join("×")} and B is ${b.join("×")}: A's columns must equal B's rows, ${a[1]} and ${b[0]}.`;
}

/** @param {HTMLFormElement} fields */
function follow(fields) {
  const told = document.createElement("p");
  told.id = "shapes-told";
  told.setAttribute("role", "status");
  fields.querySelector("[type=file]")?.closest("div")?.before(told);
  const inputs = /** @type {HTMLInputElement[]} */ ([...fields.querySelectorAll("input[type=file]")]);
  let turn = 0;
  /** Whether the files can be sent, as far as can be seen. */
  async function look() {
    const mine = ++turn;
    const files = inputs.flatMap((input) => [...(input.files ?? [])].map((file) => ({ file, name: input.name.slice(-1) })));
    const headers = await Promise.all(files.map(({ file, name }) => headersOf(file, name).catch(() => ({}))));
    const known = Object.assign({}, ...headers);
    const bytes = files.reduce((sum, { file }) => sum + file.size, 0);
    const words = OPERANDS.filter((name) => known[name]).map(
      (name) => `${name.toUpperCase()}: ${known[name].shape.join("×")} ${known[name].dtype}`,
    );
    const why = wrong(fields, known, bytes);
    if (mine === turn) {
      told.textContent = why || (words.length ? `${words.join(", ")}; ${inWords(bytes)}.` : "");
      told.className = why ? "bad" : "faint";
    }
    return why === "";
  }
  let isChecked = false;
  fields.addEventListener("submit", async (event) => {
    const by = event.submitter;
    if (isChecked || (by instanceof HTMLButtonElement && by.formMethod === "get")) return;
    event.preventDefault();
    isChecked = await look(); // a file that was mended and chosen again fires no event
    if (isChecked) fields.requestSubmit(by);
    isChecked = false;
  });
  fields.addEventListener("input", look);
  addEventListener("focus", look);
  addEventListener("pageshow", look);
}

if (form) follow(form);

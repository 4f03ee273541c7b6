// Counts on between two looks at the server: <time data-since="…"> rises, <span data-eta-s="12.5"> falls.

const UNITS = /** @type {const} */ ([[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]]);

/** In its two largest units, as the server writes it.
 * @param {number} seconds */
function duration(seconds) {
  let left = Math.max(0, Math.round(seconds));
  if (!left) return "0 s";
  const parts = [];
  for (const [size, unit] of UNITS) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count) parts.push(`${count} ${unit}`);
  }
  return parts.slice(0, 2).join(" ");
}

/** @type {WeakMap<HTMLElement, {told: string, at: number}>} */
const told = new WeakMap();

function tick() {
  if (document.hidden) return;
  for (const element of document.querySelectorAll("[data-since]")) {
    const since = Date.parse(/** @type {HTMLElement} */ (element).dataset.since ?? "");
    if (since) element.textContent = duration((Date.now() - since) / 1000);
  }
  for (const one of document.querySelectorAll("[data-eta-s]")) {
    const element = /** @type {HTMLElement} */ (one);
    const said = element.dataset.etaS ?? "";
    const before = told.get(element);
    const at = before?.told === said ? before.at : Date.now();
    told.set(element, { told: said, at });
    const left = Number(said) - (Date.now() - at) / 1000;
    element.textContent = left > 0 ? `about ${duration(left)} to go` : "any moment now";
  }
}

setInterval(tick, 1000);
document.addEventListener("matmul:taken", tick);
tick();

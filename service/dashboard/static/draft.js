// Shows what a form stands for while it is being filled in: <form data-draft="address"> asks that address with its
// fields, and the parts of the page marked `data-drafted` become, by their ids, what the answer has there.

import { isTouched } from "./touched.js";

const QUIET_MS = 300; // since the last key
const TIMEOUT_MS = 10_000;

/** The form's fields as a query; of a file its name.
 * @param {HTMLFormElement} form @param {string} address */
function asked(form, address) {
  const url = new URL(address, location.href);
  for (const [name, value] of new FormData(form)) {
    if (name !== "token") url.searchParams.append(name, typeof value === "string" ? value : value.name);
  }
  return url;
}

/** @param {URL} url @param {AbortSignal} signal */
async function answer(url, signal) {
  const reply = await fetch(url, { cache: "no-store", signal });
  return reply.ok && !reply.redirected ? new DOMParser().parseFromString(await reply.text(), "text/html") : null;
}

/** @param {Document} page */
function take(page) {
  for (const part of document.querySelectorAll("[data-drafted]")) {
    const now = page.getElementById(part.id);
    if (!now || now.isEqualNode(part)) continue;
    const open = [...part.querySelectorAll("details")].map((one) => one.open);
    part.replaceChildren(...now.childNodes);
    part.querySelectorAll("details").forEach((one, place) => (one.open = open[place] ?? false));
  }
}

/** @param {HTMLFormElement} form */
function follow(form) {
  const address = /** @type {string} */ (form.dataset.draft);
  let timer = 0;
  let current = new AbortController();
  async function ask() {
    current.abort();
    const mine = (current = new AbortController());
    const limit = setTimeout(() => mine.abort(), TIMEOUT_MS);
    try {
      const page = await answer(asked(form, address), mine.signal);
      if (page && mine === current) take(page);
    } catch {
      // Another question is under way, or the server is away: what is shown stays until the next key.
    }
    clearTimeout(limit);
  }
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, QUIET_MS);
  });
  addEventListener("pageshow", () => {
    if (isTouched(form)) ask();
  });
}

for (const form of document.querySelectorAll("form")) if (form.dataset.draft) follow(form);

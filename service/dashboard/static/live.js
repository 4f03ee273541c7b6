// Keeps a page fresh: fetches its address again and takes over the parts marked `data-live`, by their ids.
// <main data-poll="2000"> asks every 2 s; <main data-events="…"> names the event stream that says when to.

const SLOWEST_MS = 10_000; // beside an open stream: not all that is shown has an event
const POLL_MS = 2000; // where the stream fails
const SOONEST_MS = 500; // however many events come
const TIMEOUT_MS = 10_000;
const EVENTS = ["queued", "running", "progress", "succeeded", "failed", "cancelled"];
const PAUSED = "paused";

const main = /** @type {HTMLElement} */ (document.querySelector("main"));
const notice = /** @type {HTMLElement} */ (document.getElementById("freshness"));
const kept = storage();
let paused = kept?.getItem(PAUSED) === "yes";
let over = !isLive(main);
let seen = clock(); // when what is shown was so
let lastLook = Date.now();
/** @type {string | null} */
let silentSince = null;
/** @type {EventSource | null} */
let stream = null;
let asking = false;
let timer = 0;
let due = Infinity; // when the timer goes off
let again = false; // asked for while asking

function storage() {
  try {
    return sessionStorage;
  } catch {
    return null; // blocked
  }
}

/** @param {HTMLElement} element */
function isLive(element) {
  return "poll" in element.dataset || "events" in element.dataset;
}

/** @param {string} words */
function say(words) {
  if (notice.textContent === words) return;
  notice.textContent = words;
  notice.classList.toggle("note", words !== "");
}

function clock() {
  return new Date().toTimeString().slice(0, 8);
}

/** Looks in so many milliseconds, unless it is to look before.
 * @param {number} ms */
function lookIn(ms) {
  if (Date.now() + ms >= due) return;
  clearTimeout(timer);
  due = Date.now() + ms;
  timer = setTimeout(look, ms);
}

function lookSoon() {
  if (asking) again = true;
  else lookIn(soon());
}

function soon() {
  return Math.max(0, lastLook + SOONEST_MS - Date.now());
}

function listen() {
  const address = main.dataset.events;
  if (!address || (stream && stream.readyState !== stream.CLOSED)) return;
  stream = new EventSource(address);
  for (const name of EVENTS) stream.addEventListener(name, lookSoon);
  stream.addEventListener("error", lookSoon);
}

function stop() {
  clearTimeout(timer);
  due = Infinity;
  stream?.close();
  stream = null;
}

/** Goes on, or ends, as the page and its reader are now. */
function settle() {
  if (over || isAway()) return stop();
  if (!silentSince) listen();
  lookIn(again ? soon() : pace());
}

function resume() {
  again = true;
  settle();
}

function isAway() {
  return paused || document.hidden;
}

function pace() {
  if (stream?.readyState === EventSource.OPEN) return SLOWEST_MS;
  return Number(main.dataset.poll) || POLL_MS;
}

async function look() {
  due = Infinity;
  if (asking) return;
  asking = true;
  again = false;
  lastLook = Date.now();
  const view = location.search;
  const page = await fetched();
  await new Promise((done) => setTimeout(done)); // to read a page and to take it over are two tasks
  asking = false;
  if (location.search !== view) again = true; // another view was chosen meanwhile
  else if (!isAway()) take(page);
  settle();
}

/** The page as it is now; null without an answer. */
async function fetched() {
  const silence = new AbortController();
  const limit = setTimeout(() => silence.abort(), TIMEOUT_MS);
  try {
    const reply = await fetch(location.href, { cache: "no-store", signal: silence.signal });
    if (reply.status >= 500) return null;
    const text = reply.ok && !reply.redirected ? await reply.text() : "";
    return new DOMParser().parseFromString(text, "text/html");
  } catch {
    return null;
  } finally {
    clearTimeout(limit);
  }
}

/** @param {Document | null} page */
function take(page) {
  if (!page) {
    silentSince ??= clock();
    return say(`No answer since ${silentSince}; shown as of ${seen}.`);
  }
  silentSince = null;
  seen = clock();
  const parts = [...document.querySelectorAll("[data-live]")];
  const next = page.querySelector("main");
  if (!next || !parts.some((part) => page.getElementById(part.id))) {
    over = true;
    return say("The server no longer shows this page. Load it again.");
  }
  say("");
  const changed = parts.flatMap((part) => {
    const now = page.getElementById(part.id);
    return !now || now.isEqualNode(part) ? [] : [{ part, now, kept: isInUse(part) }];
  });
  for (const { part, now, kept } of changed) if (!kept) become(part, now);
  const isWhole = !changed.some(({ kept }) => kept);
  document.dispatchEvent(new Event("matmul:taken"));
  if (isLive(next)) return;
  delete main.dataset.events; // ended
  over = isWhole;
}

/** Whether a change would spoil what its reader is doing there.
 * @param {Element} part */
function isInUse(part) {
  const selection = getSelection();
  return (
    part.contains(document.activeElement) ||
    part.querySelector("details[open], input:not([type=hidden], .pick), .pick:checked, select, textarea") !== null ||
    (selection !== null && !selection.isCollapsed && selection.containsNode(part, true))
  );
}

/** Makes a node like another; what is alike stays, and where it was scrolled to.
 * @param {Node} old @param {Node} now */
function become(old, now) {
  if (!(old instanceof Element && now instanceof Element) || old.nodeName !== now.nodeName || old.id !== now.id) {
    old.parentNode?.replaceChild(now, old);
    return;
  }
  for (const { name } of [...old.attributes]) if (!now.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of [...now.attributes]) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const before = [...old.childNodes];
  const after = [...now.childNodes];
  // What is alike at both ends is not walked through: of a long list little changes.
  while (before.length && after.length && before[0].isEqualNode(after[0])) {
    before.shift();
    after.shift();
  }
  /** @type {ChildNode | null} */
  let end = null;
  while (before.length && after.length && before[before.length - 1].isEqualNode(after[after.length - 1])) {
    end = before.pop() ?? null;
    after.pop();
  }
  for (const child of after) {
    const stood = before.shift();
    if (stood) become(stood, child);
    else old.insertBefore(child, end);
  }
  for (const child of before) child.remove();
}

if (!over) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet updates";
  button.textContent = "Pause updates";
  button.setAttribute("aria-pressed", String(paused));
  button.addEventListener("click", () => {
    paused = !paused;
    button.setAttribute("aria-pressed", String(paused));
    kept?.setItem(PAUSED, paused ? "yes" : "no");
    resume();
  });
  main.prepend(button);
  document.addEventListener("visibilitychange", resume);
  settle();
}

// Saved views of a list: its address under a name, kept in this browser. The views that everybody has are links.

const KEPT = "matmul.views";
const MOST = 20;
const place = document.getElementById("views");

/** @returns {{name: string, query: string}[]} */
function read() {
  try {
    const found = JSON.parse(localStorage.getItem(KEPT) ?? "[]");
    return Array.isArray(found)
      ? found.filter((one) => typeof one?.name === "string" && typeof one?.query === "string").slice(0, MOST)
      : [];
  } catch {
    return [];
  }
}

/** @param {{name: string, query: string}[]} views */
function keep(views) {
  try {
    localStorage.setItem(KEPT, JSON.stringify(views.slice(0, MOST)));
  } catch {
    // blocked, or full: the address still holds the view
  }
}

/** The address's filters without where its page begins and what was just done. */
function query() {
  const parts = new URLSearchParams(location.search);
  for (const name of ["cursor", "did", "changed", "left"]) parts.delete(name);
  return parts.toString();
}

/** @param {HTMLElement} list */
function show(list) {
  for (const old of list.querySelectorAll(".own")) old.remove();
  for (const { name, query: wanted } of read()) {
    const item = document.createElement("li");
    item.className = "own";
    const link = document.createElement("a");
    link.href = `${location.pathname}?${wanted}`;
    link.textContent = name;
    if (wanted === query()) link.setAttribute("aria-current", "true");
    const drop = document.createElement("button");
    drop.type = "button";
    drop.className = "quiet tiny";
    drop.textContent = "×";
    drop.setAttribute("aria-label", `Forget the view ${name}`);
    drop.addEventListener("click", () => {
      keep(read().filter((one) => one.name !== name));
      show(list);
    });
    item.append(link, drop);
    list.append(item);
  }
}

/** @param {HTMLElement} list */
function begin(list) {
  const fold = document.createElement("details");
  const summary = document.createElement("summary");
  summary.textContent = "Save this view";
  const form = document.createElement("form");
  form.className = "row tight";
  const label = document.createElement("label");
  label.htmlFor = "view-name";
  label.textContent = "Name of the view";
  const name = document.createElement("input");
  name.id = "view-name";
  name.maxLength = 40;
  name.required = true;
  const save = document.createElement("button");
  save.className = "quiet";
  save.textContent = "Save view";
  form.append(label, name, save);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const chosen = name.value.trim();
    if (!chosen) return;
    keep([{ name: chosen, query: query() }, ...read().filter((one) => one.name !== chosen)]);
    name.value = "";
    show(list);
  });
  fold.append(summary, form);
  list.after(fold);
  show(list);
}

if (place) begin(place);

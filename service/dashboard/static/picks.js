// Picks all rows that are shown, or none, and says how many are picked. Rows are picked by hand without this. What
// changes the picked ones can be used once something is picked.

const form = /** @type {HTMLFormElement | null} */ (document.getElementById("many"));
const rows = document.getElementById("jobs-now");

/** @returns {HTMLInputElement[]} */
function boxes() {
  return [...(rows?.querySelectorAll("input") ?? [])].filter((box) => box.classList.contains("pick"));
}

/** @param {HTMLFormElement} owner */
function begin(owner) {
  const told = document.createElement("output");
  const all = document.createElement("button");
  const scope = owner.querySelector("select");
  const actions = [...owner.querySelectorAll("button")];
  all.type = "button";
  all.className = "quiet";

  function tell() {
    const picked = boxes().filter((box) => box.checked).length;
    told.textContent = picked ? `${picked} selected; the list is not updated` : "";
    all.textContent = picked ? "Select none" : "Select all shown";
    const isIdle = !picked && (scope?.value ?? "picked") === "picked";
    for (const action of actions) {
      action.disabled = isIdle;
      action.title = isIdle ? "Select some jobs first" : "";
    }
  }

  all.addEventListener("click", () => {
    const some = boxes().some((box) => box.checked);
    for (const box of boxes()) box.checked = !some;
    tell();
  });
  rows?.addEventListener("change", tell);
  scope?.addEventListener("change", tell);
  document.addEventListener("matmul:taken", tell);
  addEventListener("pageshow", tell); // a page come back to may have its boxes ticked
  owner.append(all, told);
  tell();
}

if (form) begin(form);

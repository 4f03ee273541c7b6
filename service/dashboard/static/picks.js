// Picks all rows that are shown, or none, and says how many are picked. Rows are picked by hand without this.

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
  all.type = "button";
  all.className = "quiet";

  function tell() {
    const picked = boxes().filter((box) => box.checked).length;
    told.textContent = picked ? `${picked} picked; the list stands still` : "";
    all.textContent = picked ? "Pick none" : "Pick all shown";
  }

  all.addEventListener("click", () => {
    const some = boxes().some((box) => box.checked);
    for (const box of boxes()) box.checked = !some;
    tell();
  });
  rows?.addEventListener("change", tell);
  addEventListener("pageshow", tell); // a page come back to may have its boxes ticked
  owner.append(all, told);
  tell();
}

if (form) begin(form);

// A figure in steps: shows one at a time, with buttons and arrow keys. Without this all steps stand below each other.

for (const list of document.querySelectorAll("ol.steps")) begin(/** @type {HTMLElement} */ (list));

/** @param {HTMLElement} list */
function begin(list) {
  const steps = /** @type {HTMLElement[]} */ ([...list.children]);
  if (steps.length < 2) return;
  let at = 0;
  const bar = document.createElement("div");
  bar.className = "row stepper";
  bar.setAttribute("role", "group");
  bar.setAttribute("aria-label", "Steps");
  const back = button("Previous step");
  const next = button("Next step");
  const told = document.createElement("output");
  bar.append(back, next, told);
  list.classList.add("one-by-one");
  list.before(bar);

  /** @param {string} words */
  function button(words) {
    const made = document.createElement("button");
    made.type = "button";
    made.className = "quiet";
    made.textContent = words;
    return made;
  }

  /** @param {number} to */
  function show(to) {
    at = Math.min(steps.length - 1, Math.max(0, to));
    steps.forEach((step, index) => {
      step.hidden = index !== at;
    });
    told.textContent = `${at + 1} of ${steps.length}`;
    back.disabled = at === 0;
    next.disabled = at === steps.length - 1;
  }

  back.addEventListener("click", () => show(at - 1));
  next.addEventListener("click", () => show(at + 1));
  bar.addEventListener("keydown", (event) => {
    if (event.key === "ArrowRight") show(at + 1);
    if (event.key === "ArrowLeft") show(at - 1);
  });
  show(0);
}

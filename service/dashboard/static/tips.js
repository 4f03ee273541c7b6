// What a mark of a drawing says, beside it, while it is pointed at or has the focus. Its label says the same to readers
// of the screen.

const tip = document.createElement("div");
tip.className = "tip-words";
tip.hidden = true;
tip.setAttribute("aria-hidden", "true");
document.body.append(tip);

/** @param {Event} event */
function marked(event) {
  return event.target instanceof Element ? event.target.closest("[data-tip]") : null;
}

/** @param {Event} event */
function show(event) {
  const mark = marked(event);
  tip.hidden = !mark;
  if (!mark) return;
  tip.textContent = mark.getAttribute("data-tip");
  const place = mark.getBoundingClientRect();
  const at = event instanceof PointerEvent ? event : { clientX: place.right, clientY: place.top };
  const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
  tip.style.left = `${scrollX + Math.max(8, Math.min(at.clientX + 12, room))}px`;
  tip.style.top = `${scrollY + Math.max(8, at.clientY - tip.offsetHeight - 10)}px`;
}

document.addEventListener("pointermove", show);
document.addEventListener("focusin", show);
document.addEventListener("focusout", () => {
  tip.hidden = true;
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") tip.hidden = true;
});

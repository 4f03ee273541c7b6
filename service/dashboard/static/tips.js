// What a mark of a drawing says, beside it, while it is pointed at or has the focus. Its label says the same to readers
// of the screen.

const tip = document.createElement("div");
tip.className = "tip-words";
tip.hidden = true;
tip.setAttribute("aria-hidden", "true");
document.body.append(tip);

/** @param {EventTarget | null} target */
function markOf(target) {
  return target instanceof Element ? target.closest("[data-tip]") : null;
}

/** At the pointer, or else at the mark's corner.
 * @param {Element | null} mark @param {PointerEvent} [pointer] */
function show(mark, pointer) {
  tip.hidden = !mark;
  if (!mark) return;
  tip.textContent = mark.getAttribute("data-tip");
  const place = mark.getBoundingClientRect();
  const at = pointer ?? { clientX: place.right, clientY: place.top };
  const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
  tip.style.left = `${scrollX + Math.max(8, Math.min(at.clientX + 12, room))}px`;
  tip.style.top = `${scrollY + Math.max(8, at.clientY - tip.offsetHeight - 10)}px`;
}

document.addEventListener("pointermove", (event) => show(markOf(event.target), event));
document.addEventListener("focusin", (event) => show(markOf(event.target)));
document.addEventListener("focusout", () => show(null));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") show(null);
});
// Over a slow line the page is used before this script comes.
show(markOf(document.activeElement) ?? document.querySelector("[data-tip]:hover"));

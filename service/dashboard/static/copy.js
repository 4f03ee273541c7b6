// Buttons that copy a text of the page: <button data-copy="id of the text" hidden>. They appear where copying works.

const SHOWN_MS = 2000;

function show() {
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("button[data-copy]")) button.removeAttribute("hidden");
}

document.addEventListener("click", async (event) => {
  const button = event.target instanceof Element ? event.target.closest("button") : null;
  const text = document.getElementById(button?.dataset.copy ?? "");
  if (!button || !text) return;
  await navigator.clipboard.writeText(text.textContent ?? "");
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy"), SHOWN_MS);
});
new MutationObserver(show).observe(document.body, { childList: true, subtree: true });
show();

// Takes dropped files into the form's file fields: two in the order of their names, or one for whichever field it is
// dropped on. Without this the fields are filled by hand.

const fields = /** @type {HTMLInputElement[]} */ ([...document.querySelectorAll("form input[type=file]")]);
const form = fields[0]?.form;

/** @param {DragEvent} event */
function hasFiles(event) {
  return event.dataTransfer?.types.includes("Files") ?? false;
}

/** @param {HTMLInputElement} field @param {File} file */
function put(field, file) {
  const holder = new DataTransfer();
  holder.items.add(file);
  field.files = holder.files;
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

/** The field under the pointer, else the first that is empty, else the first.
 * @param {EventTarget | null} target */
function fieldFor(target) {
  const under = fields.find((field) => target instanceof Node && field.parentElement?.contains(target));
  return under ?? fields.find((field) => !field.files?.length) ?? fields[0];
}

/** @param {DragEvent} event */
function take(event) {
  const files = [...(event.dataTransfer?.files ?? [])].sort((one, other) => (one.name < other.name ? -1 : 1));
  if (files.length > 1) fields.forEach((field, place) => files[place] && put(field, files[place]));
  else if (files.length === 1) put(fieldFor(event.target), files[0]);
}

if (form) {
  for (const words of form.querySelectorAll("[data-drop]")) words.removeAttribute("hidden");
  // On the whole page: a file dropped beside the form would otherwise be opened in its place.
  addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    form.classList.add("over");
  });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) form.classList.remove("over");
  });
  addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    form.classList.remove("over");
    take(event);
  });
}

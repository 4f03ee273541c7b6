// Takes files into the form's file fields that are dropped on the page, or chosen together in the first field: several in
// the order of their names, a dropped one into whichever field it is dropped on. Without this each field is filled by hand.

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

/** One for each field.
 * @param {File[]} files */
function spread(files) {
  files.sort((one, other) => (one.name < other.name ? -1 : 1));
  fields.forEach((field, place) => files[place] && put(field, files[place]));
}

/** @param {DragEvent} event */
function take(event) {
  const files = [...(event.dataTransfer?.files ?? [])];
  if (files.length > 1) spread(files);
  else if (files.length === 1) put(fieldFor(event.target), files[0]);
}

if (form) {
  for (const words of form.querySelectorAll("[data-drop]")) words.removeAttribute("hidden");
  const [first] = fields;
  first.multiple = true;
  first.addEventListener("change", () => {
    if ((first.files?.length ?? 0) > 1) spread([...(first.files ?? [])]);
  });
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

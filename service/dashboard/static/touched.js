// Whether somebody has filled in a form already: over a slow line before its scripts came, or on an earlier visit whose
// fields the browser kept.

/** @param {HTMLFormElement} form */
export function isTouched(form) {
  const untouched = /** @type {HTMLFormElement} */ (form.cloneNode(true));
  untouched.reset();
  return fieldsOf(form) !== fieldsOf(untouched);
}

/** Of a file its name.
 * @param {HTMLFormElement} form */
function fieldsOf(form) {
  return JSON.stringify([...new FormData(form)].map(([name, value]) => [name, value instanceof File ? value.name : value]));
}

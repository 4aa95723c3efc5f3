// Copying text, with a field to copy from where the page may not write to the clipboard.

import { h } from "./dom.js";

/** Make a function that copies a text and says so in `status`. */
export function copier(status) {
  return async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      status.replaceChildren("copied ", h("code", {}, text));
    } catch {
      const field = h("input", { class: "rlnb-field rlnb-copy", readonly: true, value: text, "aria-label": "press Ctrl+C to copy" });
      status.replaceChildren(field, " press Ctrl+C to copy");
      field.focus();
      field.select();
    }
  };
}

// The same data in four forms: the bytes of each, and what it stores of the first trajectories.

import { h, surface } from "../_core/core.js";

/** Make the panel; own() keeps its pictures. */
export function formsPanel({ bytes, said, kinds, parts }, own) {
  const picture = (list, label) => own(surface(list, null, { class: "ted-form", "aria-label": label })).el;
  return h("div", { class: "ted-panel" }, picture(bytes, said), picture(kinds, "the kinds of boxes"), ...parts.map((form) =>
    h("section", { "data-form": form.name, "aria-label": form.name },
      h("div", {}, h("strong", {}, form.name), " ", h("code", { class: "rlnb-code" }, form.made)),
      h("p", { class: form.why ? "ted-bad" : "rlnb-note" }, form.why || form.stores),
      form.said ? picture(form.list, form.said) : null)),
  h("p", { class: "rlnb-note" }, "The bytes are computed from shapes and episode ends, without Python's own objects. explorer.forms(exact=True) builds each form and counts."));
}

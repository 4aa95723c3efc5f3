// The same data in four forms: the bytes of each, and what it stores of the first trajectories.

import { h, surface } from "../_core/core.js";

/** Make the panel; own() keeps its pictures. */
export function formsPanel({ bytes, said, kinds, parts }, own) {
  const picture = (list, attributes) => own(surface(list, null, attributes)).el;
  // Groups of boxes stand in one line with their label, or below it where there is no room.
  const lineOf = ([label, groups]) => h("div", { class: "ted-line", "aria-hidden": "true" }, h("span", { class: "rlnb-note" }, label),
    h("div", { class: "ted-groups" }, ...groups.map(([width, list]) => {
      const el = picture(list, {});
      el.style.width = `${width}px`;
      return el;
    })));
  const key = h("div", { class: "ted-groups ted-form", role: "img", "aria-label": "the kinds of boxes" }, ...kinds.map((list) => picture(list, { class: "ted-kind" })));
  return h("div", { class: "ted-panel" }, picture(bytes, { class: "ted-form", "aria-label": said }), key, ...parts.map((form) =>
    h("section", { "data-form": form.name, "aria-label": form.name },
      h("div", {}, h("strong", {}, form.name), " ", h("code", { class: "rlnb-code" }, form.made)),
      h("p", { class: form.why ? "ted-bad" : "rlnb-note" }, form.why || form.stores),
      form.said ? h("div", { class: "ted-form", role: "img", "aria-label": form.said }, ...form.lines.map(lineOf)) : null)),
  h("p", { class: "rlnb-note" }, "The bytes are computed from shapes and episode ends, without Python's own objects. explorer.forms(exact=True) builds each form and counts."));
}

// The same data in four forms: the bytes of each, and what it stores of the first trajectories.

import { h, surface } from "../_core/core.js";

/** Whole marks: each came as the number of its look, which many have alike, and the values of what is its own. */
export const wholeMarks = (looks, marks) => marks.map(([look, ...values]) => {
  const { own, ...mark } = looks[look];
  own.forEach((name, i) => { mark[name] = name === "marks" ? wholeMarks(looks, values[i]) : values[i]; });
  return mark;
});

/** The texts of a mark and of all in it. */
const textsOf = (mark) => (mark.marks ? mark.marks.flatMap(textsOf) : mark.text ?? []);

/** Make the panel; own() keeps its pictures. */
export function formsPanel({ bytes, kinds, parts, looks }, own) {
  const picture = ({ height, marks: brief }, width) => {
    const marks = wholeMarks(looks, brief);
    const said = marks.map((line) => textsOf(line).join(" ")).join("; ");
    const { el } = own(surface({ height, marks }, null, { class: "ted-form", "aria-label": said }));
    el.style.minWidth = `${width}px`;
    return el;
  };
  return h("div", { class: "ted-panel" }, picture(bytes, 440), picture(kinds, 440), ...parts.map((form) =>
    h("section", { "data-form": form.name, "aria-label": form.name },
      h("div", {}, h("strong", {}, form.name), " ", h("code", { class: "rlnb-code" }, form.made)),
      h("p", { class: form.why ? "ted-bad" : "rlnb-note" }, form.why || form.stores),
      form.picture ? picture(form.picture, form.width) : null)),
  h("p", { class: "rlnb-note" }, "The bytes are computed from shapes and episode ends, without Python's own objects. explorer.forms(exact=True) builds each form and counts."));
}

// The same data in four forms: what each stores of the first trajectories, and its bytes as a bar.

import { h } from "../_core/core.js";

/** Make the panel; kinds names what the boxes stand for. */
export function formsPanel(forms, kinds) {
  const legend = h("div", { class: "ted-legend" }, ...Object.entries(kinds).map(([kind, name]) =>
    h("span", {}, h("i", { class: `ted-box ted-box-${kind}`, "aria-hidden": "true" }), ` ${name}`)));
  return h("div", { class: "ted-panel ted-forms" }, legend, ...forms.map(formOf),
    h("p", { class: "rlnb-note" }, "Worked out from shapes and ends, without Python's own objects; explorer.forms(exact=True) makes each form and counts."));
}

function formOf(form) {
  const bar = h("div", { class: "ted-bar", "aria-hidden": "true" });
  if (form.share !== null) {
    const full = h("div", {});
    full.style.width = `${Math.min(100 * form.share, 100)}%`;
    bar.append(full);
  }
  return h("section", { class: "ted-form", "data-form": form.name, "aria-label": `${form.name}: ${form.bytes}` },
    h("div", { class: "ted-form-head" }, h("strong", {}, form.name), h("code", { class: "rlnb-code" }, form.made), bar,
      h("span", { class: "ted-bytes" }, form.bytes)),
    h("p", { class: form.why ? "ted-bad" : "rlnb-note" }, form.why || form.stores),
    form.share === null ? null : h("div", { class: "ted-lines" }, ...form.lines.flatMap(([label, boxes]) => [
      h("span", { class: "rlnb-quiet" }, label), h("div", { class: "ted-boxes" }, ...boxes.map(boxOf)),
    ])));
}

function boxOf([text, kind]) {
  return h("span", { class: `ted-box ted-box-${kind}`, "aria-hidden": ["gap", "blank"].includes(kind) ? "true" : null }, text);
}

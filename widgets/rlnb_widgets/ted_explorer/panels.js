// Tabs of a TED that have no playhead: the rules of TED, and the same data in four forms.

import { button, h, legend, surface, unpacked } from "../_core/core.js";

/** The rules: which are kept, and where one is broken; go(place) leads to where a rule is broken, copy(text) copies what puts it right. */
export function rulesPanel(rules, line, go, copy) {
  const items = rules.map((rule) => {
    const kept = rule.places.length === 0;
    return h("li", { class: "ted-rule", "data-rule": rule.name, "data-kept": String(kept) },
      h("b", { class: kept ? "ted-good" : "ted-bad", role: "img", "aria-label": kept ? "kept" : "broken" }, kept ? "✓" : "✗"),
      h("b", {}, rule.name), h("span", { class: "rlnb-note" }, rule.sentence),
      kept ? null : h("ul", { class: "ted-places" }, ...rule.places.map((place) => finding(place, go, copy))));
  });
  return h("div", { class: "ted-panel" }, h("p", {}, h("strong", {}, line)), h("ul", { class: "ted-rules" }, ...items));
}

function finding(place, go, copy) {
  const leads = place.side !== null || place.t !== null;
  const what = `${place.where}: ${place.found}`;
  return h("li", {},
    h(leads ? "button" : "span", { class: "ted-place", ...(leads ? { type: "button", title: "go to this entry and step", onclick: () => go(place) } : {}) }, what),
    h("div", {}, h("span", { class: "rlnb-note" }, "likely cause "), place.cause),
    h("div", {}, h("span", { class: "rlnb-note" }, "fix "), h("code", { class: "rlnb-code" }, place.fix), " ",
      button({ text: "copy", label: "copy the fix", onclick: () => copy(place.fix) })));
}

/** The texts of a mark and of all in it. */
const textsOf = (mark) => (mark.marks ? mark.marks.flatMap(textsOf) : mark.text ?? []);

/** The forms: the bytes of each, and what it stores of the first trajectories; own() keeps the pictures. */
export function formsPanel({ parts, pictures, legend: kinds }, own) {
  const lists = unpacked(pictures);
  const picture = (list, width = 0) => {
    const said = list.marks.map((line) => textsOf(line).join(" ")).join("; ");
    const { el } = own(surface(list, null, { class: "ted-form", "aria-label": said }));
    el.style.minWidth = `${width}px`;
    return el;
  };
  return h("div", { class: "ted-panel" }, picture(lists.bytes), legend(kinds), ...parts.map((form) =>
    h("section", { "data-form": form.name, "aria-label": form.name },
      h("div", {}, h("strong", {}, form.name), " ", h("code", { class: "rlnb-code" }, form.made)),
      h("p", { class: form.why ? "ted-bad" : "rlnb-note" }, form.why || form.stores),
      form.width ? picture(lists[`form ${form.name}`], form.width) : null)),
  h("p", { class: "rlnb-note" }, "The bytes are computed from shapes and episode ends, without Python's own objects. explorer.forms(exact=True) builds each form and counts."));
}

// The rules of TED: which are kept, and where one is broken; a finding leads to its entry and step.

import { button, h } from "../_core/core.js";

/** Make the panel; go(place) leads to where a rule is broken, copy(text) copies what puts it right. */
export function rulesPanel(rules, line, go, copy) {
  const items = rules.map((rule) => {
    const kept = rule.places.length === 0;
    return h("li", { class: "ted-rule", "data-rule": rule.name, "data-kept": String(kept) },
      h("b", { class: kept ? "ted-good" : "ted-bad", role: "img", "aria-label": kept ? "kept" : "broken" }, kept ? "✓" : "✗"),
      h("b", {}, rule.name), h("span", { class: "rlnb-quiet" }, rule.sentence),
      kept ? null : h("ul", { class: "ted-places" }, ...rule.places.map((place) => finding(place, go, copy))));
  });
  return h("div", { class: "ted-panel" }, h("p", {}, h("strong", {}, line)), h("ul", { class: "ted-rules" }, ...items));
}

function finding(place, go, copy) {
  const leads = place.side !== null || place.t !== null;
  const what = `${place.where}: ${place.found}`;
  return h("li", {},
    h(leads ? "button" : "span", { class: "ted-place", ...(leads ? { type: "button", title: "go to this entry and step", onclick: () => go(place) } : {}) }, what),
    h("div", {}, h("span", { class: "rlnb-quiet" }, "likely cause "), place.cause),
    h("div", {}, h("span", { class: "rlnb-quiet" }, "fix "), h("code", { class: "rlnb-code" }, place.fix), " ",
      button({ text: "copy", label: "copy the fix", onclick: () => copy(place.fix) })));
}

// Tabs after the pattern of the WAI-ARIA practices: one panel shows, arrow keys move between the tabs.

import { h, keyboard, uniqueId } from "./dom.js";

/**
 * Make tabs and their panels: parts is a list of { name, title, el, note, onshow }.
 *
 * `onchoose(name)` hears of tabs that the reader chose. `level` panels are all as high as the highest, so that nothing
 * below them moves. Returns { el, show(name), shown }; el holds the tabs and the panels, and with one part only its panel.
 */
export function tabs(parts, { label = "views", level = false, onchoose = null } = {}) {
  const id = uniqueId("tabs");
  const buttons = parts.map((part, i) => {
    Object.assign(part.el, { id: `${id}-${part.name}`, hidden: i > 0 });
    if (parts.length > 1) {
      part.el.setAttribute("role", "tabpanel");
      part.el.setAttribute("aria-label", part.title);
    }
    return h("button", {
      type: "button", role: "tab", class: "rlnb-button rlnb-tab", "data-tab": part.name, "aria-controls": part.el.id,
      "aria-selected": String(i === 0), tabindex: i === 0 ? 0 : -1, onclick: () => choose(part.name),
    }, part.title, part.note ? h("span", { class: "rlnb-note" }, ` ${part.note}`) : null);
  });
  const list = h("div", { class: "rlnb-tabs", role: "tablist", "aria-label": label }, ...buttons);
  const panels = h("div", { class: level ? "rlnb-level" : null }, ...parts.map((part) => part.el));
  const tools = { el: h("div", {}, parts.length > 1 ? list : null, panels), show, shown: parts[0]?.name };
  const place = () => parts.findIndex((part) => part.name === tools.shown);
  function show(name) {
    tools.shown = parts.some((part) => part.name === name) ? name : parts[0].name;
    parts.forEach((part, i) => {
      const here = part.name === tools.shown;
      part.el.hidden = !here;
      buttons[i].setAttribute("aria-selected", String(here));
      buttons[i].tabIndex = here ? 0 : -1;
      if (here) part.onshow?.();
    });
    return tools.shown;
  }
  function choose(name) {
    show(name);
    onchoose?.(tools.shown);
  }
  const go = (i) => {
    choose(parts[(i + parts.length) % parts.length].name);
    buttons[place()].focus();
  };
  keyboard(list, {
    ArrowRight: ["next tab", () => go(place() + 1)], ArrowLeft: ["previous tab", () => go(place() - 1)],
    Home: ["first tab", () => go(0)], End: ["last tab", () => go(-1)],
  });
  return tools;
}

// Tabs after the pattern of the WAI-ARIA practices: one panel shows, arrow keys move between the tabs.

import { h, keyboard } from "../_core/core.js";

/**
 * Make the tabs. parts: [{ name, title, note, bad, panel }]; id: a prefix unique in the page; onChoose(name).
 *
 * Returns { el, show(name) }; a single part needs no tabs, and el is null.
 */
export function tabList(parts, id, onChoose) {
  const buttons = parts.map((part) => {
    part.panel.id = `${id}-${part.name}`;
    part.panel.setAttribute("role", "tabpanel");
    part.panel.setAttribute("aria-label", part.title);
    return h("button", {
      type: "button", role: "tab", class: "rlnb-button ted-tab", "data-tab": part.name, "aria-controls": part.panel.id,
      onclick: () => onChoose(part.name),
    }, part.title, part.note ? h("span", { class: part.bad ? "ted-bad" : "rlnb-quiet" }, ` ${part.note}`) : null);
  });
  const el = parts.length > 1 ? h("div", { class: "ted-tabs", role: "tablist", "aria-label": "views" }, ...buttons) : null;
  let shown = 0;
  const go = (i) => {
    const next = (i + parts.length) % parts.length;
    onChoose(parts[next].name);
    buttons[next].focus();
  };
  if (el) {
    keyboard(el, {
      ArrowRight: ["next tab", () => go(shown + 1)], ArrowLeft: ["previous tab", () => go(shown - 1)],
      Home: ["first tab", () => go(0)], End: ["last tab", () => go(-1)],
    });
  }
  return {
    el,
    show(name) {
      shown = Math.max(parts.findIndex((part) => part.name === name), 0);
      parts.forEach((part, i) => {
        part.panel.hidden = i !== shown;
        buttons[i].setAttribute("aria-selected", String(i === shown));
        buttons[i].tabIndex = i === shown ? 0 : -1;
      });
      return parts[shown].name;
    },
  };
}

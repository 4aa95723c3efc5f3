// What every visualizer has: its start and end, with errors shown and not thrown, and at its top its title, the help of its
// keys, and the whole window.

import { clamp } from "./data.js";
import { button, errorBox, h, holdFocus, icon, keyboard, keysOf, signOf } from "./dom.js";
import { Playhead } from "./playhead.js";

/**
 * Make the default export of a visualizer's module.
 *
 * render({ model, root, playhead, own, listen }) fills `root`, and may be async; playhead is null for a visualizer
 * without time, and shared by all places where one widget is shown. own(part) keeps what must end with the place:
 * something with a destroy(), or a function to call; it returns the part. listen(event, fn) hears of the model until
 * then. `name` goes to data-rlnb, for tests.
 */
export function visualizer(name, render) {
  return () => {
    let playhead = null;
    const shared = (model) => (playhead ??= model.get("length") === undefined ? null : new Playhead(model));
    return {
      initialize({ model }) {
        shared(model);
        return () => { playhead?.destroy(); playhead = null; };
      },
      async render({ model, el }) {
        const root = h("div", { class: `rlnb rlnb-${name}`, "data-rlnb": name, role: "group", "aria-label": model.get("_label") || null });
        const parts = [];
        const own = (part) => { if (part) parts.push(part); return part; };
        const listen = (event, fn) => { model.on(event, fn); own(() => model.off(event, fn)); };
        el.append(root);
        try {
          await render({ model, root, playhead: shared(model), own, listen });
          frame(root, el, model.get("_label") ?? "");
          holdFocus(root);
          requestAnimationFrame(() => requestAnimationFrame(() => root.setAttribute("data-ready", "1")));
        } catch (error) {
          root.replaceChildren(errorBox(error));
          root.setAttribute("data-ready", "error");
        }
        return () => {
          for (const part of parts) if (part.destroy) part.destroy(); else part();
          root.remove();
        };
      },
    };
  };
}

/** Put the title and the two buttons at the top of a visualizer's root, after all its keys are known. */
function frame(root, el, title) {
  const help = h("div", { class: "rlnb-help", role: "region", "aria-label": "keys", hidden: true });
  const ask = button({ text: "?", label: "keys", title: "keys (?)", onclick: () => tell(help.hidden) });
  const grow = button({ icon: "whole", label: "whole window", title: "whole window", onclick: () => fill(!root.matches(":popover-open")) });
  ask.setAttribute("aria-expanded", "false");
  root.prepend(h("div", { class: "rlnb-titlebar" }, h("span", { class: "rlnb-title-text" }, title), ask, grow), help);

  function tell(on) {
    const found = keysOf(root);
    found.get("").set("close this list, or go back to the page", ["Escape"]);
    help.replaceChildren(...(on ? [...found] : []).flatMap(([place, keys]) => [
      place ? h("p", { class: "rlnb-small" }, h("b", {}, place)) : null,
      h("dl", { class: "rlnb-keys" }, ...[...keys].map(([words, names]) =>
        h("div", {}, h("dt", {}, ...names.map((key) => h("kbd", {}, signOf(key)))), h("dd", {}, words)))),
    ].filter(Boolean)));
    help.hidden = !on;
    ask.setAttribute("aria-expanded", String(on));
  }

  // What the window is covered by keeps the focus: nobody sees where it is below.
  const inside = ({ target }) => {
    if (!root.isConnected) root.ownerDocument.removeEventListener("focusin", inside); // its cell ran again
    else if (!root.contains(target)) grow.focus();
  };

  /** Let pictures of a fixed height be as large as all fits into the window, which stays wide enough for their words. */
  function fit() {
    if (!root.matches(":popover-open")) return removeEventListener("resize", fit);
    let zoom = clamp(innerWidth / 800, 1, 2);
    const show = () => root.style.setProperty("--rlnb-zoom", zoom);
    for (show(); zoom > 1 && root.scrollHeight > root.clientHeight; show()) zoom = Math.max(zoom - 0.05, 1);
  }

  // In the top layer of the page the visualizer covers the window, whatever its ancestors clip or move.
  function fill(on) {
    el.style.minHeight = on ? `${el.offsetHeight}px` : "";
    if (on) {
      root.setAttribute("popover", "manual");
      root.showPopover();
      fit();
      addEventListener("resize", fit);
      root.ownerDocument.addEventListener("focusin", inside);
    } else {
      root.ownerDocument.removeEventListener("focusin", inside);
      root.hidePopover();
      root.removeAttribute("popover");
      root.style.removeProperty("--rlnb-zoom");
    }
    grow.replaceChildren(icon(on ? "part" : "whole"));
    const words = on ? "back to the page" : "whole window";
    grow.setAttribute("aria-label", words);
    grow.title = on ? `${words} (Escape)` : words;
    grow.focus({ preventScroll: true });
  }

  keyboard(root, { "?": ["show or hide this list of keys", () => tell(help.hidden)] });
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    if (!help.hidden) tell(false);
    else if (root.matches(":popover-open")) fill(false);
    else return;
    event.stopPropagation();
  });
}

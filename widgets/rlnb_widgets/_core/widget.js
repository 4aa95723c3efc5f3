// What every visualizer's module exports by default: its start and end, with errors shown and not thrown.

import { errorBox, h, holdFocus } from "./dom.js";
import { frame } from "./frame.js";
import { Playhead } from "./playhead.js";

/**
 * Make the default export of a visualizer's module.
 *
 * render({ model, root, playhead, own, listen }) fills `root`; playhead is null for a visualizer without time, and shared
 * by all places where one widget is shown. own(part) keeps what must end with the place: something with a destroy(), or
 * a function to call; it returns the part. listen(event, fn) hears of the model until then. `name` goes to data-rlnb,
 * for tests.
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
      render({ model, el }) {
        const root = h("div", { class: `rlnb rlnb-${name}`, "data-rlnb": name, role: "group", "aria-label": model.get("_label") || null });
        const parts = [];
        const own = (part) => { if (part) parts.push(part); return part; };
        const listen = (event, fn) => { model.on(event, fn); own(() => model.off(event, fn)); };
        el.append(root);
        try {
          render({ model, root, playhead: shared(model), own, listen });
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

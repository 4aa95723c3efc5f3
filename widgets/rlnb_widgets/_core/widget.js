// What every visualizer's module exports by default: its start and end, with errors shown and not thrown.

import { errorBox, h } from "./dom.js";
import { frame } from "./frame.js";
import { Playhead } from "./playhead.js";

/**
 * Make the default export of a visualizer's module.
 *
 * render({ model, root, playhead }) fills `root` and may return a function that cleans up; playhead is null for a
 * visualizer without time, and shared by all places where one widget is shown. `name` goes to data-rlnb, for tests.
 */
export function visualizer(name, render) {
  return () => {
    let playhead = null;
    const own = (model) => (playhead ??= model.get("length") === undefined ? null : new Playhead(model));
    return {
      initialize({ model }) {
        own(model);
        return () => { playhead?.dispose(); playhead = null; };
      },
      render({ model, el }) {
        const root = h("div", { class: `rlnb rlnb-${name}`, "data-rlnb": name });
        el.append(root);
        let clean = null;
        try {
          clean = render({ model, root, playhead: own(model) });
          frame(root, el, model.get("_label") ?? "");
          requestAnimationFrame(() => requestAnimationFrame(() => root.setAttribute("data-ready", "1")));
        } catch (error) {
          console.error(error);
          root.replaceChildren(errorBox("This cannot be drawn.", error));
          root.setAttribute("data-ready", "error");
        }
        return () => { clean?.(); root.remove(); };
      },
    };
  };
}

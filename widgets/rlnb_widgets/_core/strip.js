// A strip of marks over the steps, in which the playhead is dragged.

import { clamp } from "./data.js";
import { drag, tellSlider } from "./dom.js";
import { surface } from "./paint.js";

/** Make the strip of a display list; marks() gives kind -> steps, the list's columns. Returns { el, show(list), update, destroy }. */
export function markStrip(list, playhead, marks) {
  const column = (kind) => marks()[kind] ?? [];
  const { el, at, invalidate, show, destroy } = surface(list, column, {
    params: () => ({ t: playhead.t, last: Math.max(playhead.last, 1), start: playhead.start, stop: playhead.stop, length: playhead.length }),
    class: "rlnb-strip", tabindex: 0, role: "slider", "aria-label": "playhead",
  });
  drag(el, (event) => playhead.seek(clamp(Math.round(at(event).value), 0, playhead.last)));
  const update = () => {
    const here = Object.entries(marks()).filter(([, steps]) => steps.includes(playhead.t)).map(([kind]) => kind);
    tellSlider(el, playhead.last, playhead.t, [`step ${playhead.t} of ${playhead.last}`, ...here].join(", "));
    invalidate();
  };
  return { el, show: (next) => show(next, column), update, destroy };
}

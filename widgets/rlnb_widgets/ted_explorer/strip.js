// The line under the controls: where episodes end, and the playhead.

import { clamp, drag, surface, tellSlider } from "../_core/core.js";

/** Make the line of a display list; marks() gives kind -> steps. Returns { el, update, destroy }. */
export function endsStrip(list, playhead, marks) {
  const { el, at, invalidate, destroy } = surface(list, (kind) => marks()[kind] ?? [], {
    params: () => ({ t: playhead.t, last: Math.max(playhead.last, 1) }), moving: ["t", "last"],
    class: "rlnb-strip", tabindex: 0, role: "slider", "aria-label": "playhead",
  });
  drag(el, (event) => playhead.seek(clamp(Math.round(at(event).value), 0, playhead.last)));
  const update = () => {
    const here = Object.entries(marks()).filter(([, steps]) => steps.includes(playhead.t)).map(([kind]) => kind);
    tellSlider(el, playhead.last, playhead.t, [`step ${playhead.t} of ${playhead.last}`, ...here].join(", "));
    invalidate();
  };
  return { el, update, destroy };
}

// The line under the controls: where episodes end, and the playhead.

import { surface } from "../_core/core.js";

/** Make the line of a display list; marks() gives kind -> steps. Returns { el, update, destroy }. */
export function endsStrip(list, playhead, marks) {
  const { el, at, invalidate, destroy } = surface(list, (kind) => marks()[kind] ?? [], {
    params: () => ({ t: playhead.t, last: Math.max(playhead.last, 1) }), moving: ["t", "last"],
    class: "rlnb-strip", tabindex: 0, role: "slider", "aria-label": "playhead", "aria-valuemin": 0,
  });
  const scrub = (event) => playhead.seek(Math.min(Math.max(Math.round(at(event).value), 0), playhead.last));
  el.addEventListener("pointerdown", (event) => { el.setPointerCapture(event.pointerId); scrub(event); });
  el.addEventListener("pointermove", (event) => { if (el.hasPointerCapture(event.pointerId)) scrub(event); });
  const update = () => {
    const here = Object.entries(marks()).filter(([, steps]) => steps.includes(playhead.t)).map(([kind]) => kind);
    el.setAttribute("aria-valuemax", playhead.last);
    el.setAttribute("aria-valuenow", playhead.t);
    el.setAttribute("aria-valuetext", [`step ${playhead.t} of ${playhead.last}`, ...here].join(", "));
    invalidate();
  };
  return { el, update, destroy };
}

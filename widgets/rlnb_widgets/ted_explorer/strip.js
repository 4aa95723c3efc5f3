// The strip under the controls: where episodes end, and the playhead.

import { clamp, h, paint, stage } from "../_core/core.js";

const PAD = 6;

/** Make the strip; marks() gives kind -> steps. Returns { el, update, destroy }. */
export function endsStrip(playhead, marks) {
  const el = h("div", { class: "rlnb-strip ted-strip", tabindex: 0, role: "slider", "aria-label": "playhead", "aria-valuemin": 0 });
  const view = stage(el, (pen, { width, height, color }) => {
    const ends = Object.entries(marks());
    const last = Math.max(playhead.last, 1);
    const rules = ends.map(([kind], i) => ({
      kind: "rules", places: i, y: 2, y2: height - 2, width: 1.5,
      stroke: kind === "truncated" ? "warn" : "danger", dash: kind === "truncated" ? [2, 2] : [],
    }));
    const line = { kind: "rect", x: 0, x2: last, y: height / 2, h: 1, fill: "line" };
    const head = { kind: "disc", x: playhead.t, y: height / 2, r: 5, fill: "accent" };
    const scene = [{ kind: "group", left: PAD, right: PAD, domain: [0, last], marks: [line, ...rules, head] }];
    paint(pen, scene, { width, params: {}, column: (i) => ends[i][1], color });
  });
  const scrub = (event) => {
    const box = el.getBoundingClientRect();
    const share = (event.clientX - box.left - PAD) / Math.max(box.width - 2 * PAD, 1);
    playhead.seek(clamp(Math.round(share * playhead.last), 0, playhead.last));
  };
  el.addEventListener("pointerdown", (event) => { el.setPointerCapture(event.pointerId); scrub(event); });
  el.addEventListener("pointermove", (event) => { if (el.hasPointerCapture(event.pointerId)) scrub(event); });
  const update = () => {
    el.setAttribute("aria-valuemax", playhead.last);
    el.setAttribute("aria-valuenow", playhead.t);
    const here = Object.entries(marks()).filter(([, steps]) => steps.includes(playhead.t)).map(([kind]) => kind);
    el.setAttribute("aria-valuetext", [`step ${playhead.t} of ${playhead.last}`, ...here].join(", "));
    view.invalidate();
  };
  return { el, update, destroy: view.destroy };
}

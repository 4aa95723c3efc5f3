// The strip under the controls: where episodes end, and the playhead.

import { clamp, h, stage } from "../_core/core.js";

const PAD = 6;

/** Make the strip; marks() gives kind -> steps. Returns { el, update, destroy }. */
export function endsStrip(playhead, marks) {
  const el = h("div", { class: "rlnb-strip ted-strip", tabindex: 0, role: "slider", "aria-label": "playhead", "aria-valuemin": 0 });
  const view = stage(el, (context, { width, height, color }) => {
    const scale = (width - 2 * PAD) / Math.max(playhead.last, 1);
    const x = (t) => PAD + t * scale;
    context.fillStyle = color("line");
    context.fillRect(PAD, height / 2, width - 2 * PAD, 1);
    for (const [kind, steps] of Object.entries(marks())) {
      context.strokeStyle = color(kind === "truncated" ? "warn" : "danger");
      context.lineWidth = 1.5;
      context.setLineDash(kind === "truncated" ? [2, 2] : []);
      context.beginPath();
      for (const t of steps) { context.moveTo(x(t), 2); context.lineTo(x(t), height - 2); }
      context.stroke();
    }
    context.setLineDash([]);
    context.fillStyle = color("accent");
    context.beginPath();
    context.arc(x(playhead.t), height / 2, 5, 0, 2 * Math.PI);
    context.fill();
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

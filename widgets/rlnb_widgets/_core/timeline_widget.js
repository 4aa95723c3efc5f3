// The standalone timeline: the controls over a strip of marks.

import { clamp, drag, h, keyboard, stage, tellSlider, timelineBar, visualizer } from "./core.js";

const ROW = 18;
const LEFT = 110;
const RIGHT = 16;

export default visualizer("timeline", ({ model, root, playhead, own, listen }) => {
  const marks = () => model.get("marks") ?? {};
  const bar = own(timelineBar(playhead, marks));
  const strip = h("div", { class: "rlnb-strip", tabindex: 0, role: "slider", "aria-label": "playhead" });
  root.append(bar.el, strip);

  const view = own(stage(strip, (context, { width, height, color }) => {
    const scale = (width - LEFT - RIGHT) / Math.max(playhead.last, 1);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    Object.entries(marks()).forEach(([kind, steps], row) => {
      const y = ROW * (row + 0.5) + 4;
      context.fillStyle = color("muted");
      context.fillText(kind, 0, y, LEFT - 12);
      context.fillStyle = color("line");
      context.fillRect(LEFT, y, width - LEFT - RIGHT, 1);
      context.fillStyle = color(`c${row % 8}`);
      for (const step of steps) context.fillRect(LEFT + step * scale - 1, y - 5, 2, 11);
    });
    context.fillStyle = color("panel");
    context.globalAlpha = 0.75;
    context.fillRect(LEFT - 1, 0, playhead.start * scale, height);
    context.fillRect(LEFT + playhead.stop * scale, 0, (playhead.length - playhead.stop) * scale, height);
    context.globalAlpha = 1;
    const x = LEFT + playhead.t * scale;
    context.fillStyle = color("ink");
    context.fillRect(x - 0.75, 0, 1.5, height);
    context.beginPath();
    context.arc(x, 4, 4, 0, 2 * Math.PI);
    context.fill();
  }));
  drag(strip, (event) => {
    const box = strip.getBoundingClientRect();
    const share = (event.clientX - box.left - LEFT) / Math.max(box.width - LEFT - RIGHT, 1);
    playhead.seek(clamp(Math.round(share * playhead.last), 0, playhead.last));
  });
  keyboard(root, bar.keys, strip);

  const update = () => {
    strip.style.height = `${Math.max(Object.keys(marks()).length, 1) * ROW + 8}px`;
    const here = Object.entries(marks()).filter(([, steps]) => steps.includes(playhead.t)).map(([kind]) => kind);
    tellSlider(strip, playhead.last, playhead.t, [`step ${playhead.t} of ${playhead.last}`, ...here].join(", "));
    root.setAttribute("data-t", playhead.t);
    view.invalidate();
  };
  listen("change:marks", () => { bar.paint(); update(); });
  own(playhead.subscribe(update));
  update();
});

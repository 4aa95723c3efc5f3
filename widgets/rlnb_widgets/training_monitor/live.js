// The TrainingMonitor: progress, a panel for each curve, the agents under one playhead, and the value map.

import { columnsOf, h, hitAt, keyboard, paint, stage, timelineBar, visualizer } from "../_core/core.js";
import { frameSource } from "../rollout_player/frames.js";
import { nearest, said } from "./readout.js";

/** A display list that is replaced again and again. */
function panel(attributes, tipOf = () => "") {
  let now = null;
  const tip = h("div", { class: "rlnb-tip", hidden: true });
  const el = h("div", { role: "img", ...attributes, style: "position:relative" });
  const view = stage(el, (pen, { width, color }) => {
    if (now) paint(pen, now.list.marks, { width, params: {}, column: now.column, color });
  });
  el.append(tip);
  el.addEventListener("pointermove", (event) => {
    const box = el.getBoundingClientRect();
    const hit = now && hitAt(now.list.marks, { width: box.width, params: {} }, event.clientX - box.left, event.clientY - box.top);
    const words = hit ? tipOf(hit.value) : "";
    tip.hidden = !words;
    tip.textContent = words;
    tip.style.left = `${Math.max(0, Math.min(event.clientX - box.left + 12, box.width - tip.offsetWidth))}px`;
    tip.style.top = `${event.clientY - box.top + 16}px`;
  });
  el.addEventListener("pointerleave", () => { tip.hidden = true; });
  return {
    el,
    show(list, column, label) {
      now = { list, column };
      el.style.height = `${list.height}px`;
      el.setAttribute("aria-label", label);
      view.invalidate();
    },
    destroy: view.destroy,
  };
}

export default visualizer("training-monitor", ({ model, root, playhead }) => {
  const words = h("span", { class: "tm-words" });
  const pace = h("span", { class: "tm-pace" });
  const progress = panel({ class: "tm-bar", role: "progressbar", "aria-valuemin": "0" });
  const curves = h("div", { class: "tm-curves" });
  const panels = new Map();
  const screens = h("div", { class: "tm-screens" });
  const bar = timelineBar(playhead, () => ({}));
  const agents = h("div", { class: "tm-agents", hidden: true }, screens, bar.el);
  const map = panel({ class: "tm-map" });
  map.el.hidden = true;
  let shown = [];

  root.setAttribute("role", "group");
  root.append(
    h("p", { class: "tm-status" }, words, pace), progress.el, curves,
    h("div", { class: "tm-work" }, agents, map.el),
  );
  keyboard(root, bar.keys);

  const drawHead = () => {
    const head = model.get("_head");
    const column = columnsOf(head.columns, model.get("_columns"));
    words.textContent = head.words;
    pace.textContent = head.pace;
    progress.show(head.bar, column, head.words);
    if (head.total) {
      progress.el.setAttribute("aria-valuemax", String(head.total));
      progress.el.setAttribute("aria-valuenow", String(Math.min(head.frames, head.total)));
    }
    progress.el.setAttribute("aria-valuetext", head.words);
    for (const { name, list, label } of head.curves) {
      if (!panels.has(name)) {
        panels.set(name, panel({ class: "tm-curve", "data-curve": name }, (step) => said(nearest(latest.get(name), step))));
        curves.append(panels.get(name).el);
      }
      latest.set(name, { list, column });
      panels.get(name).show(list, column, label);
    }
    map.el.hidden = !head.map;
    if (head.map) {
      const blob = model.get("_columns");
      const kept = head.map.columns.map(([kind, start, ...rest]) => [kind, start + head.map.start, ...rest]);
      map.show(head.map.list, columnsOf(kept, blob), "values of the states");
    }
    root.setAttribute("aria-label", `TrainingMonitor: ${head.words}`);
    root.setAttribute("data-state", head.state);
    root.setAttribute("data-frames", String(head.frames));
    root.setAttribute("data-curves", String(head.curves.length));
  };
  const latest = new Map();

  const drawShows = () => {
    for (const { view } of shown) view.destroy();
    const { rollouts = [] } = model.get("_shows") ?? {};
    agents.hidden = rollouts.length === 0;
    shown = rollouts.map((one) => {
      const [start, size] = one.pictures;
      const pictures = model.get("_pictures");
      const part = size ? new DataView(pictures.buffer ?? pictures, (pictures.byteOffset ?? 0) + start, size) : null;
      const source = frameSource(one, model.get("_poses"), part, () => view.invalidate());
      const host = h("div", { class: "tm-screen", style: `aspect-ratio:${source.width}/${source.height}` });
      const caption = h("figcaption", {});
      const last = one.steps + one.extra.length - 1;
      const view = stage(host, (pen, { width, height, color }) => {
        source.draw(pen, Math.min(playhead.t, last), width, height, color, playhead.t >= one.steps);
      });
      const note = source.kind === "none" ? h("p", { class: "rlnb-note" }, one.frames.note) : null;
      return { ...one, view, caption, el: h("figure", {}, h("b", {}, one.name), " ", h("span", { class: "rlnb-note" }, one.after), note ?? host, caption) };
    });
    screens.replaceChildren(...shown.map(({ el }) => el));
    drawTime();
  };
  const drawTime = () => {
    for (const { view, caption, steps, words: told } of shown) {
      caption.textContent = playhead.t >= steps ? `ended after ${steps.toLocaleString("en")} steps` : told;
      view.invalidate();
    }
    root.setAttribute("data-t", String(playhead.t));
  };

  // All traits of one message are set before the next frame, whatever their order.
  let frames = {};
  const soon = (draw) => () => { frames[draw.name] ??= requestAnimationFrame(() => { delete frames[draw.name]; draw(); }); };
  const changes = [["change:_head", soon(drawHead)], ["change:_columns", soon(drawHead)], ["change:_shows", soon(drawShows)], ["change:_poses", soon(drawShows)]];
  for (const [event, fn] of changes) model.on(event, fn);
  const stop = playhead.subscribe(drawTime);
  drawHead();
  drawShows();
  return () => {
    stop();
    for (const [event, fn] of changes) model.off(event, fn);
    for (const id of Object.values(frames)) cancelAnimationFrame(id);
    for (const part of [...panels.values(), progress, map]) part.destroy();
    for (const { view } of shown) view.destroy();
    bar.destroy();
  };
});

// The TrainingMonitor: progress, a panel for each curve with what is read off it, the agents under one playhead, and the value map.

import { bytes, clamp, columnsOf, framed, h, inflated, keyboard, legend, search, surface, tellSlider, text, timelineBar, visualizer } from "../_core/core.js";
import { frameSource, frameView } from "../rollout_player/frames.js";

export default visualizer("training-monitor", async ({ model, root, playhead, own, listen }) => {
  const words = h("b", { class: "tm-words" });
  const pace = h("span", { class: "tm-pace rlnb-note" });
  const progress = own(surface(null, null, { class: "tm-bar", role: "progressbar", "aria-valuemin": "0" }));
  const curves = h("div", { class: "tm-curves", role: "group", "aria-label": "curves" });
  const reading = h("p", { class: "tm-reading", "aria-live": "polite" });
  const insight = h("p", { class: "tm-insight" });
  const key = h("div", { class: "tm-key" });
  const panels = new Map(); // of each curve: its chart, its name, and the list and the columns that it shows
  const screens = h("div", { class: "tm-screens" });
  const bar = own(timelineBar(playhead, () => ({})));
  const agents = h("div", { class: "tm-agents", hidden: true }, screens, bar.el);
  const map = own(surface(null, null, { class: "tm-map", "aria-label": "values of the states" }));
  map.el.hidden = true;
  let shown = [];

  root.append(
    h("p", { class: "tm-status" }, words, pace), progress.el, insight, curves, key, reading,
    h("div", { class: "tm-work" }, agents, map.el),
  );
  keyboard(root, bar.keys);

  let reader = null; // the panel that is read with keys, and the step: { panel, step }
  const stepOf = (panel) => (reader?.panel === panel ? reader.step : Infinity);
  /** Tell the slider of a panel where it stands, at the last value unless it is read, and say what is read. */
  const tell = (panel) => {
    const { el, invalidate } = panel.chart;
    const [here, last] = [stepOf(panel), Infinity].map((step) => nearest(panel, step));
    // Without values there is nothing to slide.
    Object.assign(el, last ? { tabIndex: 0, role: "slider" } : { tabIndex: -1, role: "img" });
    if (last) tellSlider(el, last.step, here.step, said(here));
    reading.textContent = reader ? `${reader.panel.name} ${said(nearest(reader.panel, reader.step))}` : "";
    invalidate();
  };
  const addPanel = (name) => {
    const panel = { name };
    panel.chart = own(surface(null, null, {
      class: "tm-curve", role: "img", "data-curve": name, tipOf: (hit) => (hit ? said(nearest(panel, hit.value)) : ""),
      params: () => ({ read: Number(reader?.panel === panel), at: stepOf(panel) }), onblur: () => { reader = null; tell(panel); },
    }));
    panels.set(name, panel);
    curves.append(panel.chart.el);
    return panel;
  };
  const read = (by) => ({ target }) => {
    const panel = panels.get(target.dataset.curve);
    if (!nearest(panel, 0)) return;
    reader = { panel, step: stepBy(panel, stepOf(panel), by) };
    tell(panel);
  };
  keyboard(curves, {
    ArrowLeft: ["value before", read(-1)], ArrowRight: ["value after", read(1)],
    Home: ["first value", read(-Infinity)], End: ["last value", read(Infinity)],
  });
  const drawHead = () => {
    const head = model.get("_head");
    const column = columnsOf(head.columns, model.get("_columns"));
    words.textContent = head.words;
    pace.textContent = head.pace;
    progress.show(head.bar, column);
    progress.el.setAttribute("aria-label", head.words);
    if (head.total) {
      progress.el.setAttribute("aria-valuemax", String(head.total));
      progress.el.setAttribute("aria-valuenow", String(Math.min(head.frames, head.total)));
    }
    progress.el.setAttribute("aria-valuetext", head.words);
    for (const { name, list, label } of head.curves) {
      const panel = panels.get(name) ?? addPanel(name);
      Object.assign(panel, { list, column });
      panel.chart.show(list, column);
      panel.chart.el.setAttribute("aria-label", label);
      tell(panel);
    }
    insight.textContent = head.insight;
    map.el.hidden = !head.map;
    if (head.map) {
      map.el.style.width = `calc(${head.map.width}px * var(--rlnb-zoom, 1))`;
      map.show(head.map.list, column);
    }
    root.setAttribute("aria-label", `TrainingMonitor: ${head.words}`);
    Object.assign(root.dataset, { state: head.state, frames: head.frames, curves: head.curves.length });
  };

  const drawKey = () => key.replaceChildren(legend(model.get("_legend")));
  const forget = own(() => { for (const { view } of shown) view.destroy(); });
  let gone = false;
  own(() => { gone = true; });
  const drawShows = async () => {
    const sent = model.get("_poses");
    const poses = await inflated(sent);
    // By now others may have come, or the place may have gone.
    if (gone || sent !== model.get("_poses")) return;
    forget();
    const { rollouts = [] } = model.get("_shows") ?? {};
    agents.hidden = rollouts.length === 0;
    shown = rollouts.map((one) => {
      const [start, size] = one.pictures;
      const pictures = bytes(model.get("_pictures")).subarray(start, start + size);
      const source = frameSource(one, poses, pictures, () => view.invalidate());
      const caption = h("figcaption", {});
      const last = one.steps + one.extra.length - 1;
      const view = frameView(source, () => [Math.min(playhead.t, last), playhead.t >= one.steps], { class: "tm-screen" });
      const note = source.kind === "none" ? h("p", { class: "rlnb-note" }, one.frames.note) : null;
      return { ...one, view, caption, el: h("figure", {}, h("b", {}, one.name), " ", h("span", { class: "rlnb-note" }, one.after), note ?? view.el, caption) };
    });
    screens.replaceChildren(...shown.map(({ el }) => el));
    drawTime();
  };
  const drawTime = () => {
    for (const { view, caption, steps, words: told } of shown) {
      caption.textContent = playhead.t >= steps ? `ended after ${steps.toLocaleString("en")} steps` : told;
      view.invalidate();
    }
    root.dataset.t = playhead.t;
  };

  // All traits of one message are set before the next frame, whatever their order.
  for (const [draw, names] of [[drawHead, ["_head", "_columns"]], [drawKey, ["_legend"]], [drawShows, ["_shows", "_poses"]]]) {
    const soon = own(framed(draw));
    for (const name of names) listen(`change:${name}`, soon);
  }
  own(playhead.subscribe(drawTime));
  drawHead();
  drawKey();
  await drawShows();
});

/** Places and values of the lines of a panel: what was logged, and its moving mean if there is one. */
function linesOf({ list, column }) {
  const curves = list.marks.flatMap((mark) => mark.marks ?? []).filter((mark) => mark.kind === "curve");
  return curves.map((mark) => [column(mark.places), column(mark.values)]);
}

/** The drawn point of a panel that is nearest to a step: { step, value, mean }; null without one. */
export function nearest(panel, step) {
  if (!panel) return null;
  const [raw, smooth] = linesOf(panel).map((line) => pointAt(...line, step));
  return raw ? { ...raw, mean: smooth ? smooth.value : null } : null;
}

/** The step of the drawn value that lies `by` values after the one at a step. */
export function stepBy(panel, step, by) {
  const [places] = linesOf(panel)[0];
  return places[clamp(search(places, pointAt(places, places, step).step) + by, 0, places.length - 1)];
}

/** The point { step, value } whose place is nearest. */
export function pointAt(places, values, step) {
  if (!places.length) return null;
  const after = Math.min(search(places, step), places.length - 1);
  const i = after > 0 && step - places[after - 1] < places[after] - step ? after - 1 : after;
  return { step: places[i], value: values[i] };
}

/** A point in words. */
export function said(point) {
  if (!point) return "";
  const mean = point.mean === null ? "" : `, mean ${text(point.mean)}`;
  return `at ${Math.round(point.step).toLocaleString("en")}: ${text(point.value)}${mean}`;
}

// The RolloutPlayer: frames above strips under one playhead, with the TED row beside them.

import { Channel, button, clamp, h, keyboard, noteList, text, timelineBar, visualizer } from "../_core/core.js";
import { decode } from "./columns.js";
import { marksOf } from "./geometry.js";
import { legend } from "./legend.js";
import { rowPanel } from "./row.js";
import { screensPanel } from "./screens.js";
import { episodeAt, spoken, stripsPanel } from "./strips.js";
import { turnWords } from "./turns.js";

export default visualizer("rollout-player", ({ model, root, playhead }) => {
  const head = model.get("_head");
  const blob = model.get("_columns");
  const columns = decode(head.columns, blob, head.labels.length * head.steps);
  const compared = head.parting !== null;
  const selected = new Channel(model, "selected_env", (e) => clamp(Number(e) || 0, 0, head.labels.length - 1));
  const focused = () => selected.value;
  const envs = () => (compared ? [0, 1] : [focused()]);
  const marks = new Map();
  const marksHere = () => {
    const e = focused();
    if (!marks.has(e)) marks.set(e, marksOf(head, columns, e));
    return marks.get(e);
  };
  const focus = (e) => selected.set(e);
  const returned = head.strips.filter((s) => s.role === "return").flatMap((s) => s.columns);
  const summary = (e, t) => {
    if (head.kinds[columns[head.code][e * head.steps + t]] === "padding") return "has ended";
    const episode = `episode ${episodeAt(head, columns, e, t).split(" ")[0]}`;
    if (head.turns) return `${episode}, ${turnWords(head, columns, e, t, false, true)}`;
    const sums = returned.slice(0, 4).map((c) => text(columns[c][e * head.steps + t])).join(", ");
    return sums ? `${episode}, ${returned.length > 1 ? "returns" : "return"} ${sums}` : episode;
  };

  const turn = (t, after) => turnWords(head, columns, 0, t, after);
  const screens = screensPanel(head, blob, model.get("_pictures"), { focused, focus, t: () => playhead.t, summary, turn });
  const row = rowPanel(head, columns);
  const strips = stripsPanel(head, columns, playhead, envs);
  const bar = timelineBar(playhead, marksHere);
  const zoom = (label, words, key, factor) => button({ text: words, label, title: `${label} (${key})`, onclick: () => strips.zoom(factor) });
  strips.el.append(h("span", { class: "rlnb-group rlnb-zoom", role: "group", "aria-label": "zoom" },
    "zoom", zoom("zoom in", "in", "+", 0.5), zoom("zoom out", "out", "-", 2), zoom("show all", "all", "0", 0)));

  root.setAttribute("role", "group");
  root.setAttribute("aria-label", model.get("_label"));
  root.append(h("div", { class: "rlnb-layout" }, ...[
    compared ? h("p", { class: "rlnb-parting" }, head.parting.text) : null,
    screens.el, row.el, bar.el, strips.el, legend(head, columns, compared),
    noteList(head.notes).el,
  ].filter(Boolean)));

  keyboard(root, {
    ...bar.keys,
    "+": ["zoom in", () => strips.zoom(0.5)], "=": ["zoom in", () => strips.zoom(0.5)],
    "-": ["zoom out", () => strips.zoom(2)], 0: ["show all steps", () => strips.zoom(0)],
  }, strips.slider);

  let frame = 0;
  const paint = () => {
    frame = 0;
    row.update(playhead.t, envs());
    screens.update(playhead.t);
    strips.update();
    root.setAttribute("data-t", playhead.t);
    root.setAttribute("data-step", spoken(head, columns, envs()[0], playhead.t));
  };
  const update = () => { if (!frame) frame = requestAnimationFrame(paint); };
  const stop = playhead.subscribe(update);
  selected.subscribe(() => { bar.paint(); update(); });
  paint();
  return () => {
    cancelAnimationFrame(frame);
    stop();
    selected.dispose();
    for (const part of [bar, strips, screens]) part.destroy();
  };
});

// The RolloutPlayer: frames above strips under one playhead, with the TED row beside them.

import { Channel, arrived, clamp, framed, h, inflated, keyButton, keyboard, legend, noteList, timelineBar, visualizer } from "../_core/core.js";
import { decode, marksOf } from "./columns.js";
import { rowPanel } from "./row.js";
import { screensPanel } from "./screens.js";
import { spoken, stripsPanel } from "./strips.js";

export default visualizer("rollout-player", async ({ model, root, playhead, own }) => {
  const head = await arrived(model, "_head");
  const blob = await inflated(model.get("_columns"));
  const columns = decode(head.columns, blob, head.labels.length * head.steps);
  const compared = head.parting !== null;
  const selected = own(new Channel(model, "selected_env", (e) => clamp(Number(e) || 0, 0, head.labels.length - 1)));
  const envs = () => (compared ? [0, 1] : [selected.value]);
  const marks = head.labels.map((_, e) => marksOf(head, columns, e));
  const screens = screensPanel(head, columns, blob, model.get("_pictures"), playhead, selected, own);
  const row = rowPanel(head, columns, envs().length);
  const strips = own(stripsPanel(head, columns, playhead, envs));
  const bar = own(timelineBar(playhead, () => marks[selected.value]));
  const zoom = (key, label, text, factor) => keyButton(bar.keys, key, { text, label, onclick: () => strips.zoom(factor) });
  strips.el.append(h("span", { class: "rlnb-group rlnb-zoom", role: "group", "aria-label": "zoom" },
    "zoom", zoom("+", "zoom in", "in", 0.5), zoom("-", "zoom out", "out", 2), zoom("0", "show all steps", "all", 0)));
  bar.keys["="] = bar.keys["+"];

  root.append(h("div", { class: "rlnb-layout" }, compared ? h("p", { class: "rlnb-parting" }, head.parting) : null,
    screens.el, row.el, bar.el, strips.el,
    h("div", { class: "rlnb-note" }, legend(head.legend), meanings(head.rules)), noteList(head.notes).el));

  keyboard(root, bar.keys, strips.slider);

  const paint = () => {
    row.update(playhead.t, envs());
    screens.update();
    strips.update();
    Object.assign(root.dataset, { t: playhead.t, step: spoken(head, columns, envs()[0], playhead.t) });
  };
  const update = own(framed(paint));
  own(playhead.subscribe(update));
  selected.subscribe(() => { bar.paint(); update(); });
  paint();
});

/** What the ends and resets that occur mean. */
const meanings = (rules) => (rules.length ? h("details", {}, h("summary", {}, "What ends and resets mean for the value target"),
  h("ul", { class: "rlnb-rules" }, ...rules.map(([name, rule]) => h("li", {}, h("b", {}, name), ` ${rule}`)))) : null);

// The live TED explorer: playhead, tabs, search, tree and details; all of it in the page.

import { Channel, arrived, clamp, h, inWords, keyboard, markStrip, tabs, timelineBar, toggle, visualizer } from "../_core/core.js";
import { shapeLegend } from "../_core/treeview.js";
import { detailsPane } from "./details.js";
import { formsPanel, rulesPanel } from "./panels.js";
import { tedTree, wholeRow } from "./row.js";
import { jumpsOf, marksOf, stepWords } from "./values.js";
import { walkPanel } from "./walk.js";

export default visualizer("ted-explorer", async ({ model, root, playhead, own }) => {
  const data = await arrived(model, "payload");
  const rows = data.rows.map((row) => wholeRow(data, row));
  const elements = data.steps === null ? 1 : data.batch.reduce((a, b) => a * b, 1);
  const element = own(new Channel(model, "element", (v) => clamp(Math.round(Number(v) || 0), 0, elements - 1)));
  const selected = own(new Channel(model, "selected", (v) => (Array.isArray(v) ? v : [])));
  const shown = own(new Channel(model, "view", (v) => (Object.hasOwn(data.tabs, v) ? v : "entries")));
  const view = {
    ted: data.ted, batch: data.batch, steps: data.steps, store: model.get("values"), rows, thumbs: data.thumbs,
    showRange: data.steps === null,
    get element() { return element.value; },
    get t() { return playhead.t; },
    get ends() { return Object.values(here.ends).some((steps) => steps.includes(playhead.t)); },
    get past() { return here.past.has(playhead.t + 1); },
  };
  const details = detailsPane(view);
  const tree = own(tedTree(view, (row) => {
    details.show(row);
    selected.set(row ? row.path : []);
  }, () => details.update()));

  const timed = data.steps > 1;
  const words = h("p", { class: "ted-words" });
  let here = null; // where episodes of the element end, where steps go past an end, and where to jump
  const turn = () => {
    const ends = marksOf(data, element.value);
    here = { ends, past: new Set(data.past[element.value]), jumps: jumpsOf(ends, data.found[element.value]) };
  };
  turn();
  element.subscribe(turn);
  const bar = own(timed ? timelineBar(playhead, () => here.jumps) : null);
  const strip = own(timed ? markStrip(data.line, playhead, () => here.ends) : null);
  // The jumps stand beside the words, which say what one has jumped to.
  const said = timed ? h("div", { class: "ted-said" }, words, bar.jumps) : null;
  // Whether an episode ends at the playhead and is followed by a reset, and whether the data end there.
  const turning = () => ({ over: view.ends && !view.past, beyond: view.t + 1 >= data.steps });
  const walk = data.ted && data.steps ? walkPanel(view, playhead, turning, (row) => tree.select(row.path)) : null;
  const go = (place) => {
    if (place.element !== null) element.set(place.element);
    if (place.t !== null) playhead.seek(place.t);
    if (place.path.length) tree.select(place.path);
  };
  const broken = data.rules.reduce((n, rule) => n + rule.places.length, 0);
  const parts = [
    { name: "entries", el: h("div", {}, toolbar(view, tree, elements > 1 ? elementPicker(elements, element) : null), tree.el), onshow: () => tree.repaint() },
    data.rules.length && { name: "rules", note: broken ? `✗ ${broken}` : "✓", el: rulesPanel(data.rules, data.rulesLine, go, details.copyText) },
    data.forms && { name: "forms", el: formsPanel(data.forms, own) }, walk && { name: "steps", el: walk.el, onshow: () => walk.show() },
  ].filter(Boolean).map((part) => ({ ...part, title: data.tabs[part.name] }));
  const panels = tabs(parts, { onchoose: (name) => shown.set(name) });
  const notes = data.notes.map((note) => h("p", { class: "rlnb-note" }, note));
  root.append(...[...notes, bar?.el, strip?.el, said, panels.el, details.el, inWords(data.words)].filter(Boolean));
  const open = () => {
    const name = panels.show(shown.value);
    details.el.hidden = name === "forms" || (name === "rules" && !broken);
    root.dataset.view = name;
  };

  const find = () => { shown.set("entries"); tree.find(); };
  // In a tree the arrows fold; without anything to fold they step, as they do everywhere else.
  const moves = timed && tree.tools.folds ? { ",": bar.keys.ArrowLeft, ".": bar.keys.ArrowRight } : {};
  keyboard(tree.focusable, { ...tree.keys, ...moves });
  if (walk) keyboard(walk.focusable, walk.keys);
  const choose = (key) => [...tree.keys[key].slice(0, 2), () => !details.el.hidden];
  keyboard(root, {
    ...bar?.keys, ArrowUp: choose("ArrowUp"), ArrowDown: choose("ArrowDown"), c: ["copy the code", () => details.copy()], "/": ["search", find],
  }, strip?.el ?? tree.focusable);

  const update = () => {
    Object.assign(root.dataset, { t: view.t, element: view.element });
    if (timed) words.textContent = stepWords(here.ends, data.steps, view.t, here.past);
    for (const part of [strip, tree, walk, details]) part?.update();
  };
  own(playhead.subscribe(update));
  element.subscribe(() => { update(); bar?.paint(); });
  selected.subscribe((path, origin) => { if (origin !== "here") tree.select(path); });
  shown.subscribe(open);
  update();
  open();
  tree.select(selected.value);
});

function toolbar(view, tree, picker) {
  const { search, folds, only, count } = tree.tools;
  const ranges = (on) => { view.showRange = on; tree.update(); };
  const parts = [search, picker, folds,
    view.steps === null ? null : toggle("Ranges", "show minimum / mean / maximum instead of the value at the playhead", false, ranges),
    only, count, shapeLegend(view.rows.flatMap((row) => [row.root?.dims ?? [], row.next?.dims ?? []]))];
  return h("div", { class: "rlnb-bar", role: "toolbar", "aria-label": "tree" }, ...parts);
}

function elementPicker(elements, element) {
  const field = h("input", { type: "number", class: "rlnb-field", min: 0, max: elements - 1, value: element.value, "aria-label": "batch element" });
  field.addEventListener("input", () => { if (field.value !== "") element.set(Number(field.value)); });
  field.addEventListener("change", () => { field.value = element.value; });
  element.subscribe((value) => { if (document.activeElement !== field) field.value = value; });
  return h("label", { class: "rlnb-picker" }, "element", field, h("span", { class: "rlnb-note" }, `of ${elements}`));
}

// The TreeExplorer: a search tree unfolded and as a whole, its record under a playhead, and the selected node opened.

import { Channel, button, clamp, framed, guarded, h, keyboard, noteList, tabs, timelineBar, uniqueId, visualizer } from "../_core/core.js";
import { followPath, legendPanel, phaseBar, searchBar, viewBar } from "./controls.js";
import { icicle } from "./icicle.js";
import { CHILDREN } from "./layout.js";
import { looked, lookedAtOther, opened } from "./look.js";
import { nodeLink } from "./nodelink.js";
import { nodePanel, summaryPanel } from "./panel.js";
import { marksOf, moments, phaseWords } from "./records.js";
import { actionName, bestAction, edgesOf, mainLine, pathTo } from "./store.js";

const VIEWS = ["tree", "icicle"];
const PATIENCE = 5000;

export default visualizer("tree-explorer", ({ model, root, playhead, own, listen }) => {
  const id = uniqueId("node");
  const kernel = Boolean(model.widget_manager);
  let data = opened(model);
  let following = true;
  let filter = { least: 0, deepest: Infinity };
  let waiting = 0; // 1 while Python is asked, 2 when that takes long
  let patience = 0;
  let marks = null;
  let view = null;

  const selection = own(new Channel(model, "selection", (v) => clamp(Math.round(Number(v) || 0), 0, data.tree.count - 1)));
  const constant = own(new Channel(model, "c", (v) => (Number.isFinite(Number(v)) && Number(v) >= 0 ? Number(v) : 0)));
  const large = own(new Channel(model, "view", (v) => (VIEWS.includes(v) ? v : VIEWS[0])));

  const time = own(moments({ playhead, records: () => data.records, fps: () => model.get("fps") || 1, onChange: () => update() }));
  const look = () => (view ??= looked(data, {
    t: time.t(), phase: time.phase(), selection: selection.value, c: constant.value, boards: model.get("_boards"), following, filter,
  }));

  const select = (node) => selection.set(node);
  const across = (way, node, then) => { if (way?.[node] >= 0) then(way[node]); };
  const names = data.head.compare?.names;
  const tree = own(nodeLink({
    look, onSelect: select, id, name: names ? names[0] : "search tree",
    onFold: (node, open) => { across(data.match, node, (other) => there?.fold(other, open)); update(); },
  }));
  const there = own(data.other ? nodeLink({
    look: () => lookedAtOther(data, look()), onSelect: (node) => across(data.back, node, select), id: `${id}-other`, name: names[1],
    onFold: (node, open) => { across(data.back, node, (own) => tree.fold(own, open)); update(); },
  }) : null);
  const trees = [tree, there].filter(Boolean);
  const ice = own(icicle({ look, onSelect: select }));
  const panel = own(nodePanel({ look, onSelect: select, onC: (c) => constant.set(c) }));
  const summary = summaryPanel({ look, onSelect: select });
  const key = legendPanel({ look, whole: () => large.value === "icicle", further: () => trees.some((one) => one.further()) });
  const marked = () => (marks ??= marksOf(data.records, selection.value));
  const bar = own(timelineBar(playhead, marked, "", where, time.simulation));
  const phases = phaseBar({ onPhase: time.toPhase, onStep: time.step });
  const wait = (how) => {
    waiting = how;
    clearTimeout(patience);
    if (how === 1) patience = setTimeout(() => wait(2), PATIENCE);
    update();
  };
  const ask = kernel ? (message) => { wait(1); model.send(message); } : null;
  const search = searchBar({ ask, head: () => data.head, chosenAction });
  const filters = viewBar({
    count: CHILDREN, playback: [bar.pace, bar.jumps].map((part) => h("div", {}, part)), further: kernel ? search.refresh : null,
    onFind: find, onFilter,
    onFollow: (on) => { following = on; update(); }, onZoom: (by) => trees.forEach((one) => one.zoom(by)),
  });

  const insight = h("p", { class: "tx-insight" });
  const reuse = h("p", { class: "rlnb-note tx-reuse" });
  const words = h("p", { class: "tx-words", "aria-live": "polite" });
  const parting = h("p", { class: "tx-parting" });
  const notes = noteList();
  const record = h("div", { class: "tx-time" }, bar.el, phases.el);
  const named = trees.map((one, i) =>
    h("p", { class: "rlnb-small", hidden: !there }, h("b", {}, names?.[i]), " ", h("span", { class: "rlnb-note" })));
  const panes = trees.map((one, i) => h("div", { class: "tx-pane" }, named[i], one.el));
  const views = tabs([
    { name: "tree", title: "Tree", el: h("div", { class: "tx-panes" }, ...panes) },
    { name: "icicle", title: `Whole tree${names ? ` (${names[0]})` : ""}`, el: ice.el },
  ], { label: "large view", onchoose: (name) => large.set(name) });
  views.el.classList.add("tx-views");
  views.el.firstChild.after(filters.el);
  const sides = tabs([
    { name: "node", title: "Selected node", el: h("div", {}, panel.el) },
    { name: "root", title: "Root", el: h("div", {}, summary.el) },
  ], { label: "details" });
  const controls = h("div", { class: "tx-controls" }, record, kernel ? search.el : null);
  const main = h("div", { class: `tx-main${there ? " tx-two" : ""}` }, h("div", {}, views.el, words, key.el), sides.el);
  root.append(...[insight, reuse, parting, controls, main, notes.el, kernel ? null : search.el].filter(Boolean));

  /** The simulation that is looked at, by the number that the words below the tree use. */
  function where() {
    const { count, current } = data.records;
    const { first = 0 } = data.head.records ?? {};
    const [at, of] = [current(time.t(), time.phase()) + 1, count].map((n) => (first + n).toLocaleString("en"));
    return `${at} of ${of}`;
  }
  function find(text) {
    if (!text.trim()) return "";
    const { node, message } = followPath(data.tree, text);
    select(node);
    return message;
  }
  function onFilter(change) {
    filter = { ...filter, ...change };
    view = null;
    for (const one of trees) one.filter(change);
    update();
  }
  /** The action at the root that leads to the selected node; at the root itself the best one. */
  function chosenAction() {
    const { tree: shown, selected } = look();
    return selected === 0 ? bestAction(shown, time.t() === data.records.count) : pathTo(shown, selected)[0];
  }
  keyboard(root, {
    ...bar.keys, ...tree.keys, ...phases.keys,
    End: ["end of the main line", () => select(look().tree.edgeChild[mainLine(look().tree).at(-1)] ?? 0)],
    PageUp: ["previous simulation", () => time.simulation(-1)], PageDown: ["next simulation", () => time.simulation(1)],
    "/": ["search", () => filters.focusSearch()],
  }, tree);
  if (there) keyboard(there.el, there.keys);

  const later = own(framed(paint));
  const update = () => { view = null; later(); };
  function paint() {
    view = null;
    const { tree: shown, records, head } = data;
    const { selected, t, phase } = look();
    record.hidden = words.hidden = records.count === 0;
    if (views.shown !== large.value) views.show(large.value);
    bar.paint();
    const said = records.count ? phaseWords(shown, records, t, phase) : "";
    words.setAttribute("aria-live", playhead.playing ? "off" : "polite");
    if (words.textContent !== said) words.textContent = said;
    phases.update(t, records.count, phase);
    search.update(waiting, (a) => actionName(shown, a), edgesOf(shown, 0).map((edge) => shown.edgeAction[edge]));
    filters.update(large.value, records.count > 0);
    for (const part of [...trees, panel, ice, summary, key]) guarded(part);
    Object.assign(root.dataset, { t, phase, node: selected, nodes: head.nodes, c: constant.value, view: large.value });
  }

  const onHead = () => {
    const { compare, notes: all, words: { best, headline, reuse: kept } } = data.head;
    const say = (el, text) => { el.textContent = text; el.hidden = !text; };
    say(insight, best);
    say(reuse, kept);
    notes.tell(all);
    root.setAttribute("aria-label", `TreeExplorer: ${headline}`);
    root.querySelector(".rlnb-title-text")?.replaceChildren(`TreeExplorer: ${headline}`);
    say(parting, compare ? `${compare.words} ` : "");
    if (compare && compare.part !== null) {
      parting.append(button({ text: "go there", title: null, class: "rlnb-small", onclick: () => select(compare.part) }));
    }
    // Only this tree's record is played.
    const ended = data.records.count ? ", shown as it is at the end" : "";
    named.forEach((el, i) => { el.lastChild.textContent = i ? compare.head.words.headline + ended : headline; });
  };
  listen("change:_columns", () => {
    data = opened(model);
    marks = null;
    view = null;
    time.reset();
    selection.set(selection.value);
    onHead();
    bar.paint();
    if (!data.head.grown) selection.set(0);
    tree.reset(data.head.grown);
    there?.reset(true);
    wait(0);
  });
  listen("change:_head", () => { data.head = data.tree.head = model.get("_head"); onHead(); wait(0); });
  listen("change:_boards", update);
  own(() => clearTimeout(patience));
  selection.subscribe(() => { marks = null; bar.paint(); });
  for (const channel of [selection, constant, large]) channel.subscribe(update);
  onHead();
  paint();
});

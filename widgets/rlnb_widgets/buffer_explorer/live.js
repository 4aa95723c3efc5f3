// The BufferExplorer: the ring and what is known of the selected cell, the record under a playhead, and the panels.

import { Channel, clamp, drag, framed, guarded, h, keyButton, keyboard, legend, motion, noteList, reducedMotion, surface, tabs, tellSlider, timelineBar, visualizer } from "../_core/core.js";
import { slicesPanel, treePanel, weightsPanel } from "./controls.js";
import { boxesPanel, cellPanel, facts, memoryPanel } from "./panels.js";
import { lengthNumbers } from "./slices.js";
import {
  barNumbers, cellAt, cellOf, curveNumbers, hit, reader, ringColumns, ringParams, rowAt, rowsOf, sampled, slotOf, treeNumbers,
} from "./values.js";

const ANIMATE_MS = 380;
const ORDERS = ["physical", "chronological"];
// Parameters that change while a cell is chosen or a draw goes down the tree; all else is painted once.
const MOVING = ["chosen", "chosen to", "slot", "mass", "reached",
  ...Array.from({ length: 24 }, (_, i) => [`in${i}`, `on${i}`, `way${i}`, `way${i} to`]).flat()];

/** A function that remembers its last result. */
function memo(fn) {
  let known = null;
  return (...given) => {
    if (!known || given.some((value, i) => value !== known.given[i])) known = { given, result: fn(...given) };
    return known.result;
  };
}

/** The row that a move by `cells` leads to, in an order. */
export function moved(m, row, cells, order) {
  const slot = clamp(slotOf(m, cellOf(m, row), order) + cells, 0, m.cells - 1);
  return rowsOf(m, cellAt(m, slot, order))[0];
}

/** Moments by what was done, for jumping between them. */
export function marksOf(moments) {
  const marks = {};
  moments.forEach(({ what, overwrote }, i) => {
    if (what !== "look") (marks[what] ??= []).push(i);
    if (overwrote) (marks.overwriting ??= []).push(i);
  });
  return marks;
}

export default visualizer("buffer-explorer", ({ model, root, playhead, own, listen }) => {
  let head = model.get("_head");
  let frame = reader(head, model.get("_cells"));
  let marks = marksOf(head.moments);
  const here = () => clamp(playhead.t, 0, head.moments.length - 1);
  const moment = () => frame(here());
  const lists = () => model.get("_lists");
  const order = own(new Channel(model, "order", (v) => (ORDERS.includes(v) ? v : ORDERS[0])));
  const selection = own(new Channel(model, "selection", (v) => clamp(Math.round(Number(v) || 0), 0, moment().size - 1)));
  const column = own(new Channel(model, "selected_env", (v) => clamp(Math.round(Number(v) || 0), 0, moment().columns - 1)));
  let beta = moment().priorities ? clamp(moment().priorities.beta, 0, 1) : 0;
  let sliceLen = moment().slicing?.[0] ?? 1;
  let phase = 1;
  let shown = here();
  let version = 0;

  const before = () => (here() > 0 ? frame(here() - 1) : null);
  const cellNow = () => cellOf(moment(), selection.value);
  const select = (cell, col = column.value) => {
    const [first, after] = rowsOf(moment(), cell);
    column.set(col);
    if (selection.value < first || selection.value >= after) selection.set(first);
  };

  // The columns and parameters of the lists, computed when they change.
  const known = { ring: memo(ringColumns), bars: memo(barNumbers), tree: memo(treeNumbers), curves: memo(curveNumbers), lengths: memo(lengthNumbers) };
  const bars = () => known.bars(moment(), order.value, beta);
  const curves = () => known.curves(moment(), cellNow(), beta);
  const lengths = () => known.lengths(moment(), sliceLen);
  const sources = [
    () => known.ring(moment(), before(), phase, order.value, sliceLen), () => bars().columns, () => known.tree(moment()).columns,
    () => curves().columns, () => lengths().columns,
  ];
  const numbersOf = (name) => {
    for (const source of sources) {
      const found = source()[name];
      if (found) return found;
    }
    return []; // A picture that is about to be replaced may ask for what this state has not.
  };
  const params = () => ({
    ...ringParams(moment(), before(), phase, order.value, selection.value, column.value), ...bars().params, ...lengths().params,
    // What is painted once is painted anew for each of these.
    state: [version, here(), order.value, phase, sliceLen, beta].join(" "),
  });
  const charts = new Map();
  const chart = (name, more = () => ({}), attributes = { class: "be-chart", role: "img" }) => {
    if (!charts.has(name) && lists()[name]) {
      charts.set(name, own(surface(lists()[name], numbersOf, { params: () => ({ ...params(), ...more() }), moving: MOVING, ...attributes })));
    }
    return charts.get(name);
  };

  const boxes = boxesPanel();
  const ring = h("div", { class: "be-ring", tabindex: 0, role: "slider", "aria-label": "cell of the ring" });
  const cell = cellPanel({ onRow: (row) => selection.set(row), onColumn: (c) => column.set(c) });
  const drawWords = h("p", { class: "rlnb-small" });
  const barsOfState = h("div", { class: "be-bars" });
  const tree = own(treePanel({
    moment, numbers: () => known.tree(moment()), row: () => selection.value, column: () => column.value, starts: head.slices,
    onLeaf: (row, col) => { select(cellOf(moment(), row), col); }, repaint: () => update(),
    chart: (levels) => chart(`tree${levels}`, () => tree.params()),
  }));
  const weights = weightsPanel({
    moment, numbers: curves, row: () => selection.value, beta: () => beta, onBeta: (value) => { beta = value; update(); },
    chart: () => chart("curves", () => ({ ...curves().params, cell: cellNow() })),
  });
  const slices = slicesPanel({
    moment, size: () => sliceLen, onSize: (size) => { sliceLen = size; update(); }, strict: head.strict,
    chart: () => chart("lengths"),
  });
  const memory = memoryPanel();
  const bar = own(timelineBar(playhead, () => marks, "moment"));
  const keys = {};
  const turn = keyButton(keys, "o", { text: "", label: "order of the cells", solid: true, onclick: () => order.set(ORDERS[1 - ORDERS.indexOf(order.value)]) });
  bar.el.append(h("span", { class: "rlnb-group" }, turn), cell.fields);
  const words = h("p", { class: "be-words", "aria-live": "polite" });
  const about = h("p", { class: "rlnb-note rlnb-small" });
  const notes = noteList();
  const meanings = h("div", { class: "be-meanings" });
  const panels = h("div", {});

  root.append(bar.el, words, h("div", { class: "be-top" }, ring, h("div", { class: "be-side" }, about, drawWords, barsOfState), meanings), panels, notes.el);
  drag(ring, (event) => {
    const box = ring.firstChild.getBoundingClientRect();
    const found = hit(moment(), event.clientX - box.left, event.clientY - box.top, order.value);
    if (found) select(found.cell, found.column);
    return found !== null;
  });

  const barNames = () => ["draws", ...(lists().curves ? ["priorities", "weights"] : [])];

  /** Bars in which a click chooses a cell. */
  function barsOf(name) {
    if (charts.has(name)) return charts.get(name);
    const made = chart(name);
    drag(made.el, (event) => {
      const found = made.at(event);
      if (found?.name === "slot") select(cellAt(moment(), clamp(Math.floor(found.value), 0, moment().cells - 1), order.value));
      return Boolean(found);
    });
    return made;
  }

  /** The tabs that there is something for; what slices are is not taught before the sampler draws some. */
  let arranged = null;
  let panel = null;
  function arrange() {
    const parts = [
      { name: "row", title: "Selected row", el: cell.el },
      ...(lists().curves ? [{ name: "tree", title: "Sum tree", el: tree.el }, { name: "weights", title: "Weights", el: weights.el }] : []),
      ...(lists().lengths ? [{ name: "slices", title: "Slices", el: slices.el }] : []),
      { name: "memory", title: "Memory", el: memory.el },
      { name: "parts", title: "Components", el: boxes.el },
    ].map((part) => ({ ...part, onshow: () => update() }));
    const names = parts.map((part) => part.name).join();
    if (names === arranged) return;
    arranged = names;
    barsOfState.replaceChildren(...barNames().map((name) => barsOf(name).el));
    const shown = panel?.shown;
    panel = tabs(parts, { label: "what to look at" });
    if (shown) panel.show(shown);
    panels.replaceChildren(panel.el);
  }

  /** Show the ring of this state, and tell what it and the bars say. */
  function mount() {
    const m = moment();
    const picture = chart(`ring${m.columns}`, undefined, { class: "be-disk" });
    if (ring.firstChild !== picture.el) ring.replaceChildren(picture.el);
    const numbers = bars().params;
    for (const name of barNames()) {
      chart(name).el.setAttribute("aria-label", `${name} by cell, ${numbers[`${name} to`]}; ${numbers[`${name} about`]}`);
    }
    drawWords.textContent = m.drawWords ? `${m.drawWords[0].toUpperCase()}${m.drawWords.slice(1)}.` : "No sample was counted yet.";
  }

  const go = (cells) => () => selection.set(moved(moment(), selection.value, cells, order.value));
  const end = (last) => () => {
    const m = moment();
    const place = last ? Math.max(m.length - 1, 0) : 0;
    selection.set(order.value === "chronological" && m.cells === m.size ? rowAt(m, place) : place);
  };
  const nextSampled = () => {
    const all = sampled(moment());
    if (!all.length) return;
    const [row, col] = all[(all.findIndex(([r, c]) => r === selection.value && c === column.value) + 1) % all.length];
    column.set(Math.min(col, moment().columns - 1));
    selection.set(row);
  };
  keyboard(root, {
    ...bar.keys,
    ArrowRight: ["next row", go(1)], ArrowLeft: ["previous row", go(-1)], ArrowUp: ["ten rows back", go(-10)],
    ArrowDown: ["ten rows forward", go(10)], Home: ["first row", end(false)], End: ["last row", end(true)],
    PageUp: ["moment before", () => playhead.step(-1)], PageDown: ["moment after", () => playhead.step(1)],
    ...keys, s: ["next row that was sampled", nextSampled],
  }, ring);

  const pictures = { el: ring, update: mount };
  const update = own(framed(paint));
  function paint() {
    const m = moment();
    const [row, col] = [selection.value, column.value];
    words.textContent = `Moment ${here()} of ${head.moments.length - 1}: ${m.words}.`;
    about.textContent = [m.state, m.trajectories && `${m.trajectories}.`].filter(Boolean).join(" ");
    turn.textContent = `order: ${order.value}`;
    turn.setAttribute("aria-label", `order: ${order.value}, of the cells`);
    guarded(cell, m, row, col, beta);
    guarded(pictures);
    for (const part of [tree, weights, slices]) guarded(part);
    tellSlider(ring, m.size - 1, row, `row ${row}, ${facts(m, row, col, beta).map((pair) => pair.join(" ")).join(", ")}`);
    for (const one of charts.values()) one.invalidate();
    Object.assign(root.dataset, { t: here(), row, column: col, order: order.value, moments: head.moments.length, slice: sliceLen });
  }

  const arrival = own(motion(ANIMATE_MS, (share) => { phase = share; charts.get(`ring${moment().columns}`)?.invalidate(); }));
  /** Let what a moment wrote or drew appear one after the other. */
  function animate() {
    const m = moment();
    const moves = !reducedMotion() && (m.wrote[1] || m.drawn.length);
    phase = moves ? 0 : 1;
    if (moves) arrival.start();
    else arrival.stop();
  }

  const onHead = () => {
    version += 1;
    arrange();
    meanings.replaceChildren(legend(head.legend));
    root.setAttribute("aria-label", model.get("_label"));
    guarded(boxes, head);
    guarded(memory, head);
    notes.tell(head.notes);
  };
  listen("change:_cells", () => {
    head = model.get("_head");
    frame = reader(head, model.get("_cells"));
    marks = marksOf(head.moments);
    onHead();
    bar.paint();
    if (here() > shown) animate();
    shown = here();
    update();
  });
  own(playhead.subscribe(() => {
    if (here() === shown + 1) animate();
    else if (here() !== shown) phase = 1;
    shown = here();
    update();
  }));
  for (const channel of [order, selection, column]) channel.subscribe(update);
  onHead();
  paint();
});

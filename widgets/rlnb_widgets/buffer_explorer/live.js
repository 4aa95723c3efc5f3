// The BufferExplorer: the ring and what is known of the selected cell, the record under a playhead, and the panels.

import { button, Channel, clamp, errorBox, h, keyboard, timelineBar, visualizer } from "../_core/core.js";
import { barsPanel } from "./bars.js";
import { cellOf, placeOf, reader, rowAt, rowsOf, sampled } from "./frames.js";
import { cellAt, slotOf } from "./geometry.js";
import { boxesPanel, cellPanel, facts, legend, memoryPanel } from "./panels.js";
import { ringPanel } from "./ring.js";
import { slicesPanel } from "./slicing.js";
import { treePanel } from "./treepanel.js";
import { weightsPanel } from "./weights.js";

const ANIMATE_MS = 380;
const ORDERS = ["physical", "chronological"];

/** The row that a move by `cells` leads to, in an order. */
export function moved(m, row, cells, order) {
  if (m.cells === m.size && order === "chronological" && m.length === m.size) return rowAt(m, clamp(placeOf(m, row) + cells, 0, m.size - 1));
  const slot = clamp(slotOf(m, cellOf(m, row), order) + cells, 0, m.cells - 1);
  return rowsOf(m, cellAt(m, slot, order))[0];
}

/** Call a panel's update; where it fails, say so in its place and leave the others alone. */
function guarded(part, ...values) {
  if (part.failed) return;
  try {
    part.update(...values);
  } catch (error) {
    console.error(error);
    part.failed = true;
    part.el.replaceChildren(errorBox("This cannot be drawn.", error));
  }
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

export default visualizer("buffer-explorer", ({ model, root, playhead }) => {
  let head = model.get("_head");
  let frame = reader(head, model.get("_cells"));
  let marks = marksOf(head.moments);
  const here = () => clamp(playhead.t, 0, head.moments.length - 1);
  const moment = () => frame(here());
  const order = new Channel(model, "order", (v) => (ORDERS.includes(v) ? v : ORDERS[0]));
  const selection = new Channel(model, "selection", (v) => clamp(Math.round(Number(v) || 0), 0, moment().size - 1));
  const column = new Channel(model, "selected_env", (v) => clamp(Math.round(Number(v) || 0), 0, moment().columns - 1));
  let beta = moment().priorities ? clamp(moment().priorities.beta, 0, 1) : 0;
  let sliceLen = moment().slicing?.[0] ?? 1;
  let phase = 1;
  let animation = 0;
  let shown = here();

  const state = () => ({
    m: moment(), before: here() > 0 ? frame(here() - 1) : null, phase, order: order.value,
    row: selection.value, column: column.value, sliceLen, beta,
  });
  const select = (cell, col = column.value) => {
    const [first, after] = rowsOf(moment(), cell);
    column.set(col);
    if (selection.value < first || selection.value >= after) selection.set(first);
  };
  const boxes = boxesPanel();
  const ring = ringPanel(state, select);
  const cell = cellPanel({ onRow: (row) => selection.set(row), onColumn: (c) => column.set(c) });
  const bars = barsPanel(state, (c) => select(c));
  const tree = treePanel({ moment, row: () => selection.value, column: () => column.value, onLeaf: (row, col) => { select(cellOf(moment(), row), col); }, starts: head.slices });
  const weights = weightsPanel({ moment, row: () => selection.value, beta: () => beta, onBeta: (value) => { beta = value; update(); } });
  const slices = slicesPanel({ moment, size: () => sliceLen, onSize: (size) => { sliceLen = size; update(); }, strict: head.strict });
  const memory = memoryPanel();
  const bar = timelineBar(playhead, () => marks, "moment");
  const turn = button({ text: "", label: "order of the cells", title: "order of the cells (o)", onclick: () => order.set(ORDERS[1 - ORDERS.indexOf(order.value)]) });
  turn.classList.add("be-turn");
  bar.el.append(h("span", { class: "rlnb-group" }, turn));
  const words = h("p", { class: "be-words", "aria-live": "polite" });
  const about = h("p", { class: "rlnb-note be-state" });
  const notes = h("ul", { class: "rlnb-note be-notes" });

  root.setAttribute("role", "group");
  root.append(boxes.el, bar.el, words,
    h("div", { class: "be-top" }, ring.el, h("div", { class: "be-side" }, about, cell.el, legend())),
    bars.el, h("div", { class: "be-panels" }, tree.el, weights.el, slices.el, memory.el), notes);

  const go = (cells) => () => selection.set(moved(moment(), selection.value, cells, order.value));
  const end = (last) => () => {
    const m = moment();
    if (order.value === "chronological" && m.cells === m.size) selection.set(rowAt(m, last ? Math.max(m.length - 1, 0) : 0));
    else selection.set(last ? Math.max(m.length - 1, 0) : 0);
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
    o: ["physical or chronological order", () => turn.click()], s: ["next row that was sampled", nextSampled],
  }, ring.el);

  let queued = 0;
  const update = () => { if (!queued) queued = requestAnimationFrame(paint); };
  function paint() {
    queued = 0;
    const m = moment();
    const { row, column: col } = state();
    words.textContent = `Moment ${here()} of ${head.moments.length - 1}: ${m.words}.`;
    about.textContent = [m.state, m.trajectories && `${m.trajectories}.`].filter(Boolean).join(" ");
    turn.textContent = `${order.value} order`;
    guarded(cell, m, row, col, beta);
    for (const part of [bars, tree, weights, slices]) guarded(part);
    ring.el.setAttribute("aria-valuemax", String(m.size - 1));
    ring.el.setAttribute("aria-valuenow", String(row));
    ring.el.setAttribute("aria-valuetext", `row ${row}, ${facts(m, row, col, beta).map((pair) => pair.join(" ")).join(", ")}`);
    ring.invalidate();
    for (const [name, value] of Object.entries({ t: here(), row, column: col, order: order.value, moments: head.moments.length, slice: sliceLen })) root.setAttribute(`data-${name}`, String(value));
  }

  /** Let what a moment wrote or drew appear one after the other. */
  function animate() {
    cancelAnimationFrame(animation);
    const m = moment();
    const still = globalThis.matchMedia?.("(prefers-reduced-motion: reduce)").matches;
    if (still || !(m.wrote[1] || m.drawn.length)) { phase = 1; return; }
    const begun = performance.now();
    phase = 0;
    const tick = (now) => {
      phase = clamp((now - begun) / ANIMATE_MS, 0, 1);
      ring.invalidate();
      if (phase < 1) animation = requestAnimationFrame(tick);
    };
    animation = requestAnimationFrame(tick);
  }

  const onHead = () => {
    root.setAttribute("aria-label", model.get("_label"));
    guarded(boxes, head);
    guarded(memory, head);
    notes.replaceChildren(...head.notes.map((note) => h("li", {}, note)));
    notes.hidden = !head.notes.length;
  };
  const onCells = () => {
    head = model.get("_head");
    frame = reader(head, model.get("_cells"));
    marks = marksOf(head.moments);
    onHead();
    bar.paint();
    if (here() > shown) animate();
    shown = here();
    update();
  };
  model.on("change:_cells", onCells);
  const stop = playhead.subscribe(() => {
    if (here() === shown + 1) animate();
    else if (here() !== shown) phase = 1;
    shown = here();
    update();
  });
  for (const channel of [order, selection, column]) channel.subscribe(update);
  onHead();
  paint();
  return () => {
    stop();
    model.off("change:_cells", onCells);
    cancelAnimationFrame(queued);
    cancelAnimationFrame(animation);
    for (const channel of [order, selection, column]) channel.dispose();
    for (const part of [ring, bars, tree, weights, slices, bar]) part.destroy();
  };
});

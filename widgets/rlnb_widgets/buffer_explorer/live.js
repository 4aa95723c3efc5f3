// The BufferExplorer: the ring and what is known of the selected cell, the record under a playhead, and the panels.

import { Channel, arrived, clamp, drag, framed, guarded, h, keyButton, keyboard, legend, motion, noteList, reducedMotion, surface, tabs, tellSlider, timelineBar, unpacked, visualizer } from "../_core/core.js";
import { slicesPanel, treePanel, weightsPanel } from "./controls.js";
import { boxesPanel, cellPanel, facts, memoryPanel } from "./panels.js";
import { barNumbers, cellAt, cellOf, curveNumbers, hit, lengthNumbers, reader, ringColumns, ringParams, rowsOf, slotOf, sumTree } from "./values.js";

const ANIMATE_MS = 380;
const ORDERS = ["physical", "chronological"];

export default visualizer("buffer-explorer", async ({ model, root, playhead, own, listen }) => {
  let lists = unpacked(await arrived(model, "_lists"));
  let head = model.get("_head");
  let frame = reader(head, model.get("_cells"));
  const here = () => clamp(playhead.t, 0, head.moments.length - 1);
  const moment = () => frame(here());
  const within = (name, last) => own(new Channel(model, name, (v) => clamp(Math.round(Number(v) || 0), 0, last() - 1)));
  const order = own(new Channel(model, "order", (v) => (ORDERS.includes(v) ? v : ORDERS[0])));
  const selection = within("selection", () => moment().size);
  const column = within("selected_env", () => moment().columns);
  let beta = moment().priorities ? clamp(moment().priorities.beta, 0, 1) : 0;
  let sliceLen = moment().asked ?? 1;
  let phase = 1;
  let shown = here();

  const before = () => (here() > 0 ? frame(here() - 1) : null);
  const cellNow = () => cellOf(moment(), selection.value);
  const select = (cell, col = column.value) => {
    const [first, after] = rowsOf(moment(), cell);
    column.set(col);
    if (selection.value < first || selection.value >= after) selection.set(first);
  };

  // The columns and parameters of the lists, computed anew for each picture.
  let made;
  function compute() {
    const [m, old] = [moment(), before()];
    const [tree, bars] = [sumTree(m), barNumbers(m, order.value, beta)];
    const [lengths, curves] = [lengthNumbers(m, sliceLen), curveNumbers(m, cellNow(), beta)];
    const ring = { columns: ringColumns(m, old, phase, sliceLen), params: ringParams(m, old, phase, order.value, selection.value, column.value) };
    const all = (name) => Object.assign({}, ...[ring, bars, tree, lengths, curves].map((part) => part[name]));
    made = { tree, curves: curves.curves, columns: all("columns"), params: all("params") };
  }
  compute();
  // A picture that is about to be replaced may ask for what this moment has not.
  const columnOf = (name) => made.columns[name] ?? [];
  const charts = new Map();
  const chart = (name, more = () => ({}), attributes = { class: "be-chart", role: "img" }) => {
    if (!charts.has(name) && lists[name]) {
      charts.set(name, own(surface(lists[name], columnOf, { params: () => ({ ...made.params, ...more() }), ...attributes })));
    }
    return charts.get(name);
  };

  const boxes = boxesPanel();
  const ring = h("div", { class: "be-ring", tabindex: 0, role: "slider", "aria-label": "cell of the ring" });
  const cell = cellPanel({ onRow: (row) => selection.set(row), onColumn: (c) => column.set(c) });
  const drawWords = h("p", { class: "rlnb-small" });
  const barsOfState = h("div", { class: "be-bars" });
  const row = () => selection.value;
  const tree = own(treePanel({
    moment, tree: () => made.tree, row, column: () => column.value, starts: head.slices,
    onLeaf: (at, col) => select(cellOf(moment(), at), col), repaint: () => update(),
    chart: (levels) => chart(`tree${levels}`, () => tree.params()),
  }));
  const weights = weightsPanel({
    moment, curves: () => made.curves, row, beta: () => beta, onBeta: (value) => { beta = value; update(); },
    chart: () => chart("curves"),
  });
  const slices = slicesPanel({
    moment, size: () => sliceLen, onSize: (size) => { sliceLen = size; update(); }, strict: head.strict, chart: () => chart("lengths"),
  });
  const memory = memoryPanel({ chart: () => chart("memory") });
  const page = (by) => playhead.step(by);
  const bar = own(timelineBar(playhead, () => head.marks, "moment", null, page));
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

  /** Bars, in which a click chooses a cell. */
  const bars = () => ["draws", "priorities", "weights"].filter((name) => lists[name]).map((name) => [name, chart(name).el]);
  drag(barsOfState, (event) => {
    const found = bars().map(([name]) => chart(name).at(event)).find(Boolean);
    if (found) select(cellAt(moment(), clamp(Math.floor(found.value), 0, moment().cells - 1), order.value));
    return Boolean(found);
  });

  /** The tabs that there is something for; what slices are is not taught before the sampler draws some. */
  let arranged = null;
  let panel = null;
  function arrange() {
    const parts = [
      ["row", "Selected row", cell], lists.curves && ["tree", "Sum tree", tree], lists.curves && ["weights", "Weights", weights],
      lists.lengths && ["slices", "Slices", slices], ["memory", "Memory", memory], ["parts", "Components", boxes],
    ].filter(Boolean).map(([name, title, { el }]) => ({ name, title, el, onshow: () => update() }));
    const names = parts.map((part) => part.name).join();
    if (names === arranged) return;
    arranged = names;
    barsOfState.replaceChildren(...bars().map(([, el]) => el));
    const before = panel?.shown;
    panel = tabs(parts, { label: "what to look at", level: true });
    if (before) panel.show(before);
    panels.replaceChildren(panel.el);
  }

  /** Show the ring of this state, and tell what it and the bars say. */
  function mount() {
    const m = moment();
    const picture = chart(`ring${m.columns}`, undefined, { class: "be-disk" });
    if (ring.firstChild !== picture.el) ring.replaceChildren(picture.el);
    const said = made.params;
    for (const [name, el] of bars()) el.setAttribute("aria-label", `${name} by cell, ${said[`${name} to`]}; ${said[`${name} about`]}`);
  }

  const go = (cells) => () => {
    const slot = clamp(slotOf(moment(), cellNow(), order.value) + cells, 0, moment().cells - 1);
    selection.set(rowsOf(moment(), cellAt(moment(), slot, order.value))[0]);
  };
  const end = (last) => () => {
    const m = moment();
    const first = order.value === "chronological" && m.cells === m.size ? m.first : 0;
    selection.set((first + (last ? Math.max(m.length - 1, 0) : 0)) % m.size);
  };
  const nextSampled = () => {
    const all = moment().sampled;
    if (!all.length) return;
    const [at, col] = all[(all.findIndex(([r, c]) => r === selection.value && c === column.value) + 1) % all.length];
    column.set(col);
    selection.set(at);
  };
  keyboard(root, {
    ...bar.keys,
    ArrowRight: ["next row", go(1)], ArrowLeft: ["previous row", go(-1)], ArrowUp: ["ten rows back", go(-10)],
    ArrowDown: ["ten rows forward", go(10)], Home: ["first row", end(false)], End: ["last row", end(true)],
    PageUp: ["moment before", () => page(-1)], PageDown: ["moment after", () => page(1)],
    ...keys, s: ["next row that was sampled", nextSampled],
  }, ring);

  const pictures = { el: ring, update: mount };
  const update = own(framed(paint));
  function paint() {
    compute();
    const m = moment();
    const [at, col] = [selection.value, column.value];
    words.textContent = `Moment ${here()} of ${head.moments.length - 1}: ${m.words}.`;
    words.hidden = head.moments.length < 2;
    about.textContent = m.state;
    drawWords.textContent = m.drawWords;
    turn.textContent = `order: ${order.value}`;
    turn.setAttribute("aria-label", `order: ${order.value}, of the cells`);
    guarded(cell, m, at, col, beta);
    for (const part of [pictures, tree, weights, slices]) guarded(part);
    tellSlider(ring, m.size - 1, at, `row ${at}, ${facts(m, at, col, beta).map((pair) => pair.join(" ")).join(", ")}`);
    for (const one of charts.values()) one.invalidate();
    Object.assign(root.dataset, { t: here(), row: at, column: col, order: order.value, moments: head.moments.length, slice: sliceLen });
  }

  const arrival = own(motion(ANIMATE_MS, (share) => { phase = share; compute(); charts.get(`ring${moment().columns}`)?.invalidate(); }));
  /** Let what a moment wrote or drew appear one after the other. */
  function animate() {
    const m = moment();
    const moves = !reducedMotion() && (m.wrote[1] || m.drawn.length);
    phase = moves ? 0 : 1;
    if (moves) arrival.start();
    else arrival.stop();
  }

  const onHead = () => {
    arrange();
    meanings.replaceChildren(legend(head.legend));
    root.setAttribute("aria-label", model.get("_label"));
    chart("memory").show(lists.memory, columnOf);
    for (const part of [boxes, memory]) guarded(part, head);
    notes.tell(head.notes);
  };
  listen("change:_cells", async () => {
    // All at once: another number of columns is another ring.
    lists = unpacked(await arrived(model, "_lists"));
    head = model.get("_head");
    frame = reader(head, model.get("_cells"));
    onHead();
    bar.paint();
    if (here() > shown) animate();
    shown = here();
    for (const channel of [selection, column]) channel.fromModel(); // cells of these data may have come before them
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

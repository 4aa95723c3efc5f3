// What the page computes of a recorded state: rows and cells, and the columns and parameters of the display lists.

import { text, typed } from "../_core/core.js";
import { levelsOf } from "./sumtree.js";

const ARRAYS = ["age", "touched", "draws", "expected", "drawn", "slices", "arcs", "lengths"];
const [MIDDLE, RADIUS] = [150, 112]; // of the ring, as in values.py
const TURN = 2 * Math.PI;
const SHADES = 8;
const LIFTS = 3;

/** Make a function that reads moment i: the description with its arrays; read once. */
export function reader(head, blob) {
  const known = new Map();
  return (i) => {
    if (!known.has(i)) {
      const moment = { ...head.moments[i] };
      for (const name of ARRAYS) moment[name] = typed(blob, ...moment[name]);
      if (moment.priorities) moment.priorities = { ...moment.priorities, sums: typed(blob, ...moment.priorities.sums) };
      known.set(i, moment);
    }
    return known.get(i);
  };
}

/** The cell that a row lies in. */
export const cellOf = (m, row) => Math.floor((row * m.cells) / m.size);

/** The rows of a cell: [first, one after the last]. */
export const rowsOf = (m, cell) => [Math.ceil((cell * m.size) / m.cells), Math.ceil(((cell + 1) * m.size) / m.cells)];

/** How many rows of a cell are filled, in one column. */
export function filledIn(m, cell) {
  const [from, to] = rowsOf(m, cell);
  return Math.max(Math.min(to, m.length) - from, 0);
}

/** The trajectories as objects: { column, start, length, id, begun, ended }. */
export function arcsOf(m) {
  const found = [];
  for (let i = 0; i < m.arcs.length; i += 5) {
    const [column, start, length, id, flags] = m.arcs.slice(i, i + 5);
    found.push({ column, start, length, id, begun: (flags & 1) > 0, ended: (flags & 2) > 0 });
  }
  return found;
}

/** The trajectory that an item belongs to, and its step in it; null where none is known. */
export function trajectoryAt(m, row, column) {
  for (const arc of arcsOf(m)) {
    const step = (row - arc.start + m.size) % m.size;
    if (arc.column === column && step < arc.length) return { ...arc, step };
  }
  return null;
}

/** How old a row is: how many rows were written after it; null where it is empty or not known. */
export function ageOf(m, row) {
  if (row >= m.length) return null;
  if (!m.ordered) return m.cells === m.size && m.age[row] >= 0 ? m.age[row] : null;
  const last = m.first === m.cursor && m.length === m.limit ? m.cursor - 1 : m.length - 1;
  return (last - row + m.size) % m.size;
}

/** The place of a row in order of time, 0 for the oldest, and the row at a place. */
export const placeOf = (m, row) => (row - m.first + m.size) % m.size;
export const rowAt = (m, place) => (place + m.first) % m.size;

/** The items of the last sample as [row, column], each once, in the order of the draws. */
export function sampled(m) {
  const seen = new Set(m.drawn);
  return [...seen].map((position) => [Math.floor(position / m.all), position % m.all]);
}

/** Sums of a [columns, cells] array over the columns. */
export function overColumns(m, values) {
  const sums = new Float64Array(m.cells);
  for (let i = 0; i < values.length; i++) sums[i % m.cells] += values[i];
  return sums;
}

const n = (x) => x.toLocaleString("en");
export const short = (x, digits = 3) => text(Number(x.toPrecision(digits)));

// Where cells lie on the ring and in the bars, in physical or chronological order.

/** The cell that comes first. */
const firstCell = (m, order) => (order === "chronological" ? cellOf(m, m.first) : 0);

/** The place of a cell in the order, and the cell at a place. */
export const slotOf = (m, cell, order) => (cell - firstCell(m, order) + m.cells) % m.cells;
export const cellAt = (m, slot, order) => (slot + firstCell(m, order)) % m.cells;

const gapOf = (m) => (m.cells <= 128 ? 0.12 : 0);

/** The turn at which a row begins, 0 at the top, clockwise. */
export function turnOf(m, row, order) {
  // Counted in cells where several rows share one, so that a row begins where its cell does.
  const top = m.cells < m.size ? (firstCell(m, order) * m.size) / m.cells : order === "chronological" ? m.first : 0;
  return ((((row - top) % m.size) + m.size) % m.size) / m.size;
}

/** The turns at which a cell begins and ends. */
export function spanOf(m, cell, order) {
  const slot = slotOf(m, cell, order);
  return [slot / m.cells, (slot + 1 - gapOf(m)) / m.cells];
}

/** Radii of the rings, the first column outermost: { thick, inner }. */
export function radii(m) {
  const thick = Math.min((0.42 * RADIUS) / m.columns, 40);
  return { thick, inner: RADIUS - (m.columns - 1 + 0.66) * thick };
}

/** The cell and column under a point of the ring's picture, or null. */
export function hit(m, px, py, order) {
  const [x, y] = [px - MIDDLE, py - MIDDLE];
  const { thick, inner } = radii(m);
  const r = Math.hypot(x, y);
  if (r > RADIUS + 24 || r < inner - 4) return null;
  const turn = (Math.atan2(x, -y) / TURN + 1) % 1;
  const slot = Math.min(Math.floor(turn * m.cells), m.cells - 1);
  const column = Math.min(Math.max(Math.floor((RADIUS - r) / thick), 0), m.columns - 1);
  return { cell: cellAt(m, slot, order), column };
}

/** While a write is shown: how many of its rows are written when `phase` of it, 0 to 1, is over. */
const writtenAt = (m, phase) => Math.round(m.wrote[1] * phase);

/** Whether a row was written by this state's call, and is so already at `phase`: "no", "yet" or "done". */
export function writing(m, row, phase) {
  const [start, count] = m.wrote;
  const place = (row - start + m.size) % m.size;
  if (place >= count) return "no";
  return place < writtenAt(m, phase) ? "done" : "yet";
}

// Columns and parameters of the lists; values.py computes the same for the static view.

const shadesOf = (ages) => {
  const most = ages.reduce((a, b) => Math.max(a, b), 1);
  return Uint8Array.from(ages, (age) => (age === -1 ? 0 : age === -2 ? 1 : 2 + Math.round((SHADES * age) / most)));
};

/** The columns of the ring; while `phase` is below 1, cells not yet written show what they held in `before`. */
export function ringColumns(m, before, phase, order, sliceLen) {
  const moving = phase < 1 && before && before.cells === m.cells;
  const cells = Array.from({ length: m.cells }, (_, cell) => cell);
  const spans = cells.map((cell) => spanOf(m, cell, order));
  const done = cells.map((cell) => !moving || (m.touched[cell] > 0 && writing(m, rowsOf(m, cell)[0], phase) === "done"));
  const [now, then] = [shadesOf(m.age), moving ? shadesOf(before.age) : null];
  const ages = cells.map((cell) => (done[cell] ? now : then)[cell]);
  const found = {
    from: spans.map(([from]) => from),
    to: spans.map(([, to]) => to),
    ages,
    edges: cells.map((cell) => (m.touched[cell] && done[cell] ? m.touched[cell] + 1 : ages[cell] === 0 ? 0 : gapOf(m) ? 1 : 4)),
  };
  const drawn = sampled(m);
  const shown = new Set(drawn.slice(0, Math.ceil(drawn.length * phase)).map(([row, column]) => `${cellOf(m, row)},${column}`));
  const slices = Array.from({ length: Math.ceil((m.slices.length / 3) * phase) }, (_, i) => m.slices.slice(3 * i, 3 * i + 3));
  const arcs = arcsOf(m);
  for (let c = 0; c < m.columns; c++) {
    found[`drawn${c}`] = cells.map((cell) => (shown.has(`${cell},${c}`) ? 1 : 0));
    const own = arcs.map((arc, i) => ({ ...arc, kind: arc.length < sliceLen ? 2 : i % 2 })).filter((arc) => arc.column === c);
    found[`arcs from${c}`] = own.map((arc) => turnOf(m, arc.start, order));
    found[`arcs to${c}`] = own.map((arc, i) => found[`arcs from${c}`][i] + Math.max(arc.length / m.size - Math.min(0.25 / m.size, 0.005), 0.0006));
    found[`arcs${c}`] = own.map((arc) => arc.kind);
    for (let lane = 0; lane < (m.columns === 1 ? LIFTS : 1); lane++) {
      const some = slices.filter(([column], i) => column === c && (m.columns > 1 || i % LIFTS === lane));
      found[`slices${lane} from${c}`] = some.map(([, row]) => turnOf(m, row, order));
      found[`slices${lane} to${c}`] = some.map(([, row, length]) => turnOf(m, row, order) + length / m.size);
    }
  }
  return found;
}

/** The parameters of the ring, and of what is selected in it and in the bars. */
export function ringParams(m, before, phase, order, row, column) {
  const moving = phase < 1 && before && m.wrote[1] > 0;
  const cursor = (moving ? m.wrote[0] + writtenAt(m, phase) : m.cursor) % m.size;
  const half = (0.5 * (1 - gapOf(m))) / m.cells;
  const [from, zero, turn] = [turnOf(m, cursor, order), turnOf(m, 0, order) + half, turnOf(m, cursor, order) + half];
  const cell = cellOf(m, row);
  const [chosen, chosenTo] = spanOf(m, cell, order);
  const found = {
    cells: m.cells, slot: slotOf(m, cell, order), selected: 1, filled: n(m.length), room: m.room, next: `next: row ${n(cursor)}`,
    turns: m.turns && m.length > 0 ? 1 : 0, seam: m.seam && !moving ? 1 : 0, cursor: turn, "seam at": from - (0.5 * gapOf(m)) / m.cells,
    "zero x": MIDDLE + 139 * Math.sin(TURN * zero), "zero y": MIDDLE - 139 * Math.cos(TURN * zero) + 4,
    chosen, "chosen to": chosenTo,
  };
  const { inner } = radii(m);
  [[0, inner - 8], [-0.018, inner - 18], [0.018, inner - 18]].forEach(([shift, r], k) => {
    found[`tip${k} x`] = MIDDLE + r * Math.sin(TURN * (turn + shift));
    found[`tip${k} y`] = MIDDLE - r * Math.cos(TURN * (turn + shift));
  });
  for (let c = 0; c < m.columns; c++) found[`in${c}`] = c === Math.min(column, m.columns - 1) ? 1 : 0;
  return found;
}

/** The weight of an item: (its stored priority / the smallest)^-beta. */
export const weight = (priority, least, beta) => (priority > 0 && least > 0 ? (priority / least) ** -beta : 0);

/** The mean stored priority of the items of each cell. */
export function meanPriorities(m) {
  const sums = overColumns(m, m.priorities.sums);
  return sums.map((sum, cell) => { const count = filledIn(m, cell) * m.columns; return count ? sum / count : 0; });
}

/** The columns and parameters of the bars. */
export function barNumbers(m, order, beta) {
  const inOrder = (values) => Float64Array.from(values, (_, slot) => values[cellAt(m, slot, order)]);
  const [columns, params] = [{ expected: [] }, {}];
  const add = (name, values, about, line = []) => {
    columns[name] = inOrder(values);
    const most = Math.max(columns[name].reduce((a, b) => Math.max(a, b), 0), line.reduce((a, b) => Math.max(a, b), 0));
    Object.assign(params, { [`${name} most`]: most, [`${name} to`]: `to ${short(most)}`, [`${name} about`]: about });
  };
  // Before the first sample nothing is expected, either.
  const known = m.expected.some((share) => share > 0);
  if (known) columns.expected = inOrder(overColumns(m, m.expected));
  const about = known ? "dashed: expected" : m.draws.some((count) => count > 0) ? "expected: not known" : "none yet";
  add("draws", overColumns(m, m.draws), about, columns.expected);
  const p = m.priorities;
  add("priorities", p ? overColumns(m, p.sums) : [], p ? `stored, sum ${text(p.total)}` : "");
  add("weights", p ? meanPriorities(m).map((mean) => weight(mean, p.least, beta)) : [], `at beta ${beta.toFixed(2)}`);
  return { columns, params };
}

/** The leaves of the sum tree: the priorities of the cells, those of one row beside each other. */
export function leavesOf(m) {
  const leaves = new Float64Array(m.cells * m.columns);
  for (let cell = 0; cell < m.cells; cell++) {
    for (let column = 0; column < m.columns; column++) leaves[cell * m.columns + column] = m.priorities.sums[column * m.cells + cell];
  }
  return leaves;
}

/** The levels of the sum tree, and its columns. */
export function treeNumbers(m) {
  if (!m.priorities) return { levels: [], columns: {} };
  const levels = levelsOf(leavesOf(m));
  const columns = {};
  levels.forEach((level, depth) => {
    let sum = 0;
    const stops = level.map((value) => (sum += value));
    Object.assign(columns, { [`node${depth}`]: stops.map((stop, i) => stop - level[i]), [`node${depth} to`]: stops, [`sum${depth}`]: level });
  });
  return { levels, columns };
}

/** The curves of weights against beta: columns, parameters, and [name, priority] of each. */
export function curveNumbers(m, cell, beta) {
  const p = m.priorities;
  const here = p ? meanPriorities(m)[cell] : 0;
  const curves = p && p.total > 0 ? [["smallest", p.least], ["largest", p.most], ...(here > 0 ? [["here", here]] : [])] : [];
  const columns = { smallest: [], largest: [], here: [] };
  const params = { beta: 60 * beta + 0.5 };
  for (const name of Object.keys(columns)) Object.assign(params, { [`${name} shown`]: 0, [`${name} y`]: 0 });
  for (const [name, priority] of curves) {
    columns[name] = Array.from({ length: 61 }, (_, i) => weight(priority, p.least, i / 60));
    Object.assign(params, { [`${name} shown`]: 1, [`${name} y`]: 128 - 120 * weight(priority, p.least, beta) });
  }
  return { columns, params, curves };
}

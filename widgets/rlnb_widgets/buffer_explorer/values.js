// What the page computes of a recorded state: rows and cells, columns and parameters of the display lists, slices of a length.

import { clamp, plural, search, text, typed } from "../_core/core.js";

const ARRAYS = ["age", "ages", "edges", "draws", "expected", "drawn", "slices", "arcs", "lengths"];
const [MIDDLE, RADIUS] = [150, 112]; // of the ring, as in values.py
const TURN = 2 * Math.PI;
const LANES = 3;

/** Groups of `n` consecutive numbers. */
const grouped = (values, n) => Array.from({ length: values.length / n }, (_, i) => [...values.slice(n * i, n * (i + 1))]);

/** Make a function that reads moment i: the description with its arrays, trajectories and sampled items; read once. */
export function reader(head, blob) {
  const known = new Map();
  const moments = [];
  for (const changes of head.moments) moments.push({ ...moments.at(-1), ...changes });
  const read = (moment) => {
    const m = { ...moment, ...Object.fromEntries(ARRAYS.map((name) => [name, typed(blob, ...moment[name])])) };
    if (m.priorities) m.priorities = { ...m.priorities, sums: typed(blob, ...m.priorities.sums) };
    m.arcs = grouped(m.arcs, 5).map(([column, start, length, id, flags]) => ({ column, start, length, id, begun: (flags & 1) > 0, ended: (flags & 2) > 0 }));
    m.slices = grouped(m.slices, 3);
    m.lengths = grouped(m.lengths, 2);
    const times = new Map();
    for (const position of m.drawn) times.set(position, (times.get(position) ?? 0) + 1);
    // Each item once, as [row, column], in the order of the draws, and how often it was drawn.
    m.sampled = [...times.keys()].map((position) => [Math.floor(position / m.all), position % m.all]);
    m.times = [...times.values()];
    return m;
  };
  return (i) => {
    if (!known.has(i)) known.set(i, read(moments[i]));
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

/** How old a filled row is: how many rows were written after it; null where it is not known. */
export function ageOf(m, row) {
  if (m.ordered) return (m.newest - row + m.size) % m.size;
  return m.cells === m.size && m.age[row] >= 0 ? m.age[row] : null;
}

/** Sums of a [columns, cells] array over the columns; of an array without numbers none. */
export function overColumns(m, values) {
  const sums = new Float64Array(values.length ? m.cells : 0);
  values.forEach((value, i) => { sums[i % m.cells] += value; });
  return sums;
}

/** An item of a sample on its chip, by its place in it: [what is written, what a screen reader says]. */
export function chipWords(m, i) {
  const [[row, column], times] = [m.sampled[i], m.times[i]];
  const [written, said] = m.all > 1 ? [`${n(row)},${column}`, `row ${row}, column ${column}`] : [n(row), `row ${row}`];
  return times > 1 ? [`${written} ×${times}`, `${said}, drawn ${times} times`] : [written, said];
}

export const n = (x) => x.toLocaleString("en");
export const short = (x, digits = 3) => text(Number(x.toPrecision(digits)));

// Where cells lie on the ring and in the bars, in physical or chronological order.

/** The cell that comes first. */
const firstCell = (m, order) => (order === "chronological" ? cellOf(m, m.first) : 0);

/** The place of a cell in the order, and the cell at a place. */
export const slotOf = (m, cell, order) => (cell - firstCell(m, order) + m.cells) % m.cells;
export const cellAt = (m, slot, order) => (slot + firstCell(m, order)) % m.cells;

const gapOf = (m) => (m.cells <= 128 ? 0.12 : 0);

/** The cell and column under a point of the ring's picture, or null; the ring of the first column is outermost. */
export function hit(m, px, py, order) {
  const [x, y] = [px - MIDDLE, py - MIDDLE];
  const thick = Math.min((0.42 * RADIUS) / m.columns, 40);
  const r = Math.hypot(x, y);
  if (r > RADIUS + 24 || r < RADIUS - (m.columns - 1 + 0.66) * thick - 4) return null;
  const turn = (Math.atan2(x, -y) / TURN + 1) % 1;
  const column = clamp(Math.floor((RADIUS - r) / thick), 0, m.columns - 1);
  return { cell: cellAt(m, Math.min(Math.floor(turn * m.cells), m.cells - 1), order), column };
}

/** While a write is shown: how many of its rows are written when `phase` of it, 0 to 1, is over. */
const writtenAt = (m, phase) => Math.round(m.wrote[1] * phase);

// Columns and parameters of the lists; values.py computes the same for the static view.

/** The columns of the ring; while `phase` is below 1, cells not yet written show what they held in `before`. */
export function ringColumns(m, before, phase, sliceLen) {
  const cells = Array.from({ length: m.cells }, (_, cell) => cell);
  const old = phase < 1 && before?.cells === m.cells ? before.ages : null;
  const placeOf = (cell) => (rowsOf(m, cell)[0] - m.wrote[0] + m.size) % m.size; // in the order of the write
  const done = (cell) => !old || ([2, 3].includes(m.edges[cell]) && placeOf(cell) < writtenAt(m, phase));
  const plain = gapOf(m) ? 1 : 4;
  const found = {
    from: cells.map((cell) => cell / m.cells),
    to: cells.map((cell) => (cell + 1 - gapOf(m)) / m.cells),
    ages: cells.map((cell) => (done(cell) ? m.ages : old)[cell]),
    edges: cells.map((cell) => (done(cell) ? m.edges[cell] : old[cell] && plain)),
  };
  const shown = m.sampled.slice(0, Math.ceil(m.sampled.length * phase));
  const slices = m.slices.slice(0, Math.ceil(m.slices.length * phase));
  const arcs = m.arcs.map((arc, i) => ({ ...arc, kind: arc.length < sliceLen ? 2 : i % 2 }));
  const lanes = m.columns === 1 ? LANES : 1;
  for (let c = 0; c < m.columns; c++) {
    const drawn = new Set(shown.filter(([, column]) => column === c).map(([row]) => cellOf(m, row)));
    const own = arcs.filter((arc) => arc.column === c);
    const begin = own.map((arc) => arc.start / m.size);
    Object.assign(found, {
      [`drawn${c}`]: cells.map((cell) => Number(drawn.has(cell))), [`arcs from${c}`]: begin, [`arcs${c}`]: own.map((arc) => arc.kind),
      [`arcs to${c}`]: own.map((arc, i) => begin[i] + Math.max(arc.length / m.size - Math.min(0.25 / m.size, 0.005), 0.0006)),
    });
    for (let lane = 0; lane < lanes; lane++) {
      const some = slices.filter(([column], i) => column === c && i % lanes === lane);
      found[`slices${lane} from${c}`] = some.map(([, row]) => row / m.size);
      found[`slices${lane} to${c}`] = some.map(([, row, length]) => (row + length) / m.size);
    }
  }
  return found;
}

/** The parameters of the ring, and of what is selected in it and in the bars. */
export function ringParams(m, before, phase, order, row, column) {
  const moving = phase < 1 && before && m.wrote[1] > 0;
  const cursor = (moving ? m.wrote[0] + writtenAt(m, phase) : m.cursor) % m.size;
  const [cell, first] = [cellOf(m, row), firstCell(m, order)];
  const angle = (at) => TURN * (at / m.size + (0.5 * (1 - gapOf(m)) - first) / m.cells);
  const chosen = Array.from({ length: m.columns }, (_, c) => [`in${c}`, Number(c === Math.min(column, m.columns - 1))]);
  return {
    cells: m.cells, slot: slotOf(m, cell, order), selected: 1, filled: n(m.length), room: m.room, next: `next: row ${n(cursor)}`,
    turns: Number(m.turns && m.length > 0), seam: Number(m.seam && !moving), "seam at": -0.5 / m.cells, cursor: angle(cursor),
    turned: (-TURN * first) / m.cells, zero: angle(0), upright: -angle(0),
    chosen: cell / m.cells, "chosen to": (cell + 1 - gapOf(m)) / m.cells, ...Object.fromEntries(chosen),
  };
}

/** The weight of an item: (its stored priority / the smallest)^-beta. */
export const weight = (priority, least, beta) => (priority > 0 && least > 0 ? (priority / least) ** -beta : 0);

/** The mean stored priority of the items of each cell. */
export function meanPriorities(m) {
  return overColumns(m, m.priorities.sums).map((sum, cell) => sum / (filledIn(m, cell) * m.columns || 1));
}

/** The columns and parameters of the bars. */
export function barNumbers(m, order, beta) {
  const inOrder = (values) => Float64Array.from(values, (_, slot) => values[cellAt(m, slot, order)]);
  const p = m.priorities;
  const columns = {
    draws: inOrder(overColumns(m, m.draws)), expected: inOrder(overColumns(m, m.expected)), priorities: inOrder(overColumns(m, p?.sums ?? [])),
    weights: inOrder(p ? meanPriorities(m).map((mean) => weight(mean, p.least, beta)) : []),
  };
  const params = {};
  for (const [name, about] of Object.entries({ ...m.about, weights: `at beta ${beta.toFixed(2)}` })) {
    const most = Math.max(0, ...columns[name], ...(name === "draws" ? columns.expected : []));
    Object.assign(params, { [`${name} most`]: most, [`${name} to`]: `at most ${short(most)}`, [`${name} about`]: about });
  }
  return { columns, params };
}

/**
 * The sum tree with two children a node: { levels, columns, span(depth, node), leafAt(mass) }.
 *
 * Its leaves are the priorities of the cells, those of one row beside each other. A node spans the masses of the leaves
 * below it: span() is where they begin and end, leafAt() the leaf in whose span a mass lies.
 */
export function sumTree(m) {
  const count = m.priorities ? m.cells * m.columns : 0;
  const masses = new Float64Array(count + 1);
  for (let i = 0; i < count; i++) masses[i + 1] = masses[i] + m.priorities.sums[(i % m.columns) * m.cells + Math.floor(i / m.columns)];
  const levels = count && 1 + Math.ceil(Math.log2(count));
  const span = (depth, node) => [node, node + 1].map((i) => masses[Math.min(i * 2 ** (levels - 1 - depth), count)]);
  const columns = {};
  for (let depth = 0; depth < levels; depth++) {
    const spans = Array.from({ length: Math.ceil(count / 2 ** (levels - 1 - depth)) }, (_, node) => span(depth, node));
    const [starts, stops] = [0, 1].map((side) => spans.map((each) => each[side]));
    Object.assign(columns, { [`node${depth}`]: starts, [`node${depth} to`]: stops, [`sum${depth}`]: spans.map(([a, b]) => b - a) });
  }
  // The first leaf that ends above the mass has a priority above 0; at the end of all it is the last of them.
  const leafAt = (mass) => search(masses, Math.min(mass, masses[count] * (1 - 1e-12)), true) - 1;
  return { levels, columns, span, leafAt };
}

/** What happens at a level on the way to the leaf of a mass, in words. nameOf(leaf) names what is drawn. */
export function stepWords(tree, mass, depth, nameOf) {
  const below = tree.levels - 1 - depth;
  const node = Math.floor(tree.leafAt(mass) / 2 ** below);
  const [start, stop] = tree.span(depth, node);
  const number = (x) => short(x, 4);
  if (below === 0) {
    const name = nameOf(node);
    return `${name} is drawn; ${name.startsWith("one of") ? "their priorities add up to" : "its priority is"} ${number(stop - start)}`;
  }
  const where = `${depth === 0 ? "root" : `level ${depth}, node ${node}`}, sum ${number(stop - start)}: ${number(mass - start)} is`;
  const [, middle] = tree.span(depth + 1, 2 * node);
  const left = `below ${number(middle - start)}, the sum on the left; go`;
  return mass < middle ? `${where} ${left} left` : `${where} not ${left} right with ${number(mass - middle)}`;
}

/** The curves of weights against beta: columns, parameters, and [name, priority] of each. */
export function curveNumbers(m, cell, beta) {
  const p = m.priorities;
  const found = { columns: {}, params: { beta: 60 * beta + 0.5 }, curves: [] };
  for (const [name, priority] of Object.entries({ smallest: p?.least, largest: p?.most, here: p && meanPriorities(m)[cell] })) {
    const shown = Number(p?.total > 0 && priority > 0);
    found.columns[name] = Array.from({ length: 61 * shown }, (_, i) => weight(priority, p.least, i / 60));
    Object.assign(found.params, { [`${name} shown`]: shown, [`${name} y`]: shown && 128 - 120 * weight(priority, p.least, beta) });
    if (shown) found.curves.push([name, priority]);
  }
  return found;
}

/**
 * What is possible with slices of a length, of [length, count] pairs: how many trajectories they fit into, of how many,
 * at how many places they can begin, how many trajectories are shorter, and the longest. Where not `strict`, shorter
 * trajectories are drawn whole. slices.py counts the same.
 */
export function fitting(lengths, size, strict = true) {
  const sum = (each) => lengths.reduce((all, [length, count]) => all + each(length) * count, 0);
  const fits = (length) => Number(!strict || length >= size);
  return {
    fit: sum(fits), total: sum(() => 1), short: sum((length) => Number(length < size)),
    starts: sum((length) => fits(length) * Math.max(length - size + 1, 1)),
    longest: Math.max(0, ...lengths.map(([length]) => length)),
  };
}

/** The verdict on slices of a length, in the words of slices.py. */
export function verdict(m, size, strict) {
  const { fit, total, short, starts, longest } = fitting(m.lengths, size, strict);
  const [asked, all] = [`A slice of ${plural(size, "row")}`, plural(total, "trajectory", "trajectories")];
  const are = (count) => plural(count, "trajectory is", "trajectories are");
  const mixed = `${are(m.interleaved)} interleaved with others, and a slice is a run of rows one after another`;
  const apart = "Fix: a storage with ndim=2, in which each env has a column of its own.";
  if (!total) return `${asked} cannot be drawn: no trajectories are known. ${m.unknown}`;
  if (fit) {
    const fits = `${asked} fits into ${n(fit)} of ${all}, at ${plural(starts, "start")}.`;
    const rest = short ? ` ${are(short)} shorter, and drawn whole.` : "";
    const whole = `Slices of up to ${plural(size, "row")} can begin at ${plural(starts, "place")}.${rest}`;
    return `${strict ? fits : whole}${m.interleaved ? ` ${mixed}. ${apart}` : ""}`;
  }
  if (m.interleaved) return `${asked} is impossible: ${mixed}. The longest run has ${plural(longest, "row")}. ${apart}`;
  return `${asked} is impossible: the longest of ${all} has ${plural(longest, "row")}. Fix: slices of ${n(longest)} rows or fewer, `
    + "longer trajectories, or strict_length=False, which draws short trajectories whole.";
}

/** The histogram of lengths against a slice length: columns and parameters of its list. */
export function lengthNumbers({ lengths }, size) {
  const { longest } = fitting(lengths, 1);
  const span = Math.max(longest, size) + 1;
  const bins = Math.min(span, 120);
  const binOf = (length) => Math.min(Math.floor((length / span) * bins), bins - 1);
  const [fits, short] = [new Float64Array(bins), new Float64Array(bins)];
  for (const [length, count] of lengths) (length < size ? short : fits)[binOf(length)] += count;
  return {
    columns: { "long enough": fits, "too short": short },
    params: { bins, edge: binOf(size), "most lengths": Math.max(...fits, ...short, 1), longest: `longest: ${plural(longest, "row")}` },
  };
}

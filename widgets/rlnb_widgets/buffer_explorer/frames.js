// What is read off the payload: the moments of the record, and what is known of one row or cell of them.

import { typed } from "../_core/core.js";

const KINDS = { age: "i4", touched: "u1", draws: "i4", expected: "f4", drawn: "i4", slices: "i4", arcs: "i4", lengths: "i4" };

/** Make a function that reads moment i: the description with its arrays; read once. */
export function reader(head, blob) {
  const known = new Map();
  return (i) => {
    if (!known.has(i)) {
      const moment = { ...head.moments[i] };
      for (const [name, kind] of Object.entries(KINDS)) moment[name] = typed(blob, kind, ...moment[name]);
      if (moment.priorities) moment.priorities = { ...moment.priorities, sums: typed(blob, "f4", ...moment.priorities.sums) };
      known.set(i, moment);
    }
    return known.get(i);
  };
}

/** The cell that a row lies in. */
export const cellOf = (m, row) => Math.floor((row * m.cells) / m.size);

/** The rows of a cell: [first, one after the last]. */
export const rowsOf = (m, cell) => [Math.ceil((cell * m.size) / m.cells), Math.ceil(((cell + 1) * m.size) / m.cells)];

/** How many elements of a cell are filled, in one column. */
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

/** The trajectory that an element belongs to, and its step in it; null where none is known. */
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

/** A row in the order of time: 0 is the oldest; and back. */
export const placeOf = (m, row) => (row - m.first + m.size) % m.size;
export const rowAt = (m, place) => (place + m.first) % m.size;

/** The elements of the last sample as [row, column], each once, in the order in which they were drawn. */
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

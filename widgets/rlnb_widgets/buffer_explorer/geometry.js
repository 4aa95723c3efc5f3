// Where cells lie on the ring and in the bars, in physical or chronological order: pure functions.

import { cellOf } from "./frames.js";

export const TURN = 2 * Math.PI;

/** The cell that comes first. */
export const firstCell = (m, order) => (order === "chronological" ? cellOf(m, m.first) : 0);

/** The place of a cell in the order, and back. */
export const slotOf = (m, cell, order) => (cell - firstCell(m, order) + m.cells) % m.cells;
export const cellAt = (m, slot, order) => (slot + firstCell(m, order)) % m.cells;

/** The angle at which a row begins, from the top, clockwise. */
export function angleOf(m, row, order) {
  // By cells where several rows share one, so that a row begins where its cell does.
  const top = order !== "chronological" ? 0 : m.cells < m.size ? (firstCell(m, order) * m.size) / m.cells : m.first;
  return (TURN * (((row - top) % m.size) + m.size) % (TURN * m.size)) / m.size;
}

/** From where to where a cell goes. */
export function spanOf(m, cell, order) {
  const slot = slotOf(m, cell, order);
  const gap = m.cells <= 128 ? 0.12 : 0;
  return [(TURN * slot) / m.cells, (TURN * (slot + 1 - gap)) / m.cells];
}

/** Radii of the rings, the first column outermost: { outer, thick, inner }. */
export function radii(m, size) {
  const outer = Math.max(size / 2 - 46, 30);
  const thick = Math.min((0.42 * outer) / m.columns, 40);
  return { outer, thick, inner: outer - m.columns * thick };
}

/** The cell and column under a point relative to the middle, or null. */
export function hit(m, x, y, size, order) {
  const { outer, thick, inner } = radii(m, size);
  const r = Math.hypot(x, y);
  if (r > outer + 16 || r < inner - 2) return null;
  const angle = (Math.atan2(x, -y) + TURN) % TURN;
  const slot = Math.min(Math.floor((angle / TURN) * m.cells), m.cells - 1);
  const column = Math.min(Math.max(Math.floor((outer - r) / thick), 0), m.columns - 1);
  return { cell: cellAt(m, slot, order), column };
}

/** While a write is shown: how many of its rows are written when `phase` of it, 0 to 1, is over. */
export const writtenAt = (m, phase) => Math.round(m.wrote[1] * phase);

/** Whether a row was written by this moment's call, and is so already at `phase`: "no", "yet" or "done". */
export function writing(m, row, phase) {
  const [start, count] = m.wrote;
  const place = (row - start + m.size) % m.size;
  if (place >= count) return "no";
  return place < writtenAt(m, phase) ? "done" : "yet";
}

// Columns of numbers as Python packed them (columns.py): constants, numbers, and shifted copies of other columns.

import { typed } from "../_core/core.js";

/** Decode all columns; each becomes an array of `rows` numbers. `start` is where the blob's part for them begins. */
export function decode(described, blob, rows, start = 0) {
  const columns = [];
  for (const d of described) {
    if ("c" in d) columns.push(new Float64Array(rows).fill(Number(d.c)));
    else if ("r" in d) columns.push(runs(d, blob, rows, start));
    else if ("s" in d) columns.push(shifted(columns[d.s], d, blob, rows, start));
    else columns.push(typed(blob, d.k, start + d.o, rows));
  }
  return columns;
}

function runs(d, blob, rows, start) {
  const values = typed(blob, d.k, start + d.o, d.r);
  const at = typed(blob, "i4", start + d.x, d.r);
  const column = new values.constructor(rows);
  values.forEach((value, i) => column.fill(value, at[i], at[i + 1] ?? rows));
  return column;
}

function shifted(source, d, blob, rows, start) {
  const column = new source.constructor(rows);
  column.set(source.subarray(1));
  const at = typed(blob, "i4", start + d.x, d.n);
  const values = typed(blob, d.k, start + d.o, d.n);
  // The odd rows may hold what the source's kind cannot.
  const whole = fits(values, source) ? column : Float64Array.from(column);
  at.forEach((row, i) => { whole[row] = values[i]; });
  return whole;
}

function fits(values, source) {
  const probe = new source.constructor(1);
  return values.every((v) => { probe[0] = v; return probe[0] === v || Number.isNaN(v); });
}

// Columns of numbers as Python packed them (columns.py): constants, numbers, runs, and shifted copies of other columns.

import { typed } from "../_core/core.js";

/** Decode all columns; each becomes an array of `rows` numbers. `start` is where the blob's part for them begins. */
export function decode(described, blob, rows, start = 0) {
  const columns = [];
  for (const d of described) {
    const values = "c" in d ? [Number(d.c)] : typed(blob, d.k, start + d.o, d.r ?? d.n ?? rows);
    const at = "x" in d ? typed(blob, "i4", start + d.x, values.length) : [0];
    let column = values;
    if ("s" in d) {
      column = Float64Array.from({ length: rows }, (_, i) => columns[d.s][i + 1]);
      at.forEach((row, i) => { column[row] = values[i]; });
    } else if ("c" in d || "r" in d) {
      column = new Float64Array(rows);
      values.forEach((value, i) => column.fill(value, at[i], at[i + 1] ?? rows));
    }
    columns.push(column);
  }
  return columns;
}

// Columns of numbers as Python packed them (columns.py): numbers, and shifted copies of other columns.

import { typed } from "../_core/core.js";

/** Decode all columns; each becomes an array of `rows` numbers. `start` is where the blob's part for them begins. */
export function decode(described, blob, rows, start = 0) {
  const columns = [];
  for (const { k, o, s, x, n = rows } of described) {
    const values = typed(blob, k, start + o, n);
    columns.push(s === undefined ? values : Float64Array.from({ length: rows }, (_, i) => columns[s][i + 1]));
    if (s !== undefined) typed(blob, "i4", start + x, n).forEach((row, i) => { columns.at(-1)[row] = values[i]; });
  }
  return columns;
}

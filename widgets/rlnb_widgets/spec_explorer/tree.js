// The tree of a spec as plain functions: what a search looks at, what differs, what a screen reader says.

import { depthOf, label, printable } from "../_core/tree.js";

/** What a search looks at beside the key. */
export function traits(row) {
  return [row.kind, row.dtype, row.device, row.shape, row.domain, row.space ?? "none"].join(" ");
}

/** How wide the keys are, in pixels, within reason: the depth, a twisty, and a letter is at most 8 pixels wide. */
export function keyWidth(rows, atLeaves = false) {
  if (atLeaves) return Math.min(Math.max(130, ...rows.map((row) => 16 + 6.5 * row.path.slice(0, -1).join(".").length)), 300);
  const widths = rows.map((row) => 18 + 14 * Math.min(depthOf(row), 8) + 8 * printable(row.path.at(-1) ?? row.name ?? "").length);
  return Math.min(Math.max(130, ...widths), 300);
}

/** How wide the column of specs is, in pixels: the class, and the dtype with the shape, beside it for a Composite. */
export function kindWidth(rows) {
  const letters = rows.map(({ kind, node, dtype, shape }) => {
    const below = [dtype, shape].filter(Boolean).join(" ").length;
    return node ? kind.length + below : Math.max(kind.length, below);
  });
  return Math.ceil(7.2 * Math.max(9, ...letters)) + 2;
}

/** What stands beside a key: what differs. */
export function badges(row) {
  return (row.diff ?? []).map((difference) => difference.kind);
}

/** What a screen reader says of a row. */
export function spoken(row) {
  const found = (row.diff ?? []).map((difference) => difference.text);
  return [label(row), row.kind, `${row.dtype} ${row.shape}`.trim(), row.domain, ...found].filter(Boolean).join("; ");
}

/** The indices of the rows that an explorer opens with where Composites outnumber leaves: leaves, and what differs. */
export function leafRows(rows) {
  return rows.flatMap((row, i) => (row.node && !row.diff ? [] : [i]));
}

/** How often the leaves were drawn, in words: all alike, or "up to 200" where large leaves were drawn less often. */
export function drawnWords(samples) {
  const counts = samples.filter((s) => s?.n).map((s) => s.n);
  if (counts.length === 0) return "nothing drawn";
  const most = Math.max(...counts);
  return `${Math.min(...counts) === most ? "" : "up to "}${most} random sample${most === 1 ? "" : "s"}`;
}

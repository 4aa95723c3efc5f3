// Slices of a length: whether there are any, and why not. Pure functions.

import { plural } from "../_core/core.js";
import { n } from "./values.js";

/** How many trajectories are long enough for a slice, at how many places it can begin, and the longest; of [length, count] pairs. */
export function fitting(lengths, size) {
  const fits = lengths.filter(([length]) => length >= size);
  const sum = (some, each = () => 1) => some.reduce((all, [length, count]) => all + each(length) * count, 0);
  const starts = sum(fits, (length) => length - size + 1);
  return { fit: sum(fits), total: sum(lengths), starts, longest: Math.max(0, ...lengths.map(([length]) => length)) };
}

/** The verdict on slices of a length. */
export function verdict(m, size, strict) {
  const { fit, total, starts, longest } = fitting(m.lengths, size);
  const [rows, are, all] = [plural(size, "row"), ["trajectory is", "trajectories are"], plural(total, "trajectory", "trajectories")];
  const mixed = m.interleaved
    ? ` ${plural(m.interleaved, ...are)} interleaved with others, and a slice is a run of rows one after another: a storage with ndim=2 gives each env a column of its own.` : "";
  if (!total) return "";
  if (fit) {
    const rest = fit === total ? "" : ` ${plural(total - fit, ...are)} ${strict ? "too short and left out" : "shorter and drawn whole"}.`;
    return `A slice of ${rows} fits into ${n(fit)} of ${all}, at ${plural(starts, "start")}.${rest}${mixed}`;
  }
  if (!strict) return `No trajectory has ${rows}: each is drawn whole, since strict_length is False.${mixed}`;
  return `A slice of ${rows} is impossible: the longest ${m.interleaved ? "run" : `of ${all}`} has ${plural(longest, "row")}.${mixed}`;
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

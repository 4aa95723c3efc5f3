// Slices of a length: whether there are any, and why not. Pure functions.

import { plural } from "../_core/core.js";
import { n } from "./values.js";

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

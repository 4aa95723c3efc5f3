// Slices of a length: whether there are any, and why not. Pure functions.

/** How many trajectories are long enough for a slice, at how many places it can begin, and the longest. */
export function fitting(lengths, size) {
  let [fit, total, starts, longest] = [0, 0, 0, 0];
  for (let i = 0; i < lengths.length; i += 2) {
    const [length, count] = [lengths[i], lengths[i + 1]];
    total += count;
    longest = Math.max(longest, length);
    if (length >= size) { fit += count; starts += (length - size + 1) * count; }
  }
  return { fit, total, starts, longest };
}

const many = (n, one, more = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : more}`;

/** The verdict on slices of a length. */
export function verdict(m, size, strict) {
  const { fit, total, starts, longest } = fitting(m.lengths, size);
  if (!total) return "";
  const mixed = m.interleaved
    ? ` ${many(m.interleaved, "trajectory is", "trajectories are")} interleaved with others, and a slice is a run of rows one after another: a storage with ndim=2 gives each env a column of its own.` : "";
  if (fit) {
    const rest = fit === total ? "" : strict ? ` ${many(total - fit, "trajectory is", "trajectories are")} too short and left out.` : ` ${many(total - fit, "trajectory is", "trajectories are")} shorter and drawn whole.`;
    return `A slice of ${many(size, "row")} fits into ${fit.toLocaleString("en")} of ${many(total, "trajectory", "trajectories")}, at ${many(starts, "start")}.${rest}${mixed}`;
  }
  if (!strict) return `No trajectory has ${many(size, "row")}: each is drawn whole, since strict_length is False.${mixed}`;
  return `A slice of ${many(size, "row")} is impossible: the longest ${m.interleaved ? "run" : `of ${many(total, "trajectory", "trajectories")}`} has ${many(longest, "row")}.${mixed}`;
}

/** The histogram of lengths against a slice length: columns and parameters of its list. */
export function lengthNumbers({ lengths }, size) {
  const { longest } = fitting(lengths, 1);
  const span = Math.max(longest, size) + 1;
  const bins = Math.min(span, 120);
  const binOf = (length) => Math.min(Math.floor((length / span) * bins), bins - 1);
  const [fits, short] = [new Float64Array(bins), new Float64Array(bins)];
  for (let i = 0; i < lengths.length; i += 2) (lengths[i] < size ? short : fits)[binOf(lengths[i])] += lengths[i + 1];
  const most = Math.max(...fits, ...short, 1);
  return {
    columns: { "long enough": fits, "too short": short },
    params: { bins, edge: binOf(size), "most lengths": most, longest: `longest: ${many(longest, "row")}` },
  };
}

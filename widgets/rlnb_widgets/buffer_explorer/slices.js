// Slices of a length: whether there are any, and why not. Pure functions.

/** How many trajectories are long enough for a slice, at how many places it can begin, and the longest. */
export function fitting(lengths, size) {
  const found = { fit: 0, total: 0, starts: 0, longest: 0 };
  for (let i = 0; i < lengths.length; i += 2) {
    const [length, count] = [lengths[i], lengths[i + 1]];
    const fit = length >= size ? count : 0;
    found.total += count;
    found.fit += fit;
    found.starts += (length - size + 1) * fit;
    found.longest = Math.max(found.longest, length);
  }
  return found;
}

const many = (n, one, more = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : more}`;

/** The verdict on slices of a length. */
export function verdict(m, size, strict) {
  const { fit, total, starts, longest } = fitting(m.lengths, size);
  const [rows, are, all] = [many(size, "row"), ["trajectory is", "trajectories are"], many(total, "trajectory", "trajectories")];
  const mixed = m.interleaved
    ? ` ${many(m.interleaved, ...are)} interleaved with others, and a slice is a run of rows one after another: a storage with ndim=2 gives each env a column of its own.` : "";
  if (!total) return "";
  if (fit) {
    const rest = fit === total ? "" : ` ${many(total - fit, ...are)} ${strict ? "too short and left out" : "shorter and drawn whole"}.`;
    return `A slice of ${rows} fits into ${fit.toLocaleString("en")} of ${all}, at ${many(starts, "start")}.${rest}${mixed}`;
  }
  if (!strict) return `No trajectory has ${rows}: each is drawn whole, since strict_length is False.${mixed}`;
  return `A slice of ${rows} is impossible: the longest ${m.interleaved ? "run" : `of ${all}`} has ${many(longest, "row")}.${mixed}`;
}

/** The histogram of lengths against a slice length: columns and parameters of its list. */
export function lengthNumbers({ lengths }, size) {
  const { longest } = fitting(lengths, 1);
  const span = Math.max(longest, size) + 1;
  const bins = Math.min(span, 120);
  const binOf = (length) => Math.min(Math.floor((length / span) * bins), bins - 1);
  const [fits, short] = [new Float64Array(bins), new Float64Array(bins)];
  for (let i = 0; i < lengths.length; i += 2) (lengths[i] < size ? short : fits)[binOf(lengths[i])] += lengths[i + 1];
  return {
    columns: { "long enough": fits, "too short": short },
    params: { bins, edge: binOf(size), "most lengths": Math.max(...fits, ...short, 1), longest: `longest: ${many(longest, "row")}` },
  };
}

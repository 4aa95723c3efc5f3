// A foldable tree of keys as plain functions: which rows show, where the keys lead. A row is { path: [key, ...],
// node }; one without keys, the whole itself, has a name, and rows below such a one say their depth. Where keys hold what
// cannot be seen, Python sends how they are shown, too.

/** The depth of a row: 0 at the top. */
export function depthOf(row) {
  return row.depth ?? row.path.length - 1;
}

/** The keys of a row as they are shown. */
export const shownKeys = (row) => row.shown ?? row.path;

/** A row as a test or a label names it: "agents.reward". */
export function label(row) {
  return shownKeys(row).join(".") || (row.name ?? "");
}

/**
 * The indices of the rows that show.
 *
 * folded is a set of indices. Where `keep` is a function, the rows that it keeps show with all above them, folded or not.
 */
export function shownRows(rows, folded, keep = null) {
  if (!keep) return unfolded(rows, folded);
  const found = new Set();
  const above = [];
  rows.forEach((row, i) => {
    const depth = depthOf(row);
    above.length = depth;
    above[depth] = i;
    if (keep(row)) above.forEach((parent) => found.add(parent));
  });
  return [...found].sort((a, b) => a - b);
}

function unfolded(rows, folded) {
  const shown = [];
  let hiddenBelow = Infinity;
  rows.forEach((row, i) => {
    const depth = depthOf(row);
    if (depth > hiddenBelow) return;
    hiddenBelow = folded.has(i) ? depth : Infinity;
    shown.push(i);
  });
  return shown;
}

/** The words of a search. */
export function wordsOf(search) {
  return search.toLowerCase().split(/\s+/).filter(Boolean);
}

/**
 * Whether a row answers all words of a search: a word may stand anywhere in the key; of the other traits it must begin
 * one, or "y" would find "memory".
 */
export function answers(row, words, traits) {
  const name = label(row).toLowerCase();
  const begins = traits.toLowerCase().split(/[\s|,[\]]+/);
  return words.every((word) => name.includes(word) || begins.some((trait) => trait.startsWith(word)));
}

/** The indices of the rows that show: those in whose key or traits(row) the text is found, of the flagged(row) ones where `filtering`. */
export function visibleRows(rows, folded, text, filtering, { traits, flagged }) {
  const words = wordsOf(text);
  const keep = (row) => answers(row, words, traits(row)) && (!filtering || flagged(row));
  return shownRows(rows, folded, words.length || filtering ? keep : null);
}

/** The indices of all rows that can be folded. */
export function foldable(rows) {
  return rows.flatMap((row, i) => (row.node && i + 1 < rows.length && depthOf(rows[i + 1]) > depthOf(row) ? [i] : []));
}

/**
 * Where a key leads in the tree, after the pattern for trees of the WAI-ARIA practices.
 *
 * Returns { active, fold } with fold = null, or [index, folded].
 */
export function move(key, active, shown, rows, folded, searching = false) {
  const at = shown.indexOf(active);
  const stay = { active, fold: null };
  if (shown.length === 0) return stay;
  if (at < 0) return { active: shown[0], fold: null };
  const go = (position) => ({ active: shown[Math.min(Math.max(position, 0), shown.length - 1)], fold: null });
  const canFold = !searching && foldable(rows).includes(active);
  switch (key) {
    case "ArrowDown": return go(at + 1);
    case "ArrowUp": return go(at - 1);
    case "PageDown": return go(at + 10);
    case "PageUp": return go(at - 10);
    case "Home": return go(0);
    case "End": return go(shown.length - 1);
    case "ArrowRight":
      if (canFold && folded.has(active)) return { active, fold: [active, false] };
      return canFold ? go(at + 1) : stay;
    case "ArrowLeft": {
      if (canFold && !folded.has(active)) return { active, fold: [active, true] };
      const parent = shown.slice(0, at).reverse().find((i) => depthOf(rows[i]) < depthOf(rows[active]));
      return parent === undefined ? stay : { active: parent, fold: null };
    }
    case "Enter": return canFold ? { active, fold: [active, !folded.has(active)] } : stay;
    default: return stay;
  }
}

/** The place of each row among its shown siblings: index -> [position, how many]. */
export function siblings(rows, shown) {
  const groups = new Map();
  const parents = [];
  for (const i of shown) {
    const depth = depthOf(rows[i]);
    parents.length = depth;
    const parent = depth === 0 ? -1 : parents[depth - 1];
    parents[depth] = i;
    if (!groups.has(parent)) groups.set(parent, []);
    groups.get(parent).push(i);
  }
  const places = new Map();
  for (const group of groups.values()) group.forEach((i, k) => places.set(i, [k + 1, group.length]));
  return places;
}

/** Keys as Python writes them: "reward" or ("next", "reward"). */
export function keyCode(path) {
  const keys = path.map((key) => JSON.stringify(key));
  return keys.length === 1 ? keys[0] : `(${keys.join(", ")})`;
}

/** The code that reads an entry of what is called `name`: td["next", "reward"]. */
export function entryCode(name, path) {
  return path.length ? `${name}[${path.map((key) => JSON.stringify(key)).join(", ")}]` : name;
}

// Columns of numbers as Python packed them (columns.py), what the strips make of them, and which part of the steps strips show.

import { clamp, typed } from "../_core/core.js";

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

/** A view `factor` times as wide around step t, within 0 .. steps and never under 10 steps. */
export function zoomed(view, factor, t, steps) {
  const span = clamp((view.to - view.from) * factor, Math.min(10, steps), steps);
  const share = clamp((t + 0.5 - view.from) / (view.to - view.from), 0, 1);
  const from = clamp(Math.round(t + 0.5 - share * span), 0, steps - Math.round(span));
  return { from, to: from + Math.round(span) };
}

/** The view moved so that step t is in it; the same object if it already is. */
export function following(view, t, steps) {
  const span = view.to - view.from;
  if (span >= steps || (t >= view.from && t < view.to)) return view;
  const from = clamp(t < view.from ? t - Math.round(span * 0.9) : t - Math.round(span * 0.1), 0, steps - span);
  return { from, to: from + span };
}

/** The steps of an environment, `plus` added, for which test(value, step, values of the column) holds. */
function stepsWhere(head, column, e, test, plus = 0) {
  const found = [];
  column.subarray(e * head.steps, (e + 1) * head.steps).forEach((...at) => { if (test(...at)) found.push(at[1] + plus); });
  return found;
}

/** Steps to jump to, by kind, those with none left out: Python sends each kind as a bit. */
export function marksOf(head, columns, e) {
  const steps = head.marks.map((kind, k) => [kind, stepsWhere(head, columns[head.marked], e, (bits) => (bits >> k) & 1)]);
  return Object.fromEntries(steps.filter(([, found]) => found.length));
}

/** The columns of the list for the environments drawn: a function from the number of a column, as `_made` in scene.py. */
export function recipeColumns(head, columns, envs) {
  const known = new Map();
  const make = ([kind, lane, number, a = 0, b = 0, of = 8]) => {
    const e = envs()[lane];
    const where = (test, plus) => stepsWhere(head, columns[number], e, test, plus);
    if (kind === "values") return columns[number].subarray(e * head.steps, (e + 1) * head.steps);
    if (kind === "mod") return where((v) => v >= 0 && v % of === a, b);
    const wanted = kind === "same" ? (v) => v >= 0 && v % of === b : (v) => v > 0;
    const found = where((v, t, all) => wanted(v) && v !== all[a ? t + 1 : t - 1], a);
    return kind === "cuts" ? found.slice(1) : found;
  };
  return (number) => {
    const key = `${envs().join()}/${number}`;
    if (!known.has(key)) known.set(key, make(head.recipes[number]));
    return known.get(key);
  };
}

// The values under the playhead, read from the packed bytes, their thumbnails, and what the done flags mean there.

import { paintOnce, text, typed } from "../_core/core.js";

const BYTES = { f4: 4, f8: 8, u1: 1 };

/** The numbers of one leaf at a step, as they were packed: an array, or null if they are not in the page. */
export function numbersAt({ store, steps, element, t }, ref, at = t) {
  if (!ref || ref.at === undefined) return null;
  const each = ref.n * (ref.complex ? 2 : 1);
  return Array.from(typed(store, ref.kind, ref.at + (element * steps + at) * each * BYTES[ref.kind], each));
}

/** The value of a leaf at a step as text; digits are significant ones. "" if it is not in the page. */
export function valueText(view, ref, digits = 4, at = view.t) {
  if (ref?.texts) return ref.texts.length === 1 ? ref.texts[0] : ref.texts[view.element * view.steps + at] ?? "";
  const numbers = numbersAt(view, ref, at);
  if (!numbers) return "";
  const parts = ref.complex
    ? numbers.flatMap((x, i) => (i % 2 ? [] : [`${text(x, digits)}+${text(numbers[i + 1], digits)}j`.replace("+-", "-")]))
    : numbers.map((x) => (ref.bool ? (x ? "True" : "False") : text(x, digits)));
  if (ref.of === 1) return parts[0];
  return `[${parts.join(", ")}${ref.of > ref.n ? `, … ${ref.of} values` : ""}]`;
}

/** The ends of episodes of one batch element: kind -> sorted steps. */
export const marksOf = ({ kinds, ends }, element) => Object.fromEntries(kinds.map((kind) => [kind, ends[element]?.[kind] ?? []]));

/** The steps to jump to: all ends first, as "done", where the kinds are told apart, and where a rule is broken. */
export function jumpsOf(marks, finding = []) {
  const done = Object.values(marks).flat().sort((a, b) => a - b);
  return { ...(done.length ? { done } : {}), ...marks, ...(finding.length ? { finding } : {}) };
}

const MEANING = {
  terminated: "terminated, so done: the value of the next state is zero.",
  truncated: "truncated, so done: cut short, and its value is bootstrapped from next.",
  both: "terminated and truncated, so done: the value of the next state is zero.",
  done: "done; the data do not say whether it was terminated or truncated.",
};

/** What the done flags mean at step t, in a sentence; past is the set of steps whose root is done itself. */
export function stepWords(marks, steps, t, past = new Set()) {
  const at = (step) => Object.keys(marks).find((kind) => marks[kind].includes(step));
  const from = past.has(t) ? " Its root is done itself: this step was taken past the end of an episode, without a reset." : "";
  if (at(t)) {
    const reset = past.has(t + 1) ? `done too: nobody reset, and step ${t + 1} goes past the end.` : "a fresh reset.";
    return `Step ${t}: ${MEANING[at(t)]}${t + 1 < steps ? ` root[${t + 1}] is ${reset}` : ""}${from}`;
  }
  if (from) return `Step ${t}:${from}`;
  if (t > 0 && at(t - 1)) return `Step ${t}: the first of an episode; its root comes from a reset.`;
  if (t + 1 < steps) return `Step ${t}: inside an episode; root[${t + 1}] must match next[${t}].`;
  return `Step ${t}: the last one stored; the episode goes on beyond the data.`;
}

/**
 * The columns and parameters of a thumbnail of a leaf [kind, rows, letters]: levels from 0, as "0", to 63, and NaN for a gap, a point.
 *
 * `at` is the place of the playhead, from 0 to 1, or null. A histogram has no place for it.
 */
export function numbersOf([kind, rows, letters], at = null) {
  const levels = Array.from(letters, (c) => (c === "." ? NaN : c.charCodeAt(0) - 48));
  const [floors, tops] = [0, 1].map((odd) => levels.filter((_, i) => i % 2 === odd));
  const n = kind === "band" ? tops.length : levels.length;
  return { columns: { levels, floors, tops }, params: { n, rows, at: at ?? 0, here: at === null || kind === "hist" ? 0 : 1 } };
}

/** Draw a thumbnail with the list of its kind. */
export function drawThumb(canvas, list, thumb, at = null) {
  const { columns, params } = numbersOf(thumb, at);
  paintOnce(canvas, list, { params, column: (name) => columns[name] });
}

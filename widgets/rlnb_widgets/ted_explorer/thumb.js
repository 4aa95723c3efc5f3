// Thumbnails of leaves: numbers that travel as letters, drawn by the display list of their kind.

import { paintOnce } from "../_core/core.js";

/**
 * The columns and parameters of a thumbnail [kind, rows, letters]: levels from 0, as "0", to 63, and NaN for a gap, a point.
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

// Thumbnails of leaves: numbers that travel as letters, drawn by the display list of their kind.

import { paintOnce } from "../_core/core.js";

/** The columns of a thumbnail [kind, rows, letters] by name: levels from 0, as "0", to 63, and NaN for a gap, a point. */
export function columnsOf([kind, , letters]) {
  const levels = Array.from(letters, (c) => (c === "." ? NaN : c.charCodeAt(0) - 48));
  const every = (odd) => levels.filter((_, i) => i % 2 === odd);
  return kind === "band" ? { floors: every(0), tops: every(1) } : { levels };
}

/** The parameters of a thumbnail; `at` is the place of the playhead, from 0 to 1, or null. A histogram has no place for it. */
export function paramsOf([kind, rows, letters], at = null) {
  return { n: kind === "band" ? letters.length / 2 : letters.length, rows, at: at ?? 0, here: at === null || kind === "hist" ? 0 : 1 };
}

/** Draw a thumbnail with the list of its kind. */
export function drawThumb(canvas, list, thumb, at = null) {
  const columns = columnsOf(thumb);
  paintOnce(canvas, list, { params: paramsOf(thumb, at), column: (name) => columns[name] });
}

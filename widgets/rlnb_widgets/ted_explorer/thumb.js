// Tiny pictures of leaves: a line, a band, a heat map or a histogram, from levels that Python worked out.

import { paint } from "../_core/core.js";

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
const TOP = 63;

/** The levels of a thumbnail: 0..63, -1 for a gap. */
export function decode(letters) {
  return Array.from(letters, (c) => LETTERS.indexOf(c));
}

/** Draw a thumbnail [kind, rows, letters] into a canvas of CSS size w x h; share (0..1) draws the playhead. */
export function drawThumb(canvas, thumb, w, h, color, share = null) {
  const density = globalThis.devicePixelRatio || 1;
  Object.assign(canvas, { width: Math.round(w * density), height: Math.round(h * density) });
  const pen = canvas.getContext("2d");
  pen.scale(density, density);
  paint(pen, thumbMarks(thumb, w, h, share, density), { width: w, params: {}, column: () => [], color });
}

/** The marks of a thumbnail, as in a display list. */
export function thumbMarks([kind, rows, letters], w, h, share = null, density = 1) {
  const levels = decode(letters);
  const marks = { spark: line, band, hist: bars }[kind]?.(levels, w, h) ?? heat(levels, rows, w, h, density);
  if (share !== null && kind !== "hist") marks.push(box(Math.min(share * w, w - 1), 0, 1, h, "ink"));
  return marks;
}

const box = (x, y, w, h, fill = "accent", opacity = 1) => ({ kind: "rect", x, x2: x + w, y, h, fill, opacity });
const yOf = (h) => (level) => 1.5 + (h - 3) * (1 - level / TOP);
const xOf = (count, w) => (i) => (count > 1 ? (i / (count - 1)) * w : w / 2);

function line(levels, w, h) {
  const [x, y] = [xOf(levels.length, w), yOf(h)];
  const runs = [];
  levels.forEach((level, i) => {
    if (level < 0) return;
    if (!(levels[i - 1] >= 0)) runs.push([]);
    runs.at(-1).push([x(i), y(level)]);
  });
  return runs.map((points) => (points.length > 1 ? { kind: "poly", points, stroke: "accent", width: 1.2 }
    : box(Math.min(Math.max(points[0][0] - 1, 0), w - 2), points[0][1] - 1, 2, 2)));
}

// Where a share of the time holds several values, the area between the smallest and the largest of them.
function band(levels, w, h) {
  const [x, y] = [xOf(levels.length / 2, w), yOf(h)];
  const edge = (odd) => levels.flatMap((level, i) => (i % 2 === odd && level >= 0 ? [[x((i - odd) / 2), y(level)]] : []));
  const points = [...edge(1), ...edge(0).reverse()];
  return [{ kind: "poly", points, fill: "accent", opacity: 0.55 }, { kind: "poly", points, closed: true, stroke: "accent", width: 1.2 }];
}

function bars(levels, w, h) {
  const step = w / levels.length;
  return levels.flatMap((level, i) => (level > 0 ? [box(i * step, h - (level / TOP) * h, Math.max(step - 0.5, 0.5), (level / TOP) * h)] : []));
}

function heat(levels, rows, w, h, density) {
  const columns = levels.length / rows;
  // Whole pixels, so that neighbours neither overlap nor leave seams.
  const edge = (share, size) => Math.round(share * size * density) / density;
  return levels.flatMap((level, i) => {
    if (level < 0) return [];
    const [row, column] = [Math.floor(i / columns), i % columns];
    const [left, top] = [edge(column / columns, w), edge(row / rows, h)];
    return [box(left, top, edge((column + 1) / columns, w) - left, edge((row + 1) / rows, h) - top, "accent", 0.08 + (0.92 * level) / TOP)];
  });
}

// The picture of a domain as marks of a display list, and the value under a pointer; no page needed.

const TOP = 99; // the height of the highest bar, as Python counts it
const BAR = 0.6; // opacity of the bars
const ROOMY = 40; // boxes that are higher have room for bars above cells
const STRIP = 24; // how high the cells are then

/** Boxes beside one another in a box [x, y, width, height], one for each of so many lanes. */
export function sideBySide(count, [x, y, w, h], gap = 10) {
  const each = (w + gap) / Math.max(count, 1);
  return Array.from({ length: count }, (_, i) => [x + i * each, y, Math.max(each - gap, 4), h]);
}

const rect = (x, y, w, h, fill, opacity) => ({ kind: "rect", x, x2: x + w, y, h, fill, opacity });
const stroke = (x, y, x2, y2, role, width) => ({ kind: "line", x, y, x2, y2, stroke: role, width });

/**
 * The marks of one lane, as in a display list, inside a box [x, y, width, height]; scene.py makes the same.
 *
 * levels: heights of the bars, or null; dots: [place, legal] of a value that is tried, or null.
 */
export function laneMarks(lane, levels, dots, box) {
  const marks = { line, choices }[lane.kind]?.(lane, levels, box) ?? cells(lane, levels, box);
  for (const [place, legal] of dots ?? []) {
    const [x, y] = placeOf(lane, place, box);
    marks.push({ kind: "disc", x, y, r: Math.max(Math.min(box[3] / 5, 5), 2.5), fill: legal ? "good" : "bad" });
  }
  return marks;
}

function line(lane, levels, [x, y, w, h]) {
  const base = y + h - 2;
  const size = Math.min(5, h / 2);
  const [left, right] = lane.ends;
  const [a, b] = [x + w * (left ?? 0), x + w * (right ?? 1)];
  const step = (b - a) / (levels?.length || 1);
  // Bars that touch are one outline, so that no seams show between them.
  const outline = (levels ?? []).flatMap((level, i) => {
    const top = level ? base - Math.max(((h - 2) * level) / TOP, 1) : base;
    return [[a + i * step, top], [a + (i + 1) * step, top]];
  });
  const marks = levels?.some(Boolean) ? [{ kind: "poly", points: [[a, base], ...outline, [b, base]], fill: "accent", opacity: BAR }] : [];
  marks.push(stroke(a, base, b, base, "ink", 1.5));
  for (const [at, end, way] of [[a, left, 1], [b, right, -1]]) {
    if (end === null) marks.push({ kind: "poly", points: [[at - way * 2, base], [at + way * 5, base - size * 0.8], [at + way * 5, base + size * 0.8]], fill: "ink" });
    else marks.push(stroke(at, base - size, at, Math.min(base + size, y + h), "ink", 1.5));
  }
  return marks;
}

function choices(lane, levels, [x, y, w, h]) {
  const step = w / lane.n;
  const base = y + h - 3;
  const wide = Math.min(step * 0.6, h > ROOMY ? 28 : 16);
  const barred = new Set(lane.barred ?? []);
  const marks = [stroke(x, base, x + w, base, "line", 1)];
  for (let i = 0; i < lane.n; i += 1) {
    const middle = x + (i + 0.5) * step;
    const tall = ((h - 4) * (levels?.[i] ?? 0)) / TOP;
    if (tall) marks.push(rect(middle - wide / 2, base - tall, wide, tall, "accent", BAR));
    const r = Math.min(3, h / 3, step * 0.4);
    if (barred.has(i)) marks.push({ kind: "glyph", x: middle, y: base, name: "cross", size: 2 * r, fill: "bad" });
    else marks.push({ kind: "disc", x: middle, y: base, r: r * 0.85, fill: "ink" });
  }
  return marks;
}

function cells(lane, levels, box) {
  const [x, top, , high] = box;
  const [, y, , h] = stripOf(box);
  const { count, step, gap } = cellSize(lane, box);
  const barred = new Set(count === lane.n ? lane.barred ?? [] : []);
  const marks = [];
  for (let i = 0; i < count; i += 1) {
    const left = x + i * step;
    const level = levels?.[i] ?? 0;
    const tall = h < high ? ((high - h - 2) * level) / TOP : 0;
    const wide = Math.min((step - gap) * 0.6, 28);
    if (tall) marks.push(rect(left + (step - gap - wide) / 2, top + high - h - 1 - tall, wide, tall, "accent", BAR));
    else if (level) marks.push(rect(left, y, step - gap, h, "accent", 0.06 + (0.44 * level) / TOP));
    marks.push({ kind: "rect", x: left + 0.5, x2: left + step - gap - 0.5, y: y + 0.5, h: h - 1, stroke: "ink", opacity: 0.8 });
    if (barred.has(i)) marks.push(stroke(left, y + h, left + step - gap, y, "bad", 1.6));
  }
  return marks;
}

/** The part of a box in which the cells are: all of a low one, the lower part of a high one. */
function stripOf([x, y, w, h]) {
  return h > ROOMY ? [x, y + h - STRIP, w, STRIP] : [x, y, w, h];
}

/** How many cells of a lane are drawn, how far apart, and the gap between them. */
export function cellSize(lane, box) {
  const [, , w, h] = stripOf(box);
  const count = Math.min(lane.n, 24);
  const step = Math.min(w / count, Math.max(box[3] > ROOMY ? 56 : 28, h * 1.5));
  return { count, step, gap: lane.kind === "bits" && step > 6 ? 3 : 0 };
}

/** Where the centre of a place is: a share of a line, the number of a choice, of a cell or of a bit. */
export function placeOf(lane, place, box) {
  const [x, y, w, h] = box;
  const inside = (at) => Math.min(Math.max(at, x - 5), x + w + 5);
  if (lane.kind === "line") return [inside(x + w * place), y + h - 2];
  if (lane.kind === "choices") return [inside(x + (place + 0.5) * (w / lane.n)), y + h - 3];
  const { count, step, gap } = cellSize(lane, box);
  const [, top, , high] = stripOf(box);
  return [x + (Math.floor((place * count) / lane.n) + 0.5) * step - gap / 2, top + high / 2];
}

/** What is under a pointer at x: a number on a line, else the number of a choice, cell or bit; null beside it. */
export function valueAt(lane, x, box) {
  const [left, , w] = box;
  const share = (x - left) / w;
  if (lane.kind === "line") {
    const [low, high] = lane.view;
    const value = low + (high - low) * Math.min(Math.max(share, 0), 1);
    return lane.whole ? Math.round(value) : Number(value.toPrecision(3));
  }
  const step = lane.kind === "choices" ? w / lane.n : cellSize(lane, box).step;
  const i = Math.floor((x - left) / step);
  return i >= 0 && i < lane.n ? i : null;
}

/**
 * The text of a value after a click on a lane: what is typed already is kept as far as it has the shape.
 *
 * found: from valueAt. A click on a cell makes it the only one of its lane, a click on a bit turns it.
 */
export function withPicked(text, shape, lanes, lane, found) {
  const size = shape.reduce((a, b) => a * b, 1);
  const values = flatOf(text, size) ?? startOf(size, lanes, shape);
  const last = shape.at(-1) ?? 1;
  const whole = (at, n) => (at ?? Array.from({ length: n }, (_, i) => i));
  if (lane.kind === "line" || lane.kind === "choices") {
    for (const i of whole(lane.at, size)) values[i] = lane.kind === "line" ? found : lane.start + found;
  } else {
    for (const lead of whole(lane.at, size / last)) {
      const begin = lead * last + (lane.begin ?? 0);
      if (lane.kind === "bits") values[begin + found] = values[begin + found] ? 0 : 1;
      else for (let i = 0; i < lane.n; i += 1) values[begin + i] = i === found ? 1 : 0;
    }
  }
  return JSON.stringify(nested(values, shape));
}

function flatOf(text, size) {
  try {
    const flat = [JSON.parse(text.replace(/\bTrue\b/g, "1").replace(/\bFalse\b/g, "0"))].flat(Infinity);
    return flat.length === size && flat.every((x) => typeof x === "number") ? flat : null;
  } catch {
    return null;
  }
}

function startOf(size, lanes, shape) {
  const values = Array(size).fill(0);
  const last = shape.at(-1) ?? 1;
  for (const lane of lanes) {
    const first = [...Array(lane.n ?? 0).keys()].find((i) => !(lane.barred ?? []).includes(i)) ?? 0;
    if (lane.kind === "cells") {
      for (let lead = 0; lead < size / last; lead += 1) {
        if (!lane.at || lane.at.includes(lead)) values[lead * last + (lane.begin ?? 0) + first] = 1;
      }
    }
    if (lane.kind === "bits" || lane.kind === "cells") continue;
    const start = lane.kind === "choices" ? lane.start + first : lane.legal;
    for (let i = 0; i < size; i += 1) if (!lane.at || lane.at.includes(i)) values[i] = start;
  }
  return values;
}

/** Numbers as a list nested to a shape; a bare number for no dimensions. */
export function nested(values, shape) {
  if (shape.length === 0) return values[0];
  if (shape.length === 1) return values;
  const each = values.length / shape[0];
  return Array.from({ length: shape[0] }, (_, i) => nested(values.slice(i * each, (i + 1) * each), shape.slice(1)));
}

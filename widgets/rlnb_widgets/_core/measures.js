// Measures of pictures that both painters need; measures.py has the same functions, and a test runs both.

import { text } from "./data.js";

/** Pixels that one drawn value of a long series has, and one column of shares. */
export const BUCKET = 3;
/** Pixels that a span needs to be drawn on its own, and a vertical line. */
export const SPAN_ROOM = 4;
export const RULE_ROOM = 6;
/** Pixels beyond the edges of a clipped frame, so that lines at the edges are whole. */
export const CLIP_ROOM = 1;
/** Width in pixels of the line around letters that have a halo. */
export const HALO = 3;
/** Number of shades of a heat map, and the opacity of the faintest one. */
export const SHADES = 12;
export const FAINT = 0.08;

const NARROW = new Set("fijlrtI.,:;|!'()[] ");
const WIDE = new Set("mwMW@%—…");
const isUpper = (c) => c.toUpperCase() === c && c.toLowerCase() !== c;

/** An estimate of the width of a text in pixels, the same on every machine. */
export function textWidth(words, size) {
  let total = 0;
  for (const c of words) total += NARROW.has(c) ? 34 : WIDE.has(c) ? 95 : isUpper(c) ? 72 : 62;
  return (total * size) / 100;
}

/** The text if it is at most `within` pixels wide, else its beginning and an ellipsis. */
export function cutText(words, within, size) {
  if (textWidth(words, size) <= within) return words;
  const letters = [...words];
  let n = letters.length;
  while (n > 0 && textWidth(`${letters.slice(0, n).join("")}…`, size) > within) n -= 1;
  return n ? `${letters.slice(0, n).join("")}…` : "";
}

/** A round distance (1, 2 or 5 times a power of ten) of about `count` ticks over a span. */
export function roundStep(span, count) {
  const raw = span / Math.max(count, 1);
  if (!(Number.isFinite(raw) && raw > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((factor) => factor * unit).find((step) => step >= raw * 0.999);
}

/** Round values from low to high, about `count` of them; integers stay below high. */
export function ticks(low, high, count, integer = false) {
  if (!Number.isFinite(high - low)) return [];
  const rough = roundStep(high - low, count);
  const step = integer ? Math.max(rough, 1) : rough;
  const found = [];
  const last = Math.floor(high / step + 1e-6);
  for (let i = Math.ceil(low / step - 1e-6); i <= last; i++) if (!integer || i * step < high) found.push(i * step);
  return found;
}

/** Indices first + i of the lowest and highest of each of `room` parts of values[first .. first + count): [[i, broken before]]. */
export function thin(values, first, count, room) {
  const parts = count <= 2 * room ? count : room; // few values are all kept
  const found = [];
  let gap = true;
  for (let b = 0; b < parts; b++) {
    const stop = Math.floor(((b + 1) * count) / parts);
    let low = -1;
    let high = -1;
    for (let i = Math.floor((b * count) / parts); i < stop; i++) {
      const value = values[first + i];
      if (!Number.isFinite(value)) continue;
      if (low < 0 || value < values[first + low]) low = i;
      if (high < 0 || value > values[first + high]) high = i;
    }
    if (low < 0) { gap = true; continue; }
    for (const i of low === high ? [low] : [Math.min(low, high), Math.max(low, high)]) {
      found.push([i, gap]);
      gap = false;
    }
  }
  return found;
}

/** Add to `into` how much of each of its equal parts of low .. high lies in the spans starts[i] .. stops[i], i from first to last - 1. */
export function spent(starts, stops, first, last, low, high, into) {
  const wide = (high - low) / into.length;
  for (let i = first; i < last; i++) {
    const a = Math.max((starts[i] - low) / wide, 0);
    const b = Math.min((stops[i] - low) / wide, into.length);
    for (let k = Math.floor(a); k < b; k++) into[k] += Math.min(b, k + 1) - Math.max(a, k);
  }
  return into;
}

/** Index of the first of sorted values that is not below x, or of the first above x. */
export function search(values, x, above = false) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (above ? values[middle] <= x : values[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A span of microseconds with three digits. */
export function duration(us) {
  if (!Number.isFinite(us)) return "unknown";
  const [size, unit] = Math.abs(us) >= 999500 ? [1e6, "s"] : Math.abs(us) >= 999.5 ? [1e3, "ms"] : [1, "µs"];
  return `${Number((us / size).toPrecision(3))} ${unit}`;
}

/** A number at an axis as "number", "duration" (of microseconds) or "count" (with commas). */
export function formatValue(value, format) {
  if (value === 0) return "0";
  if (format === "duration") return duration(value);
  return format === "count" ? (Math.round(value) || 0).toLocaleString("en") : text(value);
}

// Where things are in the strips: pure functions, no page needed.

import { clamp } from "../_core/core.js";

export const HEIGHTS = { episodes: 16, line: 34, area: 34, band: 16 };
const LANE = 12; // of each agent
export const GAP = 7;
export const MARKER = 5; // Half the width of the playhead's head.

/** The part of a width that labels take. */
export function gutter(width) {
  return clamp(Math.round(width * 0.24), 84, 190);
}

/** y and height of the episode strip and of each strip: { rows: [{ y, h }], height }. */
export function layout(strips) {
  let y = 8;
  const rows = [{ kind: "episodes" }, ...strips].map((strip) => {
    const row = { y, h: HEIGHTS[strip.kind] ?? LANE * strip.columns.length };
    y += row.h + GAP;
    return row;
  });
  return { rows, height: y + 14 };
}

/** x of the middle of step t in a plot from left to right that shows view.from .. view.to. */
export function xOf(t, view, left, right) {
  return left + ((t + 0.5 - view.from) / (view.to - view.from)) * (right - left);
}

/** x of the number of an episode from x = a: past the playhead where that, at the episode's first step, would cover it. */
export function numberAt(a, middle, width) {
  const beside = a + 4;
  return beside + width < middle - MARKER ? beside : middle + MARKER + 1;
}

/** The step at x, within what is shown. */
export function stepAt(x, view, left, right) {
  const t = Math.floor(view.from + ((x - left) / Math.max(right - left, 1)) * (view.to - view.from));
  return clamp(t, Math.ceil(view.from), Math.ceil(view.to) - 1);
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

/** Runs [start, stop) of steps between ends of episodes; padding is left out. */
export function spans(code, offset, steps, padding) {
  const found = [];
  let start = 0;
  for (let t = 0; t < steps; t++) {
    const c = code[offset + t];
    if (c === padding) {
      if (t > start) found.push([start, t]);
      start = t + 1;
    } else if (c !== 0) {
      found.push([start, t + 1]);
      start = t + 1;
    }
  }
  if (start < steps) found.push([start, steps]);
  return found;
}

/**
 * Thin values[offset + start .. offset + stop) to at most `buckets` pairs of lowest and highest, in their order in time.
 *
 * Returns [step, value] pairs, NaN and inf left out; with few values, all of them.
 */
export function thin(values, offset, start, stop, buckets) {
  const count = stop - start;
  const points = [];
  if (count <= 2 * buckets) {
    for (let t = start; t < stop; t++) if (Number.isFinite(values[offset + t])) points.push([t, values[offset + t]]);
    return points;
  }
  for (let b = 0; b < buckets; b++) {
    const from = start + Math.floor((b * count) / buckets);
    const to = start + Math.floor(((b + 1) * count) / buckets);
    let low = -1;
    let high = -1;
    for (let t = from; t < to; t++) {
      const v = values[offset + t];
      if (!Number.isFinite(v)) continue;
      if (low < 0 || v < values[offset + low]) low = t;
      if (high < 0 || v > values[offset + high]) high = t;
    }
    if (low < 0) continue;
    for (const t of low === high ? [low] : [Math.min(low, high), Math.max(low, high)]) points.push([t, values[offset + t]]);
  }
  return points;
}

const differ = (a, b) => a !== b && !(Number.isNaN(a) && Number.isNaN(b));

/** Steps at which a single agent ends, or begins after its own reset. */
function agentsAlone(head, columns, e) {
  const waits = head.lanes.indexOf("waits");
  const lanes = head.strips.filter((s) => s.kind === "lanes").flatMap((s) => s.columns).map((c) => columns[c]);
  const found = [];
  for (let t = 0; t < head.steps && lanes.length; t++) {
    const row = e * head.steps + t;
    const ends = (code) => code > 0 && code % head.restart > 0 && code % head.restart < waits && columns[head.code][row] === 0;
    if (lanes.some((lane) => lane[row] >= head.restart || ends(lane[row]))) found.push(t);
  }
  return found;
}

/** Steps to jump to, by kind, those with none left out: ends, where two rollouts part, changes of reward, resets. */
export function marksOf(head, columns, e) {
  const offset = e * head.steps;
  const code = columns[head.code];
  const padding = head.kinds.indexOf("padding");
  const rewards = head.strips.filter((s) => s.role === "reward").flatMap((s) => s.columns).map((c) => columns[c]);
  const changes = [];
  for (let t = 1; t < head.steps; t++) {
    if (code[offset + t] === padding) continue;
    if (rewards.some((values) => differ(values[offset + t - 1], values[offset + t]))) changes.push(t);
  }
  const done = [];
  const resets = [];
  const over = ["terminated", "truncated", "done", "cut"].map((k) => head.kinds.indexOf(k));
  for (let t = 0; t < head.steps; t++) {
    if (!over.includes(code[offset + t])) continue;
    if (head.kinds[code[offset + t]] !== "cut") done.push(t);
    if (t + 1 < head.steps && code[offset + t + 1] !== padding) resets.push(t + 1);
  }
  const parting = head.parting && head.parting.t !== null ? [head.parting.t] : [];
  // A reward that changes at every other step is no place to jump to.
  const few = changes.length < head.steps / 2 ? changes : [];
  const alone = agentsAlone(head, columns, e);
  const marks = { done, "an agent ends or starts": alone, "first difference": parting, "reward change": few, reset: resets };
  return Object.fromEntries(Object.entries(marks).filter(([, steps]) => steps.length));
}

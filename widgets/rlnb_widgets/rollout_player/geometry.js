// Where things are in the strips: pure functions, no page needed.

import { clamp } from "../_core/core.js";

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

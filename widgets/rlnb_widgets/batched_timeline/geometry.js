// Where the pieces of an env's time lie: pure functions on measured moments, no page needed.

import { clamp, typed } from "../_core/core.js";

/** Turn the bytes of a run into arrays: { start, stop, parts, step, reset } beside its description. */
export function decode(run, blob) {
  const { at, turns, envs } = run;
  return {
    ...run,
    start: typed(blob, "f8", at.start, turns),
    stop: typed(blob, "f8", at.stop, turns),
    parts: typed(blob, "f4", at.parts, turns * envs * 3),
    step: typed(blob, "i4", at.step, turns),
    reset: typed(blob, "u1", at.reset, turns),
  };
}

/** When the last turn of a run that is drawn was over, in microseconds. */
export const endOf = (run) => (run.turns ? run.stop[run.turns - 1] : 0);

/** Index of the first of sorted values that is not below x. */
export function lowerBound(values, x) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The turns of a step: [first, one after the last]. */
export const turnsOf = (run, step) => [lowerBound(run.step, step), lowerBound(run.step, step + 1)];

/** From when to when a step lasts, the learner's time after it included; null where a run does not have it. */
export function spanOf(run, step) {
  const [first, after] = turnsOf(run, step);
  if (first === after) return null;
  return { from: run.start[first], to: after < run.turns ? run.start[after] : run.stop[after - 1] };
}

/** The step that was going on at a time. */
export function stepAt(run, time) {
  if (!run.turns) return 0;
  const k = lowerBound(run.start, time);
  const turn = clamp(k < run.turns && run.start[k] === time ? k : k - 1, 0, run.turns - 1);
  return run.step[turn];
}

/** Whether an env took part in a turn. */
export const tookPart = (run, k, env) => !Number.isNaN(run.parts[(k * run.envs + env) * 3]);

/**
 * Call fn(phase, from, to) for what an env did in turn k, in order, and in the learner's time after it.
 * Lane -1 is the learner's process: "learner" between turns, "turn" while the envs are at work.
 */
export function pieces(run, lane, k, fn) {
  const start = run.start[k];
  const stop = run.stop[k];
  const next = k + 1 < run.turns ? run.start[k + 1] : stop;
  if (lane < 0) {
    fn("turn", start, stop);
    if (next > stop) fn("learner", stop, next);
    return;
  }
  const row = (k * run.envs + lane) * 3;
  if (Number.isNaN(run.parts[row])) fn("wait", start, stop);
  else {
    const [told, acted, written] = [0, 1, 2].map((i) => Math.min(start + run.parts[row + i], stop));
    fn("wait", start, told);
    fn(run.reset[k] ? "reset" : "step", told, acted);
    if (written > acted) fn("write", acted, written);
    fn("wait", written, stop);
  }
  if (next > stop) fn("learner", stop, next);
}

/** The turns that lie in from .. to, at least in part: [first, one after the last]. */
export function turnsIn(run, from, to) {
  return [Math.max(lowerBound(run.start, from) - 1, 0), lowerBound(run.start, to)];
}

/** Share of each phase in each of `count` equal parts of from .. to: { phase: Float32Array }. */
export function columns(run, lane, from, to, count) {
  const shares = {};
  const width = (to - from) / count;
  const [first, after] = turnsIn(run, from, to);
  const add = (phase, a, b) => {
    const low = clamp((a - from) / width, 0, count);
    const high = clamp((b - from) / width, 0, count);
    if (high <= low) return;
    const into = (shares[phase] ??= new Float32Array(count));
    for (let i = Math.floor(low); i < Math.min(Math.ceil(high), count); i++) into[i] += Math.min(high, i + 1) - Math.max(low, i);
  };
  for (let k = first; k < after; k++) pieces(run, lane, k, add);
  return shares;
}

/** Steps at which some env was reset, by run or for all together, sorted. */
export function resetSteps(runs) {
  const found = new Set();
  for (const run of runs) {
    let stepped = false;
    for (let k = 0; k < run.turns; k++) {
      if (!run.reset[k]) stepped = true;
      else if (stepped) found.add(run.step[k]);
    }
  }
  return [...found].sort((a, b) => a - b);
}

/** The reset that followed a step: the index of its turn, or -1. A reset before the first step follows none. */
export function resetAfter(run, step) {
  const [first, after] = turnsOf(run, step);
  let stepped = false;
  for (let k = first; k < after; k++) {
    if (!run.reset[k]) stepped = true;
    else if (stepped) return k;
  }
  return -1;
}

/** The turn in which a step was made, or -1. */
export function turnOf(run, step) {
  const [first, after] = turnsOf(run, step);
  for (let k = first; k < after; k++) if (!run.reset[k]) return k;
  return -1;
}

/** A span of microseconds with three digits. */
export function duration(us) {
  if (!Number.isFinite(us)) return "unknown";
  const [size, unit] = Math.abs(us) >= 999500 ? [1e6, "s"] : Math.abs(us) >= 999.5 ? [1e3, "ms"] : [1, "µs"];
  return `${Number((us / size).toPrecision(3))} ${unit}`;
}

/** Round numbers from 0 to at most `span`, about `count` of them. */
export function ticks(span, count) {
  if (!(span > 0)) return [0];
  const raw = span / Math.max(count, 1);
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((f) => f * size).find((s) => s >= raw * 0.999);
  const found = [];
  for (let i = 0; i * step <= span * 1.0001; i++) found.push(i * step);
  return found;
}

/** Heights of a chart: { lane, learner, rows: [{ top, lanes, bottom }], height }. Many envs share the height of a few. */
export function layout(runs, { tall, most, top = 4, title = 18, gap = 10 }) {
  const rows = [];
  let y = top;
  for (const run of runs) {
    const lane = clamp(most / run.envs, 2, tall);
    const learner = Math.max(Math.min(tall, 8), 6);
    const lanes = y + title + learner + 3;
    const bottom = lanes + lane * run.envs;
    rows.push({ top: y, learner: y + title, learnerHeight: learner, lanes, lane, bottom });
    y = bottom + gap;
  }
  return { rows, height: Math.ceil(y + 16) };
}

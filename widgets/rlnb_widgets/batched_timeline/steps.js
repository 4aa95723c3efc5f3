// What the columns of a run say about a step: pure functions, no page needed.

import { search } from "../_core/core.js";

/** When a step began and when the next one did, or null where a run does not have it; of a batch, its first step. */
export function spanOf(run, column, step) {
  const begin = column(run.first ?? run.begin);
  return step < begin.length ? [begin[step], column(run.end)[step]] : null;
}

/** The activity of an env from `low` on and before `high`: [got its command, had acted, had written], or null. */
export function activity([told, acted, written], column, low, high) {
  const i = search(column(told), low);
  return i < column(told).length && column(told)[i] < high ? [told, acted, written].map((part) => column(part)[i]) : null;
}

/** What an env did in a step: { from, step, reset }, the reset being the one that followed the step. */
export function doneIn(run, column, step, env) {
  const span = spanOf(run, column, step);
  if (!span) return { from: 0, step: null, reset: null };
  const from = column(run.made)[step];
  const lane = run.lanes[env];
  return { from, step: activity(lane.slice(0, 3), column, from, span[1]), reset: activity(lane.slice(3), column, from, span[1]) };
}

/** A batch of a collector, or null: { batch, workers, versions, current, age, waited, took }, times in microseconds. */
export function batchOf(run, column, batch) {
  const begin = column(run.begin);
  if (batch < 0 || batch >= begin.length) return null;
  const [batches, workers, versions] = run.parts.map(column);
  const from = search(batches, batch), to = search(batches, batch, true);
  const [current, age, waited] = [run.current, run.age, run.waited].map((number) => column(number)[batch]);
  return {
    batch, workers: Array.from(workers.slice(from, to)), versions: Array.from(versions.slice(from, to)),
    current, age, waited, took: column(run.end)[batch] - begin[batch] - waited,
  };
}

/** The envs that were reset after a step. */
export function resetsAfter(run, column, step) {
  return run.lanes.map((_, env) => env).filter((env) => doneIn(run, column, step, env).reset);
}

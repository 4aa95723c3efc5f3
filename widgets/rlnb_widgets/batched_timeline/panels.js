// Panels of text (the rows of the batch, and a worker's failure), and what the columns of a run say about a step.

import { duration, h, search } from "../_core/core.js";

const SHOWN = 16, AROUND = 2;

/** A table about a run: its body is filled later, its heads are pairs of a title and a note. */
function block(run, about, heads) {
  const body = h("tbody", {});
  const cells = heads.map(([title, note]) => h("th", { scope: "col" }, title, note ? h("span", { class: "rlnb-note" }, ` ${note}`) : null));
  const table = h("table", { class: "rlnb-data bt-block" }, h("caption", {}, h("b", {}, run.label), about), h("thead", {}, h("tr", {}, ...cells)), body);
  return { el: h("div", { class: "bt-block-holder" }, table), body };
}

/** The rows of the batch at a step: who wrote what, and when after the step began; what a reset wrote. */
export function rowsPanel(run, column) {
  const keys = (name) => (run.entries[name] ?? []).join(", ");
  const memory = run.processes ? "memory that all processes share" : "the memory of this process";
  const { el, body } = block(run, `: who wrote each row in ${memory}, and when`, [["row"], ['"next"', keys("next")], ["_reset"], ["next root", keys("root")]]);
  if (run.envs > SHOWN) el.append(h("p", { class: "rlnb-note" }, `and ${run.envs - SHOWN} more rows`));
  const by = (env) => (run.processes ? `worker ${env}` : "this process");
  const update = (step) => {
    const known = spanOf(run, column, step) !== null;
    body.replaceChildren(...Array.from({ length: Math.min(run.envs, SHOWN) }, (_, env) => {
      const done = doneIn(run, column, step, env);
      const wrote = (part) => `${by(env)}, ${duration(part[2] - done.from)}`;
      const failed = run.failed && run.failed[0].includes(env) && step >= run.failed[1] - (known ? 1 : 0);
      return h("tr", { "data-reset": done.reset ? "1" : null },
        h("th", { scope: "row" }, String(env), failed ? h("span", { class: "bt-failed" }, " failed next") : null),
        h("td", { class: done.step ? "bt-wrote-step" : null }, done.step ? wrote(done.step) : "—"),
        h("td", {}, known ? (done.reset ? "True" : "False") : "—"),
        h("td", { class: done.reset ? "bt-wrote-reset" : null }, done.reset ? wrote(done.reset) : known ? "goes on" : "—"));
    }));
  };
  return { el, update };
}

/** The batches around one: who made them with which version of the weights, and which version the learner had then. */
export function batchesPanel(run, column) {
  const { el, body } = block(run, ": the version of the weights that made each batch, and the learner's",
    [["batch"], ["worker"], ["made with"], ["learner has"], ["versions old"], ["learner waited"], ["then learned"]]);
  const count = column(run.begin).length;
  const update = (batch) => {
    const rows = Math.min(2 * AROUND + 1, count);
    const first = Math.max(0, Math.min(batch - AROUND, count - rows));
    body.replaceChildren(...Array.from({ length: rows }, (_, i) => {
      const found = batchOf(run, column, first + i);
      const cells = [found.workers.join(", "), found.versions.join(", "), found.current, found.age, duration(found.waited), duration(found.took)];
      const here = first + i === batch;
      return h("tr", { class: here ? "bt-here" : null, "aria-current": here ? "true" : null },
        h("th", { scope: "row" }, String(found.batch)), ...cells.map((cell) => h("td", {}, String(cell))));
    }));
  };
  return { el, update };
}

/** A worker that failed: what it said, and its traceback, the lines to look at first in bold. */
export function failurePanel({ label, headline, lines, step }, [unit, units]) {
  const trace = lines.length
    ? h("pre", { class: "bt-traceback", tabindex: 0, "aria-label": "the worker's traceback" },
      ...lines.map(([text, own]) => h("span", { class: own ? "bt-own" : null }, `${text}\n`)))
    : h("p", { class: "rlnb-note" }, "It left no traceback.");
  return h("div", { class: "rlnb-error bt-failure", role: "alert" },
    h("strong", {}, `${label}, after ${step} ${step === 1 ? unit : units}: `), headline, trace);
}

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

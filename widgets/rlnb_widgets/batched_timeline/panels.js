// The parts of the page that are text: the rows of the batch, and a worker's failure.

import { duration, h } from "../_core/core.js";
import { batchOf, doneIn, spanOf } from "./steps.js";

const SHOWN = 16, AROUND = 4;

/** The rows of the batch at a step: who wrote what, and when after the step began; what a reset wrote. */
export function rowsPanel(run, column) {
  const body = h("tbody", {});
  const keys = (name) => (run.entries[name] ?? []).join(", ");
  const heading = (title, note) => h("th", { scope: "col" }, title, note ? h("span", { class: "rlnb-note" }, ` ${note}`) : null);
  const memory = run.processes ? "memory that all processes share" : "the memory of this process";
  const table = h("table", { class: "rlnb-data bt-block" },
    h("caption", {}, h("b", {}, run.label), `: who wrote each row in ${memory}, and when`),
    h("thead", {}, h("tr", {}, heading("row"), heading('"next"', keys("next")), heading("_reset"), heading("next root", keys("root")))), body);
  const more = run.envs > SHOWN ? h("p", { class: "rlnb-note" }, `and ${run.envs - SHOWN} more rows`) : null;
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
  return { el: h("div", { class: "bt-block-holder" }, table, more), update };
}

/** The batches around one: who made them with which version of the weights, and which version the learner had then. */
export function batchesPanel(run, column) {
  const body = h("tbody", {});
  const heading = (title, note) => h("th", { scope: "col" }, title, note ? h("span", { class: "rlnb-note" }, ` ${note}`) : null);
  const table = h("table", { class: "rlnb-data bt-block" },
    h("caption", {}, h("b", {}, run.label), ": the version of the weights that made each batch, and the learner's"),
    h("thead", {}, h("tr", {}, heading("batch"), heading("worker"), heading("made with"), heading("learner has"),
      heading("versions old"), heading("learner waited"), heading("then learned"))), body);
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
  return { el: h("div", { class: "bt-block-holder" }, table), update };
}

/** A worker that failed: what it said, and its traceback, the lines to look at first in bold. */
export function failurePanel({ label, headline, lines, step }, [unit, units] = ["step", "steps"]) {
  const trace = lines.length
    ? h("pre", { class: "bt-traceback", tabindex: 0, "aria-label": "the worker's traceback" },
      ...lines.map(([text, own]) => h("span", { class: own ? "bt-own" : "bt-foreign" }, `${text}\n`)))
    : h("p", { class: "rlnb-note" }, "It left no traceback.");
  return h("div", { class: "rlnb-error bt-failure", role: "alert" },
    h("strong", {}, `${label}, after ${step} ${step === 1 ? unit : units}: `), headline, trace);
}

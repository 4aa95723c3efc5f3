// The parts of the page that are text: the rows of the batch, and a worker's failure.

import { duration, h } from "../_core/core.js";
import { batchOf, doneIn, spanOf } from "./steps.js";

const SHOWN = 16, AROUND = 4;

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

// The parts of the page that are no canvas: rates and shares, the rows of the batch, a worker's failure, the legend.

import { h } from "../_core/core.js";
import { duration, resetAfter, tookPart, turnOf } from "./geometry.js";

const SHOWN = 16;

/** Steps a second of each run, how its envs' time divides, and how many were at work at once. */
export function sharesPanel(head) {
  const best = Math.max(...head.runs.map((run) => run.relative), 1e-9);
  return h("div", { class: "bt-shares" }, ...head.runs.filter((run) => run.turns).map((run) => {
    const spoken = run.shares.map((share, i) => `${(100 * share).toFixed(0)} % ${head.meanings[head.phases[i]]}`);
    const bar = h("div", { class: "bt-share-bar", role: "img", "aria-label": `of an env's time: ${spoken.join(", ")}` },
      ...run.shares.map((share, i) => h("span", {
        class: `bt-fill bt-${head.phases[i]}`, style: `width:${100 * share}%`, title: spoken[i],
      }, share >= 0.08 ? `${(100 * share).toFixed(0)} %` : "")));
    const rate = h("div", { class: "bt-rate-bar", "aria-hidden": "true" },
      h("span", { style: `width:${(100 * run.relative) / best}%` }));
    return h("div", { class: "bt-share" },
      h("div", { class: "bt-rate", "data-run": run.label }, h("b", {}, run.label), ` ${run.rate}`, rate),
      h("div", {}, bar,
        h("div", { class: "rlnb-note" }, `${run.took} in all, ${run.atWork} ${run.envs === 1 ? "of 1 env" : `of ${run.envs} envs`} at work at a time`)));
  }));
}

/** The legend of the colours. */
export function legend(head) {
  return h("ul", { class: "bt-legend" }, ...[
    ...head.phases.slice(0, 3).map((phase) => [phase, `env ${head.meanings[phase]}`]),
    ["learner", "learner at work: actions, storing data"],
    ["wait", "an env waits"],
  ].map(([phase, words]) => h("li", {}, h("span", { class: `bt-swatch bt-${phase}` }), words)));
}

const keys = (run, name) => (run.entries[name]?.length ? run.entries[name].join(", ") : "");

/** The rows of the batch at a step: who wrote what, and when after the step began; what a reset wrote. */
export function blockPanel(run) {
  const body = h("tbody", {});
  const column = (title, note) => h("th", { scope: "col" }, title, note ? h("span", { class: "rlnb-note" }, ` ${note}`) : null);
  const caption = h("caption", {}, h("b", {}, run.label),
    run.processes ? "; rows in memory that all processes share, and when each was written since the step began" : "; rows in the memory of this one process, and when each was written since the step began");
  const table = h("table", { class: "bt-block" }, caption,
    h("thead", {}, h("tr", {}, column("row", ""), column("action", keys(run, "action") === "action" ? "" : keys(run, "action")),
      column('"next"', keys(run, "next")), column("_reset", ""), column("next root", keys(run, "root")))), body);
  const more = run.envs > SHOWN ? h("p", { class: "rlnb-note" }, `and ${run.envs - SHOWN} more rows`) : null;

  const who = (env) => (run.processes ? `worker ${env}` : "this process");
  const at = (k, env, origin) => duration(run.start[k] + run.parts[(k * run.envs + env) * 3 + 2] - origin);
  const update = (step) => {
    const made = turnOf(run, step);
    const reset = resetAfter(run, step);
    const rows = [];
    for (let env = 0; env < Math.min(run.envs, SHOWN); env++) {
      const failed = run.failure?.workers.includes(env) && step >= run.failure.step - (made < 0 ? 0 : 1);
      const was = reset >= 0 && tookPart(run, reset, env);
      const origin = made < 0 ? 0 : run.start[made];
      rows.push(h("tr", { "data-reset": was ? "1" : null },
        h("th", { scope: "row" }, String(env),
          failed ? h("span", { class: "bt-failed" }, " failed next") : null),
        h("td", {}, made < 0 ? "—" : "learner"),
        h("td", { class: made < 0 ? null : "bt-wrote-step" }, made < 0 ? "—" : `${who(env)}, ${at(made, env, origin)}`),
        h("td", {}, reset < 0 ? "—" : was ? "True" : "False"),
        h("td", { class: was ? "bt-wrote-reset" : null }, was ? `${who(env)}, ${at(reset, env, origin)}` : made < 0 ? "—" : "goes on")));
    }
    body.replaceChildren(...rows);
  };
  return { el: h("div", { class: "bt-block-holder" }, table, more), update };
}

/** A worker that failed: what it said, and its traceback, the lines to look at first in bold. */
export function failurePanel(run) {
  if (!run.failure) return null;
  const { headline, lines, step } = run.failure;
  const trace = lines.length
    ? h("pre", { class: "bt-traceback", tabindex: 0, "aria-label": "the worker's traceback" },
      ...lines.map(([text, own]) => h("span", { class: own ? "bt-own" : "bt-foreign" }, `${text}\n`)))
    : h("p", { class: "rlnb-note" }, "It left no traceback.");
  return h("div", { class: "rlnb-error bt-failure", role: "alert" },
    h("strong", {}, `${run.label}, after ${step} ${step === 1 ? "step" : "steps"}: `), headline, trace);
}

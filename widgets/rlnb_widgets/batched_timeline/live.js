// The BatchedEnvTimeline: all turns of each run on one time scale, the step at the playhead in detail, and its rows; of
// collectors all batches, the one at the playhead in detail, and the versions of those around it.

import { arrived, clamp, columnsOf, drag, duration, h, inflated, keyButton, keyboard, legend, noteList, search, surface, tabs, tellSlider, timelineBar, unpacked, visualizer } from "../_core/core.js";
import { batchOf, batchesPanel, failurePanel, resetsAfter, rowsPanel, spanOf } from "./panels.js";

/** What happened at a step, in words: how long it took in each run, and which envs were reset. */
export function spoken(runs, column, step) {
  const spans = runs.map((run) => [run, spanOf(run, column, step)]).filter(([, span]) => span);
  const times = spans.map(([run, [from, to]]) => duration(to - from) + (runs.length > 1 ? ` in ${run.label}` : "")).join(", ");
  const envs = runs.length ? resetsAfter(runs[0], column, step) : [];
  const named = envs.slice(0, 8).join(", ") + (envs.length > 8 ? ` and ${envs.length - 8} more` : "");
  const reset = envs.length ? `, then env${envs.length > 1 ? "s" : ""} ${named} reset` : "";
  return `step ${step}${times && `: ${times}`}${reset}`;
}

/** What became of a batch, in words: which weights made it, how old they are, and how long the learner waited for it. */
export function spokenBatch(runs, column, batch) {
  const parts = runs.map((run) => [run, batchOf(run, column, batch)]).filter(([, found]) => found);
  const words = parts.map(([run, { workers, versions, current, age, waited }]) => {
    const one = versions.every((version) => version === versions[0]);
    const who = workers.length === 1 && run.workers > 1 ? `by worker ${workers[0]} ` : "";
    const made = `made ${who}with version ${one ? versions[0] : versions.join(", ")}`;
    const old = age ? `${age} ${age === 1 ? "version" : "versions"} older than the learner's ${current}` : "the learner's own";
    return `${runs.length > 1 ? `${run.label}: ` : ""}${made}, ${old}; the learner waited ${duration(waited)}`;
  });
  return `batch ${batch}${words.length ? `: ${words.join("; ")}` : ""}`;
}

export default visualizer("batched-timeline", async ({ model, root, playhead, own }) => {
  const { runs, columns, whole, failures, notes, insight, legend: meanings, unit: [unit, units], ...head } = await arrived(model, "_head");
  const lists = unpacked(head.lists);
  const column = columnsOf(columns, await inflated(model.get("_turns")));
  const ofCollectors = unit === "batch";
  const resetSteps = new Set(ofCollectors ? [] : runs.flatMap((run) => [...column(run.resets)]));
  const marks = { reset: [...resetSteps].sort((a, b) => a - b) };
  const bar = own(timelineBar(playhead, () => (marks.reset.length ? marks : {}), unit));

  let zoomed = 0; // Microseconds shown of the step; 0 fits the longest.
  const params = () => {
    const spans = runs.map((run) => spanOf(run, column, playhead.t));
    const span = zoomed || 1.04 * Math.max(0, ...spans.map((own) => (own ? own[1] - own[0] : 0))) || 1;
    // Beside another visualizer the summary has no room for all of its words.
    const found = { t: playhead.t, span, wide: Number(root.clientWidth >= 480) };
    spans.forEach((own, i) => {
      const [from, to] = own ?? [0, 0];
      Object.assign(found, { [`from${i}`]: from, [`to${i}`]: to, [`end${i}`]: from + span, [`has${i}`]: own ? 1 : 0 });
    });
    return found;
  };
  const chart = (name, label, attributes = {}) => (lists[name] ? own(surface(lists[name], column, { params, class: "bt-chart", "aria-label": label, ...attributes })) : null);
  const summary = chart("summary", ofCollectors
    ? "frames per second, and how the time of a worker and of the learner divides"
    : "steps per second, and how the time of an env divides");
  const overview = chart("overview", `all ${units}, over time`, { tabindex: 0, role: "slider" });
  const detail = chart("detail", `the ${unit} at the playhead`);
  const resets = chart("resets", "which envs were reset after which step");
  const invalidate = () => { for (const one of [overview, detail, resets]) one?.invalidate(); };
  const blocks = runs.map((run) => (ofCollectors ? batchesPanel : rowsPanel)(run, column));
  const words = h("p", { class: ofCollectors ? "bt-words bt-long" : "bt-words", "aria-live": "polite" });

  const zoom = (factor) => {
    zoomed = factor ? clamp(params().span * factor, 2, whole) : 0;
    invalidate();
    root.setAttribute("data-window", String(Math.round(zoomed)));
  };
  const knob = (key, label, text, factor) => keyButton(bar.keys, key, { text, label, onclick: () => zoom(factor) });
  bar.el.append(h("span", { class: "rlnb-group rlnb-note", role: "group", "aria-label": `zoom the ${unit}` },
    "zoom", knob("+", "zoom in", "in", 0.5), knob("-", "zoom out", "out", 2), knob("0", `show all of the ${unit}`, "all", 0)));
  bar.keys["="] = bar.keys["+"];
  const parts = [
    { name: "step", title: `This ${unit}`, el: h("div", {}, detail?.el) },
    { name: "rows", title: ofCollectors ? "Versions" : "Rows", el: h("div", { class: "bt-blocks" }, ...blocks.map((block) => block.el)) },
    ...(resets ? [{ name: "resets", title: "Resets", el: h("div", {}, resets.el) }] : []),
  ];
  // What went wrong comes first.
  root.append(...failures.map((failure) => failurePanel(failure, [unit, units])));
  if (runs.length) {
    root.append(summary.el, h("p", {}, insight), overview.el, legend(meanings), bar.el, words, tabs(parts, { level: true }).el);
    slide(overview, (hit) => {
      const run = runs[Number(hit.name.slice(3))];
      return clamp(search(column(run.begin), hit.value, true) - 1, 0, column(run.begin).length - 1);
    });
    if (resets) slide(resets, (hit) => clamp(Math.floor(hit.value), 0, playhead.last));
  }
  root.append(noteList(notes).el);
  keyboard(root, bar.keys, overview?.el);

  /** Move the playhead to the step under the pointer while it is pressed. */
  function slide({ el, at }, stepOf) {
    drag(el, (event) => { const hit = at(event); if (hit?.name) playhead.seek(stepOf(hit)); });
  }

  const update = () => {
    const t = playhead.t;
    const said = runs.length ? (ofCollectors ? spokenBatch : spoken)(runs, column, t) : "";
    words.textContent = said ? `${said[0].toUpperCase()}${said.slice(1)}.` : "";
    if (overview) tellSlider(overview.el, playhead.last, t, said);
    root.setAttribute("data-t", String(t));
    for (const block of blocks) block.update(t);
    invalidate();
  };
  own(playhead.subscribe(update));
  update();
});

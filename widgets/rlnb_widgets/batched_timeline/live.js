// The BatchedEnvTimeline: all turns of each run on one time scale, the step at the playhead in detail, and its rows.

import { button, clamp, h, keyboard, stage, timelineBar, visualizer } from "../_core/core.js";
import { decode, endOf, layout, resetAfter, resetSteps, spanOf, stepAt, tookPart } from "./geometry.js";
import { LEFT, RIGHT, paintAxis, paintFailure, paintRun } from "./paint.js";
import { blockPanel, failurePanel, legend, sharesPanel } from "./panels.js";
import { masksPanel } from "./masks.js";

/** What happened at a step, in words. */
export function spoken(runs, step) {
  const [run] = runs;
  const words = [`step ${step}`];
  const k = resetAfter(run, step);
  if (k < 0) return words[0];
  const envs = Array.from({ length: run.envs }, (_, env) => env).filter((env) => tookPart(run, k, env));
  const named = envs.slice(0, 8).join(", ") + (envs.length > 8 ? ` and ${envs.length - 8} more` : "");
  return `${words[0]}, then env${envs.length > 1 ? "s" : ""} ${named} reset`;
}

export default visualizer("batched-timeline", ({ model, root, playhead }) => {
  const head = model.get("_head");
  const runs = head.runs.map((run) => decode(run, model.get("_turns")));
  const drawn = runs.filter((run) => run.turns);
  const whole = Math.max(...drawn.map(endOf), 1);
  const marks = { reset: resetSteps(drawn) };
  const bar = timelineBar(playhead, () => (marks.reset.length ? marks : {}));

  const overview = chart("all steps, over time", layout(drawn, { tall: 12, most: 96 }), (pen, plan, { right, color }) => {
    drawn.forEach((run, i) => {
      const row = plan.rows[i];
      const span = spanOf(run, playhead.t);
      if (span) {
        const x = LEFT + (span.from / whole) * (right - LEFT);
        const width = Math.max(((span.to - span.from) / whole) * (right - LEFT), 2);
        pen.fillStyle = color("highlight");
        pen.fillRect(x - 1, row.learner - 4, width + 2, row.bottom - row.learner + 6);
      }
      paintRun(pen, run, row, { from: 0, to: whole, right, color });
      if (span) {
        const x = LEFT + (span.from / whole) * (right - LEFT);
        pen.fillStyle = color("ink");
        pen.fillRect(x - 0.5, row.learner - 4, 1, row.bottom - row.learner + 6);
      }
    });
    paintAxis(pen, whole, plan.height - 16, right, color);
  });

  let window_ = 0; // Microseconds shown of the step; 0 fits the longest.
  const shown = () => window_ || 1.04 * Math.max(1, ...drawn.map((run) => { const s = spanOf(run, playhead.t); return s ? s.to - s.from : 0; }));
  const detail = chart("the step at the playhead", layout(drawn, { tall: 16, most: 160 }), (pen, plan, { right, color }) => {
    const span = shown();
    drawn.forEach((run, i) => {
      const own = spanOf(run, playhead.t);
      if (!own) {
        pen.fillStyle = color("muted");
        pen.font = "12px system-ui, sans-serif";
        pen.textBaseline = "middle";
        pen.fillText(`${run.label}: not drawn here`, 0, plan.rows[i].top + 8);
        return;
      }
      const row = plan.rows[i];
      const view = { from: own.from, to: own.from + span, right, color };
      paintRun(pen, run, row, view);
      const end = LEFT + ((own.to - own.from) / span) * (right - LEFT);
      if (end >= right) return;
      // What follows belongs to later steps.
      pen.fillStyle = color("paper");
      pen.globalAlpha = 0.7;
      pen.fillRect(end, row.learner, right - end, row.bottom - row.learner);
      pen.globalAlpha = 1;
      pen.fillStyle = color("muted");
      pen.fillRect(end, row.learner - 2, 1, row.bottom - row.learner + 2);
      paintFailure(pen, run, row, view);
    });
    paintAxis(pen, span, plan.height - 16, right, color);
  });
  const zoom = (factor) => {
    window_ = factor ? clamp(shown() * factor, 2, whole) : 0;
    detail.invalidate();
    root.setAttribute("data-window", String(Math.round(window_)));
  };
  const knob = (label, words, key, factor) => button({ text: words, label, title: `${label} (${key})`, onclick: () => zoom(factor) });
  bar.el.append(h("span", { class: "rlnb-group", role: "group", "aria-label": "zoom the step" },
    knob("zoom in", "+", "+", 0.5), knob("zoom out", "−", "-", 2), knob("fit the step", "fit", "0", 0)));

  const masks = masksPanel(drawn, head, playhead);
  const blocks = drawn.map(blockPanel);
  const words = h("p", { class: "bt-words", "aria-live": "polite" });
  const slider = overview.el;
  slider.setAttribute("tabindex", "0");
  slider.setAttribute("role", "slider");
  slider.setAttribute("aria-valuemin", "0");
  slider.addEventListener("pointerdown", (event) => { if (event.button === 0) { slider.setPointerCapture(event.pointerId); scrub(event); } });
  slider.addEventListener("pointermove", (event) => { if (slider.hasPointerCapture(event.pointerId)) scrub(event); });
  function scrub(event) {
    const box = slider.getBoundingClientRect();
    const y = event.clientY - box.top;
    const i = overview.plan.rows.findIndex((row) => y < row.bottom + 5);
    const run = drawn[i < 0 ? drawn.length - 1 : i];
    const time = ((event.clientX - box.left - LEFT) / Math.max(box.width - LEFT - RIGHT, 1)) * whole;
    playhead.seek(stepAt(run, clamp(time, 0, endOf(run))));
  }

  root.setAttribute("role", "group");
  root.setAttribute("aria-label", model.get("_label"));
  const failures = runs.map(failurePanel);
  root.append(...(drawn.length ? [
    sharesPanel(head), legend(head), overview.el, bar.el, words, detail.el, masks.el,
    h("div", { class: "bt-blocks" }, ...blocks.map((block) => block.el)),
  ] : []), ...failures.filter(Boolean),
  ...(head.notes.length ? [h("ul", { class: "rlnb-note" }, ...head.notes.map((note) => h("li", {}, note)))] : []));
  keyboard(root, { ...bar.keys, "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => zoom(0) }, slider);

  const update = () => {
    const t = playhead.t;
    slider.setAttribute("aria-valuemax", String(playhead.last));
    slider.setAttribute("aria-valuenow", String(t));
    const said = drawn.length ? spoken(drawn, t) : "";
    slider.setAttribute("aria-valuetext", said);
    words.textContent = drawn.length ? `${said[0].toUpperCase()}${said.slice(1)}.` : "";
    root.setAttribute("data-t", String(t));
    for (const block of blocks) block.update(t);
    for (const part of [overview, detail, masks]) part.invalidate();
  };
  const stop = playhead.subscribe(update);
  update();
  return () => {
    stop();
    for (const part of [overview, detail, masks]) part.destroy();
    bar.destroy();
  };

  function chart(label, plan, paint) {
    const el = h("div", { class: "bt-chart", "aria-label": label, style: `height:${plan.height}px` });
    const view = stage(el, (pen, { width, color }) => paint(pen, plan, { right: width - RIGHT, color }));
    return { el, plan, ...view };
  }
});

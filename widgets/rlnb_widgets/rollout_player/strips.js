// The strips as a part of the page: scrubbing, zooming, hovering, and the values at the playhead.

import { drag, h, surface, tellSlider, text } from "../_core/core.js";
import { following, stepAt, zoomed } from "./geometry.js";
import { recipeColumns } from "./recipes.js";
import { turnWords } from "./turns.js";

/**
 * Build the strips. `envs()` are the environments drawn (one, or two that are compared).
 *
 * Returns { el, slider, update, zoom, destroy }: update() after the playhead or the environments changed; zoom(factor)
 * with 0 for all.
 */
export function stripsPanel(head, columns, playhead, envs) {
  const { rows, left, right } = head;
  let view = { from: 0, to: head.steps };
  const chart = surface(head.list, recipeColumns(head, columns, envs), {
    params: () => ({ t: playhead.t, from: view.from, to: view.to, start: playhead.start, stop: playhead.stop, env: envs()[0] }),
    moving: ["t", "start", "stop"], tipOf, class: "rlnb-strip rlnb-strips", tabindex: 0, role: "slider",
    "aria-label": "step of the rollout",
  });
  const { el } = chart;
  const values = rows.map(([y, tall]) => h("span", {
    class: "rlnb-value", style: tall >= 24 ? `top:${y + 14}px;left:0;width:${left - 40}px` : `top:${y}px;right:calc(100% - ${left - 6}px);max-width:56px` }));
  const holder = h("div", { class: "rlnb-strips-holder" }, el, h("div", { class: "rlnb-values", "aria-hidden": "true" }, ...values));

  const stepUnder = (event) => {
    const box = el.getBoundingClientRect();
    return stepAt(event.clientX - box.left, view, left, box.width - right);
  };
  drag(el, (event) => playhead.seek(stepUnder(event)));

  function tipOf(_, event) {
    const box = el.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const i = rows.findIndex(([top, tall]) => y >= top - 4 && y < top + tall + 4);
    if (i < 0 || x < left) return "";
    const t = stepUnder(event);
    const words = [`step ${t.toLocaleString("en")}`];
    for (const e of envs()) {
      const who = envs().length > 1 ? `${head.labels[e]}: ` : "";
      if (i > 0) words.push(`${who}${head.strips[i - 1].label} ${valueAt(head, columns, head.strips[i - 1], e, t)}`);
      else words.push(`${who}episode ${episodeAt(head, columns, e, t)}`);
      const kind = head.kinds[columns[head.code][e * head.steps + t]];
      if (head.rules[kind]) words.push(`${who}${kind}: ${head.rules[kind]}`);
      const begun = head.resetKinds[columns[head.resets][e * head.steps + t]];
      if (begun) words.push(`${who}${begun}: ${head.resetRules[begun]}`);
    }
    return words.join("\n");
  }

  const update = () => {
    const [e] = envs();
    const t = playhead.t;
    view = following(view, t, head.steps);
    tellSlider(el, playhead.last, t, spoken(head, columns, e, t));
    values.forEach((value, i) => {
      value.textContent = i ? valueAt(head, columns, head.strips[i - 1], e, t) : episodeAt(head, columns, e, t);
    });
    chart.invalidate();
  };
  const zoom = (factor) => {
    view = factor === 0 ? { from: 0, to: head.steps } : zoomed(view, factor, playhead.t, head.steps);
    chart.invalidate();
  };
  return { el: holder, slider: el, update, zoom, destroy: chart.destroy };
}

/** What a strip shows at a step, written shortly; "" where there is nothing. */
export function valueAt(head, columns, strip, e, t) {
  const values = strip.columns.map((c) => columns[c][e * head.steps + t]);
  if (strip.kind === "lanes") return values.map((v) => (v < 0 ? "–" : head.lanes[v % head.restart])).join(", ");
  if (strip.kind === "bands") return values.map((v) => (v < 0 ? "–" : strip.values[v] ?? text(v))).join(", ");
  if (strip.kind === "band") return values[0] < 0 ? "" : strip.names[values[0]] ?? text(values[0]);
  if (values.every(Number.isNaN) && head.kinds[columns[head.code][e * head.steps + t]] === "padding") return "";
  if (strip.kind === "area") {
    const best = values.indexOf(Math.max(...values));
    return best < 0 ? "nan" : `${strip.names[best]}: ${text(values[best])}`;
  }
  return values.slice(0, 3).map(text).join(", ") + (values.length > 3 ? ", …" : "");
}

/** Number of the episode at step t, counted from 1, of how many. */
export function episodeAt(head, columns, e, t) {
  const code = columns[head.code];
  const padding = head.kinds.indexOf("padding");
  const offset = e * head.steps;
  if (code[offset + t] === padding) return "none";
  let number = 0;
  let total = 0;
  for (let i = 0; i < head.steps; i++) {
    // An episode begins after an end and after padding, which may lie between two of them.
    if (code[offset + i] === padding || (i > 0 && code[offset + i - 1] === 0)) continue;
    if (i <= t) number++;
    total++;
  }
  return `${number} of ${total}`;
}

/** The step in words, for screen readers. */
export function spoken(head, columns, e, t) {
  const words = [`step ${t} of ${head.steps - 1}`];
  for (const strip of head.strips.slice(0, 2)) words.push(`${strip.label} ${valueAt(head, columns, strip, e, t)}`);
  const kind = head.kinds[columns[head.code][e * head.steps + t]];
  if (kind) words.push(kind);
  const begun = head.resetKinds[columns[head.resets][e * head.steps + t]];
  if (begun) words.push(`begins after: ${begun}`);
  if (head.turns) words.push(turnWords(head, columns, e, t), `then ${turnWords(head, columns, e, t, true)}`);
  return words.join(", ");
}

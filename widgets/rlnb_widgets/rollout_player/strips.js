// The strips as a part of the page: scrubbing, zooming, hovering, and the values at the playhead.

import { clamp, drag, h, surface, tellSlider, text } from "../_core/core.js";
import { following, recipeColumns, zoomed } from "./columns.js";

const SCALE = ["low", "high", "least", "most"]; // as in scene.py

/**
 * Build the strips. `envs()` are the environments drawn (one, or two that are compared).
 *
 * Returns { el, slider, update, zoom, destroy }: update() after the playhead or the environments changed; zoom(factor)
 * with 0 for all.
 */
export function stripsPanel(head, columns, playhead, envs) {
  const rules = Object.fromEntries(head.rules);
  let view = { from: 0, to: head.steps };
  const valueIn = (i, e, t, short) => (i ? valueAt(head, columns, head.strips[i - 1], e, t, short) : episodeAt(head, columns, e, t));
  const names = [...head.strips.keys(), head.strips.length].map((i) => `value${i}`);
  const values = () => Object.fromEntries(names.map((name, i) => [name, valueIn(i, envs()[0], playhead.t, true)]));
  const scales = () => Object.fromEntries(head.strips.flatMap((strip, i) => (strip.scales?.[envs()[0]] ?? []).map((value, k) => [`${SCALE[k]}${i}`, value])));
  const chart = surface(head.list, recipeColumns(head, columns, envs), {
    params: () => ({ t: playhead.t, from: view.from, to: view.to, start: playhead.start, stop: playhead.stop, env: envs()[0], live: 1, ...scales(), ...values() }),
    moving: ["t", "start", "stop", ...names], tipOf, class: "rlnb-strip rlnb-strips", tabindex: 0, role: "slider",
    "aria-label": "step of the rollout",
  });
  const { el } = chart;
  const stepOf = (hit) => clamp(Math.floor(hit.value), Math.ceil(view.from), Math.ceil(view.to) - 1);
  drag(el, (event) => playhead.seek(stepOf(chart.at(event))));

  function tipOf(hit) {
    if (!hit?.name) return "";
    const t = stepOf(hit);
    const words = [`step ${t.toLocaleString("en")}`];
    for (const e of envs()) {
      const who = envs().length > 1 ? `${head.labels[e]}: ` : "";
      words.push(`${who}${hit.name > 0 ? head.strips[hit.name - 1].label : "episode"} ${valueIn(Number(hit.name), e, t)}`);
      for (const name of namesAt(head, columns, e, t)) if (rules[name]) words.push(`${who}${name}: ${rules[name]}`);
    }
    return words.join("\n");
  }

  const update = () => {
    view = following(view, playhead.t, head.steps);
    tellSlider(el, playhead.last, playhead.t, spoken(head, columns, envs()[0], playhead.t));
    chart.invalidate();
  };
  const zoom = (factor) => {
    view = factor === 0 ? { from: 0, to: head.steps } : zoomed(view, factor, playhead.t, head.steps);
    chart.invalidate();
  };
  return { el: h("div", { class: "rlnb-strips-holder" }, el), slider: el, update, zoom, destroy: chart.destroy };
}

/** How step t ends and how it begins, by name; "" where it is inside of an episode. */
export function namesAt(head, columns, e, t) {
  return [head.kinds[columns[head.code][e * head.steps + t]], head.resetKinds[columns[head.resets][e * head.steps + t]]];
}

/** What a strip shows at a step, written shortly, and with `short` of lanes only how many act; "" where there is nothing. */
export function valueAt(head, columns, strip, e, t, short = false) {
  const values = strip.columns.map((c) => columns[c][e * head.steps + t]);
  const none = strip.kind === "band" ? "" : "–";
  if (strip.words) {
    const words = values.map((v) => (v < 0 ? none : strip.words[v] ?? text(v)));
    const act = words.filter((word) => word !== "waits" && word !== none);
    return short && strip.kind === "lanes" && words.length > 1 ? `acting: ${act.length} of ${words.length}` : words.join(", ");
  }
  if (values.every(Number.isNaN) && namesAt(head, columns, e, t)[0] === "padding") return "";
  if (strip.kind === "area") {
    const best = values.indexOf(Math.max(...values));
    return best < 0 ? "nan" : `${strip.names[best]}: ${text(values[best])}`;
  }
  return values.slice(0, 3).map((value) => text(value)).join(", ") + (values.length > 3 ? ", …" : "");
}

/** Number of the episode at step t, counted from 1, of how many. */
export function episodeAt(head, columns, e, t) {
  const number = columns[head.episode][e * head.steps + t];
  return number ? `${number} of ${head.episodes[e]}` : "none";
}

/**
 * Who is to move at step t, and with `after` what the step led to; `short` for few letters. "" where it is no game in
 * turns.
 */
export function turnWords(head, columns, e, t, after = false, short = false) {
  return head.turns?.words[columns[after ? head.turns.after : head.turns.now][e * head.steps + t]][Number(short)] ?? "";
}

/** The step in words, for screen readers. */
export function spoken(head, columns, e, t) {
  const [kind, begun] = namesAt(head, columns, e, t);
  const words = [`step ${t} of ${head.steps - 1}`, ...head.strips.slice(0, 2).map((strip) => `${strip.label} ${valueAt(head, columns, strip, e, t)}`)];
  if (kind) words.push(kind);
  if (begun) words.push(`begins after: ${begun}`);
  if (head.turns) words.push(turnWords(head, columns, e, t), `then ${turnWords(head, columns, e, t, true)}`);
  return words.join(", ");
}

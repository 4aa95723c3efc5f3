// The strips as a part of the page: scrubbing, zooming, hovering, and the playhead drawn over them.

import { h, palette, stage } from "../_core/core.js";
import { paintGutter, paintStrips, valueAt } from "./draw.js";
import { turnWords } from "./turns.js";
import { MARKER, following, gutter, layout, stepAt, xOf, zoomed } from "./geometry.js";

const RIGHT = 8;

/**
 * Build the strips. `envs()` are the rows drawn (one, or two that are compared).
 *
 * Returns { el, update, zoom, destroy }: update() after the playhead or the rows changed; zoom(factor) with 0 for all.
 */
export function stripsPanel(head, columns, playhead, envs) {
  const { rows, height } = layout(head.strips);
  const tip = h("div", { class: "rlnb-tip", hidden: true });
  const el = h("div", {
    class: "rlnb-strip rlnb-strips", tabindex: 0, role: "slider", "aria-label": "step of the rollout",
    "aria-valuemin": 0, style: `height:${height}px`,
  });
  let view = { from: 0, to: head.steps };
  let still = null; // The strips without the playhead, painted once for a size, theme, view and choice of rows.
  let stillKey = "";

  const view2d = stage(el, (context, { width, height: tall, color }) => {
    view = following(view, playhead.t, head.steps);
    const left = gutter(width);
    const right = width - RIGHT;
    const scene = { head, columns, rows, view, left, right, envs: envs(), color };
    const density = window.devicePixelRatio || 1;
    const key = [width, tall, density, view.from, view.to, scene.envs, color("ink"), color("paper"), color("dark")].join("/");
    if (key !== stillKey) {
      still = document.createElement("canvas");
      still.width = Math.round(width * density);
      still.height = Math.round(tall * density);
      const pen = still.getContext("2d");
      pen.scale(still.width / width, still.height / tall);
      paintStrips(pen, scene);
      stillKey = key;
    }
    context.drawImage(still, 0, 0, width, tall);
    paintGutter(context, scene, labels(playhead.t));
    cursor(context, scene);
  });

  const labels = (t) => {
    const [e] = envs();
    return [episodeAt(head, columns, e, t), ...head.strips.map((s) => valueAt(head, columns, s, e, t))];
  };

  function cursor(context, scene) {
    const { left, right, color } = scene;
    const x = xOf(playhead.t, view, left, right);
    const bottom = rows[rows.length - 1].y + rows[rows.length - 1].h;
    shadeOutside(context, scene, bottom);
    context.strokeStyle = context.fillStyle = color("ink");
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x, 3);
    context.lineTo(x, bottom + 2);
    context.stroke();
    context.beginPath();
    context.moveTo(x - MARKER, 0);
    context.lineTo(x + MARKER, 0);
    context.lineTo(x, 7);
    context.fill();
  }

  function shadeOutside(context, { left, right, color }, bottom) {
    const a = Math.max(left, xOf(playhead.start - 0.5, view, left, right));
    const b = Math.min(right, xOf(playhead.stop - 0.5, view, left, right));
    context.fillStyle = color("panel");
    context.globalAlpha = 0.75;
    if (playhead.start > 0) context.fillRect(left, 3, Math.max(a - left, 0), bottom - 1);
    if (playhead.stop < head.steps) context.fillRect(b, 3, Math.max(right - b, 0), bottom - 1);
    context.globalAlpha = 1;
  }

  const stepUnder = (event) => {
    const box = el.getBoundingClientRect();
    return stepAt(event.clientX - box.left, view, gutter(box.width), box.width - RIGHT);
  };
  el.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    el.setPointerCapture(event.pointerId);
    playhead.seek(stepUnder(event));
  });
  el.addEventListener("pointermove", (event) => {
    if (el.hasPointerCapture(event.pointerId)) playhead.seek(stepUnder(event));
    hover(event);
  });
  el.addEventListener("pointerleave", () => { tip.hidden = true; });

  function hover(event) {
    const box = el.getBoundingClientRect();
    const x = event.clientX - box.left;
    const y = event.clientY - box.top;
    const i = rows.findIndex((row) => y >= row.y - 4 && y < row.y + row.h + 4);
    tip.hidden = i < 0 || x < gutter(box.width);
    if (tip.hidden) return;
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
    tip.replaceChildren(...words.map((line) => h("div", {}, line)));
    tip.style.left = `${Math.max(0, Math.min(x + 14, box.width - 260))}px`;
    tip.style.top = `${y + 18}px`;
  }

  const update = () => {
    const [e] = envs();
    const t = playhead.t;
    el.setAttribute("aria-valuemax", playhead.last);
    el.setAttribute("aria-valuenow", t);
    el.setAttribute("aria-valuetext", spoken(head, columns, e, t));
    view2d.invalidate();
  };
  const zoom = (factor) => {
    view = factor === 0 ? { from: 0, to: head.steps } : zoomed(view, factor, playhead.t, head.steps);
    view2d.invalidate();
  };
  const holder = h("div", { class: "rlnb-strips-holder" }, el, tip);
  return { el: holder, slider: el, update, zoom, destroy: () => view2d.destroy(), color: () => palette(el) };
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

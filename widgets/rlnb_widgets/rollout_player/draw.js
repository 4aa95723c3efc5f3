// Paints the strips: episodes, lines, bands, shares, the ends of episodes, and the axis.

import { text } from "../_core/core.js";
import { numberAt, spans, thin, xOf } from "./geometry.js";
import { paintBands, paintLanes, paintNames, sign } from "./lanes.js";

const FONT = "12px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif";
const NARROW = 6; // Pixels; episodes that are narrower on the mean are not told apart.
const SMALL = FONT.replace("12px", "10.5px");

/** Everything that does not move with the playhead. `scene` is { head, columns, rows, view, left, right, envs, color }. */
export function paintStrips(context, scene) {
  const { head, rows } = scene;
  context.textBaseline = "middle";
  episodes(context, scene, rows[0]);
  head.strips.forEach((strip, i) => {
    const row = rows[i + 1];
    if (strip.kind === "line") lines(context, scene, strip, row);
    else if (strip.kind === "band") band(context, scene, strip, row);
    else if (strip.kind === "bands") paintBands(context, scene, strip, row, tools(scene));
    else if (strip.kind === "lanes") paintLanes(context, scene, strip, row, tools(scene));
    else area(context, scene, strip, row);
  });
  ends(context, scene);
  axis(context, scene);
}

const LOOKS = { terminated: ["danger", []], truncated: ["accent", [5, 4]], done: ["muted", []], cut: ["muted", [1.5, 3]] };

function tools(scene) {
  return { edge: (t) => edge(scene, t), stretches: (e) => shown(scene, e), looks: LOOKS };
}

/** A text cut to a width, with an ellipsis. */
export function cut(context, words, width) {
  if (context.measureText(words).width <= width) return words;
  let n = words.length;
  while (n > 1 && context.measureText(`${words.slice(0, n)}…`).width > width) n--;
  return `${words.slice(0, n)}…`;
}

/** Labels at the left, with the values at the playhead beside them. */
export function paintGutter(context, scene, values) {
  const { head, rows, left, color } = scene;
  context.font = FONT;
  context.textBaseline = "middle";
  [{ label: "episode" }, ...head.strips].forEach((strip, i) => {
    const y = rows[i].y + rows[i].h / 2;
    if (strip.kind === "bands" || strip.kind === "lanes") {
      context.textAlign = "left";
      context.fillStyle = color("muted");
      context.fillText(cut(context, strip.label, left - 26), 0, y - (rows[i].h >= 30 ? 8 : 0));
      context.fillStyle = color("ink");
      if (rows[i].h >= 30) context.fillText(cut(context, values[i], left - 26), 0, y + 8);
      if (scene.envs.length === 1) paintNames(context, strip, rows[i], left - 8, color);
      context.font = FONT;
      return;
    }
    const tight = context.measureText(`${strip.label}  ${values[i]}`).width > left - 12;
    if (tight && rows[i].h >= 30) {
      context.textAlign = "left";
      context.fillStyle = color("muted");
      context.fillText(cut(context, strip.label, left - 10), 0, y - 8);
      context.fillStyle = color("ink");
      context.fillText(cut(context, values[i], left - 10), 0, y + 8);
      return;
    }
    const value = cut(context, left < 130 ? values[i].replace(" of ", "/") : values[i], left * 0.55);
    const room = left - 20 - context.measureText(value).width;
    context.textAlign = "right";
    context.fillStyle = color("ink");
    context.fillText(value, left - 10, y);
    context.textAlign = "left";
    context.fillStyle = color("muted");
    context.fillText(cut(context, strip.label, room), 0, y);
  });
}

function shown(scene, e) {
  const { head, columns, view } = scene;
  const all = spans(columns[head.code], e * head.steps, head.steps, head.kinds.indexOf("padding"));
  return all
    .map(([start, stop], number) => ({ start: Math.max(start, view.from), stop: Math.min(stop, view.to), number }))
    .filter((s) => s.stop > s.start);
}

/** The stretches drawn as one line each: episodes, or all of it where they are too short to be told apart. */
function runs(scene, e) {
  const all = shown(scene, e);
  if (all.length < (scene.right - scene.left) / NARROW) return all;
  return [{ start: all[0].start, stop: all[all.length - 1].stop, number: 0 }];
}

function edge(scene, t) {
  return xOf(t - 0.5, scene.view, scene.left, scene.right);
}

function episodes(context, scene, row) {
  const { color, envs } = scene;
  context.font = SMALL;
  context.textAlign = "left";
  const h = row.h / envs.length;
  envs.forEach((e, lane) => {
    for (const { start, stop, number } of shown(scene, e)) {
      const a = edge(scene, start);
      const b = edge(scene, stop);
      // The gap after an episode is the reset.
      const w = Math.max(b - a - (b - a > 8 ? 3 : 0), 0.5);
      context.globalAlpha = number % 2 ? 0.16 : 0.3;
      context.fillStyle = color(lane ? "c1" : "accent");
      context.fillRect(a, row.y + lane * h, w, h - (envs.length > 1 ? 1 : 0));
      context.globalAlpha = 1;
      const name = String(number + 1);
      const wide = context.measureText(name).width;
      const begun = scene.head.resetKinds[scene.columns[scene.head.resets][e * scene.head.steps + start]];
      let taken = 0;
      if (begun && b - a >= 12 && h >= 8) taken = 2 + sign(context, scene.head.resetSigns[begun], a + 1, row.y + (lane + 0.5) * h, color(begun === "no reset" ? "danger" : "ink"));
      context.font = SMALL;
      const x = numberAt(a + taken, xOf(start, scene.view, scene.left, scene.right), wide);
      if (h >= 12 && x + wide + 4 < a + w) {
        context.fillStyle = color("ink");
        context.fillText(name, x, row.y + h / 2 + 0.5);
      }
    }
  });
}

function lines(context, scene, strip, row) {
  const { head, columns, view, left, right, envs, color } = scene;
  const span = strip.high - strip.low;
  const yOf = (v) => (span === 0 ? row.y + row.h / 2 : row.y + row.h - 2 - ((v - strip.low) / span) * (row.h - 4));
  context.fillStyle = color("line");
  context.globalAlpha = 0.6;
  context.fillRect(left, row.y + row.h, right - left, 1);
  if (strip.low < 0 && strip.high > 0) context.fillRect(left, yOf(0), right - left, 1);
  context.globalAlpha = 1;
  context.lineJoin = "round";
  envs.forEach((e, lane) => {
    strip.columns.forEach((c, k) => {
      // Where two rollouts are compared, the colour says which of them it is.
      context.strokeStyle = context.fillStyle = color(envs.length > 1 ? (lane ? "c1" : "accent") : strip.roles[k]);
      context.lineWidth = 1.5;
      for (const { start, stop } of runs(scene, e)) {
        const room = Math.max(2, Math.round(((stop - start) / (view.to - view.from)) * (right - left)));
        const points = thin(columns[c], e * head.steps, start, stop, room);
        context.beginPath();
        let before = null;
        for (const [t, v] of points) {
          const x = xOf(t, view, left, right);
          // A missing value breaks the line.
          if (before !== null && (t - before === 1 || stop - start > 2 * room)) context.lineTo(x, yOf(v));
          else context.moveTo(x, yOf(v));
          before = t;
        }
        context.stroke();
        if (points.length === 1) {
          context.beginPath();
          context.arc(xOf(points[0][0], view, left, right), yOf(points[0][1]), 1.5, 0, 2 * Math.PI);
          context.fill();
        }
      }
    });
  });
}

function band(context, scene, strip, row) {
  const { head, columns, view, left, right, envs, color } = scene;
  const h = row.h / envs.length;
  const pixels = Math.max(Math.round(right - left), 1);
  const each = (view.to - view.from) / pixels;
  envs.forEach((e, lane) => {
    const values = columns[strip.columns[0]];
    const offset = e * head.steps;
    const y = row.y + lane * h;
    const height = h - (envs.length > 1 ? 1 : 0);
    const box = (a, b, value) => {
      if (value < 0) return;
      context.fillStyle = color(`c${value % 8}`);
      context.fillRect(a, y, Math.max(b - a, 0.5), height);
    };
    for (const { start, stop } of shown(scene, e)) {
      if (each <= 1) {
        for (let t = start; t < stop; t++) box(edge(scene, t), edge(scene, t + 1) - (each < 0.2 ? 1 : 0), values[offset + t]);
        continue;
      }
      // Several steps in one pixel: their shares are stacked.
      const counts = new Map();
      for (let p = Math.floor(edge(scene, start)); p < edge(scene, stop); p++) {
        const from = Math.max(start, Math.floor(view.from + (p - left) * each));
        const to = Math.min(stop, Math.max(from + 1, Math.floor(view.from + (p + 1 - left) * each)));
        counts.clear();
        for (let t = from; t < to; t++) counts.set(values[offset + t], (counts.get(values[offset + t]) ?? 0) + 1);
        let top = y;
        for (const value of [...counts.keys()].sort((a, b) => a - b)) {
          const part = (height * counts.get(value)) / (to - from);
          if (value >= 0) {
            context.fillStyle = color(`c${value % 8}`);
            context.fillRect(p, top, 1, part);
          }
          top += part;
        }
      }
    }
  });
}

function area(context, scene, strip, row) {
  const { head, columns, view, left, right, envs, color } = scene;
  const e = envs[0];
  const pixels = Math.max(Math.round(right - left), 1);
  const each = (view.to - view.from) / pixels;
  for (const { start, stop } of shown(scene, e)) {
    for (let p = Math.floor(edge(scene, start)); p < edge(scene, stop); p++) {
      const t = Math.min(Math.max(Math.floor(view.from + (p + 0.5 - left) * each), start), stop - 1);
      let y = row.y + row.h;
      strip.columns.forEach((c, k) => {
        const part = columns[c][e * head.steps + t] * row.h;
        if (!(part > 0)) return;
        context.fillStyle = color(`c${k % 8}`);
        context.fillRect(p, y - part, 1, part);
        y -= part;
      });
    }
  }
}

function ends(context, scene) {
  const { head, columns, rows, view, left, right, envs, color } = scene;
  const bottom = rows[rows.length - 1].y + rows[rows.length - 1].h;
  const all = shown(scene, envs[0]);
  // Full lines would hide the data; the episode strip still shows them.
  const dense = (right - left) / Math.max(all.length, 1) < NARROW;
  for (const e of envs) {
    for (let t = view.from; t < view.to; t++) {
      const look = LOOKS[head.kinds[columns[head.code][e * head.steps + t]]];
      if (!look) continue;
      const x = Math.round(edge(scene, t + 1)) - (dense ? 0.5 : 1.5);
      context.strokeStyle = color(look[0]);
      context.lineWidth = dense ? 0.75 : 1.5;
      context.setLineDash(dense ? [] : look[1]);
      context.beginPath();
      context.moveTo(x, dense ? rows[0].y + rows[0].h - 5 : rows[0].y - 3);
      context.lineTo(x, dense ? rows[0].y + rows[0].h : bottom);
      context.stroke();
    }
  }
  context.setLineDash([]);
}

function axis(context, scene) {
  const { rows, view, left, right, color } = scene;
  const y = rows[rows.length - 1].y + rows[rows.length - 1].h + 10;
  const span = view.to - view.from;
  const rough = span / Math.max((right - left) / 90, 1);
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
  const step = Math.max(1, [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) ?? 1);
  context.font = SMALL;
  context.fillStyle = color("muted");
  context.textAlign = "center";
  for (let t = Math.ceil(view.from / step) * step; t < view.to; t += step) {
    const x = xOf(t, view, left, right);
    const words = t.toLocaleString("en");
    const half = context.measureText(words).width / 2;
    context.fillText(words, Math.min(Math.max(x, left + half), right - half), y);
    context.fillRect(x - 0.5, y - 9, 1, 3);
  }
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

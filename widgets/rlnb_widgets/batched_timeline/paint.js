// Paints lanes: exact pieces where there is room for them, else how much of the time each phase took.

import { columns, duration, endOf, pieces, ticks, turnsIn } from "./geometry.js";

export const ROLES = { step: "c0", reset: "c1", write: "c2", learner: "c4", turn: "line" };
export const LEFT = 92;
export const RIGHT = 12;
const NARROW = 5; // Pixels that a turn needs to be drawn piece by piece.

/**
 * Paint one run into the lanes of `row`, showing from .. to of its time between LEFT and `right`.
 * `bold` names the envs whose labels stand out.
 */
export function paintRun(pen, run, row, { from, to, right, color, labels = true }) {
  const scale = (right - LEFT) / (to - from);
  const x = (time) => LEFT + (time - from) * scale;
  const [first, after] = turnsIn(run, from, to);
  const crowded = after - first > (right - LEFT) / NARROW;
  const end = Math.min(x(endOf(run)), right);
  for (let lane = -1; lane < run.envs; lane++) {
    const y = lane < 0 ? row.learner : row.lanes + lane * row.lane;
    const h = lane < 0 ? row.learnerHeight : Math.max(row.lane - (row.lane > 4 ? 2 : 0), 1);
    paintLane(pen, LEFT, y, Math.max(end - LEFT, 0), h, color);
    if (crowded) paintColumns(pen, run, lane, { from, to, right: Math.floor(right), y, h, color });
    else {
      for (let k = first; k < after; k++) {
        pieces(run, lane, k, (phase, a, b) => {
          // What an env does not do itself stays empty: the eye is to find who is at work.
          if (phase === "wait" || (phase === "learner" && lane >= 0)) return;
          const left = Math.max(x(a), LEFT);
          const width = Math.min(x(b), right) - left;
          if (width <= 0) return;
          pen.fillStyle = color(ROLES[phase]);
          if (phase === "turn") pen.fillRect(left, y + h / 2 - 0.5, width, 1);
          else pen.fillRect(left, y, Math.max(width, 0.6), h);
        });
      }
    }
  }
  if (labels) paintLabels(pen, run, row, color);
  paintFailure(pen, run, row, { from, to, right, color });
}

/** Paint the ground of a lane, which shows where nothing is drawn over it. */
export function paintLane(pen, x, y, w, h, color) {
  pen.fillStyle = color("line");
  pen.globalAlpha = 0.3;
  pen.fillRect(x, y, w, h);
  pen.globalAlpha = 1;
}

function paintColumns(pen, run, lane, { from, to, right, y, h, color }) {
  const count = Math.max(right - LEFT, 1);
  const shares = columns(run, lane, from, to, count);
  const base = new Float32Array(count);
  for (const phase of lane < 0 ? ["learner"] : ["step", "reset", "write"]) {
    const share = shares[phase];
    if (!share) continue;
    pen.fillStyle = color(ROLES[phase]);
    for (let i = 0; i < count; i++) {
      const part = Math.min(share[i], 1 - base[i]) * h;
      if (part > 0.05) pen.fillRect(LEFT + i, y + h - base[i] * h - part, 1, part);
      base[i] += share[i];
    }
  }
}

function paintLabels(pen, run, row, color) {
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  pen.font = "600 12px system-ui, sans-serif";
  pen.fillStyle = color("ink");
  pen.fillText(`${run.label}${run.label === run.name ? "" : ` (${run.name})`}`, 0, row.top + 8);
  pen.font = "11px system-ui, sans-serif";
  pen.fillStyle = color("muted");
  pen.textAlign = "right";
  pen.fillText("learner", LEFT - 8, row.learner + row.learnerHeight / 2);
  const every = Math.max(1, Math.ceil(12 / row.lane));
  for (let env = 0; env < run.envs; env += every) {
    const failed = run.failure?.workers.includes(env);
    pen.fillStyle = color(failed ? "bad" : "muted");
    pen.fillText(`env ${env}`, LEFT - 8, row.lanes + env * row.lane + Math.min(row.lane, 12) / 2);
  }
  pen.textAlign = "left";
}

/** Mark the lanes of workers that failed, where the run ends. */
export function paintFailure(pen, run, row, { from, to, right, color }) {
  if (!run.failure) return;
  const at = LEFT + ((endOf(run) - from) / (to - from)) * (right - LEFT);
  if (at < LEFT - 1 || at > right + 1) return;
  const middle = Math.min(at + 7, right + RIGHT - 5);
  pen.strokeStyle = color("bad");
  pen.lineWidth = 2;
  for (const env of run.failure.workers.length ? run.failure.workers : Array.from({ length: run.envs }, (_, i) => i)) {
    if (env >= run.envs) continue;
    const y = row.lanes + env * row.lane + row.lane / 2 - 1;
    const r = Math.min(4, Math.max(row.lane / 2, 2));
    pen.beginPath();
    pen.moveTo(middle - r, y - r);
    pen.lineTo(middle + r, y + r);
    pen.moveTo(middle - r, y + r);
    pen.lineTo(middle + r, y - r);
    pen.stroke();
  }
}

/** Paint the time scale below a chart. */
export function paintAxis(pen, span, y, right, color, words = "") {
  const scale = (right - LEFT) / span;
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "top";
  const marks = ticks(span, Math.max((right - LEFT) / 110, 1));
  marks.forEach((time, i) => {
    const x = LEFT + time * scale;
    pen.fillStyle = color("line");
    pen.fillRect(x, y - 3, 1, 4);
    pen.fillStyle = color("muted");
    pen.textAlign = i === 0 ? "left" : x > right - 24 ? "right" : "center";
    pen.fillText(`${duration(time).replace(/^0 .*/, "0")}${i === 0 ? words : ""}`, i === 0 ? x : Math.min(x, right), y + 2);
  });
  pen.textAlign = "left";
}

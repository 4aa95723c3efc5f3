// The "_reset" masks: a row for each env, over the steps; a mark where the env was reset.

import { clamp, h, stage } from "../_core/core.js";
import { LEFT, RIGHT, ROLES, paintLane } from "./paint.js";
import { tookPart } from "./geometry.js";

/** The resets of a run as [step, env] pairs, without those before the first step. */
export function resetsOf(run) {
  const found = [];
  let stepped = false;
  for (let k = 0; k < run.turns; k++) {
    if (!run.reset[k]) { stepped = true; continue; }
    if (!stepped) continue;
    for (let env = 0; env < run.envs; env++) if (tookPart(run, k, env)) found.push([run.step[k], env]);
  }
  return found;
}

/** Build the strip: { el, invalidate, destroy }. One for all runs if they reset alike. */
export function masksPanel(runs, head, playhead) {
  const shown = head.sameResets ? runs.slice(0, 1) : runs;
  const plans = shown.map((run) => ({ run, resets: resetsOf(run), lane: clamp(72 / run.envs, 2, 12) }));
  // Without a reset there is nothing to draw.
  const none = plans.every(({ resets }) => resets.length === 0);
  const height = plans.reduce((sum, plan) => sum + 20 + plan.lane * plan.run.envs, 18);
  const el = h("div", { class: "bt-chart bt-masks", role: "img", style: `height:${height}px`,
    "aria-label": plans.map(({ run, resets }) => `${run.label}: ${resets.length} rows reset`).join("; ") });
  el.hidden = none;
  const view = stage(el, (pen, { width, color }) => {
    const right = width - RIGHT;
    const cell = (right - LEFT) / head.steps;
    let y = 0;
    for (const { run, resets, lane } of plans) {
      pen.font = "12px system-ui, sans-serif";
      pen.textBaseline = "middle";
      pen.fillStyle = color("ink");
      pen.fillText(`_reset after each step${head.sameResets ? "" : `, ${run.label}`}`, 0, y + 8);
      y += 18;
      pen.textAlign = "right";
      pen.font = "11px system-ui, sans-serif";
      for (let env = 0; env < run.envs; env++) {
        paintLane(pen, LEFT, y + env * lane, cell * run.steps, Math.max(lane - (lane > 4 ? 2 : 0), 1), color);
      }
      pen.fillStyle = color("muted");
      for (let env = 0; env < run.envs; env += Math.max(1, Math.ceil(11 / lane))) {
        pen.fillText(`env ${env}`, LEFT - 8, y + (env + 0.5) * lane - 1);
      }
      pen.textAlign = "left";
      pen.fillStyle = color(ROLES.reset);
      for (const [step, env] of resets) {
        pen.fillRect(LEFT + step * cell, y + env * lane, Math.max(cell - (cell > 4 ? 1 : 0), 1), Math.max(lane - (lane > 4 ? 2 : 0), 1));
      }
      pen.strokeStyle = color("ink");
      pen.lineWidth = 1;
      pen.strokeRect(LEFT + playhead.t * cell - 0.5, y - 2, Math.max(cell, 1.5), lane * run.envs + 2);
      y += lane * run.envs + 2;
    }
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "top";
    pen.fillStyle = color("muted");
    pen.fillText("step 0", LEFT, y + 2);
    pen.textAlign = "right";
    pen.fillText(String(head.steps - 1), right, y + 2);
    pen.textAlign = "left";
  });
  const scrub = (event) => {
    const box = el.getBoundingClientRect();
    const share = (event.clientX - box.left - LEFT) / Math.max(box.width - LEFT - RIGHT, 1);
    playhead.seek(clamp(Math.floor(share * head.steps), 0, playhead.last));
  };
  el.addEventListener("pointerdown", (event) => { if (event.button === 0) { el.setPointerCapture(event.pointerId); scrub(event); } });
  el.addEventListener("pointermove", (event) => { if (el.hasPointerCapture(event.pointerId)) scrub(event); });
  return { el, ...view };
}

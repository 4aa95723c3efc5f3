// The ring: cells by age, arcs for trajectories and slices, the cursor and the seam.

import { h, stage } from "../_core/core.js";
import { arcsOf, cellOf, rowsOf, sampled } from "./frames.js";
import { TURN, angleOf, hit, radii, spanOf, writing, writtenAt } from "./geometry.js";

const TRAJECTORY_ROLES = ["c2", "c5"];
// Between trajectories, in radians: the first and the last may have one colour, and meet at the seam.
const GAP = 0.03;

/** state() gives { m, before, phase, order, row, column, sliceLen }; onSelect(cell, column) hears of clicks. */
export function ringPanel(state, onSelect) {
  const el = h("div", {
    class: "be-ring", tabindex: 0, role: "slider", "aria-label": "cell of the ring", "aria-valuemin": 0,
  });
  const view = stage(el, (pen, { width, height, color }) => {
    const s = state();
    const size = Math.min(width, height);
    pen.translate(width / 2, height / 2);
    paintCells(pen, s, size, color);
    paintArcs(pen, s, size, color);
    paintSelection(pen, s, size, color);
    paintCursor(pen, s, size, color);
  });
  const pick = (event) => {
    const box = el.getBoundingClientRect();
    const found = hit(state().m, event.clientX - box.left - box.width / 2, event.clientY - box.top - box.height / 2, Math.min(box.width, box.height), state().order);
    if (found) onSelect(found.cell, found.column);
    return found;
  };
  el.addEventListener("pointerdown", (event) => { if (event.button === 0 && pick(event)) el.setPointerCapture(event.pointerId); });
  el.addEventListener("pointermove", (event) => { if (el.hasPointerCapture(event.pointerId)) pick(event); });
  return { el, ...view };
}

function sector(pen, inner, outer, [from, to]) {
  pen.beginPath();
  pen.arc(0, 0, outer, from - TURN / 4, to - TURN / 4);
  pen.arc(0, 0, inner, to - TURN / 4, from - TURN / 4, true);
  pen.closePath();
}

/** How a cell is filled: [role, opacity]. */
export function shade(age, most) {
  if (age === -1) return ["line", 0.35];
  if (age === -2) return ["muted", 0.35];
  return ["c0", 1 - (0.85 * age) / Math.max(most, 1)];
}

const mostOf = (ages) => ages.reduce((most, age) => Math.max(most, age), 1);

function paintCells(pen, { m, before, phase, order }, size, color) {
  const { outer, thick } = radii(m, size);
  const moving = phase < 1 && before && before.cells === m.cells;
  const most = mostOf(m.age);
  const mostBefore = moving ? mostOf(before.age) : 1;
  for (let cell = 0; cell < m.cells; cell++) {
    const when = m.touched[cell] ? writing(m, rowsOf(m, cell)[0], phase) : "no";
    // Before its turn a cell shows what it held.
    const [role, opacity] = moving && when !== "done" ? shade(before.age[cell], mostBefore) : shade(m.age[cell], most);
    const span = spanOf(m, cell, order);
    for (let column = 0; column < m.columns; column++) {
      const top = outer - column * thick;
      sector(pen, top - 0.66 * thick, top, span);
      pen.globalAlpha = opacity;
      pen.fillStyle = color(role);
      pen.fill();
      pen.globalAlpha = 1;
      if (!m.touched[cell] || (moving && when !== "done")) continue;
      pen.lineWidth = m.cells > 128 ? 1 : 2;
      pen.strokeStyle = color(m.touched[cell] === 2 ? "warn" : "good");
      pen.stroke();
    }
  }
  paintDrawn(pen, m, phase, size, order, color);
}

function paintDrawn(pen, m, phase, size, order, color) {
  const { outer, thick } = radii(m, size);
  const all = sampled(m);
  for (const [row, column] of all.slice(0, Math.ceil(all.length * phase))) {
    if (column >= m.columns) continue;
    const angle = spanOf(m, cellOf(m, row), order).reduce((a, b) => a + b) / 2;
    const r = outer - (column + 0.33) * thick;
    pen.beginPath();
    pen.arc(r * Math.sin(angle), -r * Math.cos(angle), Math.min(0.2 * thick, 5), 0, TURN);
    pen.fillStyle = color("c1");
    pen.fill();
    pen.lineWidth = 1;
    pen.strokeStyle = color("paper");
    pen.stroke();
  }
}

function paintArcs(pen, { m, phase, order, sliceLen }, size, color) {
  const { outer, thick } = radii(m, size);
  const ribbon = (column, row, length, lift, role, width, dashed) => {
    const r = outer - column * thick + 0.17 * thick + lift;
    const from = angleOf(m, row, order) - TURN / 4;
    pen.beginPath();
    pen.arc(0, 0, r, from, from + Math.max((TURN * length) / m.size - Math.min((0.25 * TURN) / m.size, GAP), 0.004));
    pen.strokeStyle = color(role);
    pen.lineWidth = width;
    pen.setLineDash(dashed ? [3, 3] : []);
    pen.stroke();
    pen.setLineDash([]);
  };
  arcsOf(m).forEach((arc, i) => {
    if (arc.column >= m.columns) return;
    const short = arc.length < sliceLen;
    ribbon(arc.column, arc.start, arc.length, 0, short ? "bad" : TRAJECTORY_ROLES[i % 2], 3, short);
  });
  const slices = m.slices.length / 3;
  for (let i = 0; i < Math.ceil(slices * phase); i++) {
    const [column, row, length] = m.slices.slice(3 * i, 3 * i + 3);
    // Slices that overlap lie beside each other.
    if (column < m.columns) ribbon(column, row, length, m.columns > 1 ? 3 : 6 + 4 * (i % 3), "ink", m.columns > 1 ? 2 : 3, false);
  }
}

function paintSelection(pen, { m, order, row, column }, size, color) {
  const { outer, thick } = radii(m, size);
  const top = outer - Math.min(column, m.columns - 1) * thick;
  sector(pen, top - 0.66 * thick - 2, top + 2, spanOf(m, cellOf(m, row), order));
  pen.strokeStyle = color("ink");
  pen.lineWidth = 2.5;
  pen.stroke();
}

function paintCursor(pen, { m, phase, order, before }, size, color) {
  const { outer, inner } = radii(m, size);
  const line = (text, y, font, role) => { pen.font = font; pen.fillStyle = color(role); pen.fillText(text, 0, y); };
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  const moving = phase < 1 && before && m.wrote[1] > 0;
  const cursor = moving ? (m.wrote[0] + writtenAt(m, phase)) % m.size : m.cursor % m.size;
  line(m.length.toLocaleString("en"), -12, "600 18px system-ui, sans-serif", "ink");
  line(m.limit === null ? "rows, no limit" : `of ${m.limit.toLocaleString("en")} rows`, 8, "12px system-ui, sans-serif", "muted");
  if (!m.turns) return;
  line(`next: row ${cursor.toLocaleString("en")}`, 26, "12px system-ui, sans-serif", "danger");
  const angle = angleOf(m, cursor, order);
  const at = (r, turn = 0) => [r * Math.sin(angle + turn), -r * Math.cos(angle + turn)];
  if (m.seam && !moving) {
    pen.strokeStyle = color("ink");
    pen.lineWidth = 1.5;
    pen.setLineDash([4, 3]);
    pen.beginPath(); pen.moveTo(...at(inner)); pen.lineTo(...at(outer + 22)); pen.stroke();
    pen.setLineDash([]);
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = color("muted");
    pen.fillText("seam", ...at(outer + 34));
  }
  pen.fillStyle = color("danger");
  pen.beginPath();
  pen.moveTo(...at(inner));
  pen.lineTo(...at(inner - 15, -0.11));
  pen.lineTo(...at(inner - 15, 0.11));
  pen.closePath();
  pen.fill();
  const zero = angleOf(m, 0, order);
  if (!(m.seam && !moving) || Math.abs(Math.sin((zero - angle) / 2)) > 0.12) {
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = color("muted");
    pen.fillText("0", (outer + 20) * Math.sin(zero), -(outer + 20) * Math.cos(zero));
  }
}

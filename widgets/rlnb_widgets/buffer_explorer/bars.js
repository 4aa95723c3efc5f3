// Bars below the ring, a cell each: how often drawn against what was expected, priorities, weights.

import { clamp, h, stage, text } from "../_core/core.js";
import { cellOf, overColumns } from "./frames.js";
import { cellAt, slotOf } from "./geometry.js";
import { meanPriorities, weight } from "./weights.js";

const LEFT = 118;
const RIGHT = 8;
const TALL = 50;
const GAP = 16;

/** The rows of bars: { name, about, values, line, role }. */
export function barRows(m, beta) {
  const rows = [];
  if (m.batches) {
    const expected = m.expected.length ? overColumns(m, m.expected) : null;
    rows.push({ name: "draws", about: expected ? "dashed: expected" : "expected: not known", values: overColumns(m, m.draws), line: expected, role: "c1" });
  }
  if (m.priorities && m.priorities.total > 0) {
    const means = meanPriorities(m);
    rows.push({ name: "priorities", about: `stored, sum ${text(m.priorities.total)}`, values: overColumns(m, m.priorities.sums), line: null, role: "c4" });
    rows.push({ name: "weights", about: `at beta ${beta.toFixed(2)}`, values: means.map((p) => weight(p, m.priorities.least, beta)), line: null, role: "c5" });
  }
  return rows;
}

/** state() gives { m, order, row, beta }; onSelect(cell) hears of clicks. */
export function barsPanel(state, onSelect) {
  const el = h("div", { class: "be-chart be-bars", role: "img" });
  const view = stage(el, (pen, { width, color }) => {
    const { m, order, row, beta } = state();
    const step = (width - LEFT - RIGHT) / m.cells;
    pen.textBaseline = "middle";
    const here = LEFT + slotOf(m, cellOf(m, row), order) * step;
    barRows(m, beta).forEach(({ name, about, values, line, role }, i) => {
      const top = i * (TALL + GAP) + 4;
      const most = Math.max(values.reduce((a, b) => Math.max(a, b), 0), line ? line.reduce((a, b) => Math.max(a, b), 0) : 0) || 1;
      pen.fillStyle = color("highlight");
      pen.fillRect(here, top, Math.max(step, 2), TALL);
      pen.font = "600 12px system-ui, sans-serif";
      pen.fillStyle = color("ink");
      pen.fillText(name, 0, top + 10);
      pen.font = "11px system-ui, sans-serif";
      pen.fillStyle = color("muted");
      pen.fillText(`to ${text(Number(most.toPrecision(3)))}`, 0, top + 26);
      pen.fillText(about, 0, top + 41, LEFT - 8);
      pen.fillStyle = color(role);
      values.forEach((value, cell) => {
        const tall = (value / most) * TALL;
        if (tall > 0) pen.fillRect(LEFT + slotOf(m, cell, order) * step, top + TALL - tall, Math.max(step * 0.86, 0.5), tall);
      });
      pen.fillStyle = color("line");
      pen.fillRect(LEFT, top + TALL, width - LEFT - RIGHT, 1);
      if (!line) return;
      pen.strokeStyle = color("ink");
      pen.lineWidth = 1.2;
      pen.setLineDash([4, 3]);
      pen.beginPath();
      for (let slot = 0; slot < m.cells; slot++) pen.lineTo(LEFT + (slot + 0.43) * step, top + TALL - (line[cellAt(m, slot, order)] / most) * TALL);
      pen.stroke();
      pen.setLineDash([]);
    });
  });
  const pick = (event) => {
    const { m, order } = state();
    const box = el.getBoundingClientRect();
    const slot = Math.floor(((event.clientX - box.left - LEFT) / Math.max(box.width - LEFT - RIGHT, 1)) * m.cells);
    if (slot >= 0) onSelect(cellAt(m, clamp(slot, 0, m.cells - 1), order));
  };
  el.addEventListener("pointerdown", (event) => { if (event.button === 0) { el.setPointerCapture(event.pointerId); pick(event); } });
  el.addEventListener("pointermove", (event) => { if (el.hasPointerCapture(event.pointerId)) pick(event); });
  const update = () => {
    const { m, beta } = state();
    const rows = barRows(m, beta);
    el.hidden = rows.length === 0;
    el.style.height = `${rows.length * (TALL + GAP)}px`;
    el.setAttribute("aria-label", `by cell: ${rows.map(({ name, about }) => `${name}, ${about}`).join("; ")}`);
    view.invalidate();
  };
  return { el, update, destroy: view.destroy };
}

// Importance weights: pure functions of stored priorities and beta, and the chart of weights against beta.

import { clamp, h, stage, text } from "../_core/core.js";
import { cellOf, filledIn, overColumns } from "./frames.js";

/** The weight of an element: (its stored priority / the smallest)^-beta. */
export const weight = (priority, least, beta) => (priority > 0 && least > 0 ? (priority / least) ** -beta : 0);

/** The mean stored priority of the elements of each cell. */
export function meanPriorities(m) {
  const sums = overColumns(m, m.priorities.sums);
  return sums.map((sum, cell) => { const n = filledIn(m, cell) * m.columns; return n ? sum / n : 0; });
}

/** The panel: a slider for beta, and one curve each for the largest priority, the smallest, and the selected cell. */
export function weightsPanel({ moment, row, beta, onBeta }) {
  const out = h("output", {});
  const slider = h("input", { type: "range", min: 0, max: 1, step: 0.01, value: beta(), class: "be-range", "aria-label": "beta" });
  slider.addEventListener("input", () => onBeta(Number(slider.value)));
  const chart = h("div", { class: "be-chart be-curves", role: "img" });
  const words = h("p", { class: "rlnb-note be-small" });
  const el = h("section", { class: "be-panel", "data-part": "weights" },
    h("h4", {}, "Importance weights against beta"),
    h("label", { class: "be-label" }, "beta ", slider, " ", out), chart, words);
  const curves = (m) => {
    const p = m.priorities;
    const here = meanPriorities(m)[cellOf(m, row())];
    const all = [["smallest priority", p.least, "c2"], ["largest priority", p.most, "c3"]];
    return here > 0 ? [...all, [`row ${row().toLocaleString("en")}`, here, "c0"]] : all;
  };
  const view = stage(chart, (pen, { width, height, color }) => {
    const m = moment();
    if (!m.priorities || !(m.priorities.total > 0)) return;
    const [left, right, top, bottom] = [34, width - 10, 8, height - 22];
    const x = (b) => left + b * (right - left);
    const y = (w) => bottom - clamp(w, 0, 1) * (bottom - top);
    pen.font = "11px system-ui, sans-serif";
    pen.strokeStyle = color("line");
    pen.fillStyle = color("muted");
    pen.textBaseline = "middle";
    for (const w of [0, 0.5, 1]) {
      pen.beginPath(); pen.moveTo(left, y(w)); pen.lineTo(right, y(w)); pen.stroke();
      pen.textAlign = "right"; pen.fillText(String(w), left - 6, y(w));
    }
    pen.textAlign = "center";
    for (const b of [0, 0.5, 1]) pen.fillText(`${b}`, x(b), bottom + 12);
    for (const [, p, role] of curves(m)) {
      pen.strokeStyle = color(role);
      pen.lineWidth = 2;
      pen.beginPath();
      for (let i = 0; i <= 60; i++) pen.lineTo(x(i / 60), y(weight(p, m.priorities.least, i / 60)));
      pen.stroke();
    }
    pen.lineWidth = 1;
    pen.strokeStyle = color("ink");
    pen.setLineDash([4, 3]);
    pen.beginPath(); pen.moveTo(x(beta()), top); pen.lineTo(x(beta()), bottom); pen.stroke();
    pen.setLineDash([]);
    for (const [, p, role] of curves(m)) {
      pen.fillStyle = color(role);
      pen.beginPath(); pen.arc(x(beta()), y(weight(p, m.priorities.least, beta())), 3.5, 0, 7); pen.fill();
    }
  });
  const update = () => {
    const m = moment();
    el.hidden = !m.priorities || !(m.priorities.total > 0);
    if (el.hidden) return;
    if (Number(slider.value) !== beta()) slider.value = String(beta());
    out.textContent = beta().toFixed(2);
    const parts = curves(m).map(([name, p, role]) => [name, text(Number(weight(p, m.priorities.least, beta()).toPrecision(3))), role]);
    words.replaceChildren(...parts.map(([name, w, role]) => h("span", { class: "be-key" }, h("span", { class: "be-swatch", style: `background:var(--rlnb-${role})` }), `${name}: ${w}`)),
      h("span", {}, beta() === m.priorities.beta ? "the sampler's beta" : `the sampler's beta is ${text(m.priorities.beta)}`));
    chart.setAttribute("aria-label", `weights at beta ${beta().toFixed(2)}: ${parts.map(([name, w]) => `${name} ${w}`).join(", ")}`);
    view.invalidate();
  };
  return { el, update, destroy: view.destroy };
}

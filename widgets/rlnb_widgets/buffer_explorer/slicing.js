// Slices: whether there are any of a length, and why not; the lengths of the trajectories against it.

import { clamp, h, stage } from "../_core/core.js";

/** How many trajectories are long enough for a slice, at how many places it can begin, and the longest. */
export function fitting(lengths, size) {
  let [fit, total, starts, longest] = [0, 0, 0, 0];
  for (let i = 0; i < lengths.length; i += 2) {
    const [length, count] = [lengths[i], lengths[i + 1]];
    total += count;
    longest = Math.max(longest, length);
    if (length >= size) { fit += count; starts += (length - size + 1) * count; }
  }
  return { fit, total, starts, longest };
}

const many = (n, one, more = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : more}`;

/** The verdict on slices of a length. */
export function verdict(m, size, strict) {
  const { fit, total, starts, longest } = fitting(m.lengths, size);
  if (!total) return "";
  const mixed = m.interleaved
    ? ` ${many(m.interleaved, "trajectory is", "trajectories are")} interleaved with others, and a slice is a run of rows one after another: a storage with ndim=2 gives each env a column of its own.` : "";
  if (fit) {
    const rest = fit === total ? "" : strict ? ` ${many(total - fit, "trajectory is", "trajectories are")} too short and left out.` : ` ${many(total - fit, "trajectory is", "trajectories are")} shorter and drawn whole.`;
    return `A slice of ${many(size, "row")} fits into ${fit.toLocaleString("en")} of ${many(total, "trajectory", "trajectories")}, at ${many(starts, "start")}.${rest}${mixed}`;
  }
  if (!strict) return `No trajectory has ${many(size, "row")}: each is drawn whole, since strict_length is False.${mixed}`;
  return `A slice of ${many(size, "row")} is impossible: the longest ${m.interleaved ? "run" : `of ${many(total, "trajectory", "trajectories")}`} has ${many(longest, "row")}.${mixed}`;
}

/** The panel; size() is the length asked for, onSize(length) hears of a new one. */
export function slicesPanel({ moment, size, onSize, strict }) {
  const out = h("output", {});
  const slider = h("input", { type: "range", min: 1, max: 2, step: 1, value: 1, class: "be-range", "aria-label": "length of slices" });
  slider.addEventListener("input", () => onSize(Number(slider.value)));
  const chart = h("div", { class: "be-chart be-lengths", role: "img" });
  const words = h("p", { class: "be-verdict", "aria-live": "polite" });
  const told = h("p", { class: "be-verdict rlnb-note" });
  const el = h("section", { class: "be-panel", "data-part": "slices" },
    h("h4", {}, "Slices"), h("label", { class: "be-label" }, "length ", slider, " ", out), chart, words, told);
  const view = stage(chart, (pen, { width, height, color }) => {
    const { lengths } = moment();
    const { longest } = fitting(lengths, 1);
    const [left, right, bottom] = [4, width - 4, height - 18];
    const span = Math.max(longest, size()) + 1;
    const bins = Math.min(span, 120);
    const counts = new Float64Array(bins);
    const binOf = (length) => Math.min(Math.floor((length / span) * bins), bins - 1);
    for (let i = 0; i < lengths.length; i += 2) counts[binOf(lengths[i])] += lengths[i + 1];
    const most = counts.reduce((a, b) => Math.max(a, b), 1);
    const step = (right - left) / bins;
    counts.forEach((count, bin) => {
      pen.fillStyle = color(bin < binOf(size()) ? "bad" : "c2");
      const tall = (count / most) * (bottom - 6);
      if (count) pen.fillRect(left + bin * step, bottom - tall, Math.max(step * 0.86, 1), tall);
    });
    const x = left + (binOf(size())) * step;
    pen.strokeStyle = color("ink");
    pen.setLineDash([4, 3]);
    pen.beginPath(); pen.moveTo(x, 0); pen.lineTo(x, bottom); pen.stroke();
    pen.setLineDash([]);
    pen.fillStyle = color("muted");
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    pen.fillText("trajectories by length, from 0", left, bottom + 10);
    pen.textAlign = "right";
    pen.fillText(many(longest, "row"), right, bottom + 10);
  });
  const update = () => {
    const m = moment();
    el.hidden = !m.arcCount;
    if (el.hidden) return;
    const { longest } = fitting(m.lengths, 1);
    slider.max = String(Math.max(longest + 4, size()));
    slider.value = String(size());
    out.textContent = String(size());
    const asked = m.slicing && m.slicing[0] === size();
    words.textContent = asked ? m.slicing[1] : verdict(m, size(), strict);
    words.setAttribute("data-possible", String(!strict || fitting(m.lengths, size()).fit > 0));
    told.hidden = asked || !m.slicing;
    told.textContent = m.slicing ? `Asked for: ${m.slicing[1]}` : "";
    chart.setAttribute("aria-label", `lengths of ${m.arcCount} trajectories against slices of ${size()}`);
    view.invalidate();
  };
  return { el, update, clampTo: (n) => clamp(n, 1, 1e9), destroy: view.destroy };
}

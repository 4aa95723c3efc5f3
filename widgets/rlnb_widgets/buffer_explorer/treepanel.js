// The sum tree on the page: nodes as wide as their sums, and a draw that goes down them one by one.

import { button, clamp, h, stage, text } from "../_core/core.js";
import { cellOf, rowsOf } from "./frames.js";
import { descend, levelsOf, massOf, stepWords } from "./sumtree.js";

const TALL = 22;
const STEP_MS = 550;
const short = (x) => text(Number(x.toPrecision(4)));

/** The leaves: the priorities of the cells, those of one row beside each other. */
export function leavesOf(m) {
  const leaves = new Float64Array(m.cells * m.columns);
  for (let cell = 0; cell < m.cells; cell++) {
    for (let column = 0; column < m.columns; column++) leaves[cell * m.columns + column] = m.priorities.sums[column * m.cells + cell];
  }
  return leaves;
}

/** What a leaf stands for. */
export function leafName(m, leaf) {
  const [from, to] = rowsOf(m, Math.floor(leaf / m.columns));
  const rows = to - from === 1 ? `row ${from.toLocaleString("en")}` : `one of rows ${from.toLocaleString("en")} to ${(to - 1).toLocaleString("en")}`;
  return m.columns > 1 ? `${rows}, column ${leaf % m.columns}` : rows;
}

/** The panel; onLeaf(row, column) is called when a draw has come to a leaf. */
export function treePanel({ moment, row, column, onLeaf, starts }) {
  let share = 0.5; // of the whole mass
  let depth = 0; // how far down
  let timer = 0;
  let levels = [];
  let seen = null;
  const slider = h("input", { type: "range", min: 0, max: 1, step: 0.001, value: share, class: "be-range", "aria-label": "number drawn, as a share of the sum" });
  const out = h("output", {});
  const words = h("p", { class: "be-step", "aria-live": "polite" });
  const chart = h("div", { class: "be-chart be-tree", role: "img" });
  const act = (label, words_, onclick) => button({ text: words_, label, onclick });
  const down = act("one node down", "down", () => { stop(); move(1); });
  const up = act("one node up", "up", () => { stop(); move(-1); });
  const el = h("section", { class: "be-panel", "data-part": "tree" },
    h("h4", {}, "Sum tree"),
    h("div", { class: "rlnb-bar" },
      h("label", { class: "be-label" }, "number drawn ", slider, " ", out),
      h("span", { class: "rlnb-group" }, act("draw a number and go down", "draw", draw), up, down,
        act("draw a number that leads to the selected cell", "to the selected cell", toSelected))),
    chart, words,
    h("p", { class: "rlnb-note be-small" }, "Each node is the sum of the two below it, and as wide. The library's tree has up to 32 children a node, or searches running sums, and finds the same element.",
      starts ? " What is drawn so is where a slice begins." : ""));
  slider.addEventListener("input", () => { stop(); share = Number(slider.value); depth = levels.length - 1; land(); update(); });

  const mass = () => clamp(share, 0, 1 - 1e-12) * (levels[0]?.[0] ?? 0);
  const path = () => descend(levels, mass());
  function stop() { clearTimeout(timer); timer = 0; }
  function land() {
    const last = path().at(-1);
    const m = moment();
    if (depth === levels.length - 1) onLeaf(rowsOf(m, Math.floor(last.node / m.columns))[0], last.node % m.columns);
  }
  function move(by) {
    const to = clamp(depth + by, 0, levels.length - 1);
    if (to === depth) return false;
    depth = to;
    land();
    update();
    return true;
  }
  function run() {
    stop();
    if (globalThis.matchMedia?.("(prefers-reduced-motion: reduce)").matches) { depth = levels.length - 1; land(); update(); return; }
    depth = 0;
    update();
    const tick = () => { if (move(1)) timer = setTimeout(tick, STEP_MS); };
    timer = setTimeout(tick, STEP_MS);
  }
  function draw() { share = Math.random(); run(); }
  function toSelected() {
    const m = moment();
    const leaf = cellOf(m, row()) * m.columns + Math.min(column(), m.columns - 1);
    const leaves = leavesOf(m);
    if (leaves[leaf] > 0) { share = massOf(leaves, leaf) / levels[0][0]; run(); }
  }

  const view = stage(chart, (pen, { width, color }) => {
    if (!levels.length || !(levels[0][0] > 0)) return;
    const scale = (width - 4) / levels[0][0];
    const way = path().slice(0, depth + 1);
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    levels.forEach((level, d) => {
      let x = 2;
      level.forEach((sum, node) => {
        const w = sum * scale;
        const on = way[d]?.node === node;
        if (w > 0.2 || on) {
          pen.fillStyle = color(on ? "c4" : "panel");
          pen.fillRect(x, d * TALL + 2, Math.max(w - (w > 3 ? 1 : 0), 0.6), TALL - 3);
          if (w > 3 && !on) { pen.strokeStyle = color("line"); pen.strokeRect(x + 0.5, d * TALL + 2.5, w - 2, TALL - 4); }
          const label = short(sum);
          if (w > pen.measureText(label).width + 6) {
            pen.fillStyle = color(on ? "paper" : "ink");
            pen.fillText(label, x + w / 2, d * TALL + TALL / 2 + 1);
          }
        }
        x += w;
      });
    });
    const x = 2 + mass() * scale;
    pen.strokeStyle = color("ink");
    pen.lineWidth = 1.5;
    pen.setLineDash([4, 3]);
    pen.beginPath(); pen.moveTo(x, 0); pen.lineTo(x, (depth + 1) * TALL); pen.stroke();
    pen.setLineDash([]);
  });

  const update = () => {
    const m = moment();
    el.hidden = !m.priorities || !(m.priorities.total > 0);
    if (el.hidden) return stop();
    if (seen !== m) {
      seen = m;
      levels = levelsOf(leavesOf(m));
      depth = levels.length - 1;
      chart.style.height = `${levels.length * TALL + 4}px`;
    }
    slider.value = String(share);
    out.textContent = `${short(mass())} of ${short(levels[0][0])}`;
    const step = path()[depth];
    words.textContent = stepWords(levels, step, (leaf) => leafName(m, leaf), short);
    chart.setAttribute("aria-label", `sum tree of ${levels.length} levels; ${words.textContent}`);
    el.setAttribute("data-depth", String(depth));
    el.setAttribute("data-leaf", String(path().at(-1).node));
    up.disabled = depth === 0;
    down.disabled = depth === levels.length - 1;
    view.invalidate();
  };
  return { el, update, destroy: () => { stop(); view.destroy(); } };
}

// The panels with a slider: the sum tree with a draw that goes down it, the weights against beta, and slices of a length.

import { button, clamp, h, reducedMotion } from "../_core/core.js";
import { descend, massOf, stepWords } from "./sumtree.js";
import { fitting, verdict } from "./slices.js";
import { cellOf, leavesOf, rowsOf, short, weight } from "./values.js";

const LEVEL = 22; // pixels, as in scene.py
const STEP_MS = 550;

/** What a leaf stands for. */
export function leafName(m, leaf) {
  const [from, to] = rowsOf(m, Math.floor(leaf / m.columns));
  const rows = to - from === 1 ? `row ${from.toLocaleString("en")}` : `one of rows ${from.toLocaleString("en")} to ${(to - 1).toLocaleString("en")}`;
  return m.columns > 1 ? `${rows}, column ${leaf % m.columns}` : rows;
}

const range = (label, attributes, oninput) => h("input", { type: "range", class: "be-range", "aria-label": label, ...attributes, oninput });
const note = (...words) => h("p", { class: "rlnb-note rlnb-small" }, ...words);

/** A place for one of several pictures. */
function frameOf() {
  const el = h("div", {});
  return { el, show(picture) { if (el.firstChild !== picture.el) el.replaceChildren(picture.el); } };
}

/** The tree; chart(levels) gives its picture, onLeaf(row, column) is called when a draw has come to a leaf. */
export function treePanel({ moment, numbers, row, column, onLeaf, starts, chart, repaint }) {
  let share = 0.5; // of the whole mass
  let depth = 0; // how far down
  let timer = 0;
  let seen = null;
  const slider = range("number drawn, as a share of the sum", { min: 0, max: 1, step: 0.001, value: share }, () => {
    stop();
    share = Number(slider.value);
    depth = levels().length - 1;
    land();
    changed();
  });
  const out = h("output", {});
  const words = h("p", { class: "be-step", "aria-live": "polite" });
  const frame = frameOf();
  const act = (label, text, onclick) => button({ text, label, solid: true, onclick });
  const down = act("one node down", "down", () => { stop(); move(1); });
  const up = act("one node up", "up", () => { stop(); move(-1); });
  const el = h("section", { class: "be-panel", "data-part": "tree" },
    h("div", { class: "rlnb-bar" },
      h("label", { class: "be-label" }, "number drawn ", slider, " ", out),
      h("span", { class: "rlnb-group" }, act("draw a number and go down", "draw", draw), up, down,
        act("draw a number that leads to the selected cell", "to the selected cell", toSelected))),
    words, frame.el,
    note("Each node holds the sum of the two below it, so a random number finds its item in as many steps as there are levels, however large the buffer is. The library's own tree has up to 32 children per node; it finds the same item.",
      starts ? " The item found is the first row of a slice." : ""));

  const levels = () => numbers().levels;
  const mass = () => clamp(share, 0, 1 - 1e-12) * (levels()[0]?.[0] ?? 0);
  const path = () => descend(levels(), mass());
  function stop() { clearTimeout(timer); timer = 0; }
  function changed() { update(); repaint(); }
  function land() {
    if (depth !== levels().length - 1) return;
    const { node } = path().at(-1);
    onLeaf(rowsOf(moment(), Math.floor(node / moment().columns))[0], node % moment().columns);
  }
  function move(by) {
    const to = clamp(depth + by, 0, levels().length - 1);
    if (to === depth) return false;
    depth = to;
    land();
    changed();
    return true;
  }
  function run() {
    stop();
    if (reducedMotion()) { depth = levels().length - 1; land(); changed(); return; }
    depth = 0;
    changed();
    const tick = () => { if (move(1)) timer = setTimeout(tick, STEP_MS); };
    timer = setTimeout(tick, STEP_MS);
  }
  function draw() { share = Math.random(); run(); }
  function toSelected() {
    const m = moment();
    const leaf = cellOf(m, row()) * m.columns + Math.min(column(), m.columns - 1);
    const leaves = leavesOf(m);
    if (leaves[leaf] > 0) { share = massOf(leaves, leaf) / levels()[0][0]; run(); }
  }
  const params = () => {
    const { columns } = numbers();
    const found = { total: levels()[0]?.[0] ?? 1, mass: mass(), reached: (depth + 1) * LEVEL };
    const way = levels().length ? path() : [];
    way.forEach((step, d) => Object.assign(found, {
      [`on${d}`]: d <= depth ? 1 : 0, [`way${d}`]: columns[`node${d}`][step.node], [`way${d} to`]: columns[`node${d} to`][step.node],
    }));
    return found;
  };
  const update = () => {
    const m = moment();
    if (!m.priorities || !(m.priorities.total > 0)) {
      words.textContent = "No item has a priority above 0, so nothing can be drawn.";
      frame.el.replaceChildren();
      return stop();
    }
    if (seen !== m) depth = levels().length - 1;
    seen = m;
    const picture = chart(levels().length);
    frame.show(picture);
    slider.value = String(share);
    out.textContent = `${short(mass(), 4)} of ${short(levels()[0][0], 4)}`;
    words.textContent = stepWords(levels(), path()[depth], (leaf) => leafName(m, leaf), (x) => short(x, 4));
    picture.el.setAttribute("aria-label", `sum tree of ${levels().length} levels; ${words.textContent}`);
    Object.assign(el.dataset, { depth, leaf: path().at(-1).node });
    up.disabled = depth === 0;
    down.disabled = depth === levels().length - 1;
  };
  return { el, update, params, destroy: stop };
}

/** The weights: a slider for beta, and one curve each for the largest priority, the smallest, and the selected cell. */
export function weightsPanel({ moment, numbers, row, beta, onBeta, chart }) {
  const out = h("output", {});
  const slider = range("beta", { min: 0, max: 1, step: 0.01, value: beta() }, () => onBeta(Number(slider.value)));
  const frame = frameOf();
  const words = h("p", { class: "be-step" });
  const el = h("section", { class: "be-panel", "data-part": "weights" },
    h("label", { class: "be-label" }, "beta ", slider, " ", out), words, frame.el,
    note("The larger beta is, the less a transition counts that is drawn often. At beta 1 the weights undo the bias of the priorities exactly."));
  const name = { smallest: "smallest priority (dashed)", largest: "largest priority (dotted)" };
  const update = () => {
    const p = moment().priorities;
    const picture = chart();
    if (!p || !picture) return;
    frame.show(picture);
    if (Number(slider.value) !== beta()) slider.value = String(beta());
    out.textContent = beta().toFixed(2);
    const parts = numbers().curves.map(([key, priority]) => `${name[key] ?? `row ${row().toLocaleString("en")} (solid)`}: ${short(weight(priority, p.least, beta()))}`);
    words.textContent = `Weight of the ${parts.join(", ")}. ${beta() === p.beta ? "This is the sampler's beta." : `The sampler's beta is ${short(p.beta)}.`}`;
    picture.el.setAttribute("aria-label", `weights at beta ${beta().toFixed(2)}: ${parts.join(", ")}`);
  };
  return { el, update };
}

/** Slices; size() is the length asked for, onSize(length) is called with a new one. */
export function slicesPanel({ moment, size, onSize, strict, chart }) {
  const out = h("output", {});
  const slider = range("length of slices", { min: 1, max: 2, step: 1, value: 1 }, () => onSize(Number(slider.value)));
  const frame = frameOf();
  const words = h("p", { class: "be-verdict", "aria-live": "polite" });
  const asked = h("p", { class: "be-verdict rlnb-note" });
  const el = h("section", { class: "be-panel", "data-part": "slices" },
    h("label", { class: "be-label" }, "length ", slider, " ", out), words, asked, frame.el,
    note("Trajectories by their length: those left of the dashed line are too short for a slice."));
  const update = () => {
    const m = moment();
    const picture = chart();
    if (!picture) return;
    frame.show(picture);
    const { longest } = fitting(m.lengths, 1);
    slider.max = String(Math.max(longest + 4, size()));
    slider.value = String(size());
    out.textContent = String(size());
    const own = m.slicing && m.slicing[0] === size();
    words.textContent = own ? m.slicing[1] : verdict(m, size(), strict);
    words.setAttribute("data-possible", String(!strict || fitting(m.lengths, size()).fit > 0));
    asked.hidden = own || !m.slicing;
    asked.textContent = m.slicing ? `Asked for: ${m.slicing[1]}` : "";
    picture.el.setAttribute("aria-label", `lengths of ${m.arcCount} trajectories against slices of ${size()}`);
  };
  return { el, update };
}


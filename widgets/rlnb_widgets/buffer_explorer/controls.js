// The panels with a slider: the sum tree with a draw that goes down it, the weights against beta, and slices of a length.

import { button, clamp, h, motion, reducedMotion } from "../_core/core.js";
import { cellOf, fitting, n, rowsOf, short, stepWords, verdict, weight } from "./values.js";

const LEVEL = 22; // pixels, as in scene.py
const STEP_MS = 550;

/** What a leaf stands for. */
export function leafName(m, leaf) {
  const [from, to] = rowsOf(m, Math.floor(leaf / m.columns));
  const rows = to - from === 1 ? `row ${n(from)}` : `one of rows ${n(from)} to ${n(to - 1)}`;
  return m.columns > 1 ? `${rows}, column ${leaf % m.columns}` : rows;
}

/** A panel with a slider, what it says (`lines`, paragraphs), one of several pictures, and a note. */
function sliderPanel(part, words, { label = words, tools = null, lines, note, oninput, ...range }) {
  const slider = h("input", { type: "range", class: "be-range", "aria-label": label, ...range, oninput: () => oninput(Number(slider.value)) });
  const out = h("output", {});
  const head = h("label", { class: "be-label" }, `${words} `, slider, " ", out);
  const place = h("div", {});
  const el = h("section", { class: "be-panel", "data-part": part }, tools ? h("div", { class: "rlnb-bar" }, head, tools) : head,
    ...lines, place, h("p", { class: "rlnb-note rlnb-small" }, note));
  const show = (picture, value, said) => {
    if (place.firstChild !== picture.el) place.replaceChildren(picture.el);
    if (Number(slider.value) !== value) slider.value = String(value);
    out.textContent = said;
  };
  return { el, slider, show, clear: () => place.replaceChildren() };
}

/** The tree; chart(levels) gives its picture, onLeaf(row, column) is called when a draw has come to a leaf. */
export function treePanel({ moment, tree, row, column, onLeaf, starts, chart, repaint }) {
  let share = 0.5; // of the whole mass
  let depth = 0; // how far down
  let fall = null;
  let seen = null;
  const words = h("p", { class: "be-step", "aria-live": "polite" });
  const act = (label, text, onclick) => button({ text, label, solid: true, onclick });
  const down = act("one node down", "down", () => { stop(); goTo(depth + 1); });
  const up = act("one node up", "up", () => { stop(); goTo(depth - 1); });
  const panel = sliderPanel("tree", "number drawn", {
    label: "number drawn, as a share of the sum", min: 0, max: 1, step: 0.001, value: share, lines: [words],
    oninput: (value) => { stop(); share = value; goTo(bottom()); },
    tools: h("span", { class: "rlnb-group" }, act("draw a number and go down", "draw", () => { share = Math.random(); run(); }), up, down,
      act("draw a number that leads to the selected cell", "to the selected cell", toSelected)),
    note: `Each node holds the sum of the two below it, so a random number finds its item in as many steps as there are levels, however large the buffer is. The library's own tree has up to 32 children per node; it finds the same item.${starts ? " The item found is the first row of a slice." : ""}`,
  });

  const bottom = () => tree().levels - 1;
  const total = () => tree().span(0, 0)[1];
  const mass = () => clamp(share, 0, 1 - 1e-12) * total();
  const leaf = () => tree().leafAt(mass());
  const stop = () => fall?.stop();
  function goTo(level) {
    depth = level;
    if (depth === bottom()) onLeaf(rowsOf(moment(), Math.floor(leaf() / moment().columns))[0], leaf() % moment().columns);
    update();
    repaint();
  }
  function run() {
    stop();
    if (reducedMotion() || !bottom()) return goTo(bottom());
    fall = motion(STEP_MS * bottom(), (past) => { if (Math.floor(past * bottom()) !== depth) goTo(Math.floor(past * bottom())); });
    fall.start();
  }
  function toSelected() {
    const m = moment();
    const [start, stop] = tree().span(bottom(), cellOf(m, row()) * m.columns + Math.min(column(), m.columns - 1));
    if (stop > start) { share = (start + stop) / 2 / total(); run(); }
  }
  const params = () => {
    const found = { total: total() || 1, mass: mass(), reached: (depth + 1) * LEVEL };
    for (let d = 0; total() > 0 && d <= bottom(); d++) {
      const [from, to] = tree().span(d, Math.floor(leaf() / 2 ** (bottom() - d)));
      Object.assign(found, { [`on${d}`]: Number(d <= depth), [`way${d}`]: from, [`way${d} to`]: to });
    }
    return found;
  };
  function update() {
    const m = moment();
    if (!(m.priorities?.total > 0)) {
      words.textContent = "No item has a priority above 0, so nothing can be drawn.";
      panel.clear();
      return stop();
    }
    if (seen !== m) depth = bottom();
    seen = m;
    const picture = chart(tree().levels);
    panel.show(picture, share, `${short(mass(), 4)} of ${short(total(), 4)}`);
    words.textContent = stepWords(tree(), mass(), depth, (leaf) => leafName(m, leaf));
    picture.el.setAttribute("aria-label", `sum tree of ${tree().levels} levels; ${words.textContent}`);
    Object.assign(panel.el.dataset, { depth, leaf: leaf() });
    up.disabled = depth === 0;
    down.disabled = depth === bottom();
  }
  return { el: panel.el, update, params, destroy: stop };
}

/** The weights: a slider for beta, and one curve each for the largest priority, the smallest, and the selected cell. */
export function weightsPanel({ moment, curves, row, beta, onBeta, chart }) {
  const words = h("p", { class: "be-step" });
  const panel = sliderPanel("weights", "beta", {
    min: 0, max: 1, step: 0.01, value: beta(), oninput: onBeta, lines: [words],
    note: "The larger beta is, the less a frequently drawn transition counts. At beta 1 the weights undo the bias of the priorities exactly.",
  });
  const name = { smallest: "smallest priority (dashed)", largest: "largest priority (dotted)" };
  const update = () => {
    const p = moment().priorities;
    const picture = chart();
    if (!p || !picture) return;
    panel.show(picture, beta(), beta().toFixed(2));
    const parts = curves().map(([key, priority]) => `${name[key] ?? `row ${n(row())} (solid)`}: ${short(weight(priority, p.least, beta()))}`);
    words.textContent = `Weight of the ${parts.join(", ")}. ${beta() === p.beta ? "This is the sampler's beta." : `The sampler's beta is ${short(p.beta)}.`}`;
    picture.el.setAttribute("aria-label", `weights at beta ${beta().toFixed(2)}: ${parts.join(", ")}`);
  };
  return { el: panel.el, update };
}

/** Slices; size() is the length asked for, onSize(length) is called with a new one. */
export function slicesPanel({ moment, size, onSize, strict, chart }) {
  const words = h("p", { class: "be-verdict", "aria-live": "polite" });
  const panel = sliderPanel("slices", "length", {
    label: "length of slices", min: 1, max: 2, step: 1, value: 1, oninput: onSize, lines: [words],
    note: "Trajectories by their length: those left of the dashed line are too short for a slice.",
  });
  const update = () => {
    const m = moment();
    const picture = chart();
    if (!picture) return;
    panel.slider.max = String(Math.max(fitting(m.lengths, 1).longest + 4, size()));
    panel.show(picture, size(), String(size()));
    words.textContent = verdict(m, size(), strict);
    words.setAttribute("data-possible", String(fitting(m.lengths, size(), strict).fit > 0));
    picture.el.setAttribute("aria-label", `lengths of ${m.arcCount} trajectories against slices of ${size()}`);
  };
  return { el: panel.el, update };
}

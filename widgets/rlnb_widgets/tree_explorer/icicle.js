// The icicle: all nodes at once on a canvas, a row for each step, as wide as their share.

import { clamp, h, paint, stage } from "../_core/core.js";
import { brief } from "./notation.js";
import { icicleMarks } from "./scene.js";
import { isThere, pathWords, valueOf } from "./store.js";

const TALLEST = 38;
const LEAST = 4;
const PAD = 2;

/** The rows of an icicle: how many fit into `height` pixels, each how tall. */
export function rowsIn(deepest, height) {
  const tall = clamp(Math.floor((height - 2 * PAD) / (deepest + 1)), LEAST, TALLEST);
  return { tall, rows: Math.min(deepest + 1, Math.floor((height - 2 * PAD) / tall)) };
}

/** The node under a point, x as a share of the whole, or -1. */
export function nodeAt(tree, x, depth) {
  let node = -1;
  for (let n = 0; n < tree.count; n++) if (tree.depth[n] === depth && tree.x0[n] <= x && x < tree.x1[n]) node = n;
  return node;
}

/** look() as for the node-link view; onSelect(node). */
export function icicle({ look, onSelect }) {
  let zoomed = 0; // the node that fills the width
  let over = -1;
  let shape = { tall: TALLEST, rows: 1 };
  const el = h("div", { class: "tx-icicle", role: "img", tabindex: 0 });
  const out = h("p", { class: "tx-over rlnb-note" });
  const whole = h("button", { type: "button", class: "rlnb-button tx-small", onclick: () => zoom(0) }, "Whole tree");
  const into = h("button", { type: "button", class: "rlnb-button tx-small", onclick: () => zoom(look().selected) }, "Zoom to the selected node");
  const range = (tree) => {
    const [a, b] = [tree.x0[zoomed], tree.x1[zoomed]];
    return b > a ? [a, b, tree.depth[zoomed]] : [0, 1, 0];
  };
  const view = stage(el, (pen, { width, height, color }) => {
    const state = look();
    shape = rowsIn(state.tree.deepest - range(state.tree)[2], height);
    pen.translate(PAD, PAD);
    paint(pen, icicleMarks(state, { zoomed, over, ...shape, width: width - 2 * PAD }), { width, params: {}, column: null, color });
  });

  const point = (event) => {
    const { tree } = look();
    const box = el.getBoundingClientRect();
    const [a, b, first] = range(tree);
    const depth = Math.floor((event.clientY - box.top - PAD) / shape.tall);
    if (depth < 0 || depth >= shape.rows) return -1;
    const x = a + ((event.clientX - box.left - PAD) / Math.max(box.width - 2 * PAD, 1)) * (b - a);
    const node = nodeAt(tree, x, depth + first);
    return isThere(tree, node) ? node : -1;
  };
  function tell() {
    const { tree } = look();
    const node = over >= 0 ? over : -1;
    out.textContent = node < 0 ? "\u00a0" : `${pathWords(tree, node)}: ${tree.visits[node].toLocaleString("en")} visits, value ${brief(valueOf(tree, node))}`;
  }
  function zoom(node) {
    zoomed = node;
    update();
  }
  el.addEventListener("pointermove", (event) => {
    const node = point(event);
    if (node !== over) { over = node; tell(); view.invalidate(); }
  });
  el.addEventListener("pointerleave", () => { over = -1; tell(); view.invalidate(); });
  el.addEventListener("click", (event) => { const node = point(event); if (node >= 0) onSelect(node); });
  el.addEventListener("dblclick", (event) => { const node = point(event); if (node >= 0) zoom(node); });

  function update() {
    const { tree, selected } = look();
    if (zoomed >= tree.count) zoomed = 0;
    el.style.setProperty("--rows", tree.deepest + 1);
    el.setAttribute("aria-label", `icicle of all ${tree.count.toLocaleString("en")} nodes, ${tree.deepest + 1} rows${zoomed ? `, zoomed to ${pathWords(tree, zoomed)}` : ""}; the arrow keys walk it`);
    whole.disabled = zoomed === 0;
    into.disabled = selected === zoomed || selected === 0;
    view.invalidate();
  }
  tell();
  return { el: h("section", { class: "tx-icicles" }, h("div", { class: "tx-row" }, whole, into, out), el), box: el, update, zoom, destroy: view.destroy };
}

// The icicle: all nodes at once on a canvas, a row for each step, as wide as their share.

import { button, clamp, h, hitAt, paint, plural, stage } from "../_core/core.js";
import { brief } from "./notation.js";
import { icicleMarks } from "./scene.js";
import { pathWords, valueOf } from "./store.js";

const TALLEST = 38;
const LEAST = 4;
const PAD = 2;

/** The rows of an icicle: how many fit into `height` pixels, each how tall. */
export function rowsIn(deepest, height) {
  const tall = clamp(Math.floor((height - 2 * PAD) / (deepest + 1)), LEAST, TALLEST);
  return { tall, rows: Math.min(deepest + 1, Math.floor((height - 2 * PAD) / tall)) };
}

/** look() as for the node-link view; onSelect(node). */
export function icicle({ look, onSelect }) {
  let zoomed = 0; // the node that fills the width
  let over = -1;
  let marks = [];
  const el = h("div", { class: "tx-icicle", role: "img", tabindex: 0 });
  const out = h("p", { class: "tx-over rlnb-note" });
  const small = (text, onclick) => button({ text, title: null, class: "rlnb-small", onclick });
  const whole = small("Zoom to the root", () => zoom(0));
  const into = small("Zoom to the selected node", () => zoom(look().selected));
  // A node without a share of the width cannot fill it; one of another tree may be gone.
  const settle = (tree) => { if (!(tree.x1[zoomed] > tree.x0[zoomed])) zoomed = 0; };
  const view = stage(el, (pen, { width, height, color }) => {
    const state = look();
    settle(state.tree);
    const rows = rowsIn(state.tree.deepest - state.tree.depth[zoomed], height);
    marks = icicleMarks(state, { zoomed, over, ...rows, width: width - 2 * PAD });
    pen.translate(PAD, PAD);
    paint(pen, marks, { width, params: {}, column: null, color });
  });

  const point = (event) => {
    const box = el.getBoundingClientRect();
    return hitAt(marks, { width: box.width, params: {} }, event.clientX - box.left - PAD, event.clientY - box.top - PAD)?.name ?? -1;
  };
  function tell() {
    const { tree } = look();
    const size = () => plural(tree.visits[over], tree.head.size.slice(0, -1));
    out.textContent = over < 0 ? "\u00a0" : `${pathWords(tree, over)}: ${size()}, value ${brief(valueOf(tree, over))}`;
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
    settle(tree);
    const all = `icicle of all ${tree.count.toLocaleString("en")} nodes, ${tree.deepest + 1} rows`;
    const where = zoomed ? `, zoomed to ${pathWords(tree, zoomed)}` : "";
    el.setAttribute("aria-label", `${all}${where}; the arrow keys walk it`);
    whole.disabled = zoomed === 0;
    into.disabled = selected === zoomed || selected === 0;
    view.invalidate();
  }
  tell();
  return { el: h("section", {}, h("div", { class: "tx-row" }, whole, into, out), el), update, destroy: view.destroy };
}

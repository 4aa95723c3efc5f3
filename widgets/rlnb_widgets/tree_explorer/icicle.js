// The icicle: all nodes at once on a canvas, a row for each step, as wide as their share.

import { clamp, h, stage } from "../_core/core.js";
import { diverging } from "./colors.js";
import { brief } from "./notation.js";
import { REUSED, TERMINAL, actionName, hasFlag, isThere, pathWords, placeOf, valueOf } from "./store.js";

const TALLEST = 38;
const LEAST = 4;
const THIN = 0.3; // narrower ones are not seen, in pixels
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
  const el = h("div", { class: "tx-icicle", role: "img" });
  const out = h("p", { class: "tx-over rlnb-note" });
  const whole = h("button", { type: "button", class: "rlnb-button tx-small", onclick: () => zoom(0) }, "whole tree");
  const into = h("button", { type: "button", class: "rlnb-button tx-small", onclick: () => zoom(look().selected) }, "zoom to the selected node");
  let colour = null;
  let made = null; // the palette that `colour` was made of

  const range = (tree) => {
    const [a, b] = [tree.x0[zoomed], tree.x1[zoomed]];
    return b > a ? [a, b, tree.depth[zoomed]] : [0, 1, 0];
  };
  const view = stage(el, (pen, { width, height, color }) => {
    if (made !== color) { made = color; colour = diverging(color); }
    const { tree, lit, line, selected, least, deepest } = look();
    const [a, b, first] = range(tree);
    shape = rowsIn(tree.deepest - first, height);
    const scale = (width - 2 * PAD) / (b - a);
    const gap = shape.tall > 6 ? 1 : 0;
    const main = new Set([...line].map((e) => tree.edgeChild[e]).concat(0));
    const onPath = new Set(lit.nodes);
    const boxOf = (n) => [PAD + Math.max(tree.x0[n] - a, 0) * scale, PAD + (tree.depth[n] - first) * shape.tall, (Math.min(tree.x1[n], b) - Math.max(tree.x0[n], a)) * scale];
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.textAlign = "center";
    const labels = [];
    for (let n = 0; n < tree.count; n++) {
      const row = tree.depth[n] - first;
      if (row < 0 || row >= shape.rows || tree.x1[n] <= a || tree.x0[n] >= b) continue;
      const [x, y, w] = boxOf(n);
      if (w < THIN) continue;
      const wide = Math.max(w - (w > 3 ? gap : 0), 0.5);
      if (!isThere(tree, n)) {
        pen.fillStyle = color("panel");
        pen.fillRect(x, y, wide, shape.tall - gap);
        continue;
      }
      const value = valueOf(tree, n);
      const faded = tree.finalSize[n] < least || tree.depth[n] > deepest;
      pen.globalAlpha = faded ? 0.25 : 1;
      pen.fillStyle = colour(placeOf(tree.head.value, value));
      pen.fillRect(x, y, wide, shape.tall - gap);
      if (shape.tall >= 8 && wide > 4) {
        if (hasFlag(tree, n, TERMINAL)) { pen.fillStyle = color("ink"); pen.fillRect(x, y + shape.tall - gap - 2, wide, 2); }
        if (hasFlag(tree, n, REUSED) && tree.head.reused < tree.count) { pen.fillStyle = color("c2"); pen.fillRect(x, y, wide, 2); }
      }
      pen.globalAlpha = 1;
      if (shape.tall >= 13 && w > 16) labels.push([n, x, y, w, faded ? 0 : placeOf(tree.head.value, value)]);
    }
    for (const [n, x, y, w, place] of labels) {
      const text = n === 0 ? "root" : actionName(tree, tree.action[n]);
      if (pen.measureText(text).width > w - 4) continue;
      pen.fillStyle = Math.abs(place) > 0.45 ? color("paper") : color("ink");
      pen.fillText(text, x + w / 2, y + shape.tall / 2);
    }
    const outline = (n, role, thick) => {
      if (n < 0 || !isThere(tree, n) || tree.depth[n] < first || tree.depth[n] - first >= shape.rows || tree.x1[n] <= a || tree.x0[n] >= b) return;
      const [x, y, w] = boxOf(n);
      pen.strokeStyle = color(role);
      pen.lineWidth = thick;
      pen.strokeRect(x + thick / 2, y + thick / 2, Math.max(w - thick - gap, 0.5), shape.tall - thick - gap);
    };
    for (const n of main) outline(n, "ink", 1);
    for (const n of onPath) outline(n, "warn", 2);
    outline(selected, "ink", 2.5);
    if (over >= 0 && over !== selected) outline(over, "muted", 1.5);
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
    el.setAttribute("aria-label", `icicle of all ${tree.count.toLocaleString("en")} nodes, ${tree.deepest + 1} rows${zoomed ? `, zoomed to ${pathWords(tree, zoomed)}` : ""}; the tree above can be walked with the keyboard`);
    whole.disabled = zoomed === 0;
    into.disabled = selected === zoomed || selected === 0;
    view.invalidate();
  }
  tell();
  return { el: h("section", { class: "tx-icicles" }, h("div", { class: "tx-row" }, h("h4", {}, "The whole tree"), whole, into, out), el), box: el, update, zoom, destroy: view.destroy };
}

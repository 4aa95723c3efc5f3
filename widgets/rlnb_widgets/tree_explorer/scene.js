// The marks of the tree and of the icicle: what scene.py makes of the same for the static view.

import { clamp, cutText, textWidth } from "../_core/core.js";
import { brief } from "./notation.js";
import { keyOf } from "./records.js";
import { TERMINAL, actionName, childEdges, hasFlag, isKept, isThere, placeOf, valueOf } from "./store.js";

const [LARGEST, SMALLEST, WIDEST] = [13, 3, 7];
const [TEXT, LABEL] = [11, 10]; // sizes of letters
const THIN = 0.3; // narrower parts of an icicle are not seen, in pixels
const STRONG = 0.3; // on the colours of values farther from the middle no letters can be read in both themes

/** The radius of a node: its area is its share of the visits of the root. */
export const radius = (tree, at) => Math.max(LARGEST * Math.sqrt(clamp(tree.visits[at] / Math.max(tree.visits[0], 1), 0, 1)), SMALLEST);

/** The width of a line: how much of all visits went along it. */
export const lineWidth = (tree, edge) => 1 + WIDEST * clamp(tree.edgeVisits[edge] / Math.max(tree.visits[0], 1), 0, 1);

/** The fills that make the colour of a place between -1 and 1: the middle, and one end over it. */
const fills = (place) => [{ fill: "line" }, ...(place ? [{ fill: place > 0 ? "c0" : "c3", opacity: Math.abs(place) }] : [])];

/** Points of a curve that leaves and arrives level. */
export function curve([x0, y0], [x1, y1]) {
  return Array.from({ length: 17 }, (_, i) => {
    const s = i / 16;
    const middle = 3 * s * (1 - s);
    return [x0 * (1 - s) ** 3 + x1 * s ** 3 + (middle * (x0 + x1)) / 2, y0 * (1 - s) ** 2 * (1 + 2 * s) + y1 * s ** 2 * (3 - 2 * s)];
  });
}

/** Points of one more way to a node: level past the text beside its parent, then past all that it rises or falls by. */
function detour([x, y], to, [own = 0, ...passed]) {
  const within = (past) => x + Math.min(past, 0.7 * (to[0] - x));
  return [[within(own), y], ...curve([within(Math.max(own, ...passed)), y], to)];
}

/**
 * The line to an item. One more way to a node that is drawn already has `further`: how far to the right of their nodes
 * the text of its parent and the texts that it passes end.
 */
export function lineMarks(edge, from, to, { tree, lit, line }, further = null) {
  if (edge < 0) return [{ kind: "poly", points: curve(from, to), stroke: "muted", width: 1, dash: [2, 3] }];
  const isLit = lit.edges.has(edge);
  const wide = lineWidth(tree, edge) + (isLit ? 1.5 : 0);
  const main = line.has(edge);
  const points = further ? detour(from, to, further) : curve(from, to);
  const style = { stroke: isLit ? "lit" : main ? "ink" : "muted", width: wide, opacity: isLit || main ? 0.9 : 0.7 };
  return [{ kind: "poly", points, ...style, ...(further ? { dash: [5, 4] } : {}) }];
}

/** What is written at a node: visits and value; what the last phase changed goes from before to after. */
export function labelOf({ tree, changed, phase, lit, records, t }, at) {
  const evaluated = phase === 3 && at === lit.nodes.at(-1);
  let value = valueOf(tree, at);
  if (evaluated) {
    const { found, turned } = records.found(t);
    value = turned ? -found : found;
  }
  const visits = changed.get(keyOf("visits", at));
  const edge = tree.edge[at];
  const mean = edge < 0 ? changed.has(keyOf("value_sum", at)) : changed.has(keyOf("edge_visits", edge));
  const count = visits && visits[0] > 0 ? `${visits[0]}→${visits[1]}` : tree.visits[at].toLocaleString("en");
  const text = tree.head.size === "nodes" ? count : evaluated ? `worth ${brief(value)}` : `${count} · ${brief(value)}`;
  return { text, value, changed: Boolean(visits || mean || evaluated) };
}

/** A text, and the plate below it, `pad` pixels wider at both sides; `x` is where the text begins. */
function plated(x, y, text, size, pad, plate, style = {}) {
  const wide = textWidth(text, size) * (style.bold ? 1.08 : 1);
  return [{ kind: "rect", x: x - pad, x2: x + wide + pad, ...plate }, { kind: "text", x, y, text, size, ...style }];
}

/**
 * The marks of an item, and the box around them: { marks, box: [left, top, width, height], badge: [left, width] or null };
 * of a node also what the marks say: { label, differs, fold }, fold being how many children are folded away; and `past`,
 * how far to the right of the node its text ends if that stands beside it.
 */
export function itemMarks(item, [x, y], state) {
  const { tree, lit, selected, active } = state;
  if (item.kind === "stub") {
    const on = active === item.id;
    const plate = { y: y - 8, h: 16, radius: 8, fill: "panel", stroke: on ? "accent" : "line", width: on ? 2 : 1 };
    const text = `+${state.stubCount(item).toLocaleString("en")} more`;
    const marks = plated(x - 2, y + 3.5, text, LABEL, 6, plate, { fill: on ? "accent" : "muted" });
    return { marks, box: [x - 8, y - 9, marks[0].x2 - x + 8, 18], badge: null, past: 0 };
  }
  const { node } = item;
  const r = radius(tree, node);
  const label = labelOf(state, node);
  const marked = selected === node || active === item.id;
  const differs = state.differs?.(node) ?? "";
  const rings = [
    hasFlag(tree, node, TERMINAL) && { stroke: "ink", width: 1.4 },
    isKept(tree, node) && { stroke: "c2", width: 1.8 },
    differs && { stroke: "c4", width: 2, ...(differs === "only" ? { dash: [3, 2] } : {}) },
  ].filter(Boolean).map((ring, i) => ({ kind: "disc", x, y, r: r + 3 + 3 * i, ...ring }));
  const disc = { kind: "disc", x, y, r };
  const halo = { ...disc, r: r + 4 + 3 * rings.length };
  const edge = lit.nodes.includes(node) ? { stroke: "lit", width: 2.5 } : { stroke: "muted", width: 0.8 };
  const marks = [
    ...(marked ? [{ ...halo, fill: "accent", opacity: 0.18 }, { ...halo, stroke: "accent", width: 2 }] : []),
    ...fills(placeOf(tree.head.value, label.value)).map((fill) => ({ ...disc, ...fill })), { ...disc, ...edge }, ...rings,
  ];
  const around = halo.r + (marked ? 4 : 0);
  const open = item.children.some(state.isShown);
  const beside = item.parent && !open;
  // Between narrow columns there is room for the visits alone; the value is in the colour and the tooltip.
  const text = beside || textWidth(label.text, TEXT) + 12 < state.layout.column ? label.text : label.text.split(" · ")[0];
  const [left, low] = beside ? [x + around, y + 4] : [x - textWidth(text, TEXT) / 2, y + around + 8];
  const plate = { y: low - 9, h: 11, fill: label.changed ? "highlight" : "paper", opacity: 0.9 };
  const written = plated(left, low, text, TEXT, 1, plate, { bold: label.changed || selected === node, fill: "ink" });
  if (!beside) Object.assign(written[1], { x, anchor: "middle" });
  marks.push(...written);
  let end = Math.max(written[0].x2 - 1, x + around);
  const fold = item.folded && !open ? childEdges(tree, node).filter((e) => !state.layout.at.has(tree.edgeChild[e])).length : 0;
  let badge = null;
  if (fold) {
    const chip = { y: y - 7, h: 14, radius: 7, fill: "panel", stroke: "line" };
    const [pill, count] = plated(end + 9, y + 3.5, `+${fold}`, LABEL, 4, chip, { fill: "muted" });
    marks.push(pill, count);
    badge = [pill.x, pill.x2 - pill.x];
    end = pill.x2;
  }
  if (item.edge >= 0) {
    const up = y - 3 - Math.max(lineWidth(tree, item.edge) - 2, 0) / 2;
    const action = actionName(tree, tree.edgeAction[item.edge]);
    const within = Math.max(state.layout.column - 36, 40);
    const from = x - around - Math.min(textWidth(action, TEXT), within);
    marks.push({ kind: "rect", x: from, x2: x - around + 2, y: up - 9, h: 11, fill: "paper", opacity: 0.9 },
      { kind: "text", x: x - around + 1, y: up, text: action, size: TEXT, bold: true, anchor: "end", within });
  }
  const top = Math.min(y - around + 3, y - 8);
  const bottom = beside ? Math.max(y + around - 3, y + 8) : low + 2;
  const first = Math.min(x - around, left);
  return { marks, box: [first, top, end - first, bottom - top], badge, label, differs, fold, past: beside ? end + 4 - x : 0 };
}

/** The marks of an icicle; its hit areas are named by their nodes. `over` is the node under the pointer. */
export function icicleMarks({ tree, lit, line, selected, least, deepest }, { zoomed, over, tall, rows, width }) {
  const [a, b, first] = [tree.x0[zoomed], tree.x1[zoomed], tree.depth[zoomed]];
  const scale = width / (b - a);
  const gap = tall > 6 ? 1 : 0;
  const high = tall - gap;
  const inRows = (n) => tree.depth[n] >= first && tree.depth[n] < first + rows;
  const isIn = (n) => n >= 0 && isThere(tree, n) && inRows(n) && tree.x1[n] > a && tree.x0[n] < b;
  const boxOf = (n) => [(Math.max(tree.x0[n], a) - a) * scale, (Math.min(tree.x1[n], b) - a) * scale, (tree.depth[n] - first) * tall];
  const marks = [];
  for (let n = 0; n < tree.count; n++) {
    if (!isIn(n)) continue;
    const [x, x2, y] = boxOf(n);
    const wide = x2 - x;
    if (wide < THIN) continue;
    const box = { kind: "rect", x, x2: x + Math.max(wide - gap, 0.5), y, h: high };
    marks.push({ kind: "hit", x, x2, y, h: tall, name: n });
    const place = placeOf(tree.head.value, valueOf(tree, n));
    const faded = tree.finalVisits[n] < least || tree.depth[n] > deepest;
    for (const fill of faded ? [{ fill: "panel" }] : fills(place)) marks.push({ ...box, ...fill });
    if (tall >= 8 && wide > 4) {
      if (hasFlag(tree, n, TERMINAL)) marks.push({ ...box, y: y + high - 2, h: 2, fill: "ink" });
      if (isKept(tree, n)) marks.push({ ...box, h: 2, fill: "c2" });
    }
    const text = n === 0 ? "root" : actionName(tree, tree.action[n]);
    if (tall >= 13 && wide > 16 && cutText(text, wide - 4, TEXT) === text) {
      const [middle, half] = [(x + x2) / 2, textWidth(text, TEXT) / 2 + 2];
      const plate = { kind: "rect", x: middle - half, x2: middle + half, y: y + high / 2 - 6, h: 12, fill: "paper", opacity: 0.75 };
      if (!faded && Math.abs(place) > STRONG) marks.push(plate);
      marks.push({ kind: "text", x: middle, y: y + high / 2 + 4, text, anchor: "middle", fill: "ink" });
    }
  }
  const outline = (n, stroke, width) => {
    if (!isIn(n)) return;
    const [x, x2, y] = boxOf(n);
    const right = Math.max(x2 - width / 2 - gap, x + width);
    marks.push({ kind: "rect", x: x + width / 2, x2: right, y: y + width / 2, h: high - width, stroke, width });
  };
  for (const n of [0, ...[...line].map((e) => tree.edgeChild[e])]) outline(n, "ink", 1);
  for (const n of lit.nodes) outline(n, "lit", 2);
  outline(selected, "accent", 3);
  if (over !== selected) outline(over, "muted", 1.5);
  return marks;
}

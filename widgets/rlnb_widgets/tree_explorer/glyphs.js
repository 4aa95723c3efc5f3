// The marks of the node-link view: circles, lines between them, stubs, and how they look at the moment.

import { keyOf } from "./records.js";
import { brief } from "./notation.js";
import { REUSED, TERMINAL, TRANSPOSITION, actionName, childEdges, hasFlag, placeOf, sizeOf, valueOf } from "./store.js";

const SPACE = "http://www.w3.org/2000/svg";
const LARGEST = 18;
const SMALLEST = 3.5;

function node(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** The radius of a node: its area is its share of the visits of the root. */
export function radius(tree, at) {
  return Math.max(LARGEST * Math.sqrt(Math.max(sizeOf(tree, at), 0) / Math.max(sizeOf(tree, 0), 1)), SMALLEST);
}

/** The width of a line: the prior; all alike where there is none. */
export const lineWidth = (tree, edge) => (tree.head.priors ? 0.8 + 9 * Math.min(Math.max(tree.edgePrior[edge], 0), 1) : 1.5);

/** Make the elements of an item: { group, line, ... }. */
export function buildItem(item) {
  const group = node("g", { role: "treeitem", "data-item": item.id, class: item.kind === "stub" ? "tx-stub" : "tx-node" });
  const line = item.edge >= 0 || item.kind === "stub" ? node("path", { fill: "none" }) : null;
  if (item.kind === "stub") {
    const pill = node("rect", { y: -9, height: 18, rx: 9 });
    const text = node("text", { y: 4, "text-anchor": "middle" });
    group.append(pill, text);
    return { group, line, pill, text };
  }
  const halo = node("circle", { class: "tx-halo" });
  const circle = node("circle", { class: "tx-disc" });
  const ring = node("circle", { class: "tx-ring" });
  const kept = node("circle", { class: "tx-kept" });
  const hit = node("circle", { class: "tx-hit", r: 20 });
  const label = node("text", { class: "tx-label", "text-anchor": "middle" });
  const action = node("text", { class: "tx-action", "text-anchor": "end" });
  const badge = node("g", { class: "tx-badge" }, node("rect", { y: -8, height: 16, rx: 8 }), node("text", { y: 4, "text-anchor": "middle" }));
  group.append(halo, circle, ring, kept, label, action, hit, badge);
  return { group, line, halo, circle, ring, kept, label, action, badge };
}

const set = (element, attributes) => { for (const [name, value] of Object.entries(attributes)) if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value); };
const show = (element, on) => { if (on) element.removeAttribute("display"); else element.setAttribute("display", "none"); };
const words = (element, text) => { if (element.textContent !== text) element.textContent = text; };

/** A curve that leaves and arrives level. */
export function curve([x0, y0], [x1, y1], r0, r1) {
  const [a, b] = [x0 + r0, x1 - r1];
  const middle = (a + b) / 2;
  return `M${a.toFixed(1)} ${y0.toFixed(1)}C${middle.toFixed(1)} ${y0.toFixed(1)} ${middle.toFixed(1)} ${y1.toFixed(1)} ${b.toFixed(1)} ${y1.toFixed(1)}`;
}

/** Bring an item's elements up to date; `state` is what look() gives and what the view adds to it. */
export function paintItem(parts, item, at, above, state) {
  set(parts.group, { transform: `translate(${at[0].toFixed(1)} ${at[1].toFixed(1)})`, id: state.idOf(item), "aria-level": item.depth + 1 });
  if (item.kind === "stub") paintStub(parts, item, at, above, state);
  else paintNode(parts, item, at, above, state);
}

function paintStub({ group, line, pill, text }, item, at, above, state) {
  const label = `+${state.stubCount(item).toLocaleString("en")}`;
  const wide = 16 + 7 * label.length;
  set(pill, { x: -wide / 2, width: wide });
  words(text, label);
  set(group, { "aria-label": `${label.slice(1)} more, Enter shows them`, "aria-selected": state.active === item.id, class: `tx-stub${state.active === item.id ? " tx-active" : ""}` });
  set(line, { d: curve(above, at, radius(state.tree, item.node), wide / 2), class: "tx-line tx-faint", "stroke-width": 1 });
}

function paintNode(parts, item, at, above, state) {
  const { tree, lit, selected } = state;
  const r = radius(tree, item.node);
  const value = shownValue(state, item.node);
  const terminal = hasFlag(tree, item.node, TERMINAL);
  const reused = hasFlag(tree, item.node, REUSED) && tree.head.reused < tree.count;
  const isLit = lit.nodes.includes(item.node);
  set(parts.circle, { r: r.toFixed(2), fill: state.colour(placeOf(tree.head.value, value)) });
  set(parts.ring, { r: (r + 3).toFixed(2) });
  set(parts.kept, { r: (r + (terminal ? 5.5 : 3)).toFixed(2) });
  set(parts.halo, { r: (r + 7).toFixed(2) });
  show(parts.ring, terminal);
  show(parts.kept, reused);
  const marked = selected === item.node || state.active === item.id;
  show(parts.halo, marked);
  set(parts.label, { y: (Math.max(r, 7) + (marked ? 19 : terminal || reused ? 16 : 13)).toFixed(1) });
  paintLabel(parts.label, state, item.node, value);
  const fold = item.folded && !item.children.some(state.isShown) ? childEdges(tree, item.node).filter((e) => !state.layout.at.has(tree.edgeChild[e])).length : 0;
  show(parts.badge, fold > 0);
  if (fold > 0) {
    const label = `+${fold}`;
    const wide = 10 + 6.5 * label.length;
    const [box, text] = parts.badge.children;
    set(box, { x: (r + 8).toFixed(1), width: wide });
    set(text, { x: (r + 8 + wide / 2).toFixed(1) });
    words(text, label);
  }
  const differs = state.differs?.(item.node) ?? "";
  set(parts.group, {
    class: `tx-node${isLit ? " tx-lit" : ""}${selected === item.node ? " tx-chosen" : ""}${differs ? ` tx-${differs}` : ""}`,
    "aria-selected": selected === item.node, "aria-label": spoken(state, item, value, fold, differs), "data-node": item.node,
  });
  if (item.children.length || fold) set(parts.group, { "aria-expanded": fold === 0 });
  else parts.group.removeAttribute("aria-expanded");
  if (!parts.line || !above) return;
  const edge = item.edge;
  words(parts.action, short(actionName(tree, tree.edgeAction[edge])));
  set(parts.action, { x: (-r - (marked ? 10 : terminal || reused ? 8 : 5)).toFixed(1), y: -3.5 });
  const onLine = state.line.has(edge);
  set(parts.line, {
    d: curve(above, at, radius(tree, item.parent.node), r), "stroke-width": (lineWidth(tree, edge) + (lit.edges.has(edge) ? 1.5 : 0)).toFixed(2),
    class: `tx-line${lit.edges.has(edge) ? " tx-litline" : onLine ? " tx-mainline" : ""}`, "data-edge": edge,
  });
}

const short = (text) => (text.length > 9 ? `${text.slice(0, 8)}…` : text);

/** The value that a node is shown with: its own, or what it has just been evaluated as. */
function shownValue({ tree, records, t, phase, lit }, at) {
  if (phase !== 3 || at !== lit.nodes.at(-1)) return valueOf(tree, at);
  const { found, turned } = records.found(t);
  return turned ? -found : found;
}

/** Visits and value below a node; what the last phase changed is written from before to after. */
function paintLabel(label, { tree, changed, phase, lit }, at, value) {
  const evaluated = phase === 3 && at === lit.nodes.at(-1);
  const visits = changed.get(keyOf("visits", at));
  const edge = tree.edge[at];
  const mean = edge < 0 ? changed.has(keyOf("value_sum", at)) : changed.has(keyOf("edge_visits", edge));
  const count = visits && visits[0] > 0 ? `${visits[0]}→${visits[1]}` : tree.visits[at].toLocaleString("en");
  words(label, tree.head.size === "nodes" ? sizeOf(tree, at).toLocaleString("en") : evaluated ? `worth ${brief(value)}` : `${count} · ${brief(value)}`);
  label.classList.toggle("tx-changed", Boolean(visits || mean || evaluated));
}

function spoken({ tree, line }, item, value, fold, differs) {
  const at = item.node;
  const many = (count, what) => `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;
  return [
    at === 0 ? "root" : `action ${actionName(tree, tree.edgeAction[item.edge])}`,
    tree.head.size === "nodes" ? `${many(sizeOf(tree, at), "node")} at and below it` : many(tree.visits[at], "visit"), Number.isNaN(value) ? "no value" : `value ${brief(value)}`,
    hasFlag(tree, at, TERMINAL) ? "end of the episode" : null, hasFlag(tree, at, TRANSPOSITION) ? "several ways lead here" : null,
    hasFlag(tree, at, REUSED) && tree.head.reused < tree.count ? "kept from the search before" : null,
    line.has(item.edge) ? "on the main line" : null, fold ? `${many(fold, "action")} folded` : null, differs ? `differs: ${differs}` : null,
  ].filter(Boolean).join(", ");
}

export const buildLink = () => node("path", { fill: "none", class: "tx-line tx-further" });

/** A second line to a node that was drawn already. */
export function paintLink(path, { edge, from, to }, at, other, { tree, lit }) {
  set(path, {
    d: curve(at, other, radius(tree, from.node), radius(tree, to.node)), "stroke-width": Math.max(lineWidth(tree, edge), 1.2).toFixed(2),
    class: `tx-line tx-further${lit.edges.has(edge) ? " tx-litline" : ""}`, "data-edge": edge,
  });
}

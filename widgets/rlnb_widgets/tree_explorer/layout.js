// What is unfolded, and where it is drawn: a tidy tree that grows to the right, a column for each step.

import { bestEdge, childEdges, edgesTo } from "./store.js";

/** Sizes at zoom 1, in pixels: a column for each step, a row for each leaf, and an inner node with what is below it. */
export const COLUMN = 124;
const NARROW = 66;
export const ROW = 22;
const INNER = 42;
const LEFT = 46;
const RIGHT = 92; // room for what is written beside the last node, such as 23→24 · −0.75
/** Children drawn of a node at first, and of the root. */
export const CHILDREN = 2;
const AT_ROOT = 6;

/** What is open at first. */
export function firstFolds(tree, count = CHILDREN) {
  const open = new Set();
  for (const node of tree.head.open ?? []) if (tree.parent[node] >= 0) open.add(tree.parent[node]);
  if (!open.size) open.add(0);
  return { open, closed: new Set(), more: new Map([[0, Math.max(AT_ROOT, count)]]), count, least: 0, deepest: Infinity };
}

/**
 * The children of a node that are drawn, and how many are not.
 *
 * `folds` says which nodes are open (and which the reader has closed), how many children are drawn of one (`more`, else `count`), the fewest visits and
 * the greatest depth; nodes of `forced` are drawn in any case. Which ones are the largest is decided by the end of the
 * record, so that nothing jumps about while one goes through it.
 */
export function shownChildren(tree, node, folds, forced) {
  const edges = childEdges(tree, node, false);
  const fits = edges.filter((e) => tree.finalSize[tree.edgeChild[e]] >= folds.least && tree.depth[tree.edgeChild[e]] <= folds.deepest);
  const count = folds.more.get(node) ?? folds.count;
  const best = folds.open.has(node) ? largest(tree, fits, count) : [];
  const shown = new Set(best);
  for (const e of edges) if (forced.has(tree.edgeChild[e])) shown.add(e);
  return { edges: edges.filter((e) => shown.has(e)), hidden: fits.filter((e) => !shown.has(e)) };
}

const largest = (tree, edges, count) => (edges.length <= count ? edges
  : [...edges].sort((a, b) => tree.finalEdgeVisits[b] - tree.finalEdgeVisits[a] || tree.finalSize[tree.edgeChild[b]] - tree.finalSize[tree.edgeChild[a]] || a - b).slice(0, count));

/**
 * Lay the unfolded part out.
 *
 * Returns { items, at, links, width, height, column }. An item is { id, kind, node, edge, parent, depth, x, y, hidden }: kind is
 * "node" or "stub"; `hidden` are the edges that are not drawn, below a node that is folded or, of a stub, beside its
 * siblings. Beside what is drawn only because it is forced there is a stub where the node is one of `ways`. `at` finds
 * the item of a node; `links` are further edges between nodes that are drawn: { from, to, edge }. Columns are as wide as
 * `room` pixels allow, and never so narrow that labels meet.
 */
export function layOut(tree, folds, forced = new Set(), ways = forced, room = Infinity) {
  const items = [];
  const at = new Map();
  const grow = (node, edge, parent, depth) => {
    const item = { id: node, kind: "node", node, edge, parent, depth, x: 0, y: 0, children: [], hidden: [], folded: false };
    items.push(item);
    at.set(node, item);
    const { edges, hidden } = shownChildren(tree, node, folds, forced);
    for (const e of edges) if (!at.has(tree.edgeChild[e])) item.children.push(grow(tree.edgeChild[e], e, item, depth + 1));
    item.folded = !folds.open.has(node) && childEdges(tree, node, false).length > 0;
    if (hidden.length && (folds.open.has(node) || (ways.has(node) && item.children.length))) {
      const stub = { id: -node - 1, kind: "stub", node, edge: -1, parent: item, depth: depth + 1, x: 0, y: 0, children: [], hidden, folded: false };
      items.push(stub);
      item.children.push(stub);
    } else item.hidden = hidden;
    return item;
  };
  const root = grow(0, -1, null, 0);
  const bottom = rows(root, ROW);
  const deepest = items.reduce((most, item) => Math.max(most, item.depth), 0);
  const column = Math.min(Math.max((room - LEFT - RIGHT) / Math.max(deepest, 1), NARROW), COLUMN);
  for (const item of items) item.x = LEFT + item.depth * column;
  return { items, at, links: furtherLinks(tree, items, at), width: LEFT + deepest * column + RIGHT, height: bottom, column };
}

/** Put leaves into rows from `top` on and parents between their children; returns where the next row begins. */
function rows(item, top) {
  item.y = top;
  if (!item.children.length) return top + ROW;
  const next = item.children.reduce((at, child) => rows(child, at), top);
  item.y = (item.children[0].y + item.children.at(-1).y) / 2;
  return Math.max(next, top + INNER);
}

/** The edges between drawn nodes that the tree itself does not draw: where branches meet. */
function furtherLinks(tree, items, at) {
  const links = [];
  for (const item of items) {
    if (item.kind !== "node") continue;
    for (const e of edgesTo(tree, item.node)) {
      const from = at.get(tree.edgeFrom[e]);
      if (e !== item.edge && from) links.push({ from, to: item, edge: e });
    }
  }
  return links;
}

/** Where an arrow key leads from an item, among those that are there: the item, and whether it is to be opened or folded. */
export function moveTo(key, item, layout, isShown, tree) {
  const stay = { item, open: null };
  const siblings = (of) => (of.parent ? of.parent.children : [of]).filter(isShown);
  const go = (to) => (to ? { item: to, open: null } : stay);
  if (key === "ArrowLeft") return go(item.parent);
  if (key === "Home") return go(layout.items[0]);
  if (key === "ArrowUp" || key === "ArrowDown") {
    const all = siblings(item);
    const next = all[all.indexOf(item) + (key === "ArrowUp" ? -1 : 1)];
    if (next) return go(next);
    return go(beside(item, layout, isShown, key === "ArrowUp" ? -1 : 1));
  }
  if (key === "ArrowRight") {
    if (item.kind === "stub") return { item, open: true };
    const children = item.children.filter(isShown);
    if (!children.length) return item.folded ? { item, open: true } : stay;
    const best = bestEdge(tree, item.node);
    return go(children.find((child) => child.edge === best) ?? children[0]);
  }
  return stay;
}

/** The next item of the same column, above or below. */
function beside(item, layout, isShown, way) {
  let found = null;
  for (const other of layout.items) {
    if (other.depth !== item.depth || other === item || !isShown(other) || (other.y - item.y) * way <= 0) continue;
    if (!found || Math.abs(other.y - item.y) < Math.abs(found.y - item.y)) found = other;
  }
  return found;
}

// What is unfolded, and where it is drawn: a tidy tree that grows to the right, a column for each step.

import { bestEdge, childEdges, edgesTo } from "./store.js";

/** Sizes at zoom 1, in pixels. */
export const COLUMN = 124;
export const ROW = 54;
export const STUB = 34;
const ROOT = 88; // with what is written below it
/** Children drawn of a node at first. */
export const CHILDREN = 4;
const LEFT = 58;
const TOP = 8;

/** What is open at first. */
export function firstFolds(tree, count = CHILDREN) {
  const open = new Set();
  for (const node of tree.head.open ?? []) if (tree.parent[node] >= 0) open.add(tree.parent[node]);
  if (!open.size) open.add(0);
  return { open, closed: new Set(), more: new Map(), count, least: 0, deepest: Infinity };
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
 * Returns { items, at, links, width, height }. An item is { id, kind, node, edge, parent, depth, x, y, hidden }: kind is
 * "node" or "stub"; `hidden` are the edges that are not drawn, below a node that is folded or, of a stub, beside its
 * siblings. Beside what is drawn only because it is forced there is a stub where the node is one of `ways`. `at` finds
 * the item of a node; `links` are further edges between nodes that are drawn: { from, to, edge }.
 */
export function layOut(tree, folds, forced = new Set(), ways = forced) {
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
  place(root, 0);
  const top = items.reduce((least, item) => Math.min(least, item.y - half(item)), Infinity);
  for (const item of items) {
    item.x = LEFT + item.depth * COLUMN;
    item.y += TOP - top;
  }
  const width = items.reduce((most, item) => Math.max(most, item.x), 0) + 84;
  const height = items.reduce((most, item) => Math.max(most, item.y + half(item)), 0) + TOP;
  return { items, at, links: furtherLinks(tree, items, at), width, height };
}

const half = (item) => (item.kind === "stub" ? STUB : item.parent ? ROW : ROOT) / 2;

/** Put the subtrees of an item below one another, as close as they fit; returns its outline by depth: [[top, bottom], ...]. */
function place(item, y) {
  item.y = y;
  if (!item.children.length) return [[y - half(item), y + half(item)]];
  const outline = [];
  for (const child of item.children) {
    const own = place(child, 0);
    let down = 0;
    own.forEach(([top], depth) => { if (outline[depth]) down = Math.max(down, outline[depth][1] - top); });
    if (!outline.length) down = 0;
    shift(child, down);
    own.forEach(([top, bottom], depth) => { outline[depth] = [outline[depth]?.[0] ?? top + down, bottom + down]; });
  }
  const middle = (item.children[0].y + item.children.at(-1).y) / 2;
  for (const child of item.children) shift(child, y - middle);
  return [[y - half(item), y + half(item)], ...outline.map(([top, bottom]) => [top + y - middle, bottom + y - middle])];
}

function shift(item, by) {
  if (by === 0) return;
  item.y += by;
  for (const child of item.children) shift(child, by);
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

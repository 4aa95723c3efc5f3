// What is unfolded, and where it is drawn: a tidy tree that grows to the right, a column for each step.

import { textWidth } from "../_core/core.js";
import { bestEdge, childEdges, edgesTo } from "./store.js";

/** Sizes at zoom 1, in pixels: a column for each step, a row for each leaf, and an inner node with what is below it. */
export const COLUMN = 124;
const NARROW = 66;
export const ROW = 22;
const INNER = 42;
const LEFT = 46; // at least: as much as half of what is written below the root, such as 60→61 · −0.75
const RIGHT = 92; // room for what is written beside the last node, such as 23→24 · −0.75
/** Children drawn of a node at first, and of the root. */
export const CHILDREN = 2;
const AT_ROOT = 6;

/** What is open at first, under a filter. */
export function firstFolds(tree, { count = CHILDREN, least = 0, deepest = Infinity } = {}) {
  const open = new Set();
  for (const node of tree.head.open ?? []) if (tree.parent[node] >= 0) open.add(tree.parent[node]);
  if (!open.size) open.add(0);
  return { open, closed: new Set(), more: new Map([[0, Math.max(AT_ROOT, count)]]), count, least, deepest };
}

/**
 * The children of a node that are drawn, and how many are not.
 *
 * `folds` says which nodes are open (and which the reader has closed), how many children are drawn of one (`more`, else
 * `count`), the fewest visits and the greatest depth; nodes of `forced` are drawn in any case. Which ones are the largest is
 * decided by the end of the record, so that nothing jumps about while one goes through it.
 */
export function shownChildren(tree, node, folds, forced) {
  const edges = childEdges(tree, node, false);
  const fits = edges.filter((e) => tree.finalVisits[tree.edgeChild[e]] >= folds.least && tree.depth[tree.edgeChild[e]] <= folds.deepest);
  const larger = (a, b) => tree.finalEdgeVisits[b] - tree.finalEdgeVisits[a];
  const largest = folds.open.has(node) ? [...fits].sort(larger).slice(0, folds.more.get(node) ?? folds.count) : [];
  const shown = new Set([...largest, ...edges.filter((e) => forced.has(tree.edgeChild[e]))]);
  return { edges: edges.filter((e) => shown.has(e)), hidden: fits.filter((e) => !shown.has(e)) };
}

/**
 * Lay the unfolded part out.
 *
 * Returns { items, at, links, width, height, column }. An item is { id, kind, node, edge, parent, depth, x, y, hidden }: kind
 * is "node" or "stub", which stands for the edges in `hidden`, beside its siblings. Beside what is drawn only because it is
 * forced there is a stub where the node is one of `ways`. `at` finds the item of a node; `links` are further edges between
 * nodes that are drawn: { from, to, edge }. Columns are as wide as `room` pixels allow, and never so narrow that labels meet.
 */
export function layOut(tree, folds, forced = new Set(), ways = forced, room = Infinity) {
  const items = [];
  const at = new Map();
  const put = (kind, node, edge, parent, hidden) => {
    const item = {
      id: kind === "node" ? node : -node - 1, kind, node, edge, parent, depth: parent ? parent.depth + 1 : 0,
      x: 0, y: 0, children: [], hidden, folded: false,
    };
    items.push(item);
    parent?.children.push(item);
    return item;
  };
  const grow = (node, edge, parent) => {
    const { edges, hidden } = shownChildren(tree, node, folds, forced);
    const open = folds.open.has(node);
    const item = put("node", node, edge, parent, []);
    at.set(node, item);
    for (const e of edges) if (!at.has(tree.edgeChild[e])) grow(tree.edgeChild[e], e, item);
    item.folded = !open && childEdges(tree, node, false).length > 0;
    if (hidden.length && (open || (ways.has(node) && item.children.length))) put("stub", node, -1, item, hidden);
    return item;
  };
  const height = rows(grow(0, -1, null), ROW);
  const deepest = items.reduce((most, item) => Math.max(most, item.depth), 0);
  const [visits] = tree.finalVisits;
  const left = Math.max(LEFT, textWidth(`${visits}→${visits} · −0.75`, 11) * 0.55 + 8);
  const column = Math.min(Math.max((room - left - RIGHT) / Math.max(deepest, 1), NARROW), COLUMN);
  for (const item of items) item.x = left + item.depth * column;
  return { items, at, links: furtherLinks(tree, items, at), width: left + deepest * column + RIGHT, height, column };
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
  for (const item of items.filter(({ kind }) => kind === "node")) {
    for (const edge of edgesTo(tree, item.node)) {
      const from = at.get(tree.edgeFrom[edge]);
      if (edge !== item.edge && from) links.push({ from, to: item, edge });
    }
  }
  return links;
}

/** Where an arrow key leads from an item, among those that are there: the item, and whether it is to be opened or folded. */
export function moveTo(key, item, { items }, isShown, tree) {
  const column = items.filter((other) => other.depth === item.depth && isShown(other));
  const children = item.children.filter(isShown);
  const best = bestEdge(tree, item.node);
  const to = {
    ArrowLeft: item.parent, Home: items[0],
    ArrowUp: column[column.indexOf(item) - 1], ArrowDown: column[column.indexOf(item) + 1],
    ArrowRight: children.find((child) => child.edge === best) ?? children[0],
  }[key];
  return { item: to ?? item, open: key === "ArrowRight" && !to && (item.kind === "stub" || item.folded) };
}

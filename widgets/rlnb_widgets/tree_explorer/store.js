// The tree as the page holds it: typed arrays read from the payload, and what is looked up in them.

import { typed } from "../_core/data.js";

export const TERMINAL = 1;
export const TRANSPOSITION = 2;
const REUSED = 4;

/**
 * Read a tree: each column of `head` under its name, as an array of its own that may be written to. The visits of a tree
 * that was never visited are the nodes at and below a node, `head.size` says so; then there are no values.
 */
export function readTree(head, blob) {
  const tree = { head, count: head.nodes };
  for (const [name, [kind, start, count]] of Object.entries(head.columns)) tree[name] = typed(blob, kind, start, count);
  tree.addedAt = new Int32Array(tree.count);
  tree.now = Infinity; // how many recorded simulations have added their node
  // What is shown and in which order must not change while one goes through the record.
  tree.finalVisits = Float64Array.from(tree.visits);
  tree.finalEdgeVisits = Float64Array.from(tree.edgeVisits);
  tree.edgeFrom = new Int32Array(tree.edgeAction.length);
  for (let n = 0; n < tree.count; n++) tree.edgeFrom.fill(n, tree.edgeStart[n], tree.edgeStart[n + 1]);
  tree.deepest = tree.depth.reduce((a, b) => Math.max(a, b), 0);
  return tree;
}

/** Whether a node is there at the moment that is shown; none is below 0. */
export const isThere = (tree, node) => tree.addedAt[node] <= tree.now;

export const hasFlag = (tree, node, flag) => (tree.flags[node] & flag) !== 0;

/** Whether a node was kept from the previous search; where all were, that goes without saying. */
export const isKept = (tree, node) => hasFlag(tree, node, REUSED) && tree.head.reused < tree.count;

/** The edges of a node, in the order of the actions. */
export function edgesOf({ edgeStart }, node) {
  return Array.from({ length: edgeStart[node + 1] - edgeStart[node] }, (_, i) => edgeStart[node] + i);
}

/** The edge that an action takes from a node, or -1. */
export const edgeOf = (tree, node, action) => edgesOf(tree, node).find((e) => tree.edgeAction[e] === action) ?? -1;

/** The edges of a node that lead to another; with `now`, those there at the moment. */
export function childEdges(tree, node, now = true) {
  return edgesOf(tree, node).filter((e) => tree.edgeChild[e] >= 0 && (!now || isThere(tree, tree.edgeChild[e])));
}

/** The nodes from the root to a node, both included. */
export function lineTo(tree, node) {
  const line = [];
  for (let at = node; at >= 0; at = tree.parent[at]) line.push(at);
  return line.reverse();
}

/** The actions that lead from the root to a node. */
export const pathTo = (tree, node) => lineTo(tree, node).slice(1).map((at) => tree.action[at]);

/** What an action is called. */
export const actionName = (tree, action) => tree.head.actionNames?.[action] ?? String(action);

/** A path in words. */
export const pathWords = (tree, node) => (node === 0 ? "root" : pathTo(tree, node).map((a) => actionName(tree, a)).join(" → "));

/** The edge visited most, of several the one with the best mean, as a search plays; -1 where none was taken. */
export function bestEdge(tree, node) {
  // Of a Tree it is not known for whom a mean is good.
  const mean = (e) => (tree.head.kind === "search" ? tree.edgeSum[e] / Math.max(tree.edgeVisits[e], 1) : 0);
  let best = -1;
  for (const e of childEdges(tree, node)) {
    const more = tree.edgeVisits[e] - (best < 0 ? 0 : tree.edgeVisits[best]);
    if (more > 0 || (more === 0 && best >= 0 && mean(e) > mean(best))) best = e;
  }
  return best;
}

/** The action to play at the moment: at the end of the record the one that the search names, before it that of `bestEdge`; or -1. */
export function bestAction(tree, ended) {
  return ended && tree.head.best >= 0 ? tree.head.best : tree.edgeAction[bestEdge(tree, 0)] ?? -1;
}

/** The edges that follow one another from the root on, each the best of its node. */
export function mainLine(tree) {
  const line = [];
  for (let e = bestEdge(tree, 0); e >= 0; e = bestEdge(tree, tree.edgeChild[e])) line.push(e);
  return line;
}

/** The edges that lead to a node: one, or several where branches meet. */
export function edgesTo(tree, node) {
  if (!hasFlag(tree, node, TRANSPOSITION)) return node === 0 ? [] : [tree.edge[node]];
  return [...tree.edgeChild.keys()].filter((e) => tree.edgeChild[e] === node);
}

/**
 * The value that a node is drawn with: the mean return of the action that leads there, of the root its own, as the player
 * at the root sees it. A node where the episode ends has nothing to come; its reward belongs to the action. NaN without a visit.
 */
export function valueOf(tree, node) {
  const edge = tree.edge[node];
  const [sum, visits, taker] = edge < 0 ? [tree.valueSum[node], tree.visits[node], node]
    : [tree.edgeSum[edge], tree.edgeVisits[edge], tree.parent[node]];
  if (!(visits > 0)) return NaN;
  return isTurned(tree, taker) ? -sum / visits : sum / visits;
}

/** Whether what is good for the player to move in a node is bad for the one at the root. */
export const isTurned = (tree, node) => tree.head.players && tree.toPlay[node] !== tree.toPlay[0];

/** A value as a place between the least, -1, the middle, 0, and the greatest, 1. */
export function placeOf({ low, middle, high }, value) {
  const far = value < middle ? middle - low : high - middle;
  return Math.min(Math.max((value - middle) / (far || 1), -1), 1);
}

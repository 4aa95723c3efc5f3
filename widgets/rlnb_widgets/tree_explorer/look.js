// What all parts of the explorer look at: the trees that Python sent, at the moment under the playhead.

import { scored } from "./formulas.js";
import { recordsOf } from "./records.js";
import { bestEdge, isThere, mainLine, readTree } from "./store.js";

const NONE = { nodes: [], edges: new Set() };

/** What of a simulation's path is lit in a phase. */
export function litBy(records, t, phase) {
  const r = records.current(t, phase);
  if (r < 0) return NONE;
  const { nodes, edges, leaf } = records.path(r);
  return { nodes: phase === 1 ? nodes : [...nodes, leaf], edges: new Set(edges) };
}

/** How a node differs from its match: "only" where there is none, "best" where another action is visited most, or "". */
export function difference(tree, node, other, match) {
  if (match[node] < 0) return "only";
  const [here, there] = [bestEdge(tree, node), bestEdge(other, match[node])];
  return here >= 0 && there >= 0 && tree.edgeAction[here] !== other.edgeAction[there] ? "best" : "";
}

/** The way back of a match: for each of `count` nodes of the other tree the node that leads there, or -1. */
export function backOf(match, count) {
  const back = new Int32Array(count).fill(-1);
  match.forEach((there, node) => { if (there >= 0) back[there] = node; });
  return back;
}

/** Read the payload: { head, tree, records, other, match, back }; `match` and `back` lead from one tree to the other. */
export function opened(model) {
  const [head, blob] = [model.get("_head"), model.get("_columns")];
  const tree = readTree(head, blob);
  const other = head.compare ? readTree(head.compare.head, blob) : null;
  return { head, tree, records: recordsOf(tree), other, match: tree.match, back: other && backOf(tree.match, other.count) };
}

/**
 * The tree as it is shown: { tree, records, t, phase, selected, c, own, boards, lit, changed, line, follow, least, deepest,
 * other, differs, matched }. `own` is the search's own constant, `line` the edges visited most, one after another.
 */
export function looked({ tree, records, other, match, head }, { t, phase, selection, c, boards, following, filter }) {
  records.seek(t, phase);
  let selected = selection;
  while (!isThere(tree, selected)) selected = tree.parent[selected];
  const matched = ({ action }) => {
    const there = match[selected];
    return there < 0 ? null : scored(other, there, c).find((row) => row.action === action) ?? null;
  };
  return {
    tree, records, t, phase, selected, other, c, own: head.rule?.c ?? c, boards, ...filter,
    lit: litBy(records, t, phase), changed: records.changed(t, phase), line: new Set(mainLine(tree)),
    follow: following && records.count > 0 && t + phase > 0,
    differs: other ? (node) => difference(tree, node, other, match) : null, matched: other ? matched : null,
  };
}

/** The same for the tree that it is compared with, which has no record here. */
export function lookedAtOther({ other, tree, match, back }, here) {
  return {
    ...here, tree: other, other: tree, lit: NONE, changed: new Map(), line: new Set(mainLine(other)), follow: false,
    selected: Math.max(match[here.selected], 0), differs: (node) => difference(other, node, tree, back),
  };
}

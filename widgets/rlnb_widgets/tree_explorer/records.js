// The recorded simulations: forwards and backwards through every number that they changed, phase by phase.

import { typed } from "../_core/data.js";
import { TERMINAL, hasFlag, isTurned, pathTo } from "./store.js";

/** What is shown between one simulation and the next; "back up" is the picture once its numbers are in. */
export const PHASES = ["back up", "select", "expand", "evaluate"];
const COLUMNS = {
  recPathStart: "i4", recEdge: "i4", recLeaf: "i4", recAdded: "u1", recValue: "f8",
  recChangeStart: "i4", chPhase: "u1", chName: "u1", chNode: "i4", chEdge: "i4", chBefore: "f8", chAfter: "f8",
};
/** Where a change is written. Which children there are follows from when their nodes were added. */
const OF_NODE = { visits: "visits", value_sum: "valueSum", evaluation: "evaluation" };
const OF_EDGE = { edge_visits: "edgeVisits", edge_value_sum: "edgeSum", edge_square_sum: "edgeExtra", log_weight: "edgeExtra" };

/** The stage of a simulation that a change belongs to: 0 expand, 1 evaluate, 2 back up. */
const stageOf = (name, phase) => (phase === 1 ? 2 : name === "evaluation" ? 1 : 0);

/**
 * Make the record of a tree, which stands at its end: all simulations are in the tree.
 *
 * `seek(t, phase)` brings the numbers of the tree to the moment when t simulations are in it and the next one has come
 * to `phase`, a place in PHASES; 0 is none of it.
 */
export function recordsOf(tree, blob) {
  const { head } = tree;
  const count = head.records?.count ?? 0;
  const column = Object.fromEntries(Object.entries(COLUMNS).map(([name, kind]) => [name, name in head.columns ? tree[name] : typed(null, kind)]));
  const names = head.changeNames ?? [];
  const { order, starts } = inStages(column, names, count);
  let position = 3 * count;
  for (let r = 0; r < count; r++) if (column.recAdded[r]) tree.addedAt[column.recLeaf[r]] = r + 1;

  const write = (i, value) => {
    const name = names[column.chName[i]];
    if (name in OF_NODE) tree[OF_NODE[name]][column.chNode[i]] = value;
    else if (name in OF_EDGE) tree[OF_EDGE[name]][column.chEdge[i]] = value;
  };
  const seek = (t, phase = 0) => {
    const to = Math.min(3 * t + Math.max(phase - 1, 0), 3 * count);
    for (; position < to; position++) for (let k = starts[position]; k < starts[position + 1]; k++) write(order[k], column.chAfter[order[k]]);
    for (; position > to; position--) for (let k = starts[position] - 1; k >= starts[position - 1]; k--) write(order[k], column.chBefore[order[k]]);
    tree.now = count === 0 ? Infinity : Math.floor(position / 3) + (position % 3 > 0 ? 1 : 0);
  };
  seek(count);

  const path = (r) => {
    const edges = [...column.recEdge.subarray(column.recPathStart[r], column.recPathStart[r + 1])];
    return { edges, nodes: edges.map((e) => tree.edgeFrom[e]), actions: edges.map((e) => tree.edgeAction[e]), leaf: column.recLeaf[r], added: column.recAdded[r] > 0, value: column.recValue[r] };
  };
  /**
   * What a simulation found: the reward of the step to an end, or the value of the leaf; `turned` if what is
   * good there is bad for the player at the root.
   */
  const found = (r) => {
    const { leaf, value } = path(r);
    if (!hasFlag(tree, leaf, TERMINAL)) return { found: value, ended: false, turned: isTurned(tree, leaf) };
    return { found: tree.reward[leaf], ended: true, turned: leaf > 0 && isTurned(tree, tree.parent[leaf]) };
  };
  /** The simulation that is looked at, or -1 before the first. */
  const current = (t, phase) => (phase === 0 ? t - 1 : t);
  /** What changed last, as key -> [before, after]; see `keyOf`. */
  const changed = (t, phase) => {
    const found = new Map();
    const stage = { 0: 3 * t - 1, 2: 3 * t, 3: 3 * t + 1 }[phase];
    if (stage === undefined || stage < 0) return found;
    for (let k = starts[stage]; k < starts[stage + 1]; k++) {
      const i = order[k];
      found.set(keyOf(names[column.chName[i]], names[column.chName[i]] in OF_NODE ? column.chNode[i] : column.chEdge[i]), [column.chBefore[i], column.chAfter[i]]);
    }
    return found;
  };
  return { count, seek, path, found, current, changed };
}

/** The key of a changed number: its name, and the node or the edge that it belongs to. */
export const keyOf = (name, place) => `${name}/${place}`;

/** Changes sorted by simulation and stage: their order, and where each stage of each simulation begins. */
function inStages({ recChangeStart, chPhase, chName }, names, count) {
  const order = new Int32Array(chName.length);
  const starts = new Int32Array(3 * count + 1);
  let k = 0;
  for (let r = 0; r < count; r++) {
    for (let stage = 0; stage < 3; stage++) {
      starts[3 * r + stage] = k;
      for (let i = recChangeStart[r]; i < recChangeStart[r + 1]; i++) if (stageOf(names[chName[i]], chPhase[i]) === stage) order[k++] = i;
    }
  }
  starts[3 * count] = k;
  return { order, starts };
}

/** The mean before and after, from a sum and a count of which one or both changed; null where neither did. */
export function changedMean(changed, sumKey, countKey, sum, count) {
  const sums = changed.get(sumKey);
  const counts = changed.get(countKey);
  if (!sums && !counts) return null;
  const before = (sums?.[0] ?? sum) / (counts?.[0] ?? count);
  const after = (sums?.[1] ?? sum) / (counts?.[1] ?? count);
  return [before, after];
}

/** Where the playhead may jump to: simulations after which another action is visited most, that came to an end, or that came by a node. */
export function marksOf(tree, records, node = 0) {
  const best = [];
  const ends = [];
  const through = [];
  const visits = new Map();
  for (let e = tree.edgeStart[0]; e < tree.edgeStart[1]; e++) visits.set(tree.edgeAction[e], tree.finalEdgeVisits[e]);
  const paths = Array.from({ length: records.count }, (_, r) => records.path(r));
  for (const { actions } of paths) if (actions.length) visits.set(actions[0], visits.get(actions[0]) - 1);
  let first = null;
  paths.forEach(({ nodes, actions, leaf }, r) => {
    if (actions.length) visits.set(actions[0], visits.get(actions[0]) + 1);
    const now = [...visits].reduce((a, b) => (b[1] > a[1] ? b : a))[0];
    if (first !== null && now !== first) best.push(r + 1);
    first = now;
    if (hasFlag(tree, leaf, TERMINAL)) ends.push(r + 1);
    if (node > 0 && (leaf === node || nodes.includes(node))) through.push(r + 1);
  });
  const marks = { "best action changes": best, "end of an episode": ends };
  if (node > 0) marks["by the selected node"] = through;
  return marks;
}

/** What a simulation does in a phase, in words. `name` names an action, `short` writes a number. */
export function phaseWords(tree, records, t, phase, name, short) {
  const r = records.current(t, phase);
  if (r < 0) return "No simulation yet: only what there was before.";
  const { actions, leaf, added } = records.path(r);
  const { found, ended } = records.found(r);
  const way = actions.map(name).join(" → ");
  const number = `Simulation ${((tree.head.records.first ?? 0) + r + 1).toLocaleString("en")}`;
  const at = leaf === 0 ? "the root" : pathTo(tree, leaf).map(name).join(" → ");
  if (PHASES[phase] === "select") return `${number}, select: from the root ${way}, by the best score in each node.`;
  if (PHASES[phase] === "expand") return added ? `${number}, expand: a new node is added after ${way}.` : `${number}, expand: nothing to add, ${at} is an end of the episode.`;
  if (PHASES[phase] === "evaluate") {
    return ended ? `${number}, evaluate: the episode ends after ${at}, with a reward of ${short(found)} to who went there.`
      : `${number}, evaluate: ${at} is worth ${short(found)} to the player to move there.`;
  }
  return `${number}, back up: ${ended ? "the reward of " : ""}${short(found)} goes up along ${way}; ${actions.length + 1} nodes count one visit more.`;
}

// The recorded simulations: forwards and backwards through every number that they changed, phase by phase, and where one stands.

import { clamp } from "../_core/core.js";
import { short } from "./notation.js";
import { TERMINAL, actionName, bestAction, hasFlag, isTurned, pathWords } from "./store.js";

/** What is shown between one simulation and the next; "back up" is the picture once its numbers are in. */
export const PHASES = ["back up", "select", "expand", "evaluate"];
const SLOW = 3; // simulations a second up to which the phases are shown while it plays
/** Where a change is written. Which children there are follows from when their nodes were added. */
const HOMES = {
  visits: "visits", value_sum: "valueSum", evaluation: "evaluation",
  edge_visits: "edgeVisits", edge_value_sum: "edgeSum", edge_square_sum: "edgeExtra", log_weight: "edgeExtra",
};

/**
 * Make the record of a tree, which stands at its end: all simulations are in the tree.
 *
 * A simulation changes numbers in three stages: expand, evaluate, back up. `seek(t, phase)` brings the numbers of the tree
 * to the moment when t simulations are in it and the next one has come to `phase`, a place in PHASES; 0 is none of it.
 */
export function recordsOf(tree) {
  const { head, recStage: starts, chName, chPlace, chBefore, chAfter } = tree;
  const count = head.records?.count ?? 0;
  const homes = head.changeNames.map((name) => tree[HOMES[name]] ?? {});
  let position = 3 * count;
  for (let r = 0; r < count; r++) if (tree.recAdded[r]) tree.addedAt[tree.recLeaf[r]] = r + 1;

  const seek = (t, phase = 0) => {
    const to = Math.min(3 * t + Math.max(phase - 1, 0), 3 * count);
    for (; position < to; position++) {
      for (let i = starts[position]; i < starts[position + 1]; i++) homes[chName[i]][chPlace[i]] = chAfter[i];
    }
    for (; position > to; position--) {
      for (let i = starts[position] - 1; i >= starts[position - 1]; i--) homes[chName[i]][chPlace[i]] = chBefore[i];
    }
    tree.now = count === 0 ? Infinity : Math.ceil(position / 3);
  };
  seek(count);
  const bests = Array.from({ length: count }, (_, r) => { seek(r + 1); return bestAction(tree, r + 1 === count); });
  const changes = [...bests.keys()].filter((r) => r > 0 && bests[r] !== bests[r - 1]).map((r) => r + 1);

  const path = (r) => {
    const edges = [...tree.recEdge.subarray(tree.recPathStart[r], tree.recPathStart[r + 1])];
    return { edges, nodes: edges.map((e) => tree.edgeFrom[e]), actions: edges.map((e) => tree.edgeAction[e]), leaf: tree.recLeaf[r] };
  };
  /**
   * What a simulation found: the reward of the step to an end, for the player who moved there, or the value of the leaf, for
   * the one to move; `by` is this player, `turned` if what is good for it is bad for the player at the root.
   */
  const found = (r) => {
    const leaf = tree.recLeaf[r];
    const ended = hasFlag(tree, leaf, TERMINAL);
    const node = ended && leaf > 0 ? tree.parent[leaf] : leaf;
    return { found: ended ? tree.reward[leaf] : tree.recValue[r], ended, by: tree.toPlay[node], turned: isTurned(tree, node) };
  };
  /** The simulation that is looked at, or -1 before the first. */
  const current = (t, phase) => (phase === 0 ? t - 1 : t);
  /** What changed last, as key -> [before, after]; see `keyOf`. */
  const changed = (t, phase) => {
    const stage = { 0: 3 * t - 1, 2: 3 * t, 3: 3 * t + 1 }[phase] ?? -1;
    const all = new Map();
    for (let i = starts?.[stage]; i < starts?.[stage + 1]; i++) {
      all.set(keyOf(head.changeNames[chName[i]], chPlace[i]), [chBefore[i], chAfter[i]]);
    }
    return all;
  };
  return { count, seek, path, found, current, changed, marks: { "best action changes": changes, ...head.records?.marks } };
}

/** The key of a changed number: its name, and the node or the edge that it belongs to. */
export const keyOf = (name, place) => `${name}/${place}`;

/** The mean before and after, from a sum and a count, one or both of which changed; null where neither did. */
export function changedMean(changed, sumKey, countKey, sum, count) {
  const [sums, counts] = [changed.get(sumKey), changed.get(countKey)];
  return sums || counts ? [0, 1].map((i) => (sums?.[i] ?? sum) / (counts?.[i] ?? count)) : null;
}

/** Where the playhead may jump to: what is known of the record, and the simulations that came by a node. */
export function marksOf({ count, path, marks: known }, node = 0) {
  const passes = ({ nodes, leaf }) => leaf === node || nodes.includes(node);
  const marks = { ...known };
  if (node > 0) marks["by the selected node"] = Array.from({ length: count }, (_, r) => r + 1).filter((t) => passes(path(t - 1)));
  return marks;
}

/** What a simulation does in a phase, in words. */
export function phaseWords(tree, records, t, phase) {
  const r = records.current(t, phase);
  if (r < 0) return "Before the first recorded simulation.";
  const { actions, leaf } = records.path(r);
  const { found, ended, by } = records.found(r);
  const way = actions.map((action) => actionName(tree, action)).join(" → ");
  const at = leaf === 0 ? "the root" : pathWords(tree, leaf);
  const { players } = tree.head;
  const what = `${players ? `player${by}'s` : "the"} ${ended ? "reward" : "value"} of ${short(found)}`;
  const turned = players && found ? `, as ${short(-found)} where the other player moves` : "";
  const words = {
    select: `from the root ${way}, by the best score in each node`,
    expand: tree.recAdded[r] ? `a new node is added after ${way}` : `nothing to add, ${at} is an end of the episode`,
    evaluate: ended ? `the episode ends after ${at}, with a reward of ${short(found)}${players ? ` for player${by}, who moved there` : ""}`
      : `${at} is worth ${short(found)}${players ? ` to player${by}, who is to move` : ""}`,
    "back up": `${what} goes up along ${way}${turned}; ${actions.length + 1} nodes gain one visit each`,
  };
  return `Simulation ${((tree.head.records.first ?? 0) + r + 1).toLocaleString("en")}, ${PHASES[phase]}: ${words[PHASES[phase]]}.`;
}

/**
 * Where in the record one stands: how many simulations are in the picture, and the phase of the next one.
 *
 * records() is the record, fps() how many are played a second at speed 1; onChange() is called after each change.
 */
export function moments({ playhead, records, fps, onChange }) {
  let phase = 0;
  let shownAt = -1;
  const count = () => records().count;
  const t = () => clamp(playhead.t, 0, count());

  function goTo(next, to) {
    phase = next >= count() ? 0 : to;
    shownAt = next;
    if (next !== playhead.t) playhead.seek(next);
    else playhead.pause();
    onChange();
  }
  const stop = playhead.subscribe(() => {
    if (playhead.t !== shownAt) phase = 0;
    shownAt = playhead.t;
    onChange();
  });
  // While it plays slowly, the part of a step that has passed shows as phases.
  const unwatch = playhead.everyFrame(() => {
    const now = fps() * playhead.speed <= SLOW && t() < count() ? Math.min(Math.floor(playhead.carry * 4), 3) : 0;
    if (now !== phase) { phase = now; onChange(); }
  });
  return {
    t,
    phase: () => phase,
    /** Show a phase of the simulation that is looked at. */
    toPhase(next) {
      const r = clamp(records().current(t(), phase), 0, count() - 1);
      goTo(next === 0 ? r + 1 : r, next);
    },
    /** To the end of the next simulation, or of the one before; in the middle of one that is where it began. */
    simulation(by) { goTo(clamp(by < 0 && phase ? t() : t() + by, 0, count()), 0); },
    /** One phase on, or back. */
    step(way) {
      const place = clamp(4 * t() + phase + way, 0, 4 * count());
      goTo(Math.floor(place / 4), place % 4);
    },
    /** The record is another one. */
    reset() { phase = 0; },
    destroy() { stop(); unwatch(); },
  };
}

// What the page computes without a page: the tree in its columns, the record, scores, formulas, layout, search, comparison.
import assert from "node:assert/strict";
import { test } from "node:test";

import { actionOf, followPath } from "../../../widgets/rlnb_widgets/tree_explorer/controls.js";
import { ranking, scored, written } from "../../../widgets/rlnb_widgets/tree_explorer/formulas.js";
import { curve, icicleMarks, itemMarks, labelOf, lineMarks, lineWidth, radius } from "../../../widgets/rlnb_widgets/tree_explorer/scene.js";
import { hitAt } from "../../../widgets/rlnb_widgets/_core/paint.js";
import { rowsIn } from "../../../widgets/rlnb_widgets/tree_explorer/icicle.js";
import { COLUMN, ROW, firstFolds, layOut, moveTo, shownChildren } from "../../../widgets/rlnb_widgets/tree_explorer/layout.js";
import { backOf, difference, litBy } from "../../../widgets/rlnb_widgets/tree_explorer/look.js";
import { brief, fixed, short } from "../../../widgets/rlnb_widgets/tree_explorer/notation.js";
import { factsOf, summaryOf } from "../../../widgets/rlnb_widgets/tree_explorer/panel.js";
import { changedMean, keyOf, marksOf, phaseWords, recordsOf } from "../../../widgets/rlnb_widgets/tree_explorer/records.js";
import { bestEdge, childEdges, edgesTo, hasFlag, isThere, mainLine, pathTo, pathWords, placeOf, readTree, valueOf } from "../../../widgets/rlnb_widgets/tree_explorer/store.js";

const WIDTH = { f4: [4, "setFloat32"], f8: [8, "setFloat64"], i4: [4, "setInt32"], i1: [1, "setInt8"], u1: [1, "setUint8"] };

/** Write columns as the payload does: { name: [kind, numbers] } to [places, bytes]. */
function packed(columns) {
  const places = {};
  let size = 0;
  for (const [name, [kind, numbers]] of Object.entries(columns)) { places[name] = [kind, size, numbers.length]; size += WIDTH[kind][0] * numbers.length; }
  const view = new DataView(new ArrayBuffer(size));
  for (const [name, [kind, numbers]] of Object.entries(columns)) numbers.forEach((x, i) => view[WIDTH[kind][1]](places[name][1] + WIDTH[kind][0] * i, x, true));
  return [places, view];
}

const RULES = {
  UCB1: { name: "UCB1", known: true, formula: "Q + c · √(ln N / n)", cName: "c", c: 1, cHigh: 4, params: {} },
  UCB1Tuned: { name: "UCB1Tuned", known: true, formula: "q + √(ln N / n · min(¼, V))", variance: "s² − q² + √(c · ln N / n)", cName: "c", c: 2, cHigh: 8, params: {} },
  PUCT: { name: "PUCT", known: true, formula: "Q + c · P · √(N) / (1 + n)", cName: "c", c: 2, cHigh: 4, params: { base: null, first_play: 0 } },
  EXP3: { name: "EXP3", known: true, formula: "(1 − γ) · w / (Σ w) + γ / K", cName: "gamma", c: 0.5, cHigh: 1, params: {} },
  Gumbel: {
    name: "Gumbel", known: true, formula: "π − n / (1 + Σ n)", atRoot: "g + ln P + (c_visit + max n) · c_scale · q", cName: "c_scale", c: 0.1, cHigh: 1, params: { c_visit: 50, below: 1 },
    draws: [0.5, 1, -1], before: [0, 0, 0], plan: [0, 0, 0, 1],
  },
};

/*
 * Three actions. After three simulations: root 0 --0--> 1 --2--> 3, root --1--> 2; action 2 of the root was never tried.
 * Simulation 1 added node 1 by action 0, worth 1 to player 1; simulation 2 node 2 by action 1, worth -1; simulation 3
 * node 3 by actions 0 and 2, an end, worth -1 to player 0.
 */
function sample({ rule = "UCB1", players = true, shared = false, record = true, middle = 0, half = 1, ...more } = {}) {
  const edges = { edgeStart: ["i4", [0, 3, 6, 8, 8]], edgeAction: ["i4", [0, 1, 2, 0, 1, 2, 0, 2]], edgeChild: ["i4", [1, 2, -1, -1, -1, 3, -1, shared ? 3 : -1]] };
  const changes = [
    [0, 1, "visits", 0, -1, 1, 2], [0, 1, "visits", 1, -1, 0, 1], [0, 1, "value_sum", 0, -1, 0, -1], [0, 1, "value_sum", 1, -1, 0, 1], [0, 0, "evaluation", 1, -1, 0, 1],
    [0, 1, "edge_visits", 0, 0, 0, 1], [0, 1, "edge_value_sum", 0, 0, 0, -1],
    [1, 1, "visits", 0, -1, 2, 3], [1, 1, "visits", 2, -1, 0, 1], [1, 1, "value_sum", 0, -1, -1, 0], [1, 1, "value_sum", 2, -1, 0, -1], [1, 0, "evaluation", 2, -1, 0, -1],
    [1, 1, "edge_visits", 0, 1, 0, 1], [1, 1, "edge_value_sum", 0, 1, 0, 1],
    [2, 1, "visits", 0, -1, 3, 4], [2, 1, "visits", 1, -1, 1, 2], [2, 1, "visits", 3, -1, 0, 1], [2, 1, "value_sum", 0, -1, 0, -1], [2, 1, "value_sum", 1, -1, 1, 2],
    [2, 1, "value_sum", 3, -1, 0, -1], [2, 1, "edge_visits", 0, 0, 1, 2], [2, 1, "edge_value_sum", 0, 0, -1, -2], [2, 1, "edge_visits", 1, 5, 0, 1], [2, 1, "edge_value_sum", 1, 5, 0, 1],
  ];
  const names = ["visits", "value_sum", "evaluation", "children", "edge_visits", "edge_value_sum", "edge_square_sum", "log_weight"];
  const stage = ([r, phase, name]) => 3 * r + (phase === 1 ? 2 : name === "evaluation" ? 1 : 0);
  changes.sort((a, b) => stage(a) - stage(b));
  const starts = Array.from({ length: 10 }, (_, i) => changes.filter((change) => stage(change) < i).length);
  const of = (i) => changes.map((change) => change[i]);
  const [columns, blob] = packed({
    parent: ["i4", [-1, 0, 0, 1]], action: ["i4", [-1, 0, 1, 2]], edge: ["i4", [-1, 0, 1, 5]], depth: ["i4", [0, 1, 1, 2]], toPlay: ["i1", [0, 1, 1, 0]], flags: ["u1", [0, 0, 0, shared ? 3 : 1]], steps: ["i4", [0, 1, 1, 1]],
    visits: ["i4", [4, 2, 1, 1]], valueSum: ["f8", [-1, 2, -1, -1]], evaluation: ["f8", [0, 1, -1, 0]], reward: ["f4", [0, 0, 0, 1]],
    x0: ["f4", [0, 0.25, 0.75, 0.25]], x1: ["f4", [1, 0.75, 1, 0.5]], ...edges, edgeVisits: ["i4", [2, 1, 0, 0, 0, 1, 0, 0]], edgeSum: ["f8", [-2, 1, 0, 0, 0, 1, 0, 0]],
    edgePrior: ["f4", [0.5, 0.25, 0.25, 0.5, 0.25, 0.25, 0.5, 0.5]], edgeExtra: ["f8", [0.5, 1, 0, 0, 0, 1, 0, 0]],
    ...(record ? {
      recPathStart: ["i4", [0, 1, 2, 4]], recEdge: ["i4", [0, 1, 0, 5]], recLeaf: ["i4", [1, 2, 3]], recAdded: ["u1", [1, 1, 1]], recValue: ["f8", [1, -1, -1]],
      recStage: ["i4", starts], chName: ["u1", of(2).map((name) => names.indexOf(name))], chPlace: ["i4", changes.map(([, , , node, edge]) => (edge >= 0 ? edge : node))], chBefore: ["f8", of(5)], chAfter: ["f8", of(6)],
    } : {}),
  });
  const head = {
    kind: "search", nodes: 4, edges: 8, actions: 3, actionNames: null, players, value: { low: middle - half, middle, high: middle + half }, size: "visits", priors: true, rule: RULES[rule],
    scale: { middle, half }, columns, changeNames: names, records: record ? { count: 3, first: 0, marks: { "end of an episode": [3] } } : null, open: [0, 1, 2], best: 0, reused: 0, ...more,
  };
  const tree = readTree(head, blob);
  return { tree, records: recordsOf(tree) };
}

const numbers = (tree) => JSON.stringify(["visits", "valueSum", "evaluation", "edgeVisits", "edgeSum", "edgeExtra"].map((name) => [...tree[name]]));
const close = (a, b) => assert.ok(Math.abs(a - b) < 1e-12, `${a} is not ${b}`);

test("of actions visited equally often the better one follows", () => {
  const { tree } = sample();
  tree.edgeVisits.set([1, 1]);
  assert.deepEqual([tree.edgeSum.subarray(0, 2).join(), bestEdge(tree, 0)], ["-2,1", 1]);
  tree.edgeSum.set([1, 1]);
  assert.equal(bestEdge(tree, 0), 0);
});

test("a tree is read from its columns, and walked", () => {
  const { tree } = sample();
  assert.deepEqual([pathTo(tree, 3), pathWords(tree, 3), pathWords(tree, 0)], [[0, 2], "0 → 2", "root"]);
  assert.deepEqual([childEdges(tree, 0), mainLine(tree), bestEdge(tree, 2), hasFlag(tree, 3, 1)], [[0, 1], [0, 5], -1, true]);
  assert.equal(pathWords(sample({ actionNames: ["left", "up", "right"] }).tree, 3), "left → right");
});

test("values are seen by the player at the root, by nobody where there is one player", () => {
  const { tree } = sample();
  assert.deepEqual([0, 1, 2, 3].map((n) => valueOf(tree, n)), [-0.25, -1, 1, -1]);
  assert.deepEqual([0, 1, 2, 3].map((n) => valueOf(sample({ players: false }).tree, n)), [-0.25, -1, 1, 1]);
  assert.deepEqual([-9, -1, 0, 1.5, 3, 9].map((v) => placeOf({ low: -1, middle: 0, high: 3 }, v)), [-1, -1, 0, 0.5, 1, 1]);
});

test("the record goes back and forth over every number, in any order", () => {
  const { tree, records } = sample();
  const end = numbers(tree);
  const seen = new Map();
  const look = (t, phase) => { records.seek(t, phase); return `${numbers(tree)} ${[0, 1, 2, 3].map((n) => isThere(tree, n))}`; };
  for (let t = 0; t <= 3; t++) for (let phase = 0; phase < (t < 3 ? 4 : 1); phase++) seen.set(`${t}/${phase}`, look(t, phase));
  const places = [...seen.keys()];
  let at = 7;
  for (let i = 0; i < 200; i++) {
    at = (at * 1103515245 + 12345) % 2147483648;
    const place = places[at % places.length];
    assert.equal(look(...place.split("/").map(Number)), seen.get(place), place);
  }
  records.seek(3);
  assert.equal(numbers(tree), end);
});

test("nodes appear when they are added, numbers when they are found", () => {
  const { tree, records } = sample();
  const at = (t, phase) => { records.seek(t, phase); return [[0, 1, 2, 3].filter((n) => isThere(tree, n)), tree.evaluation[1], tree.visits[0]]; };
  assert.deepEqual(at(0, 0), [[0], 0, 1]);
  assert.deepEqual(at(0, 1), [[0], 0, 1]);
  assert.deepEqual(at(0, 2), [[0, 1], 0, 1]);
  assert.deepEqual(at(0, 3), [[0, 1], 1, 1]);
  assert.deepEqual(at(1, 0), [[0, 1], 1, 2]);
  assert.deepEqual(at(2, 2)[0], [0, 1, 2, 3]);
});

test("what a phase changed, and the mean before and after", () => {
  const { tree, records } = sample();
  assert.equal(records.changed(0, 0).size, 0);
  assert.equal(records.changed(0, 1).size, 0);
  assert.deepEqual([...records.changed(0, 3)], [["evaluation/1", [0, 1]]]);
  const changed = records.changed(3, 0);
  assert.deepEqual([changed.get("visits/0"), changed.get(keyOf("edge_visits", 5)), changed.has("visits/2")], [[3, 4], [0, 1], false]);
  assert.deepEqual(changedMean(changed, "value_sum/1", "visits/1", tree.valueSum[1], tree.visits[1]), [1, 1]);
  assert.equal(changedMean(changed, "value_sum/2", "visits/2", -1, 1), null);
  assert.deepEqual(litBy(records, 2, 1).nodes, [0, 1]);
  assert.deepEqual(litBy(records, 2, 2).nodes, [0, 1, 3]);
  assert.deepEqual([...litBy(records, 3, 0).edges], [0, 5]);
  assert.deepEqual(litBy(records, 0, 0).nodes, []);
});

test("the phases in words, and marks to jump to", () => {
  const { tree, records } = sample();
  const say = (t, phase) => phaseWords(tree, records, t, phase);
  assert.equal(say(0, 0), "Before the first recorded simulation.");
  assert.equal(say(2, 1), "Simulation 3, select: from the root 0 → 2, by the best score in each node.");
  assert.equal(say(2, 2), "Simulation 3, expand: a new node is added after 0 → 2.");
  assert.equal(say(2, 3), "Simulation 3, evaluate: the episode ends after 0 → 2, with a reward of 1 for player1, who moved there.");
  assert.equal(say(1, 3), "Simulation 2, evaluate: 1 is worth −1 to player1, who is to move.");
  assert.deepEqual([1, 2].map((r) => records.found(r)), [{ found: -1, ended: false, by: 1, turned: true }, { found: 1, ended: true, by: 1, turned: true }]);
  assert.equal(say(3, 0), "Simulation 3, back up: player1's reward of 1 goes up along 0 → 2, as −1 where the other player moves; 3 nodes gain one visit each.");
  assert.equal(say(2, 0), "Simulation 2, back up: player1's value of −1 goes up along 1, as 1 where the other player moves; 2 nodes gain one visit each.");
  const alone = sample({ players: false });
  const told = (t, phase) => phaseWords(alone.tree, alone.records, t, phase).split(": ")[1];
  assert.deepEqual([told(2, 3), told(1, 3)], ["the episode ends after 0 → 2, with a reward of 1.", "1 is worth −1."]);
  assert.equal(told(3, 0), "the reward of 1 goes up along 0 → 2; 3 nodes gain one visit each.");
  // After the second simulation both actions have one visit, and action 1 has the better mean.
  assert.deepEqual(marksOf(records, 1), { "best action changes": [2, 3], "end of an episode": [3], "by the selected node": [1, 3] });
});

test("a tree without a record is whole", () => {
  const { tree, records } = sample({ record: false });
  assert.deepEqual([records.count, childEdges(tree, 0).length, records.changed(0, 0).size], [0, 2, 0]);
});

test("UCB1 scores, ranks and writes", () => {
  const { tree } = sample();
  const rows = scored(tree, 0, 1);
  close(rows[0].score, -1 + Math.sqrt(Math.log(4) / 2));
  close(rows[1].score, 1 + Math.sqrt(Math.log(4)));
  assert.equal(rows[2].score, Infinity);
  assert.deepEqual(ranking(rows), [2, 1, 0]);
  assert.deepEqual(written(tree, 0, rows[0]), { names: "Q + c · √(ln N / n)", numbers: "−1 + 1 · √(ln 4 / 2)", result: "= −1 + 0.833 = −0.167", note: "", part: [] });
  assert.deepEqual([written(tree, 0, rows[2]).numbers, written(tree, 0, rows[2]).note], ["∞", "never tried: it comes first"]);
});

test("values are mapped where returns do not lie between -1 and 1", () => {
  const { tree } = sample({ middle: 25, half: 25 });
  tree.head.rule = { ...tree.head.rule, formula: "(Q − 25) / 25 + c · √(ln N / n)" };
  const row = scored(tree, 0, 1)[1];
  close(row.score, (1 - 25) / 25 + Math.sqrt(Math.log(4)));
  const { names, numbers } = written(tree, 0, row);
  assert.deepEqual([names, numbers], ["(Q − 25) / 25 + c · √(ln N / n)", "(1 − 25) / 25 + 1 · √(ln 4 / 1)"]);
  const below = sample({ middle: -2, half: 1 }).tree;
  close(scored(below, 0, 1)[1].score, 3 + Math.sqrt(Math.log(4)));
});

test("UCB1-Tuned caps the variance", () => {
  const { tree } = sample({ rule: "UCB1Tuned" });
  const row = scored(tree, 0, 2)[0];
  const bound = Math.log(4) / 2;
  close(row.score, 0 + Math.sqrt(bound * Math.min(0.25, 0.25 - 0 + Math.sqrt(2 * bound))));
  assert.deepEqual(written(tree, 0, row), {
    names: "q + √(ln N / n · min(¼, V))", numbers: "0 + √(ln 4 / 2 · min(¼, 1.427))", result: "= 0 + √(0.693 · 0.250) = 0.416", note: "",
    part: ["V = s² − q² + √(c · ln N / n)", "V = 0.250 − 0 + √(2 · ln 4 / 2) = 1.427"],
  });
});

test("PUCT knows a score for what was never tried, and a constant that grows", () => {
  const { tree } = sample({ rule: "PUCT" });
  const rows = scored(tree, 0, 2);
  close(rows[0].score, -1 + (2 * 0.5 * 2) / 3);
  close(rows[2].score, 2 * 0.25 * 2);
  assert.deepEqual(ranking(rows), [1, 2, 0]);
  assert.deepEqual(ranking(scored(tree, 0, 0)), [1, 2, 0]);
  assert.equal(written(tree, 0, rows[2]).numbers, "0 + 2 · 0.250 · √(4) / (1 + 0)");
  const growing = "Q + (c + ln ((N + base + 1) / base)) · P · √(N) / (1 + n)";
  tree.head.rule = { ...tree.head.rule, formula: growing, params: { base: 3, first_play: -0.5 } };
  const grown = scored(tree, 0, 2)[2];
  close(grown.score, -0.5 + (2 + Math.log(8 / 3)) * 0.25 * 2);
  assert.equal(written(tree, 0, grown).numbers, "−0.500 + (2 + ln ((4 + 3 + 1) / 3)) · 0.250 · √(4) / (1 + 0)");
});

test("EXP3 mixes the shares of the weights, Gumbel compares what sequential halving looks at", () => {
  const exp3 = scored(sample({ rule: "EXP3" }).tree, 0, 0.5);
  const sum = Math.exp(0.5) + Math.exp(1) + 1;
  exp3.forEach((row, i) => close(row.score, (0.5 * Math.exp([0.5, 1, 0][i])) / sum + 0.5 / 3));
  const { tree } = sample({ rule: "Gumbel" });
  const rows = scored(tree, 0, 0.1);
  assert.deepEqual(rows.map((row) => Number.isFinite(row.score)), [false, true, false]); // tried 2, 1 and 0 times; wanted: 1
  close(rows[1].score, 1 + Math.log(0.25) + 5.2);
  assert.equal(written(tree, 0, rows[0]).note, "not compared now: tried 2, not 1 times");
  assert.equal(written(tree, 0, rows[1]).numbers, "1 + ln 0.250 + (50 + 2) · 0.100 · 1");
  assert.equal(written(tree, 1, rows[1]).names, "π − n / (1 + Σ n)");
  assert.equal(written(tree, 0, rows[1]).result, "= 1 + (−1.386) + 5.200 = 4.814");
  close(rows.reduce((all, row) => all + row.improved, 0), 1);
  const below = scored(tree, 1, 0.1);
  close(below.reduce((all, row) => all + row.score, 0), 0.5);
  assert.equal(scored(sample().tree, 0, 1)[0].improved, null);
});

test("a rule that is not known keeps its scores, a Tree is ranked by visits", () => {
  const { tree } = sample();
  tree.head.rule = { name: "Mine", known: false, cName: "", c: null, params: {} };
  tree.edgeScore = Float64Array.of(1, 3, 2, 0, 0, 0, 0, 0);
  assert.deepEqual(ranking(scored(tree, 0, 1)), [1, 2, 0]);
  assert.equal(written(tree, 0, scored(tree, 0, 1)[0]), null);
  tree.head.rule = tree.edgeScore = null;
  assert.deepEqual(ranking(scored(tree, 0, 0)), [0, 1, 2]);
});

test("numbers are short, and their minus signs are true", () => {
  assert.deepEqual([-1, 0.12345, -12.3456, 1234.56, 1e7, Infinity, -Infinity, NaN, 0].map(short), ["−1", "0.123", "−12.35", "1234.6", "1.0e+7", "∞", "−∞", "–", "0"]);
  assert.deepEqual([-1, -0.0001, Infinity].map(fixed), ["−1.000", "0.000", "∞"]);
  assert.deepEqual([-0.001, 0.456, NaN].map(brief), ["0.00", "0.46", "–"]);
});

test("open nodes are laid out a column for each step, and nothing overlaps", () => {
  const { tree } = sample();
  const layout = layOut(tree, firstFolds(tree));
  assert.deepEqual(layout.items.map((item) => item.node), [0, 1, 2]);
  assert.deepEqual([layout.at.get(1).folded, layout.at.get(2).folded], [true, false]);
  const open = firstFolds(tree);
  open.open.add(1);
  const all = layOut(tree, open);
  assert.deepEqual(all.items.map((item) => (item.x - all.items[0].x) / COLUMN), [0, 1, 2, 1]);
  assert.equal(all.at.get(0).y, (all.at.get(1).y + all.at.get(2).y) / 2);
});

/** A random tree with `n` nodes, as far as the layout reads it. */
function wild(n) {
  const parent = [-1];
  let state = 5;
  const draw = (below) => { state = (state * 1103515245 + 12345) % 2147483648; return Math.floor((state / 2147483648) * below); };
  for (let i = 1; i < n; i++) parent.push(draw(i));
  const children = parent.map((_, node) => parent.flatMap((p, c) => (p === node ? [c] : [])));
  const edgeStart = [0];
  children.forEach((list) => edgeStart.push(edgeStart.at(-1) + list.length));
  const edgeChild = Int32Array.from(children.flat());
  const depth = parent.map(() => 0);
  for (let i = 1; i < n; i++) depth[i] = depth[parent[i]] + 1;
  const size = Float64Array.from(parent, () => 1 + draw(50));
  return {
    head: { open: parent.map((_, i) => i), size: "visits", priors: true }, count: n, parent, depth, edgeStart, edgeChild, edgeAction: Int32Array.from(edgeChild, (_, e) => e), edgeFrom: Int32Array.from(children.flatMap((list, p) => list.map(() => p))),
    finalVisits: size, visits: size, edgeVisits: Float64Array.from(edgeChild, (c) => size[c]), finalEdgeVisits: Float64Array.from(edgeChild, (c) => size[c]), edgePrior: new Float64Array(n), flags: new Uint8Array(n), edge: parent.map((p, c) => edgeChild.indexOf(c)), addedAt: new Int32Array(n), now: Infinity, deepest: Math.max(...depth),
  };
}

test("no two items of a column overlap, whatever the tree, and parents stand between their children", () => {
  const tree = wild(400);
  for (const count of [1, 3, 100]) {
    const layout = layOut(tree, firstFolds(tree, { count }));
    const byDepth = new Map();
    for (const item of layout.items) byDepth.set(item.depth, [...(byDepth.get(item.depth) ?? []), item]);
    for (const items of byDepth.values()) {
      items.sort((a, b) => a.y - b.y);
      items.slice(1).forEach((item, i) => assert.ok(item.y - items[i].y >= ROW, `${item.y - items[i].y}`));
    }
    for (const item of layout.items) if (item.children.length) close(item.y, (item.children[0].y + item.children.at(-1).y) / 2);
    assert.ok(layout.items.every((item) => item.y > 0 && item.y < layout.height && item.x < layout.width));
  }
});

test("the largest children are drawn, in the order of the actions; filters and what is forced", () => {
  const tree = wild(60);
  const folds = firstFolds(tree, { count: 2 });
  assert.equal(shownChildren(tree, 0, folds, new Set()).edges.length, Math.min(childEdges(tree, 0).length, 6)); // the root shows more
  folds.more.clear();
  const { edges, hidden } = shownChildren(tree, 0, folds, new Set());
  const sizes = (list) => list.map((e) => tree.finalVisits[tree.edgeChild[e]]);
  assert.ok(hidden.length > 0 && Math.min(...sizes(edges)) >= Math.max(...sizes(hidden)));
  assert.deepEqual(edges, [...edges].sort((a, b) => a - b));
  const forced = tree.edgeChild[hidden[0]];
  assert.equal(shownChildren(tree, 0, folds, new Set([forced])).edges.length, 3);
  assert.equal(shownChildren(tree, 0, { ...folds, count: 99, least: 40 }, new Set()).edges.every((e) => tree.finalVisits[tree.edgeChild[e]] >= 40), true);
  assert.equal(shownChildren(tree, 0, { ...folds, deepest: 0 }, new Set([forced])).edges.length, 1);
  folds.open.clear();
  const layout = layOut(tree, folds, new Set([0, forced]));
  assert.deepEqual(layout.items.map((item) => item.kind), ["node", "node", "stub"]);
  assert.deepEqual(layOut(tree, folds, new Set([0, forced]), new Set()).items.map((item) => item.kind), ["node", "node"]);
});

test("a node that two branches lead to is drawn once, with a second line", () => {
  const { tree } = sample({ shared: true });
  const folds = firstFolds(tree);
  folds.open.add(1).add(2);
  const layout = layOut(tree, folds);
  assert.equal(layout.items.filter((item) => item.node === 3).length, 1);
  assert.deepEqual(layout.links.map(({ from, to, edge }) => [from.node, to.node, edge]), [[2, 3, 7]]);
  assert.deepEqual(edgesTo(tree, 3), [5, 7]);
  assert.ok(factsOf(tree, 3).some(([name, text]) => name === "reached from" && text === "0 by 2; 1 by 2"));
});

test("arrow keys lead to parent, child and sibling, and open what is folded", () => {
  const { tree } = sample();
  const layout = layOut(tree, firstFolds(tree));
  const go = (key, node, shown = () => true) => { const { item, open } = moveTo(key, layout.at.get(node), layout, shown, tree); return [item.node, open]; };
  assert.deepEqual(go("ArrowRight", 0), [1, false]);
  assert.deepEqual(go("ArrowDown", 1), [2, false]);
  assert.deepEqual(go("ArrowDown", 2), [2, false]);
  assert.deepEqual(go("ArrowUp", 2), [1, false]);
  assert.deepEqual(go("ArrowLeft", 2), [0, false]);
  assert.deepEqual(go("ArrowLeft", 0), [0, false]);
  assert.deepEqual(go("ArrowRight", 1), [1, true]);
  assert.deepEqual(go("ArrowRight", 2), [2, false]);
  assert.deepEqual(go("Home", 2), [0, false]);
  assert.deepEqual(go("ArrowRight", 0, (item) => item.node !== 1), [2, false]);
});

test("a path of actions is followed as far as it leads, and what stops it is said", () => {
  const { tree, records } = sample({ actionNames: ["left", "up", "right"] });
  assert.deepEqual(followPath(tree, "left, 2"), { node: 3, message: "" });
  assert.deepEqual(followPath(tree, ""), { node: 0, message: "" });
  assert.deepEqual(followPath(tree, "0 → Up 1"), { node: 1, message: "Action up was never tried after 0." });
  assert.equal(followPath(tree, "2").message, "Action right was never tried at the root.");
  assert.equal(followPath(tree, "0 2 1").message, "The episode ends after 0 2.");
  assert.equal(followPath(tree, "1 1").message, "Action up is not legal after 1, or was left out.");
  assert.equal(followPath(tree, "9").message, "There is no action “9”.");
  records.seek(1);
  assert.equal(followPath(tree, "1").message, "Action up is tried at the root only by a later simulation.");
  assert.deepEqual(["LEFT", "1", "-1", "x"].map((word) => actionOf(tree, word)), [0, 1, -1, -1]);
});

test("the differences of two trees are named", () => {
  const { tree } = sample();
  const { tree: other } = sample();
  other.action[3] = 1;
  other.edgeAction[5] = 1;
  other.edgeAction[4] = 2;
  const match = [0, 1, 2, -1];
  assert.deepEqual([...backOf([0, 3, -1, 1], 4)], [0, 3, -1, 1]);
  assert.deepEqual([0, 1, 2, 3].map((n) => difference(tree, n, other, match)), ["", "best", "", "only"]);
});

test("the root in a summary", () => {
  const { tree } = sample();
  const rows = summaryOf(tree, 1);
  assert.deepEqual(rows.map((row) => [row.n, row.prior, row.improved]), [[2, 0.5, null], [1, 0.25, null], [0, 0.25, null]]);
  close(rows.reduce((all, row) => all + row.share, 0), 1);
  assert.equal(summaryOf(sample({ rule: "Gumbel" }).tree, 0.1).every((row) => row.improved > 0), true);
});

/** A moment of a tree, as the views look at it. */
function moment({ tree, records }, t = records.count, phase = 0, more = {}) {
  records.seek(t, phase);
  const layout = layOut(tree, firstFolds(tree));
  return {
    tree, records, t, phase, layout, selected: 0, active: 0, lit: litBy(records, t, phase), changed: records.changed(t, phase), line: new Set([0]),
    isShown: (item) => item.kind === "stub" || isThere(tree, item.node), stubCount: (item) => item.hidden.length, least: 0, deepest: Infinity, ...more,
  };
}

test("areas and widths are shares of the visits", () => {
  const { tree } = sample();
  close((radius(tree, 1) / radius(tree, 0)) ** 2, 0.5);
  close(lineWidth(tree, 0) - lineWidth(tree, 1), 7 * 0.25);
  const points = curve([0, 0], [100, 50]);
  assert.deepEqual([points[0], points.at(-1), points.length], [[0, 0], [100, 50], 17]);
  assert.ok(points[1][1] < 0.03 * 50 && points.every(([x], i) => i === 0 || x > points[i - 1][0]));
});

test("a line says whether it is on the path of the simulation, the main line, or one more way", () => {
  const state = moment(sample());
  const line = (edge, further) => lineMarks(edge, [0, 0], [9, 9], state, further)[0];
  assert.deepEqual([line(0).stroke, line(1).stroke, line(1, [0]).dash, line(-1).dash], ["lit", "muted", [5, 4], [2, 3]]);
  assert.equal(lineMarks(0, [0, 0], [9, 9], moment(sample(), 0))[0].stroke, "ink");
});

test("one more way to a node begins past the text beside its parent, and turns past the texts on its way", () => {
  const state = moment(sample());
  const way = (past) => lineMarks(1, [10, 50], [210, 0], state, past)[0].points;
  const [points, longer] = [way([40]), way([40, 90])];
  assert.deepEqual([points[0], points[1], points.at(-1)], [[50, 50], [50, 50], [210, 0]]);
  assert.deepEqual([longer[0], longer[1], longer.at(-1)], [[50, 50], [100, 50], [210, 0]]);
  assert.ok(way([900]).every(([x]) => x <= 210), "a long text sends no line past its end");
  const leaf = itemMarks({ kind: "node", node: 3, edge: 5, depth: 2, parent: {}, children: [], folded: true }, [100, 100], state);
  const right = Math.max(...leaf.marks.filter((mark) => mark.kind === "rect").map((mark) => mark.x2));
  assert.ok(100 + leaf.past > right, "the plates of text and chip");
  assert.equal(itemMarks(state.layout.at.get(0), [100, 100], state).past, 0, "the text of an open node stands below it");
});

test("a node shows its numbers, its end, and what the last phase changed", () => {
  const of = (state, node) => itemMarks(state.layout.at.get(node) ?? { kind: "node", node, edge: state.tree.edge[node], parent: {}, children: [] }, [100, 100], state);
  const rings = ({ marks }, stroke) => marks.filter((mark) => mark.kind === "disc" && mark.stroke === stroke && !mark.fill).length;
  const now = moment(sample());
  assert.deepEqual(labelOf(now, 1), { text: "1→2 · −1.00", value: -1, changed: true });
  assert.deepEqual(labelOf(now, 2), { text: "1 · 1.00", value: 1, changed: false });
  assert.deepEqual([rings(of(now, 3), "ink"), rings(of(now, 1), "ink"), rings(of(now, 0), "accent"), rings(of(now, 1), "accent")], [1, 0, 1, 0]);
  assert.deepEqual([rings(of(now, 1), "lit"), rings(of(now, 2), "lit")], [1, 0]);
  assert.equal(labelOf(moment(sample(), 1, 3), 2).text, "worth 1.00");
  const only = of(moment(sample(), 3, 0, { differs: () => "only" }), 1).marks.find((mark) => mark.stroke === "c4");
  assert.deepEqual([only.kind, only.dash], ["disc", [3, 2]]);
  const [wide, tall] = of(now, 1).box.slice(2);
  assert.ok(wide > 50 && tall < 40);
});

test("the icicle has a box of each node that is there, and outlines", () => {
  const look = { zoomed: 0, over: -1, tall: 20, rows: 3, width: 400 };
  const boxes = (state, more = {}) => icicleMarks(state, { ...look, ...more }).filter((mark) => mark.fill === "line");
  assert.deepEqual(boxes(moment(sample())).map((box) => [box.x, box.y]), [[0, 0], [100, 20], [300, 20], [100, 40]]);
  assert.equal(boxes(moment(sample(), 1)).length, 2);
  assert.deepEqual(boxes(moment(sample()), { zoomed: 1 }).map((box) => [box.x, box.y]), [[0, 0], [0, 20]]);
  assert.equal(icicleMarks(moment(sample()), look).filter((mark) => mark.stroke === "accent").length, 1);
});

test("the icicle has as many rows as fit, and finds the node under a point", () => {
  const marks = icicleMarks(moment(sample()), { zoomed: 0, over: -1, tall: 20, rows: 3, width: 100 });
  const nodeAt = (x, row) => hitAt(marks, { width: 100, params: {} }, 100 * x, 20 * row + 10)?.name ?? -1;
  assert.deepEqual([rowsIn(9, 204), rowsIn(2, 204), rowsIn(99, 104)], [{ tall: 20, rows: 10 }, { tall: 38, rows: 3 }, { tall: 4, rows: 25 }]);
  assert.deepEqual([nodeAt(0.3, 0), nodeAt(0.3, 1), nodeAt(0.3, 2), nodeAt(0.6, 2), nodeAt(0.1, 1)], [0, 1, 3, -1, -1]);
});

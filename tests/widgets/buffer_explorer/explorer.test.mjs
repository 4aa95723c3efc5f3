// What the page computes without a page: cells, orders, the sum tree, weights, slices.
import assert from "node:assert/strict";
import { test } from "node:test";

import { leafName } from "../../../widgets/rlnb_widgets/buffer_explorer/controls.js";
import { facts } from "../../../widgets/rlnb_widgets/buffer_explorer/panels.js";
import {
  ageOf, barNumbers, cellAt, cellOf, chipWords, curveNumbers, filledIn, fitting, hit, lengthNumbers, meanPriorities, reader, ringColumns,
  ringParams, rowsOf, slotOf, stepWords, sumTree, weight,
} from "../../../widgets/rlnb_widgets/buffer_explorer/values.js";

// 8 rows, full, the cursor at row 2; trajectories 2-4, 5-0, 1.
const m = {
  size: 8, length: 8, cursor: 2, first: 2, newest: 1, written: 10, ordered: true, turns: true, seam: true, all: 1, cells: 8, columns: 1,
  wrote: [5, 5], age: new Int32Array(0), ages: Uint8Array.of(3, 2, 10, 9, 8, 7, 5, 4), edges: Uint8Array.of(3, 3, 1, 1, 1, 2, 2, 2),
  sampled: [[0, 0], [5, 0]], drawnCount: 3, slices: [], batches: 1, draws: Int32Array.of(1, 0, 0, 0, 0, 2, 0, 0), about: { draws: "dashed: expected", priorities: "" },
  expected: new Float32Array(8).fill(0.375), arcs: [
    { column: 0, start: 2, length: 3, begun: true, ended: true }, { column: 0, start: 5, length: 4, begun: true, ended: true },
    { column: 0, start: 1, length: 1, begun: true, ended: false },
  ], arcCount: 3, named: false, interleaved: 0, lengths: [[1, 1], [3, 1], [4, 1]], priorities: null, asked: null,
};
const binned = { ...m, size: 10, length: 7, cursor: 7, first: 0, newest: 6, cells: 4 };

test("cells share the rows evenly, and every row lies in its cell", () => {
  assert.deepEqual([0, 1, 2, 3].map((c) => rowsOf(binned, c)), [[0, 3], [3, 5], [5, 8], [8, 10]]);
  for (let row = 0; row < 10; row++) {
    const [from, to] = rowsOf(binned, cellOf(binned, row));
    assert.ok(from <= row && row < to);
  }
  assert.deepEqual([0, 1, 2, 3].map((c) => filledIn(binned, c)), [3, 2, 2, 0]);
});

test("an item that a sample holds twice is listed once, with how often it was drawn", () => {
  const none = ["u1", 0, 0];
  const lists = { age: none, ages: none, edges: none, draws: none, expected: none, slices: none, arcs: none, lengths: none, priorities: null };
  const at = (all) => reader({ moments: [{ ...lists, all, drawn: ["u1", 0, 4] }] }, Uint8Array.of(5, 2, 5, 3))(0);
  const words = (m) => m.sampled.map((_, i) => chipWords(m, i));
  assert.deepEqual(words(at(1)), [["5 ×2", "row 5, drawn 2 times"], ["2", "row 2"], ["3", "row 3"]]);
  assert.deepEqual(words(at(2)), [["2,1 ×2", "row 2, column 1, drawn 2 times"], ["1,0", "row 1, column 0"], ["1,1", "row 1, column 1"]]);
});

test("a moment is read from bytes once, its trajectories and samples as values", () => {
  const blob = new Uint8Array(32);
  blob.set([3, 2, 0, 5, 5, 9, 0, 2, 3, 7, 1, 1, 0, 1, 6, 2]);
  const none = ["u1", 0, 0];
  const moment = { words: "w", all: 2, age: none, ages: ["u1", 0, 2], edges: none, draws: none, expected: none, drawn: ["u1", 2, 4], slices: ["u1", 6, 3], arcs: ["u1", 6, 10], lengths: none, priorities: null };
  const frame = reader({ moments: [moment] }, blob);
  assert.deepEqual([[...frame(0).ages], frame(0).sampled, frame(0).slices], [[3, 2], [[0, 0], [2, 1], [4, 1]], [[0, 2, 3]]]);
  assert.deepEqual(frame(0).arcs, [
    { column: 0, start: 2, length: 3, id: 7, begun: true, ended: false }, { column: 1, start: 0, length: 1, id: 6, begun: false, ended: true },
  ]);
  assert.equal(frame(0), frame(0));
});

test("ages and trajectories of an item", () => {
  assert.deepEqual([0, 1, 2, 7].map((row) => ageOf(m, row)), [1, 0, 7, 2]);
  assert.equal(ageOf(binned, 6), 0);
  const ranked = { ...m, ordered: false, age: Int32Array.of(5, -2, 0, 1, 2, 3, 4, 6) };
  assert.deepEqual([0, 1, 2].map((row) => ageOf(ranked, row)), [5, null, 0]);
  const trajectory = (row, column) => Object.fromEntries(facts({ ...m, batches: 0 }, row, column, 0.5)).trajectory;
  assert.deepEqual([0, 3, 1].map((row) => trajectory(row, 0)), ["step 3 of its 4 here", "step 1 of its 3 here", "step 0 of its 1 here, it goes on"]);
  assert.equal(trajectory(3, 1), undefined);
  assert.deepEqual(facts(m, 1, 0, 0.5)[0], ["written as", "row 9, counted from the first"]);
  assert.deepEqual(facts(ranked, 1, 0, 0.5)[0], ["age", "not known"]);
  assert.deepEqual(facts(binned, 8, 0, 0.5), [["holds", "nothing yet"]]);
});

test("the orders are turns of each other", () => {
  assert.deepEqual([...Array(8).keys()].map((slot) => cellAt(m, slot, "chronological")), [2, 3, 4, 5, 6, 7, 0, 1]);
  for (const order of ["physical", "chronological"]) for (let c = 0; c < 8; c++) assert.equal(cellAt(m, slotOf(m, c, order), order), c);
  const turned = (order) => ringParams(m, null, 1, order, 0, 0).turned / (2 * Math.PI);
  assert.deepEqual([turned("physical"), turned("chronological")], [-0, -2 / 8]);
});

test("a point of the ring leads to its cell, and one beside it to none", () => {
  const inner = 112 - 0.66 * 40;
  const r = (112 + inner) / 2;
  const { from, to } = ringColumns(m, null, 1, 1);
  for (const order of ["physical", "chronological"]) {
    for (let c = 0; c < 8; c++) {
      const angle = Math.PI * (from[c] + to[c]) + ringParams(m, null, 1, order, 0, 0).turned;
      assert.deepEqual(hit(m, 150 + r * Math.sin(angle), 150 - r * Math.cos(angle), order), { cell: c, column: 0 });
    }
  }
  assert.equal(hit(m, 150, 150, "physical"), null);
  assert.equal(hit(m, 1, 1, "physical"), null);
  assert.equal(hit({ ...m, columns: 2 }, 150, 150 - (112 - 1.66 * 23.52 + 2), "physical").column, 1);
});

test("a write appears row by row", () => {
  const before = { ...m, ages: Uint8Array.of(10, 8, 6, 4, 2, 0, 0, 0), length: 5, cursor: 5 };
  const shown = (phase) => ringColumns(m, before, phase, 1);
  assert.deepEqual(shown(1).ages, [...m.ages], "kind 2 is the newest, 10 the oldest");
  assert.deepEqual([...shown(0).ages].slice(5), [0, 0, 0], "what was empty is so until it is written");
  assert.deepEqual(shown(0.6).edges, [1, 1, 1, 1, 1, 2, 2, 2], "outlines of what is written, and not of what is written over later");
  assert.equal(ringParams(m, before, 0.6, "physical", 0, 0).next, "next: row 0");
  assert.equal(ringParams(m, before, 1, "physical", 0, 0).next, "next: row 2");
});

test("columns and parameters of the ring", () => {
  const found = ringColumns(m, null, 1, 4);
  assert.deepEqual(found.drawn0, [1, 0, 0, 0, 0, 1, 0, 0]);
  assert.deepEqual(found.arcs0, [2, 1, 2], "the arcs of three and one are shorter than a slice of four");
  assert.deepEqual(found["arcs from0"], [2 / 8, 5 / 8, 1 / 8]);
  const params = ringParams(m, null, 1, "chronological", 5, 0);
  assert.deepEqual([params.slot, params.seam, params.in0, params.chosen], [3, 1, 1, 5 / 8]);
  assert.equal(params.upright, -params.zero);
  const lanes = ringColumns({ ...m, slices: [[0, 5, 3], [0, 6, 2]] }, null, 1, 1);
  assert.deepEqual([lanes["slices0 from0"], lanes["slices1 from0"], lanes["slices2 from0"]], [[5 / 8], [6 / 8], []], "beside each other");
});

test("bars lie in the order of the cells", () => {
  const { columns, params } = barNumbers(m, "chronological", 0.5);
  assert.deepEqual([...columns.draws], [0, 0, 0, 2, 0, 0, 1, 0]);
  assert.deepEqual([params["draws to"], params["draws about"]], ["at most 2", "dashed: expected"]);
});

const treeOf = (sums, columns = 1) => sumTree({ cells: sums.length / columns, columns, priorities: { sums } });

test("the tree adds up, and a mass finds the leaf that the running sum does", () => {
  const leaves = Float64Array.of(1, 0, 2, 0.5, 0, 3, 0);
  const tree = treeOf(leaves);
  assert.deepEqual([0, 1, 2, 3].map((depth) => tree.columns[`sum${depth}`]), [[6.5], [3.5, 3], [1, 2.5, 3, 0], [...leaves]]);
  for (let mass = 0; mass < 6.49; mass += 0.05) {
    let sum = 0;
    const expected = leaves.findIndex((leaf) => (sum += leaf) > mass + 1e-12);
    assert.equal(tree.leafAt(mass + 1e-12), expected, `mass ${mass}`);
  }
  // At the end, where rounding would lead to nothing.
  assert.equal(tree.leafAt(6.5), 5);
  for (const leaf of [0, 2, 3, 5]) assert.equal(tree.leafAt((tree.span(3, leaf)[0] + tree.span(3, leaf)[1]) / 2), leaf);
});

test("a step down the tree in words", () => {
  const tree = treeOf([1, 2, 3, 4]);
  assert.deepEqual([0, 1, 2].map((depth) => stepWords(tree, 5, depth, (leaf) => `row ${leaf}`)), [
    "root, sum 10: 5 is not below 3, the sum on the left; go right with 2",
    "level 1, node 1, sum 7: 2 is below 3, the sum on the left; go left",
    "row 2 is drawn; its priority is 3",
  ]);
});

test("leaves of several columns lie beside each other", () => {
  assert.deepEqual(treeOf([1, 2, 3, 4, 5, 6, 7, 8], 2).columns.sum3, [1, 5, 2, 6, 3, 7, 4, 8]);
  assert.equal(leafName({ ...binned, columns: 2 }, 3), "one of rows 3 to 4, column 1");
  assert.equal(leafName(m, 3), "row 3");
});

test("weights", () => {
  assert.deepEqual([weight(4, 1, 0), weight(4, 1, 0.5), weight(4, 1, 1), weight(1, 1, 0.7), weight(0, 1, 1)], [1, 0.5, 0.25, 1, 0]);
  const means = meanPriorities({ ...binned, priorities: { sums: Float32Array.of(3, 4, 1, 0) } });
  assert.deepEqual([...means], [1, 2, 0.5, 0]);
  const one = { ...m, priorities: { sums: Float32Array.of(1, 1, 1, 1, 1, 4, 1, 0.25), least: 0.25, most: 4, total: 10.25, beta: 0.5 } };
  const { curves, columns, params } = curveNumbers(one, 5, 0.5);
  assert.deepEqual(curves, [["smallest", 0.25], ["largest", 4], ["here", 4]]);
  assert.deepEqual([columns.here[0], columns.here[30], params.beta, params["here y"]], [1, 0.25, 30.5, 98]);
  assert.deepEqual([sumTree(one).levels, sumTree(m).levels], [4, 0]);
});

test("slices against the lengths", () => {
  assert.deepEqual(fitting(m.lengths, 3), { fit: 2, total: 3, short: 1, starts: 3, longest: 4 });
  assert.deepEqual(fitting(m.lengths, 3, false), { fit: 3, total: 3, short: 1, starts: 4, longest: 4 });
  assert.deepEqual([...lengthNumbers(m, 3).columns["too short"]], [0, 1, 0, 0, 0]);
  assert.deepEqual([...lengthNumbers(m, 3).columns["long enough"]], [0, 0, 0, 1, 1]);
});

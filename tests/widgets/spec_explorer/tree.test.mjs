import assert from "node:assert/strict";
import { test } from "node:test";

import { move, visibleRows as found } from "../../../widgets/rlnb_widgets/_core/tree.js";
import { badges, drawnWords, keyWidth, kindWidth, leafRows, spoken, traits } from "../../../widgets/rlnb_widgets/spec_explorer/tree.js";

const flagged = (row) => Boolean(row.diff);
const visibleRows = (rows, folded, search = "", filtering = false) => found(rows, folded, search, filtering, { traits, flagged });

const row = (path, more = {}) => ({
  path, depth: path.length, kind: "BoundedContinuous", dtype: "float32", device: "cpu", shape: "[B=4 | 2]", domain: "[-1, 1]",
  space: "Box(-1.0, 1.0, (2,), float32)", ...more,
});
const diff = [{ kind: "shape", text: "shape: [2] here, [3] in the other" }];
// 0 spec, 1 g, 2 g.x, 3 z
const ROWS = [
  row([], { name: "spec", node: true, kind: "Composite", space: "Dict()", dtype: "", domain: "2 keys" }),
  row(["g"], { node: true, kind: "Composite", space: "Dict()", dtype: "" }), row(["g", "x"], { diff }), row(["z"], { kind: "OneHot", dtype: "bool", space: "Discrete(2)" }),
];

test("the spec itself is the top of the tree", () => {
  assert.deepEqual(visibleRows(ROWS, new Set()), [0, 1, 2, 3]);
  assert.deepEqual(visibleRows(ROWS, new Set([0])), [0]);
  assert.deepEqual(visibleRows(ROWS, new Set([1])), [0, 1, 3]);
  assert.deepEqual(move("ArrowLeft", 3, [0, 1, 2, 3], ROWS, new Set()), { active: 0, fold: null });
  assert.deepEqual(move("Enter", 0, [0, 1, 2, 3], ROWS, new Set()), { active: 0, fold: [0, true] });
});

test("a search looks at keys, classes, dtypes and shapes", () => {
  assert.deepEqual(visibleRows(ROWS, new Set([0]), "g.x"), [0, 1, 2]);
  assert.deepEqual(visibleRows(ROWS, new Set(), "onehot"), [0, 3]);
  assert.deepEqual(visibleRows(ROWS, new Set(), "float32 b=4"), [0, 1, 2]);
  assert.deepEqual(visibleRows(ROWS, new Set(), "nowhere"), []);
});

test("only what differs shows when asked for", () => {
  assert.deepEqual(visibleRows(ROWS, new Set(), "", true), [0, 1, 2]);
  assert.deepEqual(visibleRows(ROWS, new Set(), "z", true), []);
  assert.deepEqual(badges(ROWS[2]), ["shape"]);
  assert.deepEqual(badges(ROWS[3]), []);
});

test("a screen reader hears key, class, shape, domain and differences", () => {
  assert.equal(spoken(ROWS[2]), "g.x; BoundedContinuous; float32 [B=4 | 2]; [-1, 1]; shape: [2] here, [3] in the other");
  assert.equal(spoken(ROWS[0]), "spec; Composite; [B=4 | 2]; 2 keys");
});

test("how often was drawn", () => {
  assert.equal(drawnWords([null, { n: 200 }, { n: 200 }, { n: 0, note: "x" }]), "200 random samples");
  assert.equal(drawnWords([{ n: 200 }, { n: 1 }]), "up to 200 random samples");
  assert.equal(drawnWords([null]), "nothing drawn");
});

test("the column of keys is as wide as the longest one with its indent, within reason", () => {
  assert.equal(keyWidth(ROWS), 130);
  const long = row(["output_spec", "full_observation_spec"]);
  assert.equal(keyWidth([...ROWS, long]), 18 + 2 * 14 + 8 * "full_observation_spec".length);
  assert.equal(keyWidth([row(["x".repeat(500)])]), 300);
});

test("the column of specs has room for the longest class, or dtype and shape", () => {
  const pixels = (letters) => Math.ceil(7.2 * letters) + 2;
  assert.equal(kindWidth([row(["a"])]), pixels("float32 [B=4 | 2]".length));
  assert.equal(kindWidth([row(["a"], { kind: "UnboundedContinuous" })]), pixels("UnboundedContinuous".length));
  assert.equal(kindWidth([row([], { node: true, kind: "Composite", dtype: "" })]), pixels("Composite[B=4 | 2]".length));
});

test("at the leaves, Composites show only where they differ", () => {
  const rows = [{ path: [], node: true }, { path: ["a"], node: true }, { path: ["a", "x"] }, { path: ["b"], node: true, diff: [{}] }];
  assert.deepEqual(leafRows(rows), [2, 3]);
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { move, visibleRows as found } from "../../../widgets/rlnb_widgets/_core/tree.js";
import { columnOf, spoken, traits } from "../../../widgets/rlnb_widgets/spec_explorer/row.js";

const flagged = (row) => Boolean(row.diff);
const visibleRows = (rows, folded, search = "", filtering = false) => found(rows, folded, search, filtering, { traits, flagged });

const row = (path, more = {}) => ({
  path, depth: path.length, kind: "BoundedContinuous", dtype: "float32", device: "cpu", shape: "[B=4 | 2]", domain: "[-1, 1]",
  space: "Box(-1.0, 1.0, (2,), float32)", ...more,
});
const diff = [["shape", "shape: [2] here, [3] in the other"]];
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
});

test("a screen reader hears key, class, shape, domain and differences", () => {
  assert.equal(spoken(ROWS[2]), "g.x; BoundedContinuous; float32 [B=4 | 2]; [-1, 1]; shape: [2] here, [3] in the other");
  assert.equal(spoken(ROWS[0]), "spec; Composite; [B=4 | 2]; 2 keys");
});

test("samples and tried values are columns by name", () => {
  const column = columnOf({ levels: [[1, 99]] }, { legal0: [0.25], illegal1: [-0.5] });
  assert.deepEqual(["levels0", "levels1", "legal0", "illegal0", "illegal1"].map(column), [[1, 99], [], [0.25], [], [-0.5]]);
  assert.deepEqual(columnOf(null, null)("legal0"), []);
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { move, visibleRows as found } from "../../../widgets/rlnb_widgets/_core/tree.js";
import { columnOf, spoken, traits, wholeRow } from "../../../widgets/rlnb_widgets/spec_explorer/row.js";

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
  const found = (lane) => ["levels", "legal", "illegal"].map(columnOf(lane, { levels: [[1, 99]] }, { legal0: [0.25], illegal1: [-0.5] }));
  assert.deepEqual(found(0), [[1, 99], [0.25], []]);
  assert.deepEqual(found(1), [[], [], [-0.5]]);
  assert.deepEqual(columnOf(0, null, null)("legal"), []);
});

test("a row gets what it has in common with others, and what follows from its path", () => {
  const data = { name: "env.specs", alike: [{ kind: "OneHot" }, { kind: "Composite", node: true }] };
  assert.deepEqual(wholeRow(data, { alike: 1, path: [] }), { alike: 1, path: [], kind: "Composite", node: true, depth: 0, code: "env.specs", name: "env.specs" });
  const { code, kind, depth, name } = wholeRow(data, { alike: 0, path: ["g", 'a"b'] });
  assert.deepEqual([code, kind, depth, name], ['env.specs["g", "a\\"b"]', "OneHot", 2, undefined]);
  assert.equal(wholeRow(data, { alike: 0, path: ["[0]"], code: "env.specs[0]" }).code, "env.specs[0]");
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { visibleRows as found } from "../../../widgets/rlnb_widgets/_core/tree.js";
import { accessCode, flagged, pathCode, traits, unravel } from "../../../widgets/rlnb_widgets/ted_explorer/tree.js";

const visibleRows = (rows, folded, search = "", filtering = false) => found(rows, folded, search, filtering, { traits, flagged });

const leaf = (...path) => ({ path, root: { dtype: "float32", shape: "[T=3 | 4]", storage: "in memory" } });
const node = (...path) => ({ path, node: true, root: { dtype: "TensorDict", shape: "[T=3]", storage: "in memory" } });
// 0 a, 1 g, 2 g.x, 3 g.h, 4 g.h.y, 5 empty, 6 z
const ROWS = [leaf("a"), node("g"), leaf("g", "x"), node("g", "h"), leaf("g", "h", "y"), node("empty"), leaf("z")];

test("folding hides all that is below, and what is folded inside stays folded", () => {
  assert.deepEqual(visibleRows(ROWS, new Set()), [0, 1, 2, 3, 4, 5, 6]);
  assert.deepEqual(visibleRows(ROWS, new Set([1])), [0, 1, 5, 6]);
  assert.deepEqual(visibleRows(ROWS, new Set([3])), [0, 1, 2, 3, 5, 6]);
  assert.deepEqual(visibleRows(ROWS, new Set([1, 3])), [0, 1, 5, 6]);
});

test("a search shows what matches with all above it, folded or not", () => {
  assert.deepEqual(visibleRows(ROWS, new Set([1, 3]), "y"), [1, 3, 4, 5]);
  assert.deepEqual(visibleRows(ROWS, new Set(), "G.H.Y"), [1, 3, 4]);
  assert.deepEqual(visibleRows(ROWS, new Set(), "float32 x"), [1, 2]);
  assert.deepEqual(visibleRows(ROWS, new Set(), "emory"), []);
  assert.deepEqual(visibleRows(ROWS, new Set(), "t=3 tensordict h"), [1, 3]);
});

test("only rows with findings show when asked for", () => {
  const rows = ROWS.map((row, i) => (i === 4 ? { ...row, holds: false } : row));
  assert.deepEqual(visibleRows(rows, new Set(), "", true), [1, 3, 4]);
  assert.deepEqual(visibleRows(rows, new Set(), "z", true), []);
  assert.equal(flagged(leaf("a")), false);
  assert.equal(flagged({ ...leaf("a"), holds: true }), false);
  assert.equal(flagged({ ...leaf("a"), spec: [{}] }), true);
  assert.equal(flagged({ path: ["a"], next: { dtype: "float32", odd: [1, 0] } }), true);
  assert.equal(flagged({ path: ["a"], root: { dtype: "?", message: "cannot be read: OSError" } }), true);
  assert.equal(flagged({ path: ["a"], root: { dtype: "str", message: "no elements" } }), false);
});

test("the code is Python that reads the entry, whatever the key holds", () => {
  assert.equal(accessCode(["reward"], "next", [3]), 'td["next", "reward"][3]');
  assert.equal(accessCode(["agents", "x"], "root", [1, 0]), 'td["agents", "x"][1, 0]');
  assert.equal(accessCode(['a"b\n\\'], "root"), 'td["a\\"b\\n\\\\"]');
  assert.equal(pathCode(["reward"], "next"), '("next", "reward")');
  assert.equal(pathCode(["action"], "root"), '"action"');
});

test("a flat index as one for each batch dimension", () => {
  assert.deepEqual([0, 3, 5].map((i) => unravel(i, [2, 3])), [[0, 0], [1, 0], [1, 2]]);
  assert.deepEqual(unravel(0, []), []);
});

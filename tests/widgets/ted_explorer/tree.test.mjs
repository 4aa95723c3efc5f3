import assert from "node:assert/strict";
import { test } from "node:test";

import { visibleRows as found } from "../../../widgets/rlnb_widgets/_core/tree.js";
import { keyCode } from "../../../widgets/rlnb_widgets/_core/tree.js";
import { codeOf, pathOf, unravel } from "../../../widgets/rlnb_widgets/ted_explorer/details.js";
import { traits } from "../../../widgets/rlnb_widgets/ted_explorer/row.js";

const flagged = (row) => row.flag;
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
  const rows = ROWS.map((row, i) => (i === 4 ? { ...row, flag: true } : row));
  assert.deepEqual(visibleRows(rows, new Set(), "", true), [1, 3, 4]);
  assert.deepEqual(visibleRows(rows, new Set(), "z", true), []);
});

test("the code is Python that reads the entry, whatever the key holds", () => {
  const view = { steps: 6, batch: [2], element: 1, t: 3 };
  const code = (path, side, more = {}, at = view) => codeOf({ path, ...more }, side, at);
  assert.equal(code(["reward"], "next"), 'td["next", "reward"][1, 3]');
  assert.equal(code(["agents", "x"], "root", {}, { ...view, batch: [] }), 'td["agents", "x"][3]');
  assert.equal(code(["agents"], "root", { node: true }), 'td["agents"]');
  assert.equal(code(['a"b\n\\'], "root", {}, { ...view, steps: null }), 'td["a\\"b\\n\\\\"]');
  assert.equal(keyCode(pathOf({ path: ["reward"] }, "next")), '("next", "reward")');
  assert.equal(keyCode(pathOf({ path: ["action"] }, "root")), '"action"');
});

test("a flat index as one for each batch dimension", () => {
  assert.deepEqual([0, 3, 5].map((i) => unravel(i, [2, 3])), [[0, 0], [1, 0], [1, 2]]);
  assert.deepEqual(unravel(0, []), []);
});

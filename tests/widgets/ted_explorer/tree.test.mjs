import assert from "node:assert/strict";
import { test } from "node:test";

import {
  accessCode, flagged, foldable, label, move, pathCode, printable, siblings, slice, unravel, visibleRows,
} from "../../../widgets/rlnb_widgets/ted_explorer/tree.js";

const leaf = (...path) => ({ path, root: { dtype: "float32", shape: "[T=3 | 4]", storage: "in memory" } });
const node = (...path) => ({ path, node: true, root: { dtype: "TensorDict", shape: "[T=3]", storage: "in memory" } });
// 0 a, 1 g, 2 g.x, 3 g.h, 4 g.h.y, 5 empty, 6 z
const ROWS = [leaf("a"), node("g"), leaf("g", "x"), node("g", "h"), leaf("g", "h", "y"), node("empty"), leaf("z")];

test("folding hides all that is below, and what is folded inside stays folded", () => {
  assert.deepEqual(visibleRows(ROWS, new Set()), [0, 1, 2, 3, 4, 5, 6]);
  assert.deepEqual(visibleRows(ROWS, new Set([1])), [0, 1, 5, 6]);
  assert.deepEqual(visibleRows(ROWS, new Set([3])), [0, 1, 2, 3, 5, 6]);
  assert.deepEqual(visibleRows(ROWS, new Set([1, 3])), [0, 1, 5, 6]);
  assert.deepEqual(foldable(ROWS), [1, 3]);
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

const go = (key, active, folded = [], searching = false) => {
  const set = new Set(folded);
  return move(key, active, visibleRows(ROWS, set), ROWS, set, searching);
};

test("the arrows follow the pattern for trees", () => {
  assert.deepEqual(go("ArrowDown", 1), { active: 2, fold: null });
  assert.deepEqual(go("ArrowDown", 1, [1]), { active: 5, fold: null });
  assert.deepEqual(go("ArrowUp", 0), { active: 0, fold: null });
  assert.deepEqual(go("ArrowDown", 6), { active: 6, fold: null });
  assert.deepEqual(go("ArrowRight", 1, [1]), { active: 1, fold: [1, false] });
  assert.deepEqual(go("ArrowRight", 1), { active: 2, fold: null });
  assert.deepEqual(go("ArrowRight", 2), { active: 2, fold: null });
  assert.deepEqual(go("ArrowLeft", 1), { active: 1, fold: [1, true] });
  assert.deepEqual(go("ArrowLeft", 4), { active: 3, fold: null });
  assert.deepEqual(go("ArrowLeft", 2), { active: 1, fold: null });
  assert.deepEqual(go("ArrowLeft", 0), { active: 0, fold: null });
});

test("Home, End, page keys and Enter", () => {
  assert.deepEqual(go("Home", 4), { active: 0, fold: null });
  assert.deepEqual(go("End", 0), { active: 6, fold: null });
  assert.deepEqual(go("End", 0, [1]), { active: 6, fold: null });
  assert.deepEqual(go("PageDown", 0), { active: 6, fold: null });
  assert.deepEqual(go("PageUp", 6), { active: 0, fold: null });
  assert.deepEqual(go("Enter", 3), { active: 3, fold: [3, true] });
  assert.deepEqual(go("Enter", 3, [3]), { active: 3, fold: [3, false] });
  assert.deepEqual(go("Enter", 2), { active: 2, fold: null });
  assert.deepEqual(go("Enter", 5), { active: 5, fold: null });
});

test("nothing folds during a search, and a row that does not show gives way to the first", () => {
  assert.deepEqual(go("Enter", 1, [], true), { active: 1, fold: null });
  assert.deepEqual(go("ArrowDown", 2, [1]), { active: 0, fold: null });
  assert.deepEqual(move("ArrowDown", 3, [], ROWS, new Set()), { active: 3, fold: null });
});

test("a thousand rows need a few dozen in the page", () => {
  assert.deepEqual(slice(0, 440, 42, 1000), [0, 31]);
  assert.deepEqual(slice(21_000, 440, 42, 1000, 5), [495, 516]);
  assert.deepEqual(slice(41_600, 440, 42, 1000), [970, 1000]);
  assert.deepEqual(slice(0, 440, 42, 3), [0, 3]);
  assert.deepEqual(slice(9_999, 440, 42, 0), [0, 0]);
});

test("each row knows its place among its shown siblings", () => {
  const places = siblings(ROWS, visibleRows(ROWS, new Set([3])));
  assert.deepEqual([...places], [[0, [1, 4]], [1, [2, 4]], [5, [3, 4]], [6, [4, 4]], [2, [1, 2]], [3, [2, 2]]]);
});

test("the code is Python that reads the entry, whatever the key holds", () => {
  assert.equal(accessCode(["reward"], "next", [3]), 'td["next", "reward"][3]');
  assert.equal(accessCode(["agents", "x"], "root", [1, 0]), 'td["agents", "x"][1, 0]');
  assert.equal(accessCode(['a"b\n\\'], "root"), 'td["a\\"b\\n\\\\"]');
  assert.equal(pathCode(["reward"], "next"), '("next", "reward")');
  assert.equal(pathCode(["action"], "root"), '"action"');
});

test("labels are one line and show what cannot be seen", () => {
  assert.equal(label(leaf("a\nb", "<i>")), "a\\nb.<i>");
  assert.equal(printable("\u202ex\u0000"), "\\u{202e}x\\u{0}");
});

test("a flat index as one for each batch dimension", () => {
  assert.deepEqual([0, 3, 5].map((i) => unravel(i, [2, 3])), [[0, 0], [1, 0], [1, 2]]);
  assert.deepEqual(unravel(0, []), []);
});

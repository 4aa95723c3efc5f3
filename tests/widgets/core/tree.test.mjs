import assert from "node:assert/strict";
import { test } from "node:test";

import {
  answers, entryCode, foldable, keyCode, label, move, shownRows, siblings, wordsOf,
} from "../../../widgets/rlnb_widgets/_core/tree.js";

const leaf = (...path) => ({ path });
const node = (...path) => ({ path, node: true });
// 0 a, 1 g, 2 g.x, 3 g.h, 4 g.h.y, 5 empty, 6 z
const ROWS = [leaf("a"), node("g"), leaf("g", "x"), node("g", "h"), leaf("g", "h", "y"), node("empty"), leaf("z")];

test("folding hides all that is below; keeping shows what is kept and all above it", () => {
  assert.deepEqual(shownRows(ROWS, new Set()), [0, 1, 2, 3, 4, 5, 6]);
  assert.deepEqual(shownRows(ROWS, new Set([1])), [0, 1, 5, 6]);
  assert.deepEqual(shownRows(ROWS, new Set([1, 3])), [0, 1, 5, 6]);
  assert.deepEqual(shownRows(ROWS, new Set([1, 3]), (row) => row.path.at(-1) === "y"), [1, 3, 4]);
  assert.deepEqual(foldable(ROWS), [1, 3]);
});

test("a word is found anywhere in the key, and at the beginning of a trait", () => {
  assert.deepEqual(wordsOf("  Float32\tG.X "), ["float32", "g.x"]);
  assert.equal(answers(leaf("g", "x"), ["g.x", "float"], "Bounded float32 [B=2 | 3]"), true);
  assert.equal(answers(leaf("g", "x"), ["b=2"], "Bounded float32 [B=2 | 3]"), true);
  assert.equal(answers(leaf("g", "x"), ["ounded"], "Bounded float32"), false);
  assert.equal(answers(leaf("g", "x"), [], ""), true);
});

test("the code is Python, whatever the key holds", () => {
  assert.equal(keyCode(["a"]), '"a"');
  assert.equal(keyCode(["a", 'b"\n']), '("a", "b\\"\\n")');
  assert.equal(entryCode("spec", ["a", "b"]), 'spec["a", "b"]');
  assert.equal(entryCode("spec", []), "spec");
});

const go = (key, active, folded = [], searching = false) => {
  const set = new Set(folded);
  return move(key, active, shownRows(ROWS, set), ROWS, set, searching);
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

test("each row knows its place among its shown siblings", () => {
  const places = siblings(ROWS, shownRows(ROWS, new Set([3])));
  assert.deepEqual([...places], [[0, [1, 4]], [1, [2, 4]], [5, [3, 4]], [6, [4, 4]], [2, [1, 2]], [3, [2, 2]]]);
});

test("a label shows keys as Python shows them, and the whole by its name", () => {
  assert.equal(label(leaf("a", "<i>")), "a.<i>");
  assert.equal(label({ path: ["g", "a\nb"], shown: ["g", "a\\nb"] }), "g.a\\nb");
  assert.equal(label({ path: [], name: "env.specs" }), "env.specs");
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { columnsOf, nested, paramsOf, pickedAt, withPicked } from "../../../widgets/rlnb_widgets/spec_explorer/lanes.js";

const LINE = { kind: "line", view: [-1, 1], legal: 0 };
const CHOICES = { kind: "choices", n: 4, start: 2, barred: [1] };
const CELLS = { kind: "cells", n: 3, start: 0 };
const BITS = { kind: "bits", n: 3, start: 0 };

test("samples and tried values are columns by name", () => {
  const column = columnsOf([LINE, CHOICES, { ...CELLS, n: 48 }], { levels: [[1, 99]] }, [[[0.25, true], [1.03, false]], [[-1, false]], [[47, true]]]);
  assert.deepEqual(["levels0", "levels1"].map(column), [[1, 99], []]);
  assert.deepEqual(["legal0", "illegal0", "legal1", "illegal1"].map(column), [[0.25], [1.03], [], [-0.5]]);
  assert.deepEqual(column("legal2"), [23.5]); // of 24 cells that stand for 48
  assert.deepEqual(columnsOf([LINE])("legal0"), []);
});

test("the numbers at the ends of lines are parameters", () => {
  assert.deepEqual(paramsOf([CHOICES, LINE]), { low1: -1, high1: 1 });
});

test("a click picks a number with three digits, an integer, or the number of a choice", () => {
  assert.equal(pickedAt(LINE, 0.123456), 0.123);
  assert.equal(pickedAt({ ...LINE, view: [0, 255], whole: true }, 127.6), 128);
  assert.equal(pickedAt(CHOICES, 1.9), 1);
});

test("a click sets what the lane is about and keeps the rest", () => {
  const [a, b] = [{ ...LINE, at: [0] }, { ...LINE, at: [1], legal: 3 }];
  assert.equal(withPicked("", [2], [a, b], a, 0.5), "[0.5,3]");
  assert.equal(withPicked("[0.5, 3]", [2], [a, b], b, -1), "[0.5,-1]");
  assert.equal(withPicked("[1, 2, 3]", [2], [a, b], b, -1), "[0,-1]");
  assert.equal(withPicked("", [], [LINE], LINE, 0.25), "0.25");
  assert.equal(withPicked("", [2, 2], [CHOICES], CHOICES, 3), "[[5,5],[5,5]]");
});

test("a click on a cell makes it the only one, a click on a bit turns it", () => {
  assert.equal(withPicked("[True, False, False]", [3], [CELLS], CELLS, 2), "[0,0,1]");
  assert.equal(withPicked("", [2, 3], [CELLS], CELLS, 1), "[[0,1,0],[0,1,0]]");
  assert.equal(withPicked("[1, 0, 1]", [3], [BITS], BITS, 0), "[0,0,1]");
  const [a, b] = [{ ...CELLS, n: 2 }, { ...CELLS, n: 3, begin: 2, barred: [0] }];
  assert.equal(withPicked("", [5], [a, b], a, 1), "[0,1,0,1,0]");
});

test("flat numbers become nested lists", () => {
  assert.equal(nested([7], []), 7);
  assert.deepEqual(nested([1, 2, 3, 4, 5, 6], [3, 2]), [[1, 2], [3, 4], [5, 6]]);
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { columnsOf, paramsOf } from "../../../widgets/rlnb_widgets/spec_explorer/lanes.js";

const LINE = { kind: "line", view: [-1, 1] };
const CHOICES = { kind: "choices", n: 4 };
const CELLS = { kind: "cells", n: 3 };

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

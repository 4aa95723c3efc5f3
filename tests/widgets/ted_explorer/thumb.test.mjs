import assert from "node:assert/strict";
import { test } from "node:test";

import { numbersOf } from "../../../widgets/rlnb_widgets/ted_explorer/values.js";

test("the letters of a thumbnail are its levels, and a point is a gap", () => {
  assert.deepEqual(numbersOf(["spark", 1, "019@Zo."]).columns.levels, [0, 1, 9, 16, 42, 63, NaN]);
});

test("a band has the smallest and the largest values in turn", () => {
  const { floors, tops } = numbersOf(["band", 1, "0o1c"]).columns;
  assert.deepEqual([floors, tops], [[0, 1], [63, 51]]);
});

test("the playhead stands in what goes over time, and not in a histogram", () => {
  assert.deepEqual(numbersOf(["heat", 2, "AAAA"], 0.5).params, { n: 4, rows: 2, at: 0.5, here: 1 });
  assert.equal(numbersOf(["spark", 1, "AA"]).params.here, 0);
  assert.equal(numbersOf(["hist", 1, "A-"], 0.5).params.here, 0);
  assert.equal(numbersOf(["band", 1, "A-A-"], 1).params.n, 2);
});

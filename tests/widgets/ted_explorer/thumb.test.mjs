import assert from "node:assert/strict";
import { test } from "node:test";

import { columnsOf, paramsOf } from "../../../widgets/rlnb_widgets/ted_explorer/thumb.js";

test("the letters of a thumbnail are its levels, and a point is a gap", () => {
  assert.deepEqual(columnsOf(["spark", 1, "019@Zo."]), { levels: [0, 1, 9, 16, 42, 63, NaN] });
});

test("a band has the smallest and the largest values in turn", () => {
  assert.deepEqual(columnsOf(["band", 1, "0o1c"]), { floors: [0, 1], tops: [63, 51] });
});

test("the playhead stands in what goes over time, and not in a histogram", () => {
  assert.deepEqual(paramsOf(["heat", 2, "AAAA"], 0.5), { n: 4, rows: 2, at: 0.5, here: 1 });
  assert.equal(paramsOf(["spark", 1, "AA"]).here, 0);
  assert.equal(paramsOf(["hist", 1, "A-"], 0.5).here, 0);
  assert.equal(paramsOf(["band", 1, "A-A-"], 1).n, 2);
});

// What the page reads off the payload, without a page.
import assert from "node:assert/strict";
import { test } from "node:test";

import { crossing, spoken, split } from "../../../widgets/rlnb_widgets/transform_inspector/lanes.js";

const v = (key, kind, text) => [key, kind, "float32 [1]", text, null];

test("values below and above a box are joined by key", () => {
  const rows = crossing([v("a", "same", "1"), v("b", "same", "2")], [v("a", "changed", "3"), v("c", "new", "4"), v("b", "removed", "")]);
  assert.deepEqual(rows.map(([key, kind, old, now]) => [key, kind, old?.[3], now?.[3]]),
    [["a", "changed", "1", "3"], ["c", "new", undefined, "4"], ["b", "removed", "2", undefined]]);
  assert.deepEqual(split(crossing([v("a", "new", "1")], [v("a", "same", "1")])).told, []);
});

test("what did not arrive is lost and not removed", () => {
  assert.equal(crossing(null, null), null);
  assert.deepEqual(crossing([v("a", "same", "1")], null).map((row) => row[1]), ["lost"]);
});

test("the open box and the moment are told in words", () => {
  assert.equal(spoken({ env: "E", boxes: [{ title: "[0] A" }] }, 0, { label: "step 1" }), "transform [0] A (1 of 1), step 1");
  assert.equal(spoken({ env: "E", boxes: [{ title: "[0] A" }] }, -1, null), "base env, E");
});

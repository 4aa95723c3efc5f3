import assert from "node:assert/strict";
import { test } from "node:test";

import { carriedTo } from "../../../widgets/rlnb_widgets/ted_explorer/row.js";

const HERE = { steps: 6, t: 2, ends: false, past: false };

test("a check mark stands only where the next root can be compared", () => {
  const row = { carry: "carried", holds: true };
  assert.deepEqual(carriedTo(row, HERE), ["→ ✓", "ted-good"]);
  assert.deepEqual(carriedTo(row, { ...HERE, ends: true }), ["reset instead", "rlnb-quiet"]);
  assert.deepEqual(carriedTo(row, { ...HERE, ends: true, past: true }), ["no reset", "rlnb-quiet"]);
  assert.deepEqual(carriedTo(row, { ...HERE, t: 5 }), ["→ beyond", "rlnb-quiet"]);
  assert.deepEqual(carriedTo({ carry: "carried" }, HERE), ["→", "rlnb-quiet"]);
});

test("a mismatch says where, at every step", () => {
  const row = { carry: "carried", holds: false, mark: "→ ✗ [1, 3]" };
  assert.deepEqual(carriedTo(row, { ...HERE, ends: true }), ["→ ✗ [1, 3]", "ted-bad"]);
});

test("what is not carried is named", () => {
  assert.deepEqual(carriedTo({ carry: "dropped" }, HERE), ["dropped", "rlnb-quiet"]);
});

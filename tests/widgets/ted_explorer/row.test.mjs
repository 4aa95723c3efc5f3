import assert from "node:assert/strict";
import { test } from "node:test";

import { carriedTo, wholeRow } from "../../../widgets/rlnb_widgets/ted_explorer/row.js";

const HERE = { steps: 6, t: 2, ends: false, past: false };

test("a check mark stands only where the next root can be compared", () => {
  const row = { carry: "carried", holds: true };
  assert.deepEqual(carriedTo(row, HERE), ["→ ✓", "ted-good"]);
  assert.deepEqual(carriedTo(row, { ...HERE, ends: true }), ["reset instead", "rlnb-note"]);
  assert.deepEqual(carriedTo(row, { ...HERE, ends: true, past: true }), ["no reset", "rlnb-note"]);
  assert.deepEqual(carriedTo(row, { ...HERE, t: 5 }), ["→ beyond", "rlnb-note"]);
  assert.deepEqual(carriedTo({ carry: "carried" }, HERE), ["→", "rlnb-note"]);
});

test("a mismatch says where, at every step with a next root to compare", () => {
  const row = { carry: "carried", holds: false, mark: "→ ✗ at [1, 3]" };
  assert.deepEqual(carriedTo(row, HERE), ["→ ✗ at [1, 3]", "ted-bad"]);
  assert.deepEqual(carriedTo(row, { ...HERE, ends: true }), ["reset instead", "rlnb-note"]);
  assert.deepEqual(carriedTo(row, { ...HERE, t: 5 }), ["→ beyond", "rlnb-note"]);
});

test("what is not carried is named", () => {
  assert.deepEqual(carriedTo({ carry: "dropped" }, HERE), ["dropped", "rlnb-note"]);
});

test("a row and its cells get what they have in common with others; numbers lie where the cell says", () => {
  const alike = [{ carry: "carried" }, { dtype: "float32", packed: { kind: "f4", n: 2 } }, { dtype: "str" }];
  const row = { alike: 0, path: ["x"], root: { alike: 1, at: 80, range: "0" }, next: { alike: 2, values: { texts: ["a"] } } };
  const { carry, path, root, next } = wholeRow({ alike }, row);
  assert.deepEqual([carry, path], ["carried", ["x"]]);
  assert.deepEqual(root, { alike: 1, dtype: "float32", range: "0", values: { kind: "f4", n: 2, at: 80 } });
  assert.deepEqual(next, { alike: 2, dtype: "str", values: { texts: ["a"] } });
  assert.equal(wholeRow({ alike }, { alike: 0, path: [], root: { alike: 1, at: 0 } }).next, undefined);
});

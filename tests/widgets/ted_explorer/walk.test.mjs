// What becomes of each entry from one step to the next, without a page.
import assert from "node:assert/strict";
import { test } from "node:test";

import { fateOf, partWords, partsOf } from "../../../widgets/rlnb_widgets/ted_explorer/walk.js";

const inside = { over: false, beyond: false };

test("carried, left behind, kept, replaced", () => {
  assert.equal(fateOf("carried", { ...inside, same: true }), "carried");
  assert.equal(fateOf("carried", { ...inside, same: null }), "carried");
  assert.equal(fateOf("carried", { ...inside, same: false }), "differs");
  assert.equal(fateOf("carried", { over: true, beyond: false, same: true }), "replaced");
  assert.equal(fateOf("carried", { over: true, beyond: true, same: null }), "waits");
  assert.equal(fateOf("dropped", { over: true, beyond: true, same: null }), "left");
  assert.equal(fateOf("kept", { ...inside, same: true }), "kept");
  assert.equal(fateOf("kept", { ...inside, same: false }), "rewritten");
  assert.equal(fateOf(undefined, inside), "");
});

test("the parts of a step: a reset comes last, and nothing is carried beyond the data", () => {
  assert.deepEqual(partsOf(inside), ["root", "next", "carry"]);
  assert.deepEqual(partsOf({ over: true, beyond: false }), ["root", "next", "carry", "reset"]);
  assert.deepEqual(partsOf({ over: true, beyond: true }), ["root", "next"]);
});

test("each part in words", () => {
  const fates = [{ name: "x", kind: "carried" }, { name: "reward", kind: "left" }, { name: "action", kind: "left" }, { name: "h", kind: "kept" }];
  assert.equal(partWords("carry", 3, fates), "step_mdp makes root[4] of next[3]. Left behind: reward, action. Kept from root[3]: h.");
  assert.equal(partWords("carry", 3, [{ name: "x", kind: "differs" }]), "step_mdp makes root[4] of next[3]. Not what root[4] holds: x.");
  assert.match(partWords("reset", 3, fates), /ended at step 3: a reset replaces .* root\[4\] is a fresh start/);
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { jumpsOf, marksOf, numbersAt, stepWords, valueText } from "../../../widgets/rlnb_widgets/ted_explorer/values.js";

/** A store as a model gives it: a DataView whose offset is not a multiple of four. */
function store(...arrays) {
  const parts = arrays.map((array) => new Uint8Array(array.buffer));
  const all = new Uint8Array(3 + parts.reduce((sum, part) => sum + part.length, 0));
  let at = 3;
  for (const part of parts) { all.set(part, at); at += part.length; }
  return new DataView(all.buffer, 3);
}

test("one jumps to all ends first, whatever their kind", () => {
  const jumps = jumpsOf({ truncated: [3, 9], terminated: [5] });
  assert.deepEqual(Object.entries(jumps), [["done", [3, 5, 9]], ["truncated", [3, 9]], ["terminated", [5]]]);
  assert.deepEqual(jumpsOf({ done: [4, 8] }), { done: [4, 8] });
  assert.deepEqual(jumpsOf({ truncated: [] }), { truncated: [] });
  assert.deepEqual(jumpsOf({}, [3, 5]), { finding: [3, 5] });
});

test("numbers lie by batch element, step and feature", () => {
  const view = store(Float32Array.from({ length: 12 }, (_, i) => i), Float64Array.of(2 ** 30 + 1, 7, 8));
  const floats = { kind: "f4", at: 0, n: 2, of: 2 };
  assert.deepEqual(numbersAt({ store: view, steps: 3, element: 0, t: 0 }, floats), [0, 1]);
  assert.deepEqual(numbersAt({ store: view, steps: 3, element: 1, t: 2 }, floats), [10, 11]);
  assert.deepEqual(numbersAt({ store: view, steps: 3, element: 0, t: 0 }, { kind: "f8", at: 48, n: 1, of: 1 }), [2 ** 30 + 1]);
  assert.equal(numbersAt({ store: view, steps: 3, element: 0, t: 0 }, { why: "too large" }), null);
  assert.equal(numbersAt({ store: view, steps: 3, element: 0, t: 0 }, undefined), null);
});

test("values as text", () => {
  const view = store(Float32Array.of(0.123456, NaN, -Infinity, 2, 1, -2, 0, NaN));
  const at = (ref, t = 0, digits = 4) => valueText({ store: view, steps: 2, element: 0, t }, { kind: "f4", at: 0, ...ref }, digits);
  assert.equal(at({ n: 1, of: 1 }), "0.1235");
  assert.equal(at({ n: 1, of: 1 }, 0, 2), "0.12");
  assert.equal(valueText({ store: store(Float32Array.of(1234567)), steps: 1, element: 0, t: 0 }, { kind: "f4", at: 0, n: 1, of: 1 }, 3), "1.23e6");
  assert.equal(at({ n: 4, of: 4 }), "[0.1235, nan, -inf, 2]");
  assert.equal(at({ n: 2, of: 9 }), "[0.1235, nan, … 9 values]");
  assert.equal(at({ n: 2, of: 2, complex: true }, 1), "[1-2j, 0+nanj]");
  assert.equal(valueText({ store: store(Uint8Array.of(0, 1)), steps: 2, element: 0, t: 1 }, { kind: "u1", at: 0, n: 1, of: 1, bool: true }), "True");
  assert.equal(at({ n: 1, of: 1, at: undefined }), "");
});

test("objects as text: one for all steps, or one for each", () => {
  assert.equal(valueText({ steps: 3, element: 0, t: 2 }, { texts: ["'a'"] }), "'a'");
  assert.equal(valueText({ steps: 2, element: 1, t: 0 }, { texts: ["'a'", "'b'", "'c'", "'d'"] }), "'c'");
  assert.equal(valueText({ steps: 3, element: 0, t: 2 }, undefined), "");
});

test("the marks of one batch element, of all kinds", () => {
  const data = { kinds: ["terminated", "truncated"], ends: { 0: { terminated: [2, 9] }, 1: { terminated: [4], truncated: [7] } } };
  assert.deepEqual(marksOf(data, 0), { terminated: [2, 9], truncated: [] });
  assert.deepEqual(marksOf(data, 1), { terminated: [4], truncated: [7] });
  assert.deepEqual(marksOf(data, 2), { terminated: [], truncated: [] });
});

test("what a step means", () => {
  const marks = { terminated: [2], truncated: [4] };
  const start = (t) => stepWords(marks, 6, t).slice(0, 44);
  assert.equal(
    stepWords(marks, 6, 2), "Step 2: terminated, so done: the value of the next state is zero. root[3] is a fresh reset.",
  );
  assert.match(stepWords(marks, 6, 4), /^Step 4: truncated, so done: cut short, and its value is bootstrapped from next\. /);
  assert.equal(start(3), "Step 3: the first of an episode; its root co");
  assert.equal(stepWords(marks, 6, 0), "Step 0: inside an episode; root[1] must match next[0].");
  assert.equal(stepWords({}, 6, 5), "Step 5: the last one stored; the episode goes on beyond the data.");
  assert.doesNotMatch(stepWords({ truncated: [5] }, 6, 5), /fresh reset/);
});

test("a root that is done is no fresh reset", () => {
  const marks = { terminated: [2, 3] };
  const past = new Set([3]);
  assert.match(stepWords(marks, 6, 2, past), /root\[3\] is done too: nobody reset, and step 3 goes past the end\.$/);
  assert.match(stepWords(marks, 6, 3, past), /root\[4\] is a fresh reset\. Its root is done itself/);
  assert.match(stepWords({}, 6, 3, past), /^Step 3: Its root is done itself/);
});

// The value of a curve under the pointer.

import assert from "node:assert/strict";
import test from "node:test";
import { nearest, pointAt, said, stepBy } from "../../../widgets/rlnb_widgets/training_monitor/live.js";

test("the nearest point of a curve", () => {
  const places = Float32Array.from([0, 10, 30]);
  const values = Float32Array.from([1, 2, NaN]);
  assert.deepEqual([-5, 4, 6, 19, 21, 99].map((step) => pointAt(places, values, step).step), [0, 0, 10, 10, 30, 30]);
  assert.equal(pointAt([], [], 3), null);
});

test("a panel is read with its mean, without it, and without a curve", () => {
  const column = (i) => [[0, 2000], [5, 6.5], [0, 1000, 2000], [1, 2, 3.25]][i];
  const raw = { kind: "curve", places: 0, values: 1 };
  const panel = (...curves) => ({ column, list: { marks: [{ kind: "text" }, { kind: "group", marks: curves }] } });
  assert.equal(said(nearest(panel(raw, { kind: "curve", places: 2, values: 3 }), 1900)), "at 2,000: 6.5, mean 3.25");
  assert.equal(said(nearest(panel(raw), 10)), "at 0: 5");
  assert.equal(said(nearest(panel(), 10)), "");
  assert.equal(said(nearest(undefined, 10)), "");
});

test("keys go from a value to the one beside it, and stop at the ends", () => {
  const column = (i) => [[0, 10, 30], [1, 2, 3]][i];
  const panel = { column, list: { marks: [{ kind: "group", marks: [{ kind: "curve", places: 0, values: 1 }] }] } };
  const steps = [[Infinity, 0], [Infinity, -1], [0, 1], [0, -1], [10, Infinity], [29, -1], [30, -Infinity]];
  assert.deepEqual(steps.map(([step, by]) => stepBy(panel, step, by)), [30, 10, 10, 0, 30, 10, 0]);
});

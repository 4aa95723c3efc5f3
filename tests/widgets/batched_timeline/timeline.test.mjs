// What the columns of a run say about a step, without a page.
import assert from "node:assert/strict";
import { test } from "node:test";

import { spoken, spokenBatch } from "../../../widgets/rlnb_widgets/batched_timeline/live.js";
import { activity, batchOf, doneIn, resetsAfter, spanOf } from "../../../widgets/rlnb_widgets/batched_timeline/panels.js";

// Two envs: reset, step 0, step 1, a reset of env 1, step 2.
const columns = [
  [0, 190, 350], [190, 350, 420], [100, 190, 350],
  [110, 200, 360], [140, 230, 390], [150, 240, 400], [10], [60], [70],
  [115, 205, 365], [145, 235, 395], [160, 250, 410], [15, 270], [65, 320], [75, 325],
];
const column = (i) => columns[i];
const run = { begin: 0, end: 1, made: 2, lanes: [[3, 4, 5, 6, 7, 8], [9, 10, 11, 12, 13, 14]] };

test("a step lasts from the resets before it to the next step", () => {
  assert.deepEqual([0, 1, 2, 3].map((step) => spanOf(run, column, step)), [[0, 190], [190, 350], [350, 420], null]);
});

test("what an env did is found by time", () => {
  assert.deepEqual(activity([3, 4, 5], column, 190, 350), [200, 230, 240]);
  assert.equal(activity([6, 7, 8], column, 190, 350), null);
  assert.deepEqual(doneIn(run, column, 1, 1), { from: 190, step: [205, 235, 250], reset: [270, 320, 325] });
  assert.deepEqual(doneIn(run, column, 3, 0), { from: 0, step: null, reset: null });
});

test("a reset belongs to the step before it, and the one at the start to none", () => {
  assert.deepEqual([0, 1, 2].map((step) => resetsAfter(run, column, step)), [[], [1], []]);
  assert.equal(spoken([run], column, 0), "step 0: 190 µs");
  assert.equal(spoken([run], column, 1), "step 1: 160 µs, then env 1 reset");
});

// A collector of two workers: batch 0 of both, batch 1 of worker 1, two versions old.
const numbers = [[0, 30], [10, 100], [90, 200], [0, 3], [0, 2], [40, 5], [0, 0, 1], [0, 1, 1], [0, 0, 1]];
const column2 = (i) => numbers[i];
const collector = { label: "a", workers: 2, first: 0, begin: 1, end: 2, current: 3, age: 4, waited: 5, parts: [6, 7, 8] };

test("a batch has its workers, versions and times", () => {
  assert.deepEqual(batchOf(collector, column2, 0), { batch: 0, workers: [0, 1], versions: [0, 0], current: 0, age: 0, waited: 40, took: 40 });
  assert.deepEqual(batchOf(collector, column2, 1), { batch: 1, workers: [1], versions: [1], current: 3, age: 2, waited: 5, took: 95 });
  assert.equal(batchOf(collector, column2, 2), null);
  assert.deepEqual(spanOf(collector, column2, 1), [30, 200]);
});

test("a batch is said in words", () => {
  assert.equal(spokenBatch([collector], column2, 0), "batch 0: made with version 0, the learner's own; the learner waited 40 µs");
  assert.equal(spokenBatch([collector], column2, 1), "batch 1: made by worker 1 with version 1, 2 versions older than the learner's 3; the learner waited 5 µs");
  assert.equal(spokenBatch([collector], column2, 2), "batch 2");
});

// The geometry of the timeline and what is said about a step, without a page.
import assert from "node:assert/strict";
import { test } from "node:test";

import { columns, decode, duration, endOf, layout, lowerBound, pieces, resetAfter, resetSteps, spanOf, stepAt, ticks, turnOf, turnsIn, turnsOf } from "../../../widgets/rlnb_widgets/batched_timeline/geometry.js";
import { spoken } from "../../../widgets/rlnb_widgets/batched_timeline/live.js";
import { resetsOf } from "../../../widgets/rlnb_widgets/batched_timeline/masks.js";

const N = NaN;
// Two envs: reset, step 0, step 1, a reset of env 1, step 2.
const run = {
  envs: 2, turns: 5, steps: 3,
  start: Float64Array.of(0, 100, 190, 260, 350),
  stop: Float64Array.of(80, 170, 260, 330, 420),
  step: Int32Array.of(0, 0, 1, 1, 2),
  reset: Uint8Array.of(1, 0, 0, 1, 0),
  parts: Float32Array.of(10, 60, 70, 15, 65, 75, 10, 40, 50, 15, 45, 60, 10, 40, 50, 15, 45, 60, N, N, N, 10, 60, 65, 10, 40, 50, 15, 45, 60),
};
const list = (lane, k) => { const found = []; pieces(run, lane, k, (...piece) => found.push(piece)); return found; };

test("a run is read from bytes, whatever their offset", () => {
  const bytes = new Uint8Array(3 + 8 + 8 + 12 + 4 + 1);
  const view = new DataView(bytes.buffer);
  view.setFloat64(3, 1.5, true);
  view.setFloat64(11, 9, true);
  [0.5, 2, 3].forEach((x, i) => view.setFloat32(19 + 4 * i, x, true));
  view.setInt32(31, 7, true);
  view.setUint8(35, 1);
  const found = decode({ turns: 1, envs: 1, label: "a", at: { start: 3, stop: 11, parts: 19, step: 31, reset: 35 } }, bytes);
  assert.deepEqual([found.label, [...found.start], [...found.stop], [...found.parts], [...found.step], [...found.reset]],
    ["a", [1.5], [9], [0.5, 2, 3], [7], [1]]);
});

test("an env waits, acts, writes and waits; the learner works between turns", () => {
  assert.deepEqual(list(0, 1), [["wait", 100, 110], ["step", 110, 140], ["write", 140, 150], ["wait", 150, 170], ["learner", 170, 190]]);
  assert.deepEqual(list(1, 3), [["wait", 260, 270], ["reset", 270, 320], ["write", 320, 325], ["wait", 325, 330], ["learner", 330, 350]]);
  assert.deepEqual(list(0, 3), [["wait", 260, 330], ["learner", 330, 350]]);
  assert.deepEqual(list(-1, 0), [["turn", 0, 80], ["learner", 80, 100]]);
  assert.deepEqual(list(-1, 2), [["turn", 190, 260]]);
});

test("the pieces of a lane fill its time without gap or overlap", () => {
  for (const lane of [-1, 0, 1]) {
    let at = 0;
    for (let k = 0; k < run.turns; k++) for (const [, from, to] of list(lane, k)) { assert.equal(from, at); at = to; }
    assert.equal(at, endOf(run));
  }
});

test("steps, their turns and their times", () => {
  assert.deepEqual([0, 1, 2, 3].map((s) => turnsOf(run, s)), [[0, 2], [2, 4], [4, 5], [5, 5]]);
  assert.deepEqual([0, 1, 2, 3].map((s) => spanOf(run, s)), [{ from: 0, to: 190 }, { from: 190, to: 350 }, { from: 350, to: 420 }, null]);
  assert.deepEqual([-5, 0, 99, 189, 190, 340, 350, 9e9].map((x) => stepAt(run, x)), [0, 0, 0, 0, 1, 1, 2, 2]);
  assert.deepEqual([0, 1, 2, 3].map((s) => turnOf(run, s)), [1, 2, 4, -1]);
  assert.deepEqual([0, 1, 2].map((s) => resetAfter(run, s)), [-1, 3, -1]);
  assert.deepEqual(turnsIn(run, 165, 200), [1, 3]);
  assert.equal(lowerBound([1, 3, 3, 5], 3), 1);
});

test("resets by step, the one at the start left out", () => {
  assert.deepEqual(resetSteps([run]), [1]);
  assert.deepEqual(resetsOf(run), [[1, 1]]);
  assert.equal(spoken([run], 0), "step 0");
  assert.equal(spoken([run], 1), "step 1, then env 1 reset");
});

test("columns hold each phase's share, and add up to one", () => {
  const shares = columns(run, 1, 0, 420, 7);
  for (let i = 0; i < 7; i++) {
    const sum = Object.values(shares).reduce((s, values) => s + values[i], 0);
    assert.ok(Math.abs(sum - 1) < 1e-5, `${i}: ${sum}`);
  }
  const spent = (phase) => shares[phase].reduce((s, x) => s + x, 0) * 60;
  assert.ok(Math.abs(spent("step") - 90) < 1e-3 && Math.abs(spent("reset") - 100) < 1e-3);
  assert.ok(Math.abs(columns(run, 0, 110, 140, 3).step[1] - 1) < 1e-6);
});

test("times and ticks in words", () => {
  assert.deepEqual([0.25, 12.34, 999.6, 1500, 999600, NaN].map(duration), ["0.25 µs", "12.3 µs", "1 ms", "1.5 ms", "1 s", "unknown"]);
  assert.deepEqual(ticks(420, 5), [0, 100, 200, 300, 400]);
  assert.deepEqual(ticks(0, 5), [0]);
  for (const span of [1, 7, 33, 1e6]) assert.ok(ticks(span, 6).length <= 8);
});

test("lanes do not overlap, and many share the height of a few", () => {
  for (const envs of [1, 4, 64]) {
    const { rows, height } = layout([{ envs }, { envs }], { tall: 12, most: 96 });
    assert.ok(rows[0].bottom <= rows[1].top && rows[1].bottom < height);
    assert.ok(rows[0].learner + rows[0].learnerHeight <= rows[0].lanes);
    assert.ok(height < 420, `${envs}: ${height}`);
  }
});

// The player's geometry, columns and rows, without a page.
import assert from "node:assert/strict";
import { test } from "node:test";

import { decode } from "../../../widgets/rlnb_widgets/rollout_player/columns.js";
import { nextFrame } from "../../../widgets/rlnb_widgets/rollout_player/frames.js";
import { following, marksOf, spans, stepAt, zoomed } from "../../../widgets/rlnb_widgets/rollout_player/geometry.js";
import { acting, recipeColumns } from "../../../widgets/rlnb_widgets/rollout_player/recipes.js";
import { changed, sideAt } from "../../../widgets/rlnb_widgets/rollout_player/row.js";
import { fit } from "../../../widgets/rlnb_widgets/_core/scene.js";
import { poseAt } from "../../../widgets/rlnb_widgets/rollout_player/scene.js";
import { episodeAt, spoken, valueAt } from "../../../widgets/rlnb_widgets/rollout_player/strips.js";
import { turnWords } from "../../../widgets/rlnb_widgets/rollout_player/turns.js";

const KINDS = ["", "terminated", "truncated", "done", "cut", "open", "padding"];
const LANES = ["acts", "terminated", "truncated", "done", "waits"];
const resets = { resets: 1, resetKinds: ["", "reset", "partial reset", "auto-reset", "no reset"], resetRules: {}, resetSigns: {} };
const head = (more) => ({ ...resets, lanes: LANES, restart: 8, turns: null, labels: ["env"], steps: 6, kinds: KINDS, rules: {}, code: 0, strips: [], extra: [], parting: null, ...more });

test("columns: constants, numbers, shifted copies", () => {
  const blob = new Uint8Array(24);
  blob.set([1, 2, 3, 4]);
  new DataView(blob.buffer).setFloat32(4, 9.5, true);
  new DataView(blob.buffer).setInt32(8, 3, true);
  const columns = decode([{ c: true }, { k: "i1", o: 0 }, { s: 1, k: "f4", o: 4, x: 8, n: 1 }], blob, 4);
  assert.deepEqual(columns.map((c) => [...c]), [[1, 1, 1, 1], [1, 2, 3, 4], [2, 3, 4, 9.5]]);
});

test("columns: runs of equal numbers", () => {
  const blob = new Uint8Array(12);
  blob.set([7, 250]);
  new DataView(blob.buffer).setInt32(8, 3, true);
  assert.deepEqual(decode([{ r: 2, k: "u1", o: 0, x: 4 }], blob, 5).map((c) => [...c]), [[7, 7, 7, 250, 250]]);
});

test("a step and its place are inverse, at any zoom", () => {
  for (const view of [{ from: 0, to: 100 }, { from: 40, to: 50 }]) {
    for (let t = view.from; t < view.to; t++) assert.equal(stepAt(120 + ((t + 0.5 - view.from) / (view.to - view.from)) * 680, view, 120, 800), t);
    assert.equal(stepAt(-50, view, 120, 800), view.from);
    assert.equal(stepAt(9000, view, 120, 800), view.to - 1);
  }
});

test("zooming keeps the step in place and stays within the data", () => {
  const view = zoomed({ from: 0, to: 1000 }, 0.5, 750, 1000);
  assert.equal(view.to - view.from, 500);
  assert.ok(view.from <= 750 && view.to > 750);
  assert.deepEqual(zoomed(view, 100, 750, 1000), { from: 0, to: 1000 });
  const least = zoomed({ from: 0, to: 12 }, 0.1, 3, 1000);
  assert.equal(least.to - least.from, 10);
  assert.deepEqual(zoomed({ from: 0, to: 4 }, 0.5, 1, 4), { from: 0, to: 4 });
});

test("the view follows the playhead only when it leaves", () => {
  const view = { from: 100, to: 200 };
  assert.equal(following(view, 150, 1000), view);
  for (const t of [0, 99, 200, 999]) {
    const moved = following(view, t, 1000);
    assert.ok(t >= moved.from && t < moved.to);
    assert.equal(moved.to - moved.from, 100);
    assert.ok(moved.from >= 0 && moved.to <= 1000);
  }
});

test("spans end at ends and leave padding out", () => {
  assert.deepEqual(spans([0, 1, 0, 2, 6, 6], 0, 6, 6), [[0, 2], [2, 4]]);
  assert.deepEqual(spans([9, 9, 0, 0], 2, 2, 6), [[0, 2]]);
});

test("episodes are counted as spans are", () => {
  for (const code of [[0, 1, 0, 2, 0, 5], [1, 1, 1, 1, 1, 1], [0, 0, 5, 6, 6, 6], [0, 0, 0, 0, 0, 5], [0, 4, 0, 1, 6, 6], [0, 5, 6, 6, 0, 5], [6, 0, 5, 6, 1, 5]]) {
    const all = spans(code, 0, 6, 6);
    all.forEach(([start, stop], i) => {
      for (let t = start; t < stop; t++) assert.equal(episodeAt(head(), [code], 0, t), `${i + 1} of ${all.length}`);
    });
  }
  assert.equal(episodeAt(head(), [[0, 0, 5, 6, 6, 6]], 0, 4), "none");
});

test("marks: ends, resets, changes of reward, the first difference", () => {
  const strips = [{ label: "reward", role: "reward", kind: "line", columns: [1], names: [] }];
  const columns = [[0, 1, 0, 4, 0, 5], [0, 0, 0, 0, 7, 7]];
  assert.deepEqual(marksOf(head({ strips }), columns, 0), { "reward change": [4], done: [1], reset: [2, 4] });
  assert.deepEqual(marksOf(head({ parting: { t: 3 } }), [[0, 0, 0, 0, 0, 5]], 0), { "first difference": [3] });
  assert.deepEqual(Object.keys(marksOf(head({ strips, parting: { t: 2 } }), columns, 0)), ["done", "first difference", "reward change", "reset"]);
  const always = marksOf(head({ strips }), [[0, 0, 0, 0, 0, 5], [1, 2, 3, 4, 5, 6]], 0);
  assert.deepEqual(always, {});
});

test("the frame of next is the row after, or one of its own", () => {
  const h = head({ labels: ["a", "b"], extra: [2, 5, 11] });
  assert.deepEqual([0, 1, 2, 5].map((t) => nextFrame(h, 0, t)), [1, 2, 12, 13]);
  assert.equal(nextFrame(h, 1, 0), 7);
  assert.equal(nextFrame(h, 1, 5), 14);
});

test("a row: values, changes, what is absent or long", () => {
  const columns = [[0, 0], [1.5, NaN], [1, 0]];
  const h = head({ steps: 2, kinds: KINDS });
  const side = (more) => ({ dtype: "float32", shape: [2], absent: [], columns: [1, 2], ...more });
  assert.equal(sideAt(h, columns, side(), 0, 0).words, "[1.5, 1]");
  assert.equal(sideAt(h, columns, side({ shape: [9] }), 0, 1).words, "[nan, 0, … 9]");
  assert.equal(sideAt(h, columns, side({ dtype: "bool", shape: [1], columns: [2] }), 0, 0).words, "True");
  assert.equal(sideAt(h, columns, side({ shape: [3, 64, 64], columns: [] }), 0, 0).words, "float32 [3, 64, 64]");
  assert.equal(sideAt(h, columns, side({ texts: ["'<b>'"], columns: [0] }), 0, 0).words, "'<b>'");
  const hot = side({ dtype: "int64", shape: [500], hot: true });
  assert.equal(sideAt(h, [[0, 6], [499, -1]], { ...hot, columns: [1] }, 0, 0).words, "one-hot [500], 1\u00a0at\u00a0499");
  assert.equal(sideAt(h, [[0, 6], [499, -1]], { ...hot, columns: [1] }, 0, 1).words, "—");
  assert.equal(sideAt(h, columns, side({ absent: [0] }), 0, 0).words, "—");
  assert.equal(sideAt(h, columns, null, 0, 0).words, "");
  assert.equal(changed({ values: [NaN] }, { values: [NaN] }), false);
  assert.equal(changed({ values: [1] }, { values: [2] }), true);
  assert.equal(changed({ values: null }, { values: [2] }), false);
});

test("an agent that ends or starts alone is a mark of its own", () => {
  const strips = [{ label: "agents", kind: "lanes", columns: [1, 2], names: ["0", "1"] }];
  const columns = [[0, 0, 0, 1, 0, 5], [0, 1, 4, 1, 0, 0], [0, 2, 8, 1, 0, 2]];
  assert.deepEqual(marksOf(head({ strips }), columns, 0), { done: [3], "an agent ends or starts": [1, 2], reset: [4] });
});

test("lanes: stretches in which an agent acts", () => {
  const lane = [0, 1, 4, 4, 8, 0, 9, 0];
  assert.deepEqual(acting(lane, 0, 0, 8, 4, 8), [[0, 2], [4, 6], [6, 8]]);
  assert.deepEqual(acting(lane, 0, 1, 5, 4, 8), [[1, 2], [4, 5]]);
  assert.deepEqual(acting([4, -1, -1], 0, 0, 3, 4, 8), []);
});

test("turns: who moves and who has won", () => {
  const turns = { players: ["player0 (X)", "player1 (O)"], short: ["X", "O"], turn: 1, after: 2, rewards: [3, 4] };
  const columns = [[0, 0, 1, 0, 1, 5], [0, 1, 0, 0, 1, 0], [1, 0, 1, 1, 0, 1], [0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0]];
  const words = (...more) => turnWords(head({ turns }), columns, 0, ...more);
  assert.deepEqual([words(0), words(1), words(1, false, true)], ["player0 (X) to move", "player1 (O) to move", "O to move"]);
  assert.deepEqual([words(0, true), words(2, true), words(4, true)], ["player1 (O) to move", "player0 (X) has won", "a draw"]);
  assert.equal(turnWords(head(), columns, 0, 0), "");
});

test("what a screen reader hears", () => {
  const strips = [{ label: "reward", kind: "line", columns: [1], names: [] }, { label: "return so far", kind: "line", columns: [2], names: [] }];
  const columns = [[0, 1, 0, 0, 0, 5], [1, 1, 1, 1, 1, 1], [1, 2, 1, 2, 3, 4], [0, 0, 0, 0, 0, 0]];
  assert.equal(spoken(head({ strips, resets: 3 }), columns, 0, 1), "step 1 of 5, reward 1, return so far 2, terminated");
  const begun = [columns[0], [0, 0, 2, 0, 0, 0], columns[2]];
  assert.equal(spoken(head({ strips: [] }), begun, 0, 2), "step 2 of 5, begins after: partial reset");
});

test("values beside the strips", () => {
  const columns = [[0, 0, 0, 0, 0, 5], [2, -1], [0.25, 0.5], [0.75, 0.5]];
  const value = (strip, t) => valueAt(head(), columns, strip, 0, t);
  const band = { kind: "band", columns: [1], names: ["left", "stay", "right"] };
  assert.equal(value(band, 0), "right");
  assert.equal(value(band, 1), "");
  assert.equal(value({ kind: "bands", columns: [1, 1], names: ["0", "1"], values: ["left", "stay", "right"] }, 0), "right, right");
  assert.equal(value({ kind: "lanes", columns: [1], names: ["0"] }, 0), "truncated");
  assert.equal(value({ kind: "area", columns: [2, 3], names: ["0", "1"] }, 0), "1: 0.75");
});

test("columns of the strips follow the environment that is drawn", () => {
  const typed = (values) => Int8Array.from(values);
  const columns = [typed([0, 1, 0, 0, 5, 6, 0, 0, 2, 0, 0, 5]), typed([0, 0, 0, 0, 0, 0, 2, 0, 0, 1, 0, 0]), typed([0, 1, 9, 1, 0, -1, 1, 1, 0, 8, 0, 0])];
  const strips = [{ kind: "band", columns: [2] }];
  const recipes = [["values", 0, 0, 0], ["mod", 0, 0, 0, 1, 1], ["is", 0, -1, 0, 1, 1], ["ep", 0, 0, 0], ["ep", 0, 0, 1], ["ep", 0, 1, 0], ["cuts", 0], ["again", 0, 0, 0, 6]];
  let e = 0;
  const column = recipeColumns(head({ strips, recipes, resets: 1 }), columns, () => [e]);
  const all = () => recipes.map((_, i) => [...column(i)]);
  assert.deepEqual(all(), [[0, 1, 9, 1, 0, -1], [2, 3, 4], [2], [0, 2], [2, 5], [], [2], [8]]);
  e = 1;
  assert.deepEqual(all(), [[1, 1, 0, 8, 0, 0], [1, 2], [], [0, 3], [3, 6], [3], [3], [9]]);
});

test("a frame fits into its place", () => {
  assert.deepEqual(fit(200, 100, 100, 100), { scale: 0.5, x: 0, y: 25 });
});
test("poses: units, turns, hidden parts", () => {
  const frames = { poses: [[0, 1, 2]], units: 32, turns: 4096, hidden: -32768 };
  const columns = [[64, -32768], [32, 0], [4096, 0]];
  assert.deepEqual(poseAt(frames, columns, 0, 0), [2, 1, 1]);
  assert.equal(poseAt(frames, columns, 0, 1), null);
  const few = { ...frames, poses: [{ at: 0, of: [[-32768, 0, 0], [64, 32, 0]] }] };
  assert.deepEqual([poseAt(few, [[1, 0]], 0, 0), poseAt(few, [[1, 0]], 0, 1)], [[2, 1, 0], null]);
});

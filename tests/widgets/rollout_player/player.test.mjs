// The player's geometry, columns and rows, without a page.
import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateSync } from "node:zlib";

import { inflated } from "../../../widgets/rlnb_widgets/_core/data.js";
import { decode, following, marksOf, recipeColumns, zoomed } from "../../../widgets/rlnb_widgets/rollout_player/columns.js";
import { nextFrame, poseAt } from "../../../widgets/rlnb_widgets/rollout_player/frames.js";
import { changed, sideAt } from "../../../widgets/rlnb_widgets/rollout_player/row.js";
import { fit } from "../../../widgets/rlnb_widgets/_core/scene.js";
import { episodeAt, spoken, turnWords, valueAt } from "../../../widgets/rlnb_widgets/rollout_player/strips.js";

const KINDS = ["", "terminated", "truncated", "done", "cut", "open", "padding"];
const resets = { resets: 1, resetKinds: ["", "reset", "partial reset", "auto-reset", "no reset"] };
const head = (more) => ({ ...resets, turns: null, labels: ["env"], steps: 6, kinds: KINDS, rules: [], code: 0, strips: [], extra: [], parting: null, ...more });

test("columns: numbers, and shifted copies", () => {
  const blob = new Uint8Array(16);
  blob.set([1, 2, 3, 4]);
  new DataView(blob.buffer).setFloat32(4, 9.5, true);
  new DataView(blob.buffer).setInt32(8, 3, true);
  const columns = decode([{ k: "i1", o: 0 }, { s: 0, k: "f4", o: 4, x: 8, n: 1 }], blob, 4);
  assert.deepEqual(columns.map((c) => [...c]), [[1, 2, 3, 4], [2, 3, 4, 9.5]]);
});

test("what Python deflated is inflated, from a part of a message too; nothing stays nothing", async () => {
  const sent = deflateSync(Uint8Array.of(7, 7, 7, 250));
  const message = new Uint8Array([0, 0, 0, ...sent, 9]);
  assert.deepEqual([...await inflated(new DataView(message.buffer, 3, sent.length))], [7, 7, 7, 250]);
  assert.deepEqual([...await inflated(new DataView(new ArrayBuffer(0)))], []);
  await assert.rejects(inflated(sent.subarray(0, 4)));
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

test("the episode at a step", () => {
  const numbers = [[1, 1, 2, 2, 0, 0, 0, 1, 1, 1, 1, 1]];
  const at = (e, t) => episodeAt(head({ episode: 0, episodes: [2, 1] }), numbers, e, t);
  assert.deepEqual([at(0, 1), at(0, 2), at(0, 4), at(1, 3)], ["1 of 2", "2 of 2", "none", "1 of 1"]);
});

test("marks are bits, and kinds that do not occur are left out", () => {
  const bits = Uint8Array.of(0, 1, 4, 1, 5, 0, 1, 0, 0, 0, 0, 0);
  const own = head({ marks: ["done", "first difference", "reset"], marked: 0 });
  assert.deepEqual(marksOf(own, [bits], 0), { done: [1, 3, 4], reset: [2, 4] });
  assert.deepEqual(marksOf(own, [bits], 1), { done: [0] });
});

test("the frame of next is the row after, or one of its own", () => {
  const h = head({ labels: ["a", "b"], extra: [2, 5, 11] });
  assert.deepEqual([0, 1, 2, 5].map((t) => nextFrame(h, 0, t)), [1, 2, 12, 13]);
  assert.equal(nextFrame(h, 1, 0), 7);
  assert.equal(nextFrame(h, 1, 5), 14);
});

test("a row: values, changes, what is absent or long", () => {
  const columns = [[0, 0], [1.5, NaN], [1, 0]];
  const h = head({ steps: 2 });
  const side = (more) => ({ absent: [], columns: [1, 2], around: ["[", "]"], ...more });
  assert.equal(sideAt(h, columns, side(), 0, 0).words, "[1.5, 1]");
  assert.equal(sideAt(h, columns, side({ around: ["[", ", … 9]"] }), 0, 1).words, "[nan, 0, … 9]");
  assert.equal(sideAt(h, columns, side({ texts: ["False", "True"], columns: [2], around: ["", ""] }), 0, 0).words, "True");
  const image = sideAt(h, columns, side({ columns: [], around: ["float32 [3, 64, 64]", ""] }), 0, 0);
  assert.deepEqual(image, { words: "float32 [3, 64, 64]", values: null });
  assert.equal(sideAt(h, columns, side({ texts: ["'<b>'"], columns: [0], around: ["", ""] }), 0, 0).words, "'<b>'");
  assert.equal(sideAt(h, [[0, 6], [499, -1]], side({ columns: [1] }), 0, 1).words, "—");
  assert.equal(sideAt(h, columns, side({ absent: [0] }), 0, 0).words, "—");
  assert.equal(sideAt(h, columns, null, 0, 0).words, "");
  assert.equal(changed({ values: [NaN] }, { values: [NaN] }), false);
  assert.equal(changed({ values: [1] }, { values: [2] }), true);
  assert.equal(changed({ values: null }, { values: [2] }), false);
});

test("turns: who moves and who has won", () => {
  const turns = { words: [["player0 (X) to move", "X to move"], ["a draw", "a draw"]], now: 0, after: 1 };
  const words = (...more) => turnWords(head({ turns }), [[0, 0], [0, 1]], 0, ...more);
  assert.deepEqual([words(0), words(1, false, true), words(1, true)], ["player0 (X) to move", "X to move", "a draw"]);
  assert.equal(turnWords(head(), [], 0, 0), "");
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
  const words = ["left", "stay", "right"];
  const band = { kind: "band", columns: [1], words };
  assert.equal(value(band, 0), "right");
  assert.equal(value(band, 1), "");
  assert.deepEqual([0, 1].map((t) => value({ kind: "bands", columns: [1, 1], words }, t)), ["right, right", "–, –"]);
  const lanes = { kind: "lanes", columns: [0, 1, 1], words: ["acts", "ends", "waits"] };
  assert.equal(value(lanes, 0), "acts, waits, waits");
  assert.equal(valueAt(head(), columns, lanes, 0, 0, true), "acting: 1 of 3");
  assert.equal(valueAt(head(), columns, { ...lanes, columns: [0] }, 0, 0, true), "acts");
  assert.equal(value({ kind: "area", columns: [2, 3], names: ["0", "1"] }, 0), "1: 0.75");
});

test("columns of the strips follow the environment that is drawn", () => {
  const typed = (values) => Int8Array.from(values);
  const columns = [typed([0, 1, 9, 1, 0, -1, 1, 1, 0, 8, 0, 0]), typed([1, 1, 2, 2, 2, 0, 1, 1, 1, 2, 2, 2])];
  const recipes = [["values", 0, 0], ["mod", 0, 0, 1, 1], ["runs", 0, 1, 0], ["runs", 0, 1, 1], ["cuts", 0, 1], ["same", 0, 1, 0, 2, 7], ["same", 0, 1, 1, 2, 7], ["same", 0, 0, 0, 1]];
  let e = 0;
  const column = recipeColumns(head({ recipes }), columns, () => [e]);
  const all = () => recipes.map((_, i) => [...column(i)]);
  assert.deepEqual(all(), [[0, 1, 9, 1, 0, -1], [2, 3, 4], [0, 2], [2, 5], [2], [2], [5], [1, 2, 3]]);
  e = 1;
  assert.deepEqual(all(), [[1, 1, 0, 8, 0, 0], [1, 2], [0, 3], [3, 6], [3], [3], [6], [0]]);
});

test("a frame fits into its place", () => {
  assert.deepEqual(fit(200, 100, 100, 100), { scale: 0.5, x: 0, y: 25 });
});
test("poses: units, turns, hidden parts", () => {
  const frames = { poses: [[0, 1, 2]], units: 32, turns: 4096, hidden: -32768 };
  const columns = [[64, -32768], [32, 0], [4096, 0]];
  assert.deepEqual(poseAt(frames, columns, 0, 0), [2, 1, 1]);
  assert.equal(poseAt(frames, columns, 0, 1), null);
});

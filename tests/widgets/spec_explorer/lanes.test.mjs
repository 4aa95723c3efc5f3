import assert from "node:assert/strict";
import { test } from "node:test";

import { laneMarks, nested, placeOf, sideBySide, valueAt, withPicked } from "../../../widgets/rlnb_widgets/spec_explorer/lanes.js";

const BOX = [10, 0, 100, 20];
const LINE = { kind: "line", ends: [0, 1], view: [-1, 1], legal: 0, texts: ["-1", "1"] };
const CHOICES = { kind: "choices", n: 4, start: 2, barred: [1] };
const CELLS = { kind: "cells", n: 3, start: 0 };
const BITS = { kind: "bits", n: 3, start: 0 };
const PLAIN = {
  rect: (m) => (m.fill ? ["rect", m.x, m.y, m.x2 - m.x, m.h, m.fill, m.opacity] : ["frame", m.x - 0.5, m.y - 0.5, m.x2 - m.x + 1, m.h + 1, m.stroke]),
  line: (m) => ["line", m.x, m.y, m.x2, m.y2, m.stroke, m.width],
  disc: (m) => ["disc", m.x, m.y, m.r, m.fill],
  poly: () => ["wedge"],
  glyph: (m) => [m.name, m.x, m.y, m.size, m.fill],
};
const kinds = (marks, kind) => marks.map((mark) => PLAIN[mark.kind](mark)).filter(([k]) => k === kind);

test("closed ends are bars across, open ends are arrows", () => {
  const closed = laneMarks(LINE, null, null, BOX);
  assert.equal(kinds(closed, "wedge").length, 0);
  assert.equal(kinds(closed, "line").length, 3); // the line and its two ends
  const open = laneMarks({ ...LINE, ends: [0.2, null] }, null, null, BOX);
  assert.equal(kinds(open, "wedge").length, 1);
  assert.deepEqual(kinds(open, "line")[0].slice(1, 5), [30, 18, 110, 18]);
});

test("bars of samples lie between the ends and are as high as their level", () => {
  const [bars] = laneMarks({ ...LINE, ends: [0, 0.5] }, [99, 0], null, BOX);
  assert.deepEqual(bars.points, [[10, 18], [10, 0], [35, 0], [35, 18], [60, 18], [60, 18]]);
  assert.equal(bars.fill, "accent");
});

test("lanes side by side fill the box and leave gaps", () => {
  assert.deepEqual(sideBySide(1, BOX), [BOX]);
  assert.deepEqual(sideBySide(2, BOX), [[10, 0, 45, 20], [65, 0, 45, 20]]);
  assert.deepEqual(sideBySide(4, [0, 1, 150, 9], 10).map(([x]) => x), [0, 40, 80, 120]);
  assert.deepEqual(sideBySide(0, BOX), []);
});

test("a high box has bars above its cells; a low one shades them", () => {
  const levels = [99, 0, 50];
  const low = kinds(laneMarks(CELLS, levels, null, BOX), "rect");
  assert.deepEqual(low.map(([, , y, , h, , opacity]) => [y, h, opacity > 0.2]), [[0, 20, true], [0, 20, true]]);
  const high = [0, 10, 300, 100];
  const [first, last] = kinds(laneMarks(CELLS, levels, null, high), "rect");
  assert.deepEqual([first[2], first[4]], [11, 74]); // from the top down to the cells
  assert.ok(last[4] > 37 && last[4] < 38 && last[2] + last[4] === 85);
  assert.deepEqual(kinds(laneMarks(CELLS, null, null, high), "frame").map(([, x, y, , h]) => [x, y, h]), [[0, 86, 24], [56, 86, 24], [112, 86, 24]]);
  assert.deepEqual(placeOf(CELLS, 1, high), [84, 98]);
  assert.equal(valueAt(CELLS, 60, high), 1);
});

test("masked choices are crossed out, the others are dots", () => {
  const shapes = laneMarks(CHOICES, null, null, BOX);
  assert.equal(kinds(shapes, "disc").length, 3);
  assert.deepEqual(kinds(shapes, "cross").map((s) => s[4]), ["bad"]);
  const cells = laneMarks({ ...CELLS, barred: [0, 2] }, null, null, BOX);
  assert.equal(kinds(cells, "frame").length, 3);
  assert.equal(kinds(cells, "line").length, 2);
});

test("a tried value is a dot: green where it is legal, and never off the picture", () => {
  const dots = kinds(laneMarks(LINE, null, [[0.25, true], [1.03, false], [9, false]], BOX), "disc");
  assert.deepEqual(dots.map(([, x, , , role]) => [x, role]), [[35, "good"], [113, "bad"], [115, "bad"]]);
  assert.deepEqual(placeOf(CHOICES, 0, BOX), [22.5, 17]);
  assert.deepEqual(placeOf(CHOICES, 7, BOX), [115, 17]);
});

test("a pointer finds the number, the choice or the cell under it", () => {
  assert.equal(valueAt(LINE, 60, BOX), 0);
  assert.equal(valueAt(LINE, 500, BOX), 1);
  assert.equal(valueAt({ ...LINE, view: [0, 255], whole: true }, 60, BOX), 128);
  assert.equal(valueAt(CHOICES, 36, BOX), 1);
  assert.equal(valueAt(CELLS, 11, BOX), 0);
  assert.equal(valueAt(CELLS, 109, BOX), null);
});

test("a click sets what the lane is about and keeps the rest", () => {
  const [a, b] = [{ ...LINE, at: [0] }, { ...LINE, at: [1], legal: 3 }];
  assert.equal(withPicked("", [2], [a, b], a, 0.5), "[0.5,3]");
  assert.equal(withPicked("[0.5, 3]", [2], [a, b], b, -1), "[0.5,-1]");
  assert.equal(withPicked("[1, 2, 3]", [2], [a, b], b, -1), "[0,-1]");
  assert.equal(withPicked("", [], [LINE], LINE, 0.25), "0.25");
  assert.equal(withPicked("", [2, 2], [CHOICES], CHOICES, 3), "[[5,5],[5,5]]");
});

test("a click on a cell makes it the only one, a click on a bit turns it", () => {
  assert.equal(withPicked("[True, False, False]", [3], [CELLS], CELLS, 2), "[0,0,1]");
  assert.equal(withPicked("", [2, 3], [CELLS], CELLS, 1), "[[0,1,0],[0,1,0]]");
  assert.equal(withPicked("[1, 0, 1]", [3], [BITS], BITS, 0), "[0,0,1]");
  const [a, b] = [{ ...CELLS, n: 2 }, { ...CELLS, n: 3, begin: 2, barred: [0] }];
  assert.equal(withPicked("", [5], [a, b], a, 1), "[0,1,0,1,0]");
});

test("flat numbers become nested lists", () => {
  assert.equal(nested([7], []), 7);
  assert.deepEqual(nested([1, 2, 3, 4, 5, 6], [3, 2]), [[1, 2], [3, 4], [5, 6]]);
});

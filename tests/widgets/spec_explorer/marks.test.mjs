import assert from "node:assert/strict";
import { test } from "node:test";

import { marksOf, ticks } from "../../../widgets/rlnb_widgets/spec_explorer/marks.js";

const BOX = [10, 0, 280, 20];
const line = (low, high, more = {}) => ({ kind: "line", view: [low, high], ends: [0, 1], texts: [String(low), String(high)], ...more });
const texts = (lane, box = BOX) => marksOf(lane, box).map(([text]) => text);

test("round numbers between two ends", () => {
  assert.deepEqual(ticks(0, 1, 5), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  assert.deepEqual(ticks(-3.5, 3.5, 4), [-2, 0, 2]);
  assert.deepEqual(ticks(0, 255, 4), [0, 100, 200]);
  assert.deepEqual(ticks(-0.07, 0.07, 3), [-0.05, 0, 0.05]);
});

test("no numbers where they would be long, or nothing lies between", () => {
  assert.deepEqual(ticks(-1.8e308, 1.8e308, 5), []);
  assert.deepEqual(ticks(0, 1e6, 5), []);
  assert.deepEqual(ticks(2, 2, 5), []);
});

test("a line has its ends written, and ticks where they stand clear of them", () => {
  assert.deepEqual(marksOf(line(-2, 2), BOX), [
    ["-2", 10, "left"], ["-1", 80, "center", true], ["0", 150, "center", true], ["1", 220, "center", true], ["2", 290, "right"],
  ]);
  assert.deepEqual(texts(line(-3.5, 3.5, { ends: [null, null], texts: ["-inf", "inf"] })), ["-inf", "-2", "0", "2", "inf"]);
});

test("wider steps rather than one number missing", () => {
  assert.deepEqual(texts(line(-0.4189, 0.4189)), ["-0.4189", "0", "0.4189"]);
});

test("the ends of a short line stand beside it, without numbers between", () => {
  const short = line(-10, 10, { ends: [0.45, 0.55], texts: ["-1", "1"] });
  assert.deepEqual(marksOf(short, BOX).map(([text, , align]) => [text, align]), [["-1", "right"], ["1", "left"]]);
});

test("choices and cells have names, not all where they are narrow", () => {
  assert.deepEqual(marksOf({ kind: "choices", n: 2, start: 5 }, BOX), [["5", 80, "center"], ["6", 220, "center"]]);
  assert.deepEqual(texts({ kind: "choices", n: 20, start: 0 }), ["0", "3", "6", "9", "12", "15", "18"]);
  assert.deepEqual(texts({ kind: "cells", n: 3, start: 1 }), ["1", "2", "3"]);
  assert.deepEqual(texts({ kind: "cells", n: 40, start: 0 }), ["40 places"]);
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { wholeMarks } from "../../../widgets/rlnb_widgets/ted_explorer/panels.js";

test("marks of one look differ in what is their own, in groups too", () => {
  const looks = [{ own: ["x", "text"], kind: "text", y: 13 }, { own: ["y", "marks"], kind: "group" }];
  const marks = wholeMarks(looks, [[1, 23, [[0, 5, "s0"], [0, 33, "s1"]]], [0, 0, "a"]]);
  assert.deepEqual(marks, [
    { kind: "group", y: 23, marks: [{ kind: "text", y: 13, x: 5, text: "s0" }, { kind: "text", y: 13, x: 33, text: "s1" }] },
    { kind: "text", y: 13, x: 0, text: "a" },
  ]);
});

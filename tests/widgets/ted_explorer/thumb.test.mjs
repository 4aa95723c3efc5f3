import assert from "node:assert/strict";
import { test } from "node:test";

import { thumbMarks } from "../../../widgets/rlnb_widgets/ted_explorer/thumb.js";

const kinds = (marks) => marks.map((mark) => mark.kind);

test("a gap breaks a line, and a value between two gaps is a dot", () => {
  const marks = thumbMarks(["spark", 1, "A-.A."], 40, 20);
  assert.deepEqual(kinds(marks), ["poly", "rect"]);
  assert.deepEqual(marks[0].points, [[0, 18.5], [10, 1.5]]);
  assert.deepEqual([marks[1].x, marks[1].x2, marks[1].y], [29, 31, 17.5]);
});

test("a band goes along the largest values and back along the smallest", () => {
  const [area, edge] = thumbMarks(["band", 1, "A-A-"], 40, 20);
  assert.deepEqual(area.points, [[0, 1.5], [40, 1.5], [40, 18.5], [0, 18.5]]);
  assert.equal(edge.closed, true);
});

test("cells of a heat map join without seams", () => {
  const marks = thumbMarks(["heat", 2, "A-.A-A"], 10, 5);
  assert.equal(marks.length, 5);
  assert.deepEqual(marks.slice(0, 2).map(({ x, x2 }) => [x, x2]), [[0, 3], [3, 7]]);
  assert.deepEqual([marks[0].opacity, marks[1].opacity], [0.08, 1]);
});

test("the playhead stands in what goes over time, and not in a histogram", () => {
  assert.deepEqual(thumbMarks(["spark", 1, "AA"], 40, 20, 1).at(-1), { kind: "rect", x: 39, x2: 40, y: 0, h: 20, fill: "ink", opacity: 1 });
  assert.equal(thumbMarks(["hist", 1, "A-"], 40, 20, 0.5).length, 1);
});

// The board of a game, without a page: shapes, poses, and where the arrow keys lead.
import assert from "node:assert/strict";
import { test } from "node:test";

import { attributesOf, neighbour, transformOf } from "../../../widgets/rlnb_widgets/game/board.js";

const grid = (rows, columns, w = 96, h = 96) => Array.from({ length: rows * columns }, (_, i) => ({
  action: i, x: (i % columns) * w, y: Math.floor(i / columns) * h, width: w, height: h,
}));

test("arrow keys lead to the nearest place in their direction and stop at the edge", () => {
  const cells = grid(3, 3);
  const from4 = Object.fromEntries(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].map((key) => [key, neighbour(cells, 4, key)]));
  assert.deepEqual(from4, { ArrowLeft: 3, ArrowRight: 5, ArrowUp: 1, ArrowDown: 7 });
  assert.equal(neighbour(cells, 2, "ArrowRight"), 2);
  assert.equal(neighbour(cells, 2, "ArrowUp"), 2);
  const columns = grid(1, 7, 60, 400);
  assert.deepEqual([0, 3, 6].map((at) => neighbour(columns, at, "ArrowRight")), [1, 4, 6]);
  assert.equal(neighbour(columns, 3, "ArrowDown"), 3);
});

test("every kind of shape becomes an element with colours by role", () => {
  const shape = (kind, points, more = {}) => attributesOf({ kind, points, fill: "ink", ...more });
  assert.deepEqual(shape("rect", [1, 2, 3, 4]), ["rect", { x: 1, y: 2, width: 3, height: 4, rx: 0, style: "fill:var(--scene-ink)" }]);
  assert.equal(shape("rect", [1, 2, 3, 4, 5])[1].rx, 5);
  assert.equal(shape("circle", [1, 2, 3])[1].r, 3);
  assert.equal(shape("polygon", [0, 0, 1, 0, 0, 1])[1].points, "0 0 1 0 0 1");
  assert.equal(shape("text", [0, 0, 12], { text: "<b>" })[0], "text");
  const line = shape("line", [0, 0, 1, 1], { fill: undefined, stroke: "muted", stroke_width: 3 });
  assert.equal(line[1].style, "fill:none;stroke:var(--scene-muted);stroke-width:3");
});

test("a pose moves and turns a part, and null hides it", () => {
  assert.equal(transformOf(null), null);
  assert.equal(transformOf([10, 20, 0]), "translate(10 20) rotate(0)");
  assert.equal(transformOf([1, 2, Math.PI / 2]), "translate(1 2) rotate(90)");
});

// The board of a game, without a page: poses, and where the arrow keys lead.
import assert from "node:assert/strict";
import { test } from "node:test";

import { posesOf } from "../../../widgets/rlnb_widgets/_core/scene.js";
import { neighbour } from "../../../widgets/rlnb_widgets/game/game.js";

const grid = (rows, columns, w = 96, h = 96) => Array.from({ length: rows * columns }, (_, i) => ({
  action: i, x: (i % columns) * w, y: Math.floor(i / columns) * h, width: w, height: h,
}));

test("arrow keys lead to the next place in their direction and stop at the edge", () => {
  const cells = grid(3, 3);
  const from4 = Object.fromEntries(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].map((key) => [key, neighbour(cells, 4, key)]));
  assert.deepEqual(from4, { ArrowLeft: 3, ArrowRight: 5, ArrowUp: 1, ArrowDown: 7 });
  assert.equal(neighbour(cells, 2, "ArrowRight"), 2);
  assert.equal(neighbour(cells, 3, "ArrowLeft"), 3);
  assert.equal(neighbour(cells, 2, "ArrowUp"), 2);
  assert.deepEqual(["ArrowUp", "ArrowDown"].map((key) => neighbour(grid(2, 5), 3, key)), [3, 8]);
  const columns = grid(1, 7, 60, 400);
  assert.deepEqual([0, 3, 6].map((at) => neighbour(columns, at, "ArrowRight")), [1, 4, 6]);
  assert.equal(neighbour(columns, 3, "ArrowDown"), 3);
});

test("poses are parameters by the names of parts, and null hides one", () => {
  const scene = { parts: ["cart", "pole"] };
  assert.deepEqual(posesOf(scene, [[10, 20, 0.5], null]), { cart: [10, 20, 0.5], pole: null });
  assert.deepEqual(posesOf(scene, []), { cart: null, pole: null });
});

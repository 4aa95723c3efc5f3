// A scene, such as a board, on a canvas in the page.

import { stage } from "./canvas.js";
import { h } from "./dom.js";
import { layered } from "./paint.js";

/** The parameters of a scene's display list, from a pose [x, y, turn] of each part; null hides it. */
export function posesOf(scene, frame) {
  return Object.fromEntries(scene.parts.map((name, i) => [name, frame[i] ?? null]));
}

/** Build the drawing: { el, show(frame), destroy }; its element names the parts that are seen. */
export function sceneView(scene) {
  const el = h("div", { class: "rlnb-scene", style: `aspect-ratio:${scene.width}/${scene.height}`, "aria-hidden": "true" });
  const draw = layered(scene.marks, scene.parts);
  let params = posesOf(scene, []);
  const { invalidate, destroy } = stage(el, (pen, { width, height, color }) => {
    pen.scale(width / scene.width, height / scene.height);
    draw(pen, { width: scene.width, height: scene.height, params, color });
  });
  return {
    el,
    show(frame) {
      params = posesOf(scene, frame);
      el.setAttribute("data-parts", scene.parts.filter((name) => params[name]).join(", "));
      invalidate();
    },
    destroy,
  };
}

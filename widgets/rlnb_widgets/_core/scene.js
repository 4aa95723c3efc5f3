// A scene, such as a board, on a canvas in the page.

import { stage } from "./canvas.js";
import { h } from "./dom.js";
import { paint } from "./paint.js";

/** The parameters of a scene's display list, from a pose [x, y, turn] of each part; null hides it. */
export function posesOf(scene, frame) {
  return Object.fromEntries(scene.parts.map((name, i) => [name, frame[i] ?? null]));
}

/** Where a picture of `width` x `height` goes in a box of w x h: { scale, x, y }, centred, never distorted. */
export function fit(width, height, w, h) {
  const scale = Math.min(w / width, h / height);
  return { scale, x: (w - width * scale) / 2, y: (h - height * scale) / 2 };
}

/** Draw a scene into a box of w x h pixels. */
export function paintScene(pen, { marks, width, height }, w, h, params, color) {
  const { scale, x, y } = fit(width, height, w, h);
  paint(pen, [{ kind: "group", at: [x, y, 0], scale, size: [width, height], marks }], { width: w, params, color });
}

/** Build the drawing: { el, show(frame), destroy }; its element names the parts that are seen. */
export function sceneView(scene) {
  const el = h("div", { class: "rlnb-scene", style: `aspect-ratio:${scene.width}/${scene.height}`, "aria-hidden": "true" });
  let params = posesOf(scene, []);
  const { invalidate, destroy } = stage(el, (pen, { width, height, color }) => paintScene(pen, scene, width, height, params, color));
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

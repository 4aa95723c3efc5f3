// A scene, such as a board, on a canvas in the page.

import { stage } from "./canvas.js";
import { h } from "./dom.js";
import { layered } from "./paint.js";

/** The parameters of a scene's display list, from a pose [x, y, turn] of each part; null hides it. */
export function posesOf(scene, frame) {
  return Object.fromEntries(scene.parts.map((name, i) => [name, frame[i] ?? null]));
}

/** Where a picture of `width` x `height` goes in a box of w x h: { scale, x, y }, centred, never distorted. */
export function fit(width, height, w, h) {
  const scale = Math.min(w / width, h / height);
  return { scale, x: (w - width * scale) / 2, y: (h - height * scale) / 2 };
}

/** A painter of a scene: paint(pen, w, h, params, color) draws it into a box of w x h pixels. */
export function scenePainter({ marks, parts, width, height }) {
  const painters = new WeakMap(); // one for each canvas, which keeps the background in its size
  return (pen, w, h, params, color) => {
    if (!painters.has(pen.canvas)) painters.set(pen.canvas, layered(marks, parts));
    const { scale, x, y } = fit(width, height, w, h);
    pen.save();
    pen.translate(x, y);
    pen.scale(scale, scale);
    pen.beginPath();
    pen.rect(0, 0, width, height);
    pen.clip();
    painters.get(pen.canvas)(pen, { width, height, params, color });
    pen.restore();
  };
}

/** Build the drawing: { el, show(frame), destroy }; its element names the parts that are seen. */
export function sceneView(scene) {
  const el = h("div", { class: "rlnb-scene", style: `aspect-ratio:${scene.width}/${scene.height}`, "aria-hidden": "true" });
  const draw = scenePainter(scene);
  let params = posesOf(scene, []);
  const { invalidate, destroy } = stage(el, (pen, { width, height, color }) => draw(pen, width, height, params, color));
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

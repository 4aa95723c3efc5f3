// Frames of a scene, drawn from its display list and the poses of its parts.

import { layered } from "../_core/core.js";
import { decode } from "./columns.js";

/** Where a picture of `width` x `height` goes in a box of w x h: { scale, x, y }, centred, never distorted. */
export function fit(width, height, w, h) {
  const scale = Math.min(w / width, h / height);
  return { scale, x: (w - width * scale) / 2, y: (h - height * scale) / 2 };
}

/** The pose of part p in frame i as [x, y, angle], or null where it is hidden. */
export function poseAt(frames, columns, p, i) {
  const pose = frames.poses[p];
  // One of few places, or a column for each coordinate.
  const [x, y, angle] = Array.isArray(pose) ? pose.map((c) => columns[c][i]) : pose.of[columns[pose.at][i]];
  if (x === frames.hidden) return null;
  return [x / frames.units, y / frames.units, angle / frames.turns];
}

/** Make a source of frames from a scene: { width, height, draw(pen, frame, width, height, color, idle) }. */
export function sceneSource(frames, blob, rows) {
  const { marks, parts, width, height } = frames.scene;
  const columns = decode(frames.columns, blob, rows, frames.start);
  const painters = new WeakMap(); // one for each canvas, which keeps the background in its size
  return {
    width,
    height,
    draw(pen, frame, w, h, color, idle = false) {
      if (!painters.has(pen.canvas)) painters.set(pen.canvas, layered(marks, parts));
      const shown = (p) => (idle && frames.acting.includes(p) ? null : poseAt(frames, columns, p, frame));
      const params = Object.fromEntries(parts.map((name, p) => [name, shown(p)]));
      const { scale, x, y } = fit(width, height, w, h);
      pen.save();
      pen.translate(x, y);
      pen.scale(scale, scale);
      pen.beginPath();
      pen.rect(0, 0, width, height);
      pen.clip();
      painters.get(pen.canvas)(pen, { width, height, params, color });
      pen.restore();
      return true;
    },
  };
}

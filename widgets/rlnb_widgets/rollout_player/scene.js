// Frames of a scene, drawn from its display list and the poses of its parts.

import { posesOf, scenePainter } from "../_core/scene.js";
import { decode } from "./columns.js";

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
  const { scene, acting } = frames;
  const columns = decode(frames.columns, blob, rows, frames.start);
  const paint = scenePainter(scene);
  return {
    width: scene.width,
    height: scene.height,
    draw(pen, frame, w, h, color, idle = false) {
      const poses = scene.parts.map((_, p) => (idle && acting.includes(p) ? null : poseAt(frames, columns, p, frame)));
      paint(pen, w, h, posesOf(scene, poses), color);
    },
  };
}

// Where the frames come from: a scene, encoded pictures, or nothing.

import { bytes, h, search, stage } from "../_core/core.js";
import { fit, paintScene, posesOf } from "../_core/scene.js";
import { decode } from "./columns.js";

const KEPT = 96; // Decoded pictures kept; at 320 x 240 about 30 MB.

/**
 * Frames of the rollout: { kind, width, height, draw(context, frame, width, height, color, idle) }.
 *
 * With `idle`, what the agent does is left out: "next" holds no action yet. What cannot be drawn at once can be when
 * `ready` is called. Kind "none" draws nothing.
 */
export function frameSource({ labels, steps, extra, frames }, blob, pictures, ready) {
  if (frames.kind === "none") return { kind: "none", width: 16, height: 9, draw() {} };
  const columns = decode(frames.columns, blob, labels.length * steps + extra.length, frames.start);
  const draw = frames.kind === "scene" ? sceneFrames(frames, columns) : pictureFrames(frames, columns[frames.index], bytes(pictures), ready);
  const { width, height } = frames.scene ?? frames;
  return { kind: frames.kind, width, height, draw };
}

/** Show frames of a source in an element of their shape: { el, invalidate, destroy }; frameAt() gives [frame, idle]. */
export function frameView(source, frameAt, attributes) {
  const el = h("div", { ...attributes, style: `aspect-ratio:${source.width}/${source.height};${attributes.style ?? ""}` });
  const view = stage(el, (pen, { width, height, color }) => {
    const [frame, idle] = frameAt();
    source.draw(pen, frame, width, height, color, idle);
  });
  return { el, ...view };
}

/** Number of the frame that shows what step t of environment e led to. `extra` is sorted. */
export function nextFrame(head, e, t) {
  const row = e * head.steps + t;
  const place = search(head.extra, row);
  return head.extra[place] === row ? head.labels.length * head.steps + place : row + 1;
}

/** The pose of part p in frame i as [x, y, angle], or null where it is hidden. */
export function poseAt(frames, columns, p, i) {
  const [x, y, angle] = frames.poses[p].map((c) => columns[c][i]);
  return x === frames.hidden ? null : [x / frames.units, y / frames.units, angle / frames.turns];
}

function sceneFrames(frames, columns) {
  return (pen, frame, w, h, color, idle = false) => {
    const poses = frames.scene.parts.map((_, p) => (idle && frames.acting.includes(p) ? null : poseAt(frames, columns, p, frame)));
    paintScene(pen, frames.scene, w, h, posesOf(frames.scene, poses), color);
  };
}

function pictureFrames(frames, index, data, ready) {
  const decoded = new Map(); // pictures by their numbers, the oldest first; null until one is decoded
  let shown = null;
  let broken = false;

  const fetch = (k) => {
    if (decoded.has(k) || k + 1 >= frames.offsets.length) return;
    decoded.set(k, null);
    const part = data.slice(frames.offsets[k], frames.offsets[k + 1]);
    // Not an image of the page: some hosts of notebooks admit none from memory.
    createImageBitmap(new Blob([part], { type: frames.mime })).then((picture) => {
      decoded.set(k, picture);
      if (decoded.size > KEPT) {
        const [[oldest, gone]] = decoded;
        decoded.delete(oldest);
        if (gone !== shown) gone?.close();
      }
    }, () => { broken = true; }).finally(ready);
  };

  return (context, frame, width, height, color) => {
    const k = index[frame];
    shown = decoded.get(k) ?? shown;
    for (const near of [k, k + 1, k + 2]) fetch(near);
    if (shown) {
      const { scale, x, y } = fit(frames.width, frames.height, width, height);
      context.imageSmoothingEnabled = scale < 3; // Large pixels stay square.
      context.drawImage(shown, x, y, frames.width * scale, frames.height * scale);
    } else if (broken) {
      context.fillStyle = color("muted");
      context.font = "12px system-ui, sans-serif";
      context.fillText("this picture cannot be decoded", 8, 20);
    }
  };
}

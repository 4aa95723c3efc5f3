// Where the frames come from: a scene, encoded pictures, or nothing.

import { bytes, h, search, stage } from "../_core/core.js";
import { fit } from "../_core/scene.js";
import { decode } from "./columns.js";
import { sceneSource } from "./scene.js";

const KEPT = 96; // Decoded pictures kept; at 320 x 240 about 30 MB.

/**
 * Frames of the rollout: { kind, width, height, draw(context, frame, width, height, color, idle) }.
 *
 * With `idle`, what the agent does is left out: "next" holds no action yet. What cannot be drawn at once can be when
 * `ready` is called. Kind "none" draws nothing.
 */
export function frameSource(head, blob, pictures, ready) {
  const rows = head.labels.length * head.steps + head.extra.length;
  if (head.frames.kind === "scene") return { kind: "scene", ...sceneSource(head.frames, blob, rows) };
  if (head.frames.kind === "pixels") return { kind: "pixels", ...pictureSource(head.frames, blob, bytes(pictures), rows, ready) };
  return { kind: "none", width: 16, height: 9, draw() {} };
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

function pictureSource(frames, blob, data, rows, ready) {
  const index = decode(frames.columns, blob, rows, frames.start)[frames.index];
  const decoded = new Map(); // In the order of use, so that the first is the one to let go.
  const waiting = new Set();
  let shown = null;
  let broken = false;

  const fetch = (k) => {
    if (decoded.has(k) || waiting.has(k) || k < 0 || k + 1 >= frames.offsets.length) return;
    waiting.add(k);
    const part = data.slice(frames.offsets[k], frames.offsets[k + 1]);
    createImageBitmap(new Blob([part], { type: frames.mime })).then((bitmap) => {
      decoded.set(k, bitmap);
      if (decoded.size > KEPT) {
        const [oldest] = decoded.keys();
        decoded.get(oldest).close();
        decoded.delete(oldest);
      }
      ready();
      waiting.delete(k);
    }, () => { broken = true; ready(); }); // It stays in `waiting`, so that it is not tried again.
  };

  return {
    width: frames.width,
    height: frames.height,
    draw(context, frame, width, height, color) {
      const k = index[frame];
      let bitmap = decoded.get(k);
      if (bitmap) {
        decoded.delete(k);
        decoded.set(k, bitmap);
        shown = k;
      } else bitmap = decoded.get(shown);
      for (const near of [k, k + 1, k + 2]) fetch(near);
      if (!bitmap) {
        context.fillStyle = color("muted");
        context.font = "12px system-ui, sans-serif";
        context.fillText(broken ? "this picture cannot be decoded" : "", 8, 20);
        return;
      }
      const { scale, x, y } = fit(frames.width, frames.height, width, height);
      context.imageSmoothingEnabled = scale < 3; // Large pixels stay square.
      context.drawImage(bitmap, x, y, frames.width * scale, frames.height * scale);
    },
  };
}

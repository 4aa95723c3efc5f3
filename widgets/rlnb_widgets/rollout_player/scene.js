// Draws a scene (a still background and moving parts) onto a canvas.

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

function shape(context, s, paint) {
  const p = s.points;
  context.beginPath();
  if (s.kind === "rect") {
    if (p.length === 5) context.roundRect(p[0], p[1], p[2], p[3], p[4]);
    else context.rect(p[0], p[1], p[2], p[3]);
  } else if (s.kind === "circle") context.arc(p[0], p[1], p[2], 0, 2 * Math.PI);
  else if (s.kind === "line") {
    context.moveTo(p[0], p[1]);
    context.lineTo(p[2], p[3]);
  } else if (s.kind === "polygon") {
    for (let i = 0; i < p.length; i += 2) context.lineTo(p[i], p[i + 1]);
    context.closePath();
  }
  if (s.kind === "text") {
    context.font = `600 ${p[2]}px system-ui, sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillStyle = paint(s.fill ?? "ink");
    context.fillText(s.text, p[0], p[1]);
    return;
  }
  if (s.fill) {
    context.fillStyle = paint(s.fill);
    context.fill();
  }
  if (s.stroke) {
    context.strokeStyle = paint(s.stroke);
    context.lineWidth = s.stroke_width;
    context.lineCap = context.lineJoin = "round";
    context.stroke();
  }
}

/** Make a source of frames from a scene: { width, height, draw(context, frame, width, height, color, idle) }. */
export function sceneSource(frames, blob, rows) {
  const { scene } = frames;
  const columns = decode(frames.columns, blob, rows, frames.start);
  const stills = new Map();

  const background = (w, h, density, dark, paint) => {
    const key = `${w}/${h}/${density}/${dark}`;
    if (!stills.has(key)) {
      if (stills.size > 8) stills.clear();
      const still = document.createElement("canvas");
      still.width = Math.max(1, Math.round(w * density));
      still.height = Math.max(1, Math.round(h * density));
      const context = still.getContext("2d");
      context.scale(still.width / scene.width, still.height / scene.height);
      for (const s of scene.background) shape(context, s, paint);
      stills.set(key, still);
    }
    return stills.get(key);
  };

  return {
    width: scene.width,
    height: scene.height,
    draw(context, frame, width, height, color, idle = false) {
      const dark = color("dark") === "1" ? 1 : 0;
      const paint = (role) => scene.roles[role]?.[dark] ?? color(role);
      const { scale, x, y } = fit(scene.width, scene.height, width, height);
      const density = window.devicePixelRatio || 1;
      const w = scene.width * scale;
      const h = scene.height * scale;
      context.save();
      context.beginPath();
      context.rect(x, y, w, h);
      context.clip();
      context.drawImage(background(w, h, density, dark, paint), x, y, w, h);
      context.translate(x, y);
      context.scale(scale, scale);
      scene.parts.forEach((part, p) => {
        const pose = poseAt(frames, columns, p, frame);
        if (!pose || (idle && frames.acting.includes(p))) return;
        context.save();
        context.translate(pose[0], pose[1]);
        context.rotate(pose[2]);
        for (const s of part.shapes) shape(context, s, paint);
        context.restore();
      });
      context.restore();
      return true;
    },
  };
}

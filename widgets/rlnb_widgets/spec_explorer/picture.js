// Domains on a canvas: tiny in the rows, large in the details.

import { laneShapes, sideBySide } from "./lanes.js";
import { marksOf } from "./marks.js";

const SIDE = 10; // room beside the lanes, for arrows

/** Put a canvas to a size in CSS pixels; returns its context, or null where there is no room. */
function sized(canvas, width, height) {
  if (width < 8 || height < 4) return null;
  const density = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * density);
  canvas.height = Math.round(height * density);
  const context = canvas.getContext("2d");
  context.setTransform(density, 0, 0, density, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

function stroke(context, shapes, color) {
  for (const [kind, ...rest] of shapes) {
    context.globalAlpha = 1;
    if (kind === "rect") {
      const [x, y, w, h, role, opacity] = rest;
      context.globalAlpha = opacity;
      context.fillStyle = color(role);
      context.fillRect(x, y, w, h);
    } else if (kind === "frame") {
      const [x, y, w, h, role] = rest;
      context.strokeStyle = color(role);
      context.lineWidth = 1;
      context.globalAlpha = 0.8;
      context.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
    } else if (kind === "line") {
      const [x1, y1, x2, y2, role, width] = rest;
      context.strokeStyle = color(role);
      context.lineWidth = width;
      context.beginPath();
      context.moveTo(x1, y1);
      context.lineTo(x2, y2);
      context.stroke();
    } else if (kind === "disc") {
      const [x, y, r, role] = rest;
      context.fillStyle = color(role);
      context.beginPath();
      context.arc(x, y, r, 0, 2 * Math.PI);
      context.fill();
    } else {
      const [x, y, to, half, role] = rest;
      context.fillStyle = color(role);
      context.beginPath();
      context.moveTo(x, y);
      context.lineTo(to, y - half);
      context.lineTo(to, y + half);
      context.fill();
    }
  }
  context.globalAlpha = 1;
}

/** Draw the lanes of a row, side by side. */
export function drawTiny(canvas, lanes, samples, color) {
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const context = sized(canvas, width, height);
  if (!context) return;
  sideBySide(lanes.length, [5, 1, width - 10, height - 2]).forEach((box, i) => {
    stroke(context, laneShapes(lanes[i], samples?.levels?.[i] ?? null, null, box), color);
  });
}

/** How high one of so many lanes of the large picture is: few have more room, so that the pane hardly changes. */
export function laneHeight(count) {
  return [136, 72][count - 1] ?? 46;
}

/** The boxes of the lanes in the large picture. */
export function largeBoxes(lanes, width) {
  const tall = laneHeight(lanes.length);
  return lanes.map((_, i) => [SIDE, i * tall + 4, Math.max(width - 2 * SIDE, 10), tall - 24]);
}

/** Draw the lanes of the details, with what is written below them. */
export function drawLarge(canvas, lanes, samples, dots, color) {
  const width = canvas.clientWidth;
  const context = sized(canvas, width, lanes.length * laneHeight(lanes.length));
  if (!context) return;
  context.textBaseline = "middle";
  context.font = "12px system-ui, sans-serif";
  largeBoxes(lanes, width).forEach((box, i) => {
    stroke(context, laneShapes(lanes[i], samples?.levels?.[i] ?? null, dots?.[i] ?? null, box), color);
    const end = box[1] + box[3];
    for (const [text, x, align, tick] of marksOf(lanes[i], box)) {
      if (tick) stroke(context, [["line", x, end - 2, x, end + 2, "muted", 1]], color);
      context.fillStyle = color("muted");
      context.textAlign = align;
      context.fillText(text, x, end + 10);
    }
  });
}

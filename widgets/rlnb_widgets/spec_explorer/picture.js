// Domains on a canvas: tiny in the rows, large in the details.

import { laneShapes } from "./lanes.js";

export const TALL = 46; // one lane of the large picture
const LABEL = 62;
const TINY = 6; // lanes in a row

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

/** Draw the lanes of a row, one under the other. */
export function drawTiny(canvas, lanes, samples, color) {
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const context = sized(canvas, width, height);
  if (!context) return;
  const drawn = lanes.slice(0, TINY);
  const gap = drawn.length > 1 ? 1.5 : 0;
  const each = (height - 2) / drawn.length;
  drawn.forEach((lane, i) => {
    stroke(context, laneShapes(lane, samples?.levels?.[i] ?? null, null, [5, 1 + i * each, width - 10, each - gap]), color);
  });
}

/** The boxes of the lanes in the large picture. */
export function largeBoxes(lanes, width) {
  const left = lanes.some((lane) => lane.label) ? LABEL : 8;
  return lanes.map((_, i) => [left, i * TALL + 4, Math.max(width - left - 10, 10), TALL - 22]);
}

/** Draw the lanes of the details, with names and ends. */
export function drawLarge(canvas, lanes, samples, dots, color) {
  const width = canvas.clientWidth;
  const context = sized(canvas, width, lanes.length * TALL);
  if (!context) return;
  context.textBaseline = "middle";
  largeBoxes(lanes, width).forEach((box, i) => {
    const lane = lanes[i];
    stroke(context, laneShapes(lane, samples?.levels?.[i] ?? null, dots?.[i] ?? null, box), color);
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = color("muted");
    if (lane.label) context.fillText(lane.label, 0, box[1] + box[3] / 2, LABEL - 8);
    const below = box[1] + box[3] + 8;
    for (const [text, x, align] of marksOf(lane, box)) {
      context.textAlign = align;
      context.fillText(text, x, below);
    }
    context.textAlign = "left";
  });
}

function marksOf(lane, [x, , w, h]) {
  if (lane.kind === "line") {
    const [left, right] = lane.ends;
    const [a, b] = [x + w * (left ?? 0), x + w * (right ?? 1)];
    const inner = lane.zero !== null && (lane.zero - (left ?? 0)) * w > 46 && ((right ?? 1) - lane.zero) * w > 46 ? [["0", x + w * lane.zero, "center"]] : [];
    // beside a short line there is more room than under it
    const sides = b - a < 110 && left !== null && right !== null ? ["right", "left"] : ["left", "right"];
    return [[lane.texts[0], a, sides[0]], ...inner, [lane.texts[1], b, sides[1]]];
  }
  const step = lane.kind === "choices" ? w / lane.n : Math.min(w / Math.min(lane.n, 24), Math.max(28, h * 1.5));
  const every = Math.ceil(30 / step);
  const count = lane.kind === "choices" ? lane.n : Math.min(lane.n, 24);
  if (count < lane.n) return [[`${lane.n} places`, x, "left"]];
  return Array.from({ length: count }, (_, i) => i).filter((i) => i % every === 0)
    .map((i) => [lane.kind === "choices" && lane.names ? lane.names[i] : String((lane.start ?? 0) + i), x + (i + 0.5) * step, "center"]);
}

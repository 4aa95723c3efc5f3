// Domains on a canvas: tiny in the rows, large in the details.

import { paint } from "../_core/core.js";
import { laneMarks, sideBySide } from "./lanes.js";
import { marksOf } from "./marks.js";

const SIDE = 10; // room beside the lanes, for arrows

/** Paint marks on a canvas that is `height` CSS pixels high; nothing where there is no room. */
function draw(canvas, height, marks, color) {
  const width = canvas.clientWidth;
  if (width < 8 || height < 4) return;
  const density = window.devicePixelRatio || 1;
  Object.assign(canvas, { width: Math.round(width * density), height: Math.round(height * density) });
  const pen = canvas.getContext("2d");
  pen.scale(density, density);
  paint(pen, marks, { width, params: {}, column: () => [], color });
}

/** Draw the lanes of a row, side by side. */
export function drawTiny(canvas, lanes, samples, color) {
  const boxes = sideBySide(lanes.length, [5, 1, canvas.clientWidth - 10, canvas.clientHeight - 2]);
  draw(canvas, canvas.clientHeight, boxes.flatMap((box, i) => laneMarks(lanes[i], samples?.levels?.[i] ?? null, null, box)), color);
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
  const marks = largeBoxes(lanes, canvas.clientWidth).flatMap((box, i) => {
    const end = box[1] + box[3];
    const written = marksOf(lanes[i], box).flatMap(([text, x, align, tick]) => [
      ...(tick ? [{ kind: "line", x, y: end - 2, x2: x, y2: end + 2, stroke: "muted" }] : []),
      { kind: "text", x, y: end + 14, text, fill: "muted", size: 12, anchor: { center: "middle", right: "end" }[align] },
    ]);
    return [...laneMarks(lanes[i], samples?.levels?.[i] ?? null, dots?.[i] ?? null, box), ...written];
  });
  draw(canvas, lanes.length * laneHeight(lanes.length), marks, color);
}

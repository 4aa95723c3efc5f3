// Draws a display list with the canvas painter beside its SVG, and counts the pixels in which they differ.

import { columnsOf, paint } from "../../widgets/rlnb_widgets/_core/paint.js";
import { cutText, formatValue, textWidth, thin, ticks } from "../../widgets/rlnb_widgets/_core/measures.js";
import { palette } from "../../widgets/rlnb_widgets/_core/canvas.js";

const TELLING = 64; // of 255: less is the smoothing of an edge
const SAME = 4; // of 255: less is the rounding of opacity

function context(width, height) {
  const pen = Object.assign(document.createElement("canvas"), { width, height }).getContext("2d", { willReadFrequently: true });
  document.querySelector(".rlnb").append(pen.canvas);
  return pen;
}

/** By how much two pixels differ in the channel in which they differ most. */
const apart = (a, i, b, j) => Math.max(...[0, 1, 2].map((c) => Math.abs(a[i + c] - b[j + c])));

/** Whether all pixels around one have its colour: inside of an area, no edge is smoothed. */
function isFlat(pixels, x, y, width, height) {
  if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1) return false;
  const i = 4 * (y * width + x);
  return [-width - 1, -width, 1 - width, -1, 1, width - 1, width, width + 1].every((d) => apart(pixels, i, pixels, i + 4 * d) === 0);
}

async function bothWays({ svg, display, columns, blob, params, width, margin }) {
  const color = palette(document.querySelector(".rlnb"));
  const picture = new Image();
  picture.src = `data:image/svg+xml;base64,${svg}`;
  await picture.decode();
  const height = picture.height;
  const [still, live] = [context(picture.width, height), context(picture.width, height)];
  still.drawImage(picture, 0, 0);
  live.fillStyle = color("paper");
  live.fillRect(0, 0, picture.width, height);
  live.translate(margin, margin);
  const bytes = Uint8Array.from(atob(blob), (c) => c.charCodeAt(0));
  paint(live, display.marks, { width, params, column: columnsOf(columns, bytes), color });
  const [a, b] = [still, live].map((pen) => pen.getImageData(margin, margin, width, height - 2 * margin).data);
  const tall = height - 2 * margin;
  let [differ, flat, drawn] = [0, 0, 0];
  for (let y = 0; y < tall; y++) {
    for (let x = 0; x < width; x++) {
      const i = 4 * (y * width + x);
      const by = apart(a, i, b, i);
      if (Math.max(apart(a, i, a, 0), apart(b, i, b, 0)) > 12) drawn += 1;
      if (by > TELLING) differ += 1;
      else if (by > SAME && isFlat(a, x, y, width, tall) && isFlat(b, x, y, width, tall)) flat += 1;
    }
  }
  for (const pen of [still, live]) pen.canvas.remove(); // the page paints what it has with each frame
  return { differ: differ / drawn, flat, drawn: drawn / (width * tall) };
}

bothWays.measures = { cutText, formatValue, textWidth, thin, ticks };
export default bothWays;

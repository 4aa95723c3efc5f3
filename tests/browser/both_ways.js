// Draws a display list with the canvas painter beside its SVG, and counts the pixels in which they differ.

import { columnsOf, paint } from "../../widgets/rlnb_widgets/_core/paint.js";
import { cutText, formatValue, textWidth, thin, ticks } from "../../widgets/rlnb_widgets/_core/measures.js";
import { palette } from "../../widgets/rlnb_widgets/_core/theme.js";

const TELLING = 72; // of 255: less is the smoothing of an edge

function context(width, height) {
  const pen = Object.assign(document.createElement("canvas"), { width, height }).getContext("2d", { willReadFrequently: true });
  document.querySelector(".rlnb").append(pen.canvas);
  return pen;
}

/** Whether a pixel of `a` is like one of those of `b` at its place and around it. */
function near(a, b, x, y, width, height) {
  for (let dy = -1; dy <= 1; dy++) {
    for (let dx = -1; dx <= 1; dx++) {
      const [i, j] = [x + dx, y + dy];
      if (i < 0 || j < 0 || i >= width || j >= height) continue;
      const [p, q] = [4 * (y * width + x), 4 * (j * width + i)];
      if ([0, 1, 2].every((c) => Math.abs(a[p + c] - b[q + c]) < TELLING)) return true;
    }
  }
  return false;
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
  const draw = () => paint(live, display.marks, { width, params, column: columnsOf(columns, bytes), color });
  draw();
  // An image that is embedded is not there when it is first drawn.
  await new Promise((done) => setTimeout(done, 60));
  draw();
  const [a, b] = [still, live].map((pen) => pen.getImageData(margin, margin, width, height - 2 * margin).data);
  const tall = height - 2 * margin;
  let differ = 0;
  let drawn = 0;
  for (let y = 0; y < tall; y++) {
    for (let x = 0; x < width; x++) {
      const i = 4 * (y * width + x);
      if ([0, 1, 2].some((c) => Math.abs(a[i + c] - a[c]) > 12)) drawn += 1;
      if (!near(a, b, x, y, width, tall) || !near(b, a, x, y, width, tall)) differ += 1;
    }
  }
  for (const pen of [still, live]) pen.canvas.remove(); // the page paints what it has with each frame
  return { differ: differ / (width * tall), drawn: drawn / (width * tall) };
}

bothWays.measures = { cutText, formatValue, textWidth, thin, ticks };
export default bothWays;

// Tiny pictures of leaves: a line, a band, a heat map or a histogram, from levels that Python worked out.

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
const TOP = 63;

/** The levels of a thumbnail: 0..63, -1 for a gap. */
export function decode(letters) {
  return Array.from(letters, (c) => LETTERS.indexOf(c));
}

/** Draw a thumbnail [kind, rows, letters] into a canvas of CSS size w x h; share (0..1) draws the playhead. */
export function drawThumb(canvas, [kind, rows, letters], w, h, color, share = null) {
  const density = globalThis.devicePixelRatio || 1;
  canvas.width = Math.round(w * density);
  canvas.height = Math.round(h * density);
  const context = canvas.getContext("2d");
  context.setTransform(density, 0, 0, density, 0, 0);
  context.clearRect(0, 0, w, h);
  const levels = decode(letters);
  context.fillStyle = context.strokeStyle = color("accent");
  if (kind === "spark") line(context, levels, w, h);
  else if (kind === "band") band(context, levels, w, h);
  else if (kind === "hist") bars(context, levels, w, h);
  else heat(context, levels, rows, w, h);
  if (share !== null && kind !== "hist") {
    context.globalAlpha = 1;
    context.fillStyle = color("ink");
    context.fillRect(Math.min(share * w, w - 1), 0, 1, h);
  }
}

const yOf = (h) => (level) => 1.5 + (h - 3) * (1 - level / TOP);

function line(context, levels, w, h) {
  const y = yOf(h);
  context.lineWidth = 1.2;
  context.beginPath();
  let open = false;
  levels.forEach((level, i) => {
    const x = levels.length > 1 ? (i / (levels.length - 1)) * w : w / 2;
    if (level < 0) { open = false; return; }
    if (open) context.lineTo(x, y(level)); else context.moveTo(x, y(level));
    open = true;
    const alone = !(levels[i - 1] >= 0) && !(levels[i + 1] >= 0);
    if (alone) context.fillRect(Math.min(Math.max(x - 1, 0), w - 2), y(level) - 1, 2, 2);
  });
  context.stroke();
}

// Where a share of the time holds several values, the area between the smallest and the largest of them.
function band(context, levels, w, h) {
  const y = yOf(h);
  const count = levels.length / 2;
  const x = (i) => (count > 1 ? (i / (count - 1)) * w : w / 2);
  context.lineWidth = 1.2;
  context.beginPath();
  for (let i = 0; i < count; i += 1) if (levels[2 * i + 1] >= 0) context.lineTo(x(i), y(levels[2 * i + 1]));
  for (let i = count - 1; i >= 0; i -= 1) if (levels[2 * i] >= 0) context.lineTo(x(i), y(levels[2 * i]));
  context.closePath();
  context.stroke();
  context.globalAlpha = 0.55;
  context.fill();
  context.globalAlpha = 1;
}

function bars(context, levels, w, h) {
  const step = w / levels.length;
  levels.forEach((level, i) => {
    if (level > 0) context.fillRect(i * step, h - (level / TOP) * h, Math.max(step - 0.5, 0.5), (level / TOP) * h);
  });
}

function heat(context, levels, rows, w, h) {
  const columns = levels.length / rows;
  const density = globalThis.devicePixelRatio || 1;
  // whole pixels, so that neighbours neither overlap nor leave seams
  const edge = (share, size) => Math.round(share * size * density) / density;
  levels.forEach((level, i) => {
    if (level < 0) return;
    const [row, column] = [Math.floor(i / columns), i % columns];
    const [left, top] = [edge(column / columns, w), edge(row / rows, h)];
    context.globalAlpha = 0.08 + 0.92 * (level / TOP);
    context.fillRect(left, top, edge((column + 1) / columns, w) - left, edge((row + 1) / rows, h) - top);
  });
  context.globalAlpha = 1;
}

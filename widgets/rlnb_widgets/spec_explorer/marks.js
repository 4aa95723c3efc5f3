// What is written below a lane of the large picture: the ends of a line with numbers between them, names of choices.

import { cellSize } from "./lanes.js";

const CHAR = 7; // pixels of a digit
const SHORT = 110; // beside a line that is shorter there is more room than under it

/**
 * The marks of a lane in a box [x, y, width, height]: [text, x, "left" | "center" | "right", tick], tick where a number
 * between the ends wants a stroke on the line.
 */
export function marksOf(lane, box) {
  const [x, , w] = box;
  if (lane.kind === "line") return lineMarks(lane, box);
  const { count, step } = lane.kind === "choices" ? { count: lane.n, step: w / lane.n } : cellSize(lane, box);
  if (count < lane.n) return [[`${lane.n} places`, x, "left"]];
  const every = Math.ceil(30 / step);
  return Array.from({ length: count }, (_, i) => i).filter((i) => i % every === 0)
    .map((i) => [String((lane.start ?? 0) + i), x + (i + 0.5) * step, "center"]);
}

function lineMarks(lane, [x, , w]) {
  const [left, right] = lane.ends;
  const [a, b] = [x + w * (left ?? 0), x + w * (right ?? 1)];
  const [first, last] = lane.texts;
  const outside = b - a < SHORT && left !== null && right !== null;
  const ends = [[first, a, outside ? "right" : "left"], [last, b, outside ? "left" : "right"]];
  if (outside) return ends;
  const [low, high] = lane.view;
  const placed = (value) => [numeral(value), x + (w * (value / 2 - low / 2)) / (high / 2 - low / 2), "center", true];
  const from = a + (first.length + 1.5) * CHAR;
  const to = b - (last.length + 1.5) * CHAR;
  const fits = ([text, at]) => at - (text.length * CHAR) / 2 > from && at + (text.length * CHAR) / 2 < to;
  // all of them or wider steps: with one missing the scale would look skewed
  for (let count = Math.floor(w / 64); count > 0; count -= 1) {
    const between = ticks(low, high, count).map(placed).filter(([, at]) => at > a + 1 && at < b - 1);
    if (between.every(fits)) return [ends[0], ...between, ends[1]];
  }
  return ends;
}

/** Round numbers between two ends, about so many; none where the ends are too far apart to be written short. */
export function ticks(low, high, count) {
  const span = high - low;
  if (!(span > 0) || Math.max(Math.abs(low), Math.abs(high)) >= 1e6 || count < 1) return [];
  const rough = span / count;
  const ten = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((times) => times * ten >= rough * 0.999) * ten;
  const from = Math.ceil(low / step - 1e-9);
  const found = [];
  for (let k = from; k * step <= high + step * 1e-9; k += 1) found.push(Number((k * step).toPrecision(6)));
  return found;
}

function numeral(value) {
  return String(Math.abs(value) < 1e-12 ? 0 : value);
}

// The values of a curve at its steps.

import { clamp, search, text } from "../_core/core.js";

/** Places and values of the lines of a panel: what was logged, and its moving mean if there is one. */
function linesOf({ list, column }) {
  const curves = list.marks.flatMap((mark) => mark.marks ?? []).filter((mark) => mark.kind === "curve");
  return curves.map((mark) => [column(mark.places), column(mark.values)]);
}

/** The drawn point of a panel that is nearest to a step: { step, value, mean }; null without one. */
export function nearest(panel, step) {
  if (!panel) return null;
  const [raw, smooth] = linesOf(panel).map((line) => pointAt(...line, step));
  return raw ? { ...raw, mean: smooth ? smooth.value : null } : null;
}

/** The step of the drawn value that lies `by` values after the one at a step. */
export function stepBy(panel, step, by) {
  const [places] = linesOf(panel)[0];
  return places[clamp(search(places, pointAt(places, places, step).step) + by, 0, places.length - 1)];
}

/** The point { step, value } whose place is nearest. */
export function pointAt(places, values, step) {
  if (!places.length) return null;
  const after = Math.min(search(places, step), places.length - 1);
  const i = after > 0 && step - places[after - 1] < places[after] - step ? after - 1 : after;
  return { step: places[i], value: values[i] };
}

/** A point in words. */
export function said(point) {
  if (!point) return "";
  const mean = point.mean === null ? "" : `, mean ${text(point.mean)}`;
  return `at ${Math.round(point.step).toLocaleString("en")}: ${text(point.value)}${mean}`;
}

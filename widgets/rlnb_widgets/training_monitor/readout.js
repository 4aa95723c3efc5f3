// The value of a curve at a step.

import { search, text } from "../_core/core.js";

/** The drawn point of a panel that is nearest to a step: { step, value, mean }; null without one. */
export function nearest(panel, step) {
  if (!panel) return null;
  const curves = panel.list.marks.flatMap((mark) => mark.marks ?? []).filter((mark) => mark.kind === "curve");
  const [raw, smooth] = curves.map((mark) => pointAt(panel.column(mark.places), panel.column(mark.values), step));
  return raw ? { ...raw, mean: smooth ? smooth.value : null } : null;
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

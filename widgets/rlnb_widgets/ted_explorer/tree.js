// The tree of a TED as plain functions: what a search looks at, what is flagged, what the access code is.

import { entryCode, keyCode } from "../_core/tree.js";

/** Whether a row has something to look at: against the spec, against the other TED, or by its values. */
export function flagged(row) {
  return Boolean(row.spec || row.diff || row.holds === false || row.root?.odd || row.next?.odd
    || /^cannot/.test(row.root?.message ?? "") || /^cannot/.test(row.next?.message ?? ""));
}

/** What a search looks at beside the key. */
export function traits(row) {
  const sides = ["root", "next"].filter((side) => row[side]).map((side) => (
    `${side} ${row[side].dtype} ${row[side].shape} ${row[side].storage}`));
  return [row.carry ?? "", ...sides].join(" ");
}

/** A key of the TensorDict as Python writes it: "reward" or ("next", "reward"). */
export function pathCode(path, side) {
  return keyCode(side === "next" ? ["next", ...path] : path);
}

/** The code that reads an entry: td["next", "reward"][3]. */
export function accessCode(path, side, index = []) {
  const code = entryCode("td", side === "next" ? ["next", ...path] : path);
  return index.length ? `${code}[${index.join(", ")}]` : code;
}

/** A flat index as one index for each dimension. */
export function unravel(flat, shape) {
  const index = [];
  for (let i = shape.length - 1; i >= 0; i -= 1) {
    index.unshift(flat % shape[i]);
    flat = Math.floor(flat / shape[i]);
  }
  return index;
}

// One line of the tree: the key, the spec, its domain, and the gymnasium space.

import { h, paintOnce } from "../_core/core.js";
import { entryCode, label, shownKeys } from "../_core/tree.js";
import { rowOf, shapeOf } from "../_core/treeview.js";

/** What a search looks at beside the key. */
export const traits = (row) => [row.kind, row.dtype, row.device, row.shape, row.domain, row.space ?? "none"].join(" ");

/** What a screen reader says of a row. */
export function spoken(row) {
  return [label(row), row.kind, `${row.dtype} ${row.shape}`.trim(), row.domain, ...(row.diff ?? []).map(([, text]) => text)].filter(Boolean).join("; ");
}

/** A row with what it has in common with others, and what follows from its path. */
export const wholeRow = ({ alike, name }, row) => ({
  ...alike[row.alike], depth: row.path.length, code: entryCode(name, row.path), ...(row.path.length ? {} : { name }), ...row,
});

/** The columns of the picture of a lane by name: bars of samples, and where tried values are, legal or not. */
export const columnOf = (lane, samples, dots) => (name) => (name === "levels" ? samples?.levels?.[lane] : dots?.[`${name}${lane}`]) ?? [];

/** Make the element of a row. */
export function rowElement(row, i, place, atLeaves = false) {
  const element = rowOf(atLeaves ? { ...row, depth: 0 } : row, i, place, { spoken: spoken(row), badges: (row.diff ?? []).map(([kind]) => kind) });
  if (atLeaves && row.path.length > 1) {
    element.querySelector(".rlnb-label").append(h("span", { class: "spec-line spec-above rlnb-note" }, shownKeys(row).slice(0, -1).join(".")));
  }
  if (row.elsewhere) element.classList.add("spec-elsewhere");
  const device = row.device && row.device !== "cpu" ? ` ${row.device}` : "";
  element.append(
    h("div", { class: "spec-class" }, h("span", { class: "spec-line", title: row.kind }, row.kind),
      h("span", { class: "spec-line rlnb-note" }, row.dtype ? `${row.dtype} ` : "", row.dtype || row.dims.length ? shapeOf(row.dims) : "", device)),
    h("div", { class: "spec-domain" }, row.small ? h("div", { class: "spec-tiny", "aria-hidden": "true" }, ...row.small.map(() => h("canvas"))) : null,
      h("span", { class: "spec-line spec-text rlnb-note", title: row.domain }, row.domain)),
    h("div", { class: "spec-space", title: row.space ?? row.why },
      h("span", { class: "spec-line" }, row.space === undefined ? h("span", { class: "rlnb-note" }, "none") : row.space.replace(/^(Dict|Tuple)\(.*/s, "$1"))));
  return element;
}

/** Draw the domain of a row: once it is in the page, when samples come, and when the theme changes. */
export function paintRow(element, row, pictures, samples) {
  element.querySelectorAll("canvas").forEach((canvas, i) => paintOnce(canvas, pictures[row.small[i]], { column: columnOf(i, samples) }));
  element.querySelector(".spec-text").textContent = `${row.domain}${(samples?.n && row.sampled) || ""}`;
}

// One line of the tree: the key, the spec, its domain, and the gymnasium space.

import { h, paintOnce } from "../_core/core.js";
import { shapeOf } from "../_core/shape.js";
import { label, printable } from "../_core/tree.js";
import { rowOf } from "../_core/treeview.js";

/** What a search looks at beside the key. */
export const traits = (row) => [row.kind, row.dtype, row.device, row.shape, row.domain, row.space ?? "none"].join(" ");

/** What a screen reader says of a row. */
export function spoken(row) {
  return [label(row), row.kind, `${row.dtype} ${row.shape}`.trim(), row.domain, ...(row.diff ?? []).map(([, text]) => text)].filter(Boolean).join("; ");
}

/** The columns of a picture by name: bars of samples, and where tried values are, legal or not. */
export const columnOf = (samples, dots) => (name) => (name.startsWith("levels") ? samples?.levels?.[name.slice(6)] : dots?.[name]) ?? [];

/** Make the element of a row. */
export function rowElement(row, i, place, atLeaves = false) {
  const element = rowOf(atLeaves ? { ...row, depth: 0 } : row, i, place, { spoken: spoken(row), badges: (row.diff ?? []).map(([kind]) => kind) });
  if (atLeaves && row.path.length > 1) {
    element.querySelector(".rlnb-label").append(h("span", { class: "spec-line spec-above rlnb-quiet" }, printable(row.path.slice(0, -1).join("."))));
  }
  if (row.elsewhere) element.classList.add("spec-elsewhere");
  const device = row.device && row.device !== "cpu" ? ` ${row.device}` : "";
  element.append(
    h("div", { class: "spec-class" }, h("span", { class: "spec-line", title: row.kind }, row.kind),
      h("span", { class: "spec-line rlnb-quiet" }, row.dtype ? `${row.dtype} ` : "", row.dtype || row.dims.length ? shapeOf(row.dims) : "", device)),
    h("div", { class: "spec-domain" }, row.picture === undefined ? null : h("canvas", { class: "spec-tiny", "aria-hidden": "true" }),
      h("span", { class: "spec-line spec-text rlnb-quiet", title: printable(row.domain) }, printable(row.domain))),
    h("div", { class: "spec-space", title: row.space ?? row.why },
      h("span", { class: "spec-line" }, row.space === undefined ? h("span", { class: "rlnb-quiet" }, "none") : printable(row.space.replace(/^(Dict|Tuple)\(.*/s, "$1")))));
  return element;
}

/** Draw the domain of a row: once it is in the page, when samples come, and when the theme changes. */
export function paintRow(element, row, pictures, samples) {
  if (row.picture === undefined) return;
  paintOnce(element.querySelector("canvas"), pictures[row.picture].small, { column: columnOf(samples) });
  element.querySelector(".spec-text").textContent = printable((samples?.n && row.sampled) || row.domain);
}

// One line of the tree: the key, the spec, its domain, and the gymnasium space.

import { h, paintOnce } from "../_core/core.js";
import { shapeOf } from "../_core/shape.js";
import { printable } from "../_core/tree.js";
import { rowOf } from "../_core/treeview.js";
import { columnsOf } from "./lanes.js";
import { badges, spoken } from "./tree.js";

/** Make the element of a row. */
export function rowElement(row, i, place, atLeaves = false) {
  const element = rowOf(atLeaves ? { ...row, depth: 0 } : row, i, place, { spoken: spoken(row), badges: badges(row) });
  if (atLeaves && row.path.length > 1) {
    element.querySelector(".rlnb-label").append(h("span", { class: "spec-line spec-above rlnb-quiet" }, printable(row.path.slice(0, -1).join("."))));
  }
  if (row.elsewhere) element.classList.add("spec-elsewhere");
  const device = row.device && row.device !== "cpu" ? ` ${row.device}` : "";
  element.append(
    h("div", { class: "spec-class" }, h("span", { class: "spec-line", title: row.kind }, row.kind),
      h("span", { class: "spec-line rlnb-quiet" }, row.dtype ? `${row.dtype} ` : "", row.dtype || row.dims.length ? shapeOf(row.dims) : "", device)),
    domainOf(row),
    h("div", { class: "spec-space", title: row.space ?? row.why },
      h("span", { class: "spec-line" }, row.space === undefined ? h("span", { class: "rlnb-quiet" }, "none") : shortSpace(row))));
  return element;
}

function shortSpace(row) {
  return /^(Dict|Tuple)\(/.test(row.space) ? row.space.replace(/\(.*$/s, "") : printable(row.space);
}

function domainOf(row) {
  const text = h("span", { class: "spec-line spec-text rlnb-quiet", title: printable(row.domain) }, printable(row.domain));
  const canvas = row.lanes ? h("canvas", { class: "spec-tiny", "aria-hidden": "true" }) : null;
  return h("div", { class: "spec-domain" }, canvas, text);
}

/** Draw the domain of a row: once it is in the page, when samples come, and when the theme changes. */
export function paintRow(element, row, pictures, samples) {
  const canvas = element.querySelector("canvas");
  if (!canvas) return;
  paintOnce(canvas, pictures[row.picture].small, { column: columnsOf(row.lanes, samples) });
  element.querySelector(".spec-text").textContent = printable((samples?.n && row.sampled) || row.domain);
}

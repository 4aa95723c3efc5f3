// The pane below the tree: everything about the selected row, and the code to reach it.

import { button, h } from "../_core/core.js";
import { copier } from "../_core/copy.js";
import { shapeOf } from "../_core/shape.js";
import { label } from "../_core/tree.js";
import { drawThumb } from "./thumb.js";
import { accessCode, pathCode, unravel } from "./tree.js";
import { valueText } from "./values.js";

/** Which sides a row has, in the order of the columns. */
export function sidesOf(row) {
  return ["root", "next"].filter((side) => row[side]);
}

/** The code of one side of a row at the playhead. */
export function codeOf(row, side, view) {
  const timed = view.steps !== null && !row.node;
  return accessCode(row.path, side, timed ? [...unravel(view.element, view.batch), view.t] : []);
}

/** Make the pane. Returns { el, show(row), update(), copy(), copyText(text) }. */
export function detailsPane(view) {
  const body = h("div");
  const status = h("div", { class: "rlnb-status", role: "status", "aria-live": "polite" });
  const el = h("div", { class: "rlnb-details", role: "region", "aria-label": "the selected entry" }, body, status);
  // As wide as it ever gets: what stands beside it must not move. Its letters are narrower than digits.
  const atWidth = view.ted && view.steps !== null ? `root[${view.steps - 1}]`.length : 0;
  let current = null;
  let live = [];

  const copy = copier(status);

  const sideBlock = (row, side) => {
    const cell = row[side];
    const code = h("code", { class: "rlnb-code", "data-code": side });
    const value = h("div", { class: "rlnb-what", "data-full": side });
    const thumb = cell.thumb ? h("canvas", { class: "ted-large", "aria-hidden": "true" }) : null;
    live.push({ row, side, code, value, thumb });
    const lines = [code];
    if (!row.node && !/^no elements/.test(cell.message ?? "") && (view.steps !== null || cell.preview)) lines.push(value);
    const more = [cell.device === "cpu" ? "" : cell.device, cell.bytes, cell.storage === "in memory" ? "" : cell.storage,
      /\d/.test(cell.range ?? "") ? `${cell.range} (min / mean / max)` : ""];
    if (cell.dtype !== "?") lines.push(h("div", { class: "rlnb-what" }, more.filter(Boolean).join(" · ")));
    if (cell.message) lines.push(h("div", { class: "rlnb-what" }, cell.message));
    if (thumb) {
      const overTime = view.steps !== null && cell.thumb[0] !== "hist";
      const of = !overTime ? "all values" : view.batch.length ? "element 0, over time" : "over time";
      lines.push(h("div", { class: "ted-drawn" }, thumb, h("span", { class: "rlnb-quiet" }, of)));
    }
    const type = cell.dtype === "?" ? [] : [`${cell.dtype} `, shapeOf(cell.dims)];
    return h("div", {},
      h("div", {}, h("b", { class: "ted-at", "data-at": side, style: `min-width:calc(${atWidth}ch - 0.6em)` }), " ", ...type,
        button({ text: "copy", label: `copy the code of ${side}`, title: "copy the code (c)", onclick: () => copy(code.textContent) }),
        button({ text: "copy key", label: `copy the key of ${side}`, onclick: () => copy(pathCode(row.path, side)) })), ...lines);
  };

  const findings = (row) => {
    const lines = [...(row.spec ?? []).map((f) => ["spec", f]), ...(row.diff ?? []).map((f) => ["other", f])];
    if (lines.length === 0) return null;
    return h("ul", { class: "rlnb-findings" }, ...lines.map(([where, finding]) =>
      h("li", {}, `${where}: ${finding.text}`, finding.fix ? h("span", { class: "rlnb-fix" }, finding.fix) : null)));
  };

  const update = () => {
    for (const { row, side, code, value, thumb } of live) {
      const cell = row[side];
      code.textContent = codeOf(row, side, view);
      const now = valueText(view.store, cell.values, view.steps, view.element, view.t);
      value.textContent = now || cell.preview || cell.values?.why || "";
      const at = view.steps > 1 && view.element === 0 ? (view.t + 0.5) / view.steps : null;
      if (thumb) drawThumb(thumb, view.thumbs[cell.thumb[0]].large, cell.thumb, at);
    }
    const step = view.steps === null ? "" : `[${view.t}]`;
    for (const place of el.querySelectorAll("[data-at]")) place.textContent = view.ted ? `${place.dataset.at}${step}` : "";
  };

  const show = (row) => {
    current = row;
    live = [];
    status.replaceChildren();
    body.replaceChildren();
    if (!row) return;
    body.append(h("div", { class: "rlnb-title" }, h("strong", {}, label(row)), row.words ? ` ${row.words}` : ""));
    const found = findings(row);
    if (found) body.append(found);
    body.append(h("div", { class: "ted-blocks" }, ...sidesOf(row).map((side) => sideBlock(row, side))));
    update();
  };

  return { el, show, update, copyText: copy, copy: () => current && sidesOf(current).length && copy(codeOf(current, sidesOf(current)[0], view)) };
}

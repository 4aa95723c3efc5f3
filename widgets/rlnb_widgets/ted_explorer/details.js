// The pane below the tree: everything about the selected row, and the code to reach it.

import { button, copier, h } from "../_core/core.js";
import { entryCode, keyCode, label } from "../_core/tree.js";
import { shapeOf } from "../_core/treeview.js";
import { drawThumb, valueText } from "./values.js";

/** A flat index as one index for each dimension. */
export const unravel = (flat, shape) => shape.reduceRight(([rest, index], size) => [Math.floor(rest / size), [rest % size, ...index]], [flat, []])[1];

/** The path of one side of a row in the whole, and the code that reads it at the playhead: td["next", "reward"][3]. */
export const pathOf = (row, side) => (side === "next" ? ["next", ...row.path] : row.path);
export function codeOf(row, side, view) {
  const index = view.steps === null || row.node ? [] : [...unravel(view.element, view.batch), view.t];
  return `${entryCode("td", pathOf(row, side))}${index.length ? `[${index.join(", ")}]` : ""}`;
}

/** Make the pane. Returns { el, show(row), update(), copy(), copyText(text) }. */
export function detailsPane(view) {
  const body = h("div");
  const status = h("div", { class: "rlnb-status rlnb-note", role: "status", "aria-live": "polite" });
  const el = h("div", { class: "rlnb-details", role: "region", "aria-label": "the selected entry" }, body, status);
  // As wide as it ever gets: what stands beside it must not move. Its letters are narrower than digits.
  const atWidth = view.ted && view.steps !== null ? `root[${view.steps - 1}]`.length : 0;
  const copy = copier(status);
  let live = []; // what follows the playhead
  let copyFirst = () => {};

  const sideBlock = (row, side) => {
    const cell = row[side];
    const [code, value] = [h("code", { class: "rlnb-code", "data-code": side }), h("div", { class: "rlnb-what", "data-full": side })];
    const at = h("b", { class: "ted-at", style: `min-width:calc(${atWidth}ch - 0.6em)` });
    const thumb = cell.thumb ? h("canvas", { class: "ted-large", "aria-hidden": "true" }) : null;
    live.push(() => {
      at.textContent = view.ted ? `${side}${view.steps === null ? "" : `[${view.t}]`}` : "";
      code.textContent = codeOf(row, side, view);
      value.textContent = valueText(view, cell.values) || cell.preview || cell.values?.why || "";
      if (thumb) drawThumb(thumb, view.thumbs[cell.thumb[0]], cell.thumb, view.steps > 1 && view.element === 0 ? (view.t + 0.5) / view.steps : null);
    });
    const what = (words) => (words ? h("div", { class: "rlnb-what" }, words) : null);
    const spread = /\d/.test(cell.range ?? "") ? `${cell.range} (min / mean / max)` : "";
    const overTime = view.steps !== null && cell.thumb?.[0] !== "hist";
    const valued = !row.node && !/^no elements/.test(cell.message ?? "") && (view.steps !== null || cell.preview);
    return h("div", {},
      h("div", {}, at, " ", ...(cell.dtype === "?" ? [] : [`${cell.dtype} `, shapeOf(cell.dims)]),
        button({ text: "copy", label: `copy the code of ${side}`, title: "copy the code (c)", onclick: () => copy(code.textContent) }),
        button({ text: "copy key", label: `copy the key of ${side}`, onclick: () => copy(keyCode(pathOf(row, side))) })),
      code, valued ? value : null, what([cell.about, spread].filter(Boolean).join(" · ")), what(cell.message),
      thumb && h("div", { class: "ted-drawn" }, thumb,
        h("span", { class: "rlnb-note" }, !overTime ? "all values" : view.batch.length ? "element 0, over time" : "over time")));
  };

  const update = () => live.forEach((follow) => follow());
  const show = (row) => {
    live = [];
    status.replaceChildren();
    body.replaceChildren();
    if (!row) return;
    const sides = ["root", "next"].filter((side) => row[side]);
    copyFirst = () => sides.length && copy(codeOf(row, sides[0], view));
    body.append(h("div", { class: "rlnb-title" }, h("strong", {}, label(row)), row.words ? ` ${row.words}` : ""));
    if (row.findings) {
      body.append(h("ul", { class: "rlnb-findings" }, ...row.findings.map(([text, fix]) => h("li", {}, text, fix ? h("span", { class: "rlnb-fix" }, fix) : null))));
    }
    body.append(h("div", { class: "rlnb-blocks" }, ...sides.map((side) => sideBlock(row, side))));
    update();
  };
  return { el, show, update, copyText: copy, copy: () => copyFirst() };
}

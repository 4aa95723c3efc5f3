// The pane below the tree: everything about the selected row, and the code to reach it.

import { button, h } from "../_core/core.js";
import { copier } from "../_core/copy.js";
import { shapeOf } from "../_core/shape.js";
import { label } from "../_core/tree.js";
import { drawThumb } from "./thumb.js";
import { accessCode, pathCode, unravel } from "./tree.js";
import { valueText } from "./values.js";

const THUMB = [232, 40];
const TITLE = { root: "root", next: "next" };

/** Which sides a row has, in the order of the columns. */
export function sidesOf(row) {
  return ["root", "next"].filter((side) => row[side]);
}

/** The code of one side of a row at the playhead. */
export function codeOf(row, side, view) {
  const timed = view.steps !== null && !row.node;
  return accessCode(row.path, side, timed ? [...unravel(view.element, view.batch), view.t] : []);
}

/** Make the pane. Returns { el, show(row), update(), copy(), paint() }. */
export function detailsPane(view, color) {
  const body = h("div", { class: "rlnb-details-body" });
  const status = h("div", { class: "rlnb-status", role: "status", "aria-live": "polite" });
  const el = h("div", { class: "rlnb-details", role: "region", "aria-label": "the selected entry" }, body, status);
  let current = null;
  let live = [];

  const copy = copier(status);

  const sideBlock = (row, side) => {
    const cell = row[side];
    const code = h("code", { class: "rlnb-code", "data-code": side });
    const value = h("span", { class: "ted-full", "data-full": side });
    const thumb = cell.thumb ? h("canvas", { class: "ted-large", "aria-hidden": "true" }) : null;
    live.push({ row, side, code, value, thumb });
    const fact = (name, ...content) => h("div", { class: "rlnb-fact" }, h("span", { class: "rlnb-quiet" }, name), h("span", { class: "rlnb-what" }, ...content));
    const facts = h("div", { class: "rlnb-facts" },
      fact("code", code,
        button({ text: "copy", label: `copy the code of ${side}`, title: "copy the code (c)", onclick: () => copy(code.textContent) }),
        button({ text: "copy key", label: `copy the key of ${side}`, onclick: () => copy(pathCode(row.path, side)) })));
    if (cell.dtype !== "?") {
      facts.append(fact("data", [cell.dtype, ""].join(" "), shapeOf(cell.dims),
        [cell.device, cell.bytes, cell.storage].filter(Boolean).map((x) => ` · ${x}`).join("")));
    }
    if (/\d/.test(cell.range ?? "")) facts.append(fact("range", `${cell.range} (min / mean / max)`));
    if (!row.node && !/^no elements/.test(cell.message ?? "") && (view.steps !== null || cell.preview)) facts.append(fact("value", value));
    if (cell.message) facts.append(fact("note", cell.message));
    const heading = view.ted ? h("div", { class: "ted-side" }, TITLE[side], h("span", { class: "rlnb-quiet", "data-at": side })) : null;
    const whose = thumb && view.batch.length && view.steps !== null && cell.thumb[0] !== "hist" ? h("div", { class: "rlnb-quiet ted-whose" }, "over time, batch element 0") : null;
    return h("div", { class: "ted-block" }, heading, facts, thumb, whose);
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
      const share = view.steps > 1 ? view.t / (view.steps - 1) : null;
      if (thumb) drawThumb(thumb, cell.thumb, ...THUMB, color(), view.element === 0 ? share : null);
    }
    const at = el.querySelector('[data-at="next"]');
    if (at && view.steps !== null) at.textContent = ` of step ${view.t}: the state of step ${view.t + 1}`;
    const before = el.querySelector('[data-at="root"]');
    if (before && view.steps !== null) before.textContent = ` of step ${view.t}`;
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

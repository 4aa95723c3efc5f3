// One line of the tree: the key, the root, "next", and what step_mdp makes of it.

import { h } from "../_core/core.js";
import { shapeOf } from "../_core/shape.js";
import { label } from "../_core/tree.js";
import { rowOf } from "../_core/treeview.js";
import { drawThumb } from "./thumb.js";
import { valueText } from "./values.js";

/** Make the element of a row. `place` is { position, count, folded (or null), id }. */
export function rowElement(row, i, view, place) {
  const element = rowOf(row, i, place, { spoken: spoken(row, view.ted), badges: badges(row) });
  // shared memory is a fact and no fault, as the other badges are
  for (const badge of element.querySelectorAll(".rlnb-badge")) badge.classList.toggle("ted-memory", badge.textContent === sharingOf(row));
  element.append(cellOf(row, "root", view));
  if (view.ted) element.append(cellOf(row, "next", view), h("div", { class: "ted-mark" }, ...markOf(row, view)));
  return element;
}

/** What a screen reader says of a row. */
export function spoken(row, ted) {
  const side = (name) => {
    const cell = row[name];
    if (!cell) return "";
    const what = cell.message && cell.dtype === "?" ? cell.message : `${cell.dtype} ${cell.shape}`;
    return ted ? `${name} ${what}` : what;
  };
  const found = [...(row.spec ?? []), ...(row.diff ?? [])].map((finding) => finding.text);
  const check = { true: "next becomes the next root", false: "next does not become the next root" }[row.holds] ?? "";
  const carry = row.carry && row.carry !== "carried" ? `${row.carry} by step_mdp` : "";
  return [label(row), side("root"), side("next"), carry, check, ...badges(row), ...found].filter(Boolean).join("; ");
}

const sharingOf = (row) => row.root?.sharing ?? row.next?.sharing;

function badges(row) {
  const total = (k) => Math.max(row.root?.odd?.[k] ?? 0, row.next?.odd?.[k] ?? 0);
  const out = [];
  if (row.spec) out.push(row.spec.every((f) => f.kind === "extra") ? "not in spec" : row.spec.every((f) => f.kind === "missing") ? "missing" : "spec");
  if (row.diff) out.push("diff");
  if (sharingOf(row)) out.push(sharingOf(row));
  if (total(0)) out.push(`${total(0)} NaN`);
  if (total(1)) out.push(`${total(1)} inf`);
  return out;
}

/**
 * Where step_mdp takes an entry at the playhead: [text, state], the state "good" or "bad" where the data were compared.
 *
 * A comparison says nothing across an episode's end or beyond the data, so there is no check mark there.
 */
export function carriedTo(row, { steps, t, ends, past, batch }) {
  if (row.carry !== "carried") return [row.carry ?? "", "quiet"];
  // Batch and time are enough to find the row; the details give the whole index.
  if (row.holds === false) return [`→ ✗ ${row.at?.length ? `[${row.at.slice(0, batch.length + 1).join(", ")}]` : ""}`.trim(), "bad"];
  if (steps === null) return ["→", "open"];
  if (t + 1 >= steps) return ["→ beyond", "open"];
  if (ends) return [past ? "no reset" : "reset instead", "open"];
  return row.holds ? ["→ ✓", "good"] : ["→", "open"];
}

function markOf(row, view) {
  const [words, state] = carriedTo(row, view);
  return [h("span", { class: state === "quiet" ? "rlnb-quiet" : `ted-${state}`, title: words }, words)];
}

function cellOf(row, side, view) {
  const cell = row[side];
  const box = h("div", { class: "ted-cell", "data-side": side, "data-key": side === "next" ? `next.${label(row)}` : label(row) });
  if (!cell) {
    box.append(h("span", { class: "rlnb-quiet" }, row.node && !row.root && !row.next ? "" : "—"));
    return box;
  }
  if (cell.dtype === "?") {
    box.append(h("span", { class: "ted-message", title: cell.message }, cell.message));
    return box;
  }
  const spec = h("span", { class: "ted-spec", title: `${cell.dtype} ${cell.shape}` },
    h("span", { class: "ted-dtype" }, cell.dtype), " ", shapeOf(cell.dims));
  box.append(spec);
  if (row.node) {
    spec.append(h("span", { class: "rlnb-quiet" }, ` ${[cell.bytes, cell.storage === "in memory" ? "" : cell.storage, cell.message].filter(Boolean).join(", ")}`));
    box.classList.add("ted-whole");
    return box;
  }
  if (cell.kept) spec.append(h("span", { class: "rlnb-quiet" }, ` ${cell.kept}`));
  box.append(h("span", { class: "ted-value", "data-value": side }));
  if (cell.thumb) box.append(h("canvas", { class: "ted-thumb", "data-thumb": side, "aria-hidden": "true" }));
  paintValue(box, row, side, view);
  return box;
}

function paintValue(box, row, side, view) {
  const output = box.querySelector("[data-value]");
  if (!output) return;
  const cell = row[side];
  const now = view.showRange ? "" : valueText(view.store, cell.values, view.steps, view.element, view.t, 3);
  const shown = now || (view.showRange ? "" : cell.preview) || cell.message || cell.range || "";
  if (output.textContent === shown) return;
  output.textContent = shown;
  output.title = shown;
  output.classList.toggle("rlnb-quiet", !now && !cell.preview);
}

/** Bring the values of a row up to the playhead. */
export function updateRow(element, row, view) {
  element.querySelector(".ted-mark")?.replaceChildren(...markOf(row, view));
  for (const side of ["root", "next"]) {
    const box = row[side] && element.querySelector(`.ted-cell[data-side="${side}"]`);
    if (box) paintValue(box, row, side, view);
  }
}

/** Draw the thumbnails of a row: once it is in the page, and again when the theme changes. */
export function paintThumbs(element, row, thumbs) {
  for (const canvas of element.querySelectorAll("canvas[data-thumb]")) {
    const { thumb } = row[canvas.dataset.thumb];
    drawThumb(canvas, thumbs[thumb[0]].row, thumb);
  }
}

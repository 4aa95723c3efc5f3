// The tree of a TED in the page: of each entry the key, the root, "next", and what step_mdp makes of it.

import { h } from "../_core/core.js";
import { label } from "../_core/tree.js";
import { rowOf, shapeOf, treeView } from "../_core/treeview.js";
import { drawThumb, valueText } from "./values.js";

const SIDES = ["root", "next"];

/** A row with what it has in common with others: of its cells, too. */
export function wholeRow({ alike }, row) {
  const whole = (part) => ({ ...alike[part.alike], ...part });
  const cell = (part) => {
    if (!part) return undefined;
    const { packed, at, ...rest } = whole(part);
    return packed ? { ...rest, values: { ...packed, at } } : rest;
  };
  return { ...whole(row), root: cell(row.root), next: cell(row.next) };
}

/** What a search looks at beside the key. */
export const traits = (row) => [row.carry ?? "", ...SIDES.filter((side) => row[side]).map((side) => `${side} ${row[side].dtype} ${row[side].shape} ${row[side].storage}`)].join(" ");

/** Make the tree; see the shared treeView for onSelect and onPaint. */
export function tedTree(view, onSelect, onPaint) {
  const [rootHead, nextHead, markHead] = [h("div", {}), h("div", {}), h("div", {})];
  const tree = treeView({
    rows: view.rows, name: "entries of the TensorDict", heads: [h("div", {}, "key"), rootHead, ...(view.ted ? [nextHead, markHead] : [])],
    label: "search keys, dtypes, shapes", traits, flagged: (row) => row.flag, onSelect, onPaint,
    flags: ["Findings", "show only rows that break a rule, contain NaN or inf, or differ"],
    build: (row, i, place) => rowElement(row, i, view, place),
    update: (element, row) => updateRow(element, row, view),
    paint: (element, row) => {
      for (const canvas of element.querySelectorAll("canvas")) {
        const { thumb } = row[canvas.dataset.thumb];
        drawThumb(canvas, view.thumbs[thumb[0]], thumb);
      }
    },
  });
  tree.el.classList.toggle("ted-single", !view.ted);
  const updateRows = tree.update;
  tree.update = () => {
    const timed = view.steps !== null;
    rootHead.textContent = view.ted ? `root${timed ? `[${view.t}]` : ""}` : "entry";
    nextHead.textContent = `next${timed ? `[${view.t}]` : ""}`;
    // What follows is the root of the next step, so the arrow leads away from this row's root.
    markHead.textContent = timed ? `→ root[${view.t + 1}]` : "step_mdp";
    updateRows();
  };
  return tree;
}

/** Make the element of a row. `place` is { position, count, folded (or null), id }. */
function rowElement(row, i, view, place) {
  const element = rowOf(row, i, place, { spoken: spoken(row, view.ted), badges: row.badges });
  // shared memory is a fact and no fault, as the other badges are
  for (const badge of element.querySelectorAll(".rlnb-badge")) badge.classList.toggle("ted-memory", badge.textContent.endsWith("memory"));
  element.append(...(view.ted ? [cellOf(row, "root"), cellOf(row, "next"), h("div", { class: "ted-mark" })] : [cellOf(row, "root")]));
  return element;
}

/** What a screen reader says of a row. */
function spoken(row, ted) {
  const sides = SIDES.filter((name) => row[name]).map((name) => {
    const { message, dtype, shape } = row[name];
    return `${ted ? `${name} ` : ""}${message && dtype === "?" ? message : `${dtype} ${shape}`}`;
  });
  const check = { true: "next becomes the next root", false: "next does not become the next root" }[row.holds];
  const carry = row.carry && row.carry !== "carried" ? `${row.carry} by step_mdp` : "";
  return [label(row), ...sides, carry, check, ...(row.badges ?? []), ...(row.findings ?? []).map(([text]) => text)].filter(Boolean).join("; ");
}

/**
 * Where step_mdp takes an entry at the playhead: [text, class], which tells good from bad where the data were compared.
 *
 * A comparison says nothing across an episode's end or beyond the data, so there is no mark there.
 */
export function carriedTo(row, { steps, t, ends, past }) {
  if (row.carry !== "carried" && !row.mark) return [row.carry ?? "", "rlnb-note"];
  if (steps !== null && t + 1 >= steps) return ["→ beyond", "rlnb-note"];
  if (steps !== null && ends) return [past ? "no reset" : "reset instead", "rlnb-note"];
  if (row.mark) return [row.mark, "ted-bad"];
  return steps !== null && row.holds ? ["→ ✓", "ted-good"] : ["→", "rlnb-note"];
}

function cellOf(row, side) {
  const cell = row[side];
  const box = h("div", { class: "ted-cell", "data-side": side, "data-key": side === "next" ? `next.${label(row)}` : label(row) });
  if (!cell) box.append(h("span", { class: "rlnb-note" }, row.node && !row.root && !row.next ? "" : "—"));
  else if (cell.dtype === "?") box.append(h("span", { class: "ted-message ted-bad", title: cell.message }, cell.message));
  else {
    const more = row.node ? cell.note : cell.kept;
    box.append(h("span", { class: "ted-spec", title: `${cell.dtype} ${cell.shape}` },
      h("span", { class: "rlnb-note" }, cell.dtype), " ", shapeOf(cell.dims), more ? h("span", { class: "rlnb-note" }, ` ${more}`) : null));
    if (!row.node) box.append(h("span", { class: "ted-value", "data-value": side }));
    if (cell.thumb) box.append(h("canvas", { class: "ted-thumb", "data-thumb": side, "aria-hidden": "true" }));
  }
  return box;
}

/** Bring the values of a row up to the playhead. */
function updateRow(element, row, view) {
  const [words, state] = carriedTo(row, view);
  element.querySelector(".ted-mark")?.replaceChildren(h("span", { class: state, title: words }, words));
  for (const output of element.querySelectorAll("[data-value]")) {
    const cell = row[output.dataset.value];
    const now = view.showRange ? "" : valueText(view, cell.values, 3) || cell.preview;
    output.textContent = now || cell.message || cell.range || "";
    output.title = output.textContent;
    output.classList.toggle("rlnb-note", !now && !cell.preview);
  }
}

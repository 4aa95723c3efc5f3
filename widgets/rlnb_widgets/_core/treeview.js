// A tree in the page: only the rows near the window are there, so that a thousand leaves cost what forty cost.
// Shapes, with dimensions told apart by colour and by letter.

import { watchTheme } from "./canvas.js";
import { clamp } from "./data.js";
import { button, h, legend, toggle, uniqueId } from "./dom.js";
import { depthOf, foldable, label, move, shownKeys, siblings, visibleRows } from "./tree.js";

const NEAR = 700; // Pixels above and below the window where rows are made already.
const KEYS = {
  ArrowDown: "next row", ArrowUp: "previous row", PageDown: "ten rows down", PageUp: "ten rows up", Home: "first row", End: "last row",
};
const FOLDS = { ArrowLeft: "fold, or go to the parent", ArrowRight: "unfold, or go to the first child", Enter: "fold or unfold" };

/** Make the element of a row with its key; `place` comes from the tree, `spoken` is what a screen reader says of it. */
export function rowOf(row, i, place, { spoken, badges = [] }) {
  const twisty = h("span", { class: "rlnb-twisty", "aria-hidden": "true" },
    place.folded === null ? "" : place.folded ? "▸" : "▾");
  const text = h("div", { class: "rlnb-label" }, h("span", { class: "rlnb-name" }, shownKeys(row).at(-1) ?? row.name ?? ""));
  const key = h("div", { class: "rlnb-treekey", title: label(row) }, twisty, text);
  key.style.setProperty("--depth", Math.min(depthOf(row), 8));
  if (badges.length) text.append(h("span", { class: "rlnb-badges", "aria-hidden": "true" }, ...badges.map((b) => h("span", { class: "rlnb-badge" }, b))));
  return h("div", {
    class: `rlnb-row${row.node ? " rlnb-node" : ""}`, role: "treeitem", id: place.id, "data-row": i, "data-key": label(row),
    "aria-level": depthOf(row) + 1, "aria-setsize": place.count, "aria-posinset": place.position,
    "aria-expanded": place.folded === null ? null : String(!place.folded), "aria-selected": "false", "aria-label": spoken,
  }, key);
}

/**
 * Make the tree, and the tools above it: a search field, buttons that fold all, and one that leaves only flagged rows.
 *
 * rows: the rows, parents before children, as high as the style sheet says; name: of the whole, for screen readers;
 * heads: the elements above the columns;
 * label: what a search looks through, beside the key traits(row); flags: name and title of the last button;
 * flagged(row): whether it leaves a row; opening(): the indices that show where nothing is searched, null for all that
 * are not folded away;
 * build(row, i, place): the element of a row, see rowOf;
 * update(element, row) and paint(element, row): its values, and its pictures in the colours of the theme;
 * onSelect(row or null); onPaint(): the tree is in the page now, or its size or the theme has changed.
 *
 * Of its tools { search, folds, only, count }, folds or only is null where there is nothing to fold or flagged.
 */
export function treeView({ rows, name, heads, label: searched, traits, flags, flagged, opening = () => null, build: make, update, paint, onSelect, onPaint = () => {} }) {
  const id = uniqueId("tree");
  const canFold = new Set(foldable(rows));
  const folded = new Set();
  const inPage = new Map(); // the rows that are made; the slots of others are empty
  let filtering = false;
  let active = -1;
  let shown = [];
  let places = null;

  const spacer = h("div", { class: "rlnb-spacer", role: "none" });
  const head = h("div", { class: "rlnb-row rlnb-header", "aria-hidden": "true" }, ...heads);
  const scroller = h("div", { class: "rlnb-tree", role: "tree", tabindex: 0, "aria-label": name }, head, spacer);
  const empty = h("p", { class: "rlnb-note rlnb-empty" }, "Nothing matches.");
  const el = h("div", { class: `rlnb-table${canFold.size ? "" : " rlnb-flat"}` }, scroller, empty);
  const idOf = (i) => `${id}-${i}`;
  const search = h("input", { type: "search", class: "rlnb-field rlnb-search", placeholder: "Search (/)", "aria-label": searched, title: `${searched} (/)` });
  const count = h("span", { class: "rlnb-note", role: "status" });
  const searching = () => search.value.trim() !== "" || filtering;

  const slotOf = (i, k) => h("div", { class: `rlnb-slot${rows[i].node ? " rlnb-node" : ""}${k % 2 ? " rlnb-odd" : ""}`, role: "none" });
  const build = (i) => {
    const [position, count] = places.get(i);
    const place = { id: idOf(i), position, count, folded: canFold.has(i) ? folded.has(i) && !searching() : null };
    const element = make(rows[i], i, place);
    element.setAttribute("aria-selected", String(i === active));
    return element;
  };

  /** Make the rows near the window, and let go of those that are not. */
  const draw = () => {
    if (!scroller.clientHeight) return;
    const [top, bottom] = [scroller.scrollTop - NEAR, scroller.scrollTop + scroller.clientHeight + NEAR];
    const near = ({ offsetTop, offsetHeight }) => offsetTop + offsetHeight > top && offsetTop < bottom;
    const turned = [...spacer.children].map((slot, k) => [slot, shown[k]]).filter(([slot, i]) => near(slot) !== inPage.has(i));
    for (const [slot, i] of turned) {
      if (inPage.delete(i)) slot.replaceChildren();
      else {
        const element = build(i);
        inPage.set(i, element);
        slot.append(element);
        update(element, rows[i]);
        paint(element, rows[i]);
      }
    }
  };

  const arrange = () => {
    shown = (searching() ? null : opening()) ?? visibleRows(rows, folded, search.value, filtering, { traits, flagged });
    places = siblings(rows, shown);
    inPage.clear();
    spacer.replaceChildren(...shown.map(slotOf));
    empty.hidden = shown.length > 0 || rows.length === 0;
  };
  const refresh = () => {
    arrange();
    if (!shown.includes(active)) activate(parentShown(active));
    reveal();
  };

  /** What shows of the way to a row: the row itself, or what it is folded away in. */
  const parentShown = (i) => {
    const isAbove = (k) => k <= i && rows[i].path.join("\0").startsWith(rows[k].path.join("\0"));
    return shown.findLast(isAbove) ?? shown[0] ?? -1;
  };

  const activate = (i) => {
    if (i === active) return;
    inPage.get(active)?.setAttribute("aria-selected", "false");
    active = i;
    inPage.get(i)?.setAttribute("aria-selected", "true");
    if (i >= 0) scroller.setAttribute("aria-activedescendant", idOf(i));
    else scroller.removeAttribute("aria-activedescendant");
    onSelect(rows[i] ?? null);
  };

  const reveal = () => {
    const slot = spacer.children[shown.indexOf(active)];
    if (slot) scroller.scrollTop = clamp(scroller.scrollTop, slot.offsetTop + slot.offsetHeight - scroller.clientHeight, slot.offsetTop - head.offsetHeight);
    draw();
  };

  const setFold = (i, fold) => {
    if (fold) folded.add(i); else folded.delete(i);
    refresh();
  };

  const filter = () => {
    refresh();
    count.textContent = searching() ? `${shown.length} of ${rows.length}` : "";
  };
  search.addEventListener("input", filter);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && search.value) { search.value = ""; filter(); event.stopPropagation(); }
    else if (event.key === "ArrowDown" || event.key === "Enter") { event.preventDefault(); event.stopPropagation(); scroller.focus(); }
  });
  const foldAll = (words, all) => button({ text: words, label: words.toLowerCase(), onclick() {
    folded.clear();
    for (const i of all) folded.add(i);
    refresh();
  } });
  const found = rows.filter(flagged).length;

  const keysFor = (words, when) => Object.fromEntries(Object.entries(words).map(([key, text]) => [key, [text, onKey, when]]));
  const onKey = (event) => {
    const next = move(event.key, active, shown, rows, folded, searching());
    if (next.fold) setFold(...next.fold);
    activate(next.active);
    reveal();
  };

  const onClick = (event) => {
    const element = event.target.closest(".rlnb-row");
    if (!element) return;
    const i = Number(element.dataset.row);
    activate(i);
    const onTwisty = event.target.closest(".rlnb-twisty") || event.detail === 2;
    if (onTwisty && canFold.has(i) && !searching()) setFold(i, !folded.has(i));
  };

  const resize = new ResizeObserver(() => { draw(); tree.repaint(); });
  scroller.addEventListener("scroll", draw, { passive: true });
  spacer.addEventListener("click", onClick);
  resize.observe(el);

  const tree = {
    el,
    focusable: scroller,
    tools: {
      search, count,
      folds: canFold.size ? h("span", { class: "rlnb-group" }, foldAll("Expand all", []), foldAll("Collapse all", canFold)) : null,
      only: found ? toggle(`${flags[0]} (${found})`, flags[1], false, (on) => { filtering = on; filter(); }) : null,
    },
    keys: { ...keysFor(KEYS), ...(canFold.size ? keysFor(FOLDS, () => !opening()) : {}) },
    filter,
    find() { search.focus(); search.select(); },
    select(path) {
      const i = rows.findIndex((row) => row.path.length === path.length && row.path.every((key, k) => key === path[k]));
      activate(i >= 0 ? i : active >= 0 ? active : shown[0] ?? -1);
      reveal();
    },
    update() { for (const [i, element] of inPage) update(element, rows[i]); },
    repaint() {
      for (const [i, element] of inPage) paint(element, rows[i]);
      onPaint();
    },
    destroy() { resize.disconnect(); unwatch(); },
  };
  const unwatch = watchTheme(() => tree.repaint());
  arrange();
  return tree;
}

const COLORS = { b: "batch", t: "time", n: "nested", f: "ink" };
const NAMES = { b: "B batch", t: "T time", n: "N nested batch", f: "features" };

/** A shape with its roles told apart by colour and by letter. */
export function shapeOf(dims) {
  const box = h("span", { class: "rlnb-shape" }, "[");
  dims.forEach(([role, size], i) => {
    const same = i > 0 && dims[i - 1][0] === role;
    if (i) box.append(same ? "," : " | ");
    const tag = same || role === "f" ? "" : `${role.toUpperCase()}=`;
    box.append(h("span", { style: `color:var(--rlnb-${COLORS[role]})` }, `${tag}${size ?? -1}`));
  });
  box.append("]");
  return box;
}

/** What the colours of shapes mean, for the roles that occur in `shapes`, a list of lists of [role, size]. */
export function shapeLegend(shapes) {
  const found = new Set(shapes.flat().map(([role]) => role));
  const roles = Object.keys(NAMES).filter((role) => found.has(role));
  return legend(roles.map((role) => [COLORS[role], NAMES[role]]), "colours of the dimensions");
}

// The tree in the page: only the rows near the window are there, so that a thousand leaves cost what forty cost.

import { h } from "../_core/core.js";
import { paintThumbs, rowElement, updateRow } from "./row.js";
import { foldable, move, siblings, slice, visibleRows } from "./tree.js";

const ROW = 42;
const NARROW_ROW = 62;
const NARROW = 620;
const KEYS = ["ArrowDown", "ArrowUp", "ArrowLeft", "ArrowRight", "PageDown", "PageUp", "Home", "End", "Enter"];

/**
 * Make the tree. onSelect(row) is called when another row becomes the selected one, onAttached() once the tree is in the
 * page and colours can be read.
 */
export function treeView(view, colors, onSelect, onAttached) {
  const { rows } = view;
  const canFold = new Set(foldable(rows));
  const folded = new Set();
  const inPage = new Map();
  let shown = visibleRows(rows, folded);
  let places = siblings(rows, shown);
  let search = "";
  let active = -1;
  let rowHeight = ROW;
  let frame = 0;
  let attached = false;

  const spacer = h("div", { class: "ted-spacer", role: "none" });
  const scroller = h("div", { class: "ted-tree", role: "tree", tabindex: 0, "aria-label": "entries of the TensorDict" }, spacer);
  const [rootHead, nextHead] = [h("div", {}), h("div", {})];
  const head = h("div", { class: "ted-row ted-header", "aria-hidden": "true" }, h("div", {}, "key"), rootHead,
    ...(view.ted ? [h("div", {}, "step_mdp"), nextHead] : []));
  const empty = h("p", { class: "rlnb-note ted-empty" }, "Nothing matches.");
  const el = h("div", { class: `ted-table${view.ted ? "" : " ted-single"}${canFold.size ? "" : " ted-flat"}` }, head, scroller, empty);
  const idOf = (i) => `${view.id}-${i}`;

  const build = (i) => {
    const [position, count] = places.get(i);
    const place = { id: idOf(i), position, count, folded: canFold.has(i) ? folded.has(i) && !searching() : null };
    const element = rowElement(rows[i], i, view, place);
    element.setAttribute("aria-selected", String(i === active));
    return element;
  };

  const searching = () => search !== "" || tree.filtering;

  const draw = () => {
    frame = 0;
    const [first, last] = slice(scroller.scrollTop, scroller.clientHeight || 440, rowHeight, shown.length);
    const wanted = new Set(shown.slice(first, last));
    for (const [i, element] of inPage) {
      if (!wanted.has(i)) { element.remove(); inPage.delete(i); }
    }
    const fresh = [];
    for (let k = first; k < last; k += 1) {
      const i = shown[k];
      let element = inPage.get(i);
      if (!element) {
        element = build(i);
        inPage.set(i, element);
        fresh.push([i, element]);
      }
      element.style.top = `${k * rowHeight}px`;
      element.classList.toggle("ted-odd", k % 2 === 1);
      // in the order of the list, for screen readers and for copying
      if (spacer.children[k - first] !== element) spacer.insertBefore(element, spacer.children[k - first] ?? null);
    }
    for (const [i, element] of fresh) {
      updateRow(element, rows[i], view);
      paintThumbs(element, rows[i], colors());
    }
  };
  const later = () => { frame ||= requestAnimationFrame(draw); };

  const refresh = () => {
    shown = visibleRows(rows, folded, search, tree.filtering);
    places = siblings(rows, shown);
    for (const element of inPage.values()) element.remove();
    inPage.clear();
    spacer.style.height = `${shown.length * rowHeight}px`;
    head.style.paddingRight = `${8 + scroller.offsetWidth - scroller.clientWidth}px`;
    empty.hidden = shown.length > 0 || rows.length === 0;
    if (!shown.includes(active)) activate(parentShown(active));
    draw();
    reveal();
  };

  const parentShown = (i) => {
    for (let k = i; k >= 0; k -= 1) {
      if (shown.includes(k) && rows[i]?.path.join("\0").startsWith(rows[k].path.join("\0"))) return k;
    }
    return shown[0] ?? -1;
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
    const k = shown.indexOf(active);
    if (k < 0) return;
    const top = k * rowHeight;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top + rowHeight > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top + rowHeight - scroller.clientHeight;
    draw();
  };

  const setFold = (i, fold) => {
    if (fold) folded.add(i); else folded.delete(i);
    refresh();
  };

  const onKey = (event) => {
    const next = move(event.key, active, shown, rows, folded, searching());
    if (next.fold) setFold(...next.fold);
    activate(next.active);
    reveal();
  };

  const onClick = (event) => {
    const element = event.target.closest(".ted-row");
    if (!element) return;
    const i = Number(element.dataset.row);
    activate(i);
    const onTwisty = event.target.closest(".ted-twisty") || event.detail === 2;
    if (onTwisty && canFold.has(i) && !searching()) setFold(i, !folded.has(i));
  };

  const resize = new ResizeObserver(() => {
    const width = el.clientWidth;
    if (!width) return;
    const height = width < NARROW ? NARROW_ROW : ROW;
    el.classList.toggle("ted-narrow", width < NARROW);
    head.style.paddingRight = `${8 + scroller.offsetWidth - scroller.clientWidth}px`;
    if (!attached) {
      attached = true;
      tree.repaint();
      onAttached();
    }
    if (height !== rowHeight) {
      rowHeight = height;
      refresh();
    } else later();
  });
  scroller.addEventListener("scroll", later, { passive: true });
  spacer.addEventListener("click", onClick);
  resize.observe(el);

  const tree = {
    el,
    focusable: scroller,
    filtering: false,
    keys: Object.fromEntries(KEYS.map((key) => [key, onKey])),
    focus: () => scroller.focus(),
    filter(text) { search = text.trim(); refresh(); return shown.length; },
    foldAll(fold) {
      folded.clear();
      if (fold) for (const i of canFold) folded.add(i);
      refresh();
    },
    select(path) {
      const i = rows.findIndex((row) => row.path.length === path.length && row.path.every((key, k) => key === path[k]));
      activate(i >= 0 ? i : active >= 0 ? active : shown[0] ?? -1);
      reveal();
    },
    update() {
      const at = view.steps === null ? "" : `[${view.t}]`;
      rootHead.textContent = view.ted ? `root${at}` : "entry";
      const after = view.ends ? "then a reset" : `→ root[${view.t + 1}]`;
      nextHead.textContent = view.steps === null ? "next" : `next${at} ${after}`;
      for (const [i, element] of inPage) updateRow(element, rows[i], view);
    },
    repaint() { for (const [i, element] of inPage) paintThumbs(element, rows[i], colors()); },
    destroy() { resize.disconnect(); cancelAnimationFrame(frame); },
  };
  spacer.style.height = `${shown.length * rowHeight}px`;
  empty.hidden = shown.length > 0 || rows.length === 0;
  return tree;
}

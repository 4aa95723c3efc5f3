// The node-link view: what is unfolded, as SVG; only what is near the window is in the page.

import { h, palette, watchTheme } from "../_core/core.js";
import { diverging } from "./colors.js";
import { COLUMN, firstFolds, layOut, moveTo } from "./layout.js";
import { buildItem, buildLink, paintItem, paintLink } from "./glyphs.js";
import { isThere, lineTo } from "./store.js";

const MOVE_MS = 220;
const MARGIN = 160; // beyond the window, in pixels

/**
 * Make the view.
 *
 * look() gives { tree, records, t, phase, lit: { nodes, edges }, changed, line, selected, other, forRoot, follow };
 * onSelect(node) and onFold(node, open) hear of the reader; `id` is a prefix unique in the page, `name` for screen readers.
 */
export function nodeLink({ look, onSelect, onFold = () => {}, id, name }) {
  let folds = firstFolds(look().tree);
  let layout = layOut(look().tree, folds);
  let active = 0; // the id of an item: a node, or a stub
  let chosen = 0; // the node that was selected when we last looked
  let zoom = 1;
  let frame = 0;
  let moving = 0;
  let from = new Map(); // where items were before they began to move
  let share = 1;
  let forcedKey = "";
  let shownMoment = "";
  let colour = null;
  const inPage = new Map();

  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const [lines, further, nodes] = ["lines", "further", "nodes"].map((part) => {
    const group = document.createElementNS(space, "g");
    group.setAttribute("data-layer", part);
    return group;
  });
  svg.append(lines, further, nodes);
  svg.setAttribute("role", "presentation");
  const el = h("div", { class: "tx-tree", role: "tree", tabindex: 0, "aria-label": name }, svg);
  const idOf = (item) => `${id}-${item.id < 0 ? `more${-item.id - 1}` : item.id}`;

  const isShown = (item) => (item.kind === "node" ? isThere(look().tree, item.node) : stubCount(item) > 0);
  const stubCount = (item) => item.hidden.reduce((all, e) => all + (isThere(look().tree, look().tree.edgeChild[e]) ? 1 : 0), 0);
  const itemOf = (key) => (key < 0 ? layout.items.find((item) => item.id === key) : layout.at.get(key)) ?? layout.items[0];

  /** Where an item is now, on its way. */
  const spot = (item) => {
    const before = share < 1 ? from.get(item.id) ?? from.get(item.parent?.id) : null;
    if (!before) return [item.x, item.y];
    const eased = 1 - (1 - share) ** 3;
    return [before[0] + (item.x - before[0]) * eased, before[1] + (item.y - before[1]) * eased];
  };

  /** The nodes that are drawn in any case: the way to the selected one, and the path of a simulation that is followed. */
  function needed() {
    const { tree, lit, selected, follow } = look();
    return new Set([...lineTo(tree, selected), ...(follow ? lit.nodes : [])]);
  }

  function relayout(animate = true) {
    from = new Map(layout.items.map((item) => [item.id, spot(item)]));
    const forced = needed();
    forcedKey = [...forced].join();
    layout = layOut(look().tree, folds, forced, new Set(lineTo(look().tree, look().selected)));
    size();
    const still = !animate || globalThis.matchMedia?.("(prefers-reduced-motion: reduce)").matches;
    share = still ? 1 : 0;
    cancelAnimationFrame(moving);
    moving = 0;
    if (still) return later();
    const begun = performance.now();
    const tick = (now) => {
      share = Math.min(Math.max((now - begun) / MOVE_MS, 0), 1);
      draw();
      moving = share < 1 ? requestAnimationFrame(tick) : 0;
      if (share === 1) revealNow();
    };
    moving = requestAnimationFrame(tick);
  }

  function size() {
    svg.setAttribute("width", Math.ceil(layout.width * zoom));
    svg.setAttribute("height", Math.ceil(layout.height * zoom));
    svg.setAttribute("viewBox", `0 0 ${Math.ceil(layout.width)} ${Math.ceil(layout.height)}`);
  }

  const later = () => { frame ||= requestAnimationFrame(draw); };

  function draw() {
    frame = 0;
    colour ??= diverging(palette(el));
    const state = { ...look(), colour, isShown, stubCount, active, idOf, layout };
    const wide = (el.clientWidth || 600) / zoom;
    const tall = (el.clientHeight || 420) / zoom;
    const [left, top] = [el.scrollLeft / zoom, el.scrollTop / zoom];
    const near = ([x, y]) => x > left - MARGIN - COLUMN && x < left + wide + MARGIN + COLUMN && y > top - MARGIN && y < top + tall + MARGIN;
    const wanted = new Set();
    for (const item of layout.items) {
      if (!isShown(item)) continue;
      const at = spot(item);
      const above = item.parent ? spot(item.parent) : null;
      const crosses = above && Math.min(at[1], above[1]) < top + tall && Math.max(at[1], above[1]) > top && Math.max(at[0], above[0]) > left && Math.min(at[0], above[0]) < left + wide;
      if (!near(at) && !crosses) continue;
      wanted.add(item.id);
      let parts = inPage.get(item.id);
      if (!parts) {
        parts = buildItem(item);
        inPage.set(item.id, parts);
        nodes.append(parts.group);
        if (parts.line) lines.append(parts.line);
      }
      paintItem(parts, item, at, above, state);
    }
    for (const [key, parts] of inPage) {
      if (wanted.has(key)) continue;
      parts.group.remove();
      parts.line?.remove();
      inPage.delete(key);
    }
    further.replaceChildren(...layout.links.filter(({ from: a, to: b }) => isShown(a) && isShown(b)).map((link) => {
      const path = buildLink();
      paintLink(path, link, spot(link.from), spot(link.to), state);
      return path;
    }));
    el.setAttribute("aria-activedescendant", idOf(itemOf(active)));
    el.setAttribute("data-items", String(wanted.size));
  }

  function reveal(item = itemOf(active)) {
    const [x, y] = [item.x * zoom, item.y * zoom];
    const [wide, tall] = [el.clientWidth, el.clientHeight];
    if (!wide) return;
    const edge = 44 * zoom;
    if (x - edge < el.scrollLeft) el.scrollLeft = x - edge;
    else if (x + edge + 26 > el.scrollLeft + wide) el.scrollLeft = x + edge + 26 - wide;
    if (y - edge < el.scrollTop) el.scrollTop = y - edge;
    else if (y + edge > el.scrollTop + tall) el.scrollTop = y + edge - tall;
    later();
  }

  /** Bring what matters into the window: in a simulation where it begins and where it ends, else the active item. */
  function revealNow() {
    const { phase, lit, follow } = look();
    const node = !follow || !phase ? -1 : phase === 1 ? 0 : lit.nodes.at(-1);
    reveal(layout.at.get(node) ?? itemOf(active));
  }

  function fold(node, open) {
    (open ? folds.open : folds.closed).add(node);
    (open ? folds.closed : folds.open).delete(node);
    relayout();
  }
  function more(node) {
    folds.more.set(node, (folds.more.get(node) ?? folds.count) + Math.max(folds.count, 4));
    relayout();
  }
  function activate(item) {
    active = item.id;
    if (item.kind === "node") {
      chosen = item.node;
      onSelect(item.node);
    }
    reveal();
  }
  function act(item) {
    if (item.kind === "stub" && !folds.open.has(item.node)) return fold(item.node, true);
    if (item.kind === "stub") {
      const before = new Set(item.parent.children.map((child) => child.id));
      more(item.node);
      const fresh = layout.at.get(item.node)?.children.find((child) => child.kind === "node" && !before.has(child.id) && isShown(child));
      if (fresh) activate(fresh);
      return;
    }
    const { tree } = look();
    if (tree.edgeStart[item.node] === tree.edgeStart[item.node + 1]) return;
    const open = !folds.open.has(item.node);
    fold(item.node, open);
    onFold(item.node, open);
  }
  function onKey(event) {
    const step = moveTo(event.key, itemOf(active), layout, isShown, look().tree);
    if (step.open) return act(step.item);
    activate(step.item);
  }
  const find = (event) => {
    const group = event.target.closest("[data-item]");
    return group ? itemOf(Number(group.getAttribute("data-item"))) : null;
  };
  svg.addEventListener("click", (event) => {
    const item = find(event);
    if (!item) return;
    const folding = item.kind === "stub" || event.target.closest(".tx-badge") || event.detail === 2;
    if (item.kind === "node") activate(item);
    if (folding) act(item);
  });
  el.addEventListener("scroll", later, { passive: true });
  const observer = new ResizeObserver(later);
  observer.observe(el);
  const unwatch = watchTheme(() => { colour = null; later(); });
  chosen = active = look().selected;
  relayout(false);

  return {
    el,
    keys: {
      ArrowLeft: ["parent", onKey], ArrowRight: ["child that was visited most", onKey], ArrowUp: ["sibling above", onKey],
      ArrowDown: ["sibling below", onKey], Home: ["root", onKey], Enter: ["fold or unfold", () => act(itemOf(active))],
    },
    focus: (options) => el.focus(options),
    /** Something changed that is looked up by look(). */
    update() {
      const { selected } = look();
      const moment = `${look().t}/${look().phase}`;
      const moved = selected !== chosen || moment !== shownMoment;
      if (selected !== chosen) active = chosen = selected;
      shownMoment = moment;
      if ([...needed()].join() !== forcedKey) relayout();
      else if (moved) revealNow();
      else later();
    },
    /** Another tree is shown; `grown` if it is the same one with more or fewer nodes. */
    reset(grown = false) {
      const fresh = firstFolds(look().tree, folds.count);
      if (grown) for (const node of fresh.open) { if (!folds.closed.has(node)) folds.open.add(node); }
      else folds = { ...fresh, least: folds.least, deepest: folds.deepest };
      active = chosen = look().selected;
      inPage.forEach((parts) => { parts.group.remove(); parts.line?.remove(); });
      inPage.clear();
      relayout(false);
    },
    filter(change) { folds = { ...folds, more: new Map(), ...change }; relayout(); },
    fold,
    foldAll() { folds = { ...folds, open: new Set([0]), closed: new Set(), more: new Map() }; relayout(); },
    unfoldLine() { folds = { ...firstFolds(look().tree, folds.count), least: folds.least, deepest: folds.deepest }; relayout(); },
    zoomBy(by) {
      zoom = by === 0 ? Math.min(1, Math.max(0.3, Math.min(el.clientWidth / layout.width, el.clientHeight / layout.height))) : Math.min(Math.max(zoom * by, 0.3), 2);
      size();
      reveal();
      return zoom;
    },
    destroy() { cancelAnimationFrame(frame); cancelAnimationFrame(moving); observer.disconnect(); unwatch(); },
  };
}

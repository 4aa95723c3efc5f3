// The node-link view: what is unfolded, painted on a canvas; over it an accessible tree of what is near the window.

import { clamp, h, motion, paint, plural, reducedMotion, stage } from "../_core/core.js";
import { firstFolds, layOut, moveTo } from "./layout.js";
import { brief } from "./notation.js";
import { itemMarks, lineMarks } from "./scene.js";
import { TERMINAL, TRANSPOSITION, actionName, edgesOf, hasFlag, isKept, isThere, lineTo } from "./store.js";

const MOVE_MS = 220;
const MARGIN = 160; // beyond the window, in pixels
// Zoom between which the tree is fitted into its place: down to the first for the width, to the second for the height.
const SMALL = [0.6, 0.75];
const LARGE = 1.4;

/**
 * Make the view.
 *
 * look() gives { tree, records, t, phase, lit: { nodes, edges }, changed, line, selected, other, follow };
 * onSelect(node) and onFold(node, open) are called for what the reader does; `id` is a prefix unique in the page, `name`
 * for screen readers.
 */
export function nodeLink({ look, onSelect, onFold, id, name }) {
  let folds = firstFolds(look().tree);
  let layout = layOut(look().tree, folds);
  let active = look().selected; // the id of an item: a node, or a stub
  let chosen = active; // the node that was selected when we last looked
  let zoom = 1;
  let fitted = true;
  let room = "";
  let from = new Map(); // where items were before they began to move
  let share = 1;
  let forcedKey = "";
  let shownMoment = "";
  const inPage = new Map();

  const view = h("div", { class: "tx-view", "aria-hidden": "true" });
  const sheet = h("div", { class: "tx-sheet", role: "presentation" });
  const el = h("div", { class: "tx-tree", role: "tree", tabindex: 0, "aria-label": name }, view, sheet);
  const canvas = stage(view, draw);
  const later = canvas.invalidate;
  const idOf = (item) => `${id}-${item.id < 0 ? `more${-item.id - 1}` : item.id}`;

  const isShown = (item) => (item.kind === "node" ? isThere(look().tree, item.node) : stubCount(item) > 0);
  const stubCount = (item) => item.hidden.filter((e) => isThere(look().tree, look().tree.edgeChild[e])).length;
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

  const moving = motion(MOVE_MS, (now) => {
    share = now;
    later();
    if (share === 1) revealNow();
  });
  function relayout(animate = true) {
    from = new Map(layout.items.map((item) => [item.id, spot(item)]));
    const forced = needed();
    forcedKey = [...forced].join();
    fit(forced);
    moving.stop();
    share = animate && !reducedMotion() ? 0 : 1;
    if (share) later();
    else moving.start();
  }

  /** Lay out for the room that there is; without a zoom of the reader's all of it is shown, if that is still legible. */
  function fit(forced = needed()) {
    const [wide, tall] = [el.clientWidth, el.clientHeight];
    room = `${wide}/${tall}`;
    const lay = (space) => layOut(look().tree, folds, forced, new Set(lineTo(look().tree, look().selected)), space);
    layout = lay(fitted && wide ? wide : Infinity);
    if (fitted && wide) {
      zoom = clamp(Math.min(wide / layout.width, Math.max(tall / layout.height, SMALL[1])), SMALL[0], LARGE);
      layout = lay((wide - 2) / zoom);
    }
    sheet.style.cssText = `width:${Math.floor(layout.width * zoom)}px;height:${Math.floor(layout.height * zoom)}px`;
    view.style.cssText = `width:${wide}px;height:${tall}px`;
  }

  /** As high as what is unfolded, up to what the style sheet allows; it stays so while a record is played. */
  const grow = () => { el.style.height = `${Math.max(layout.height + 4, 150)}px`; };

  function draw(pen, { color }) {
    const state = { ...look(), isShown, stubCount, active, layout };
    const [wide, tall] = [el.clientWidth / zoom, el.clientHeight / zoom];
    const down = Math.max(0, (el.clientHeight - layout.height * zoom) / 2); // the sheet stands in the middle
    const [left, top] = [el.scrollLeft / zoom, el.scrollTop / zoom];
    const near = ([x, y], [x2, y2] = [x, y]) => Math.max(x, x2) > left - MARGIN && Math.min(x, x2) < left + wide + MARGIN
      && Math.max(y, y2) > top - MARGIN && Math.min(y, y2) < top + tall + MARGIN;
    const [lines, nodes, wanted, past] = [[], [], new Set(), new Map()];
    const line = (edge, from, to, further) => { if (near(from, to)) lines.push(...lineMarks(edge, from, to, state, further)); };
    for (const item of layout.items.filter(isShown)) {
      const at = spot(item);
      if (item.parent) line(item.edge, spot(item.parent), at);
      if (!near(at) && item.id !== active) continue;
      const drawn = itemMarks(item, at, state);
      nodes.push(...drawn.marks);
      wanted.add(item.id);
      past.set(item, drawn.past);
      place(item, drawn, state);
    }
    for (const { from: a, to: b, edge } of layout.links) {
      if (!isShown(a) || !isShown(b)) continue;
      const passed = [...past.keys()].filter((item) => item.depth === a.depth && (item.y - a.y) * (item.y - b.y) < 0);
      line(edge, spot(a), spot(b), [past.get(a), ...passed.map((item) => past.get(item))]);
    }
    pen.translate(-el.scrollLeft, down - el.scrollTop);
    pen.scale(zoom, zoom);
    paint(pen, [...lines, ...nodes], { width: layout.width, params: {}, column: null, color });
    for (const [key, area] of inPage) if (!wanted.has(key)) forget(key, area);
    el.setAttribute("aria-activedescendant", idOf(itemOf(active)));
  }

  const forget = (key, area) => { area.remove(); inPage.delete(key); };

  /** Put the part of an item that is not drawn into the page: its area, its name and its state. */
  function place(item, { box: [x, y, wide, tall], badge, label, differs, fold }, state) {
    if (!inPage.has(item.id)) {
      const made = { role: "treeitem", "data-item": item.id, id: idOf(item), "aria-level": item.depth + 1 };
      inPage.set(item.id, h("div", made, h("span", { class: "tx-badge" })));
      sheet.append(inPage.get(item.id));
    }
    const area = inPage.get(item.id);
    area.style.cssText = `left:${x * zoom}px;top:${y * zoom}px;width:${wide * zoom}px;height:${tall * zoom}px`;
    area.firstChild.style.cssText = badge ? `left:${(badge[0] - x) * zoom}px;width:${badge[1] * zoom}px` : "display:none";
    const { lit, selected, tree } = state;
    const opens = item.children.length || fold || edgesOf(tree, item.node).length;
    const stub = item.kind === "stub";
    const words = stub ? `${stubCount(item).toLocaleString("en")} more, Enter shows them` : spoken(state, item, label.value, fold, differs);
    const marks = stub ? [] : [lit.nodes.includes(item.node) && "tx-lit", label.changed && "tx-changed", differs && `tx-${differs}`];
    const attributes = stub ? { class: "tx-stub", "aria-label": words, "aria-selected": state.active === item.id } : {
      class: ["tx-node", ...marks].filter(Boolean).join(" "),
      "data-node": item.node, "data-label": label.text, "aria-label": words, title: words, "aria-selected": selected === item.node,
      "aria-expanded": opens ? fold === 0 && item.children.some(isShown) : null,
    };
    for (const [name, value] of Object.entries(attributes)) {
      if (value === null) area.removeAttribute(name);
      else if (area.getAttribute(name) !== String(value)) area.setAttribute(name, value);
    }
  }

  function reveal(item = itemOf(active)) {
    const [x, y] = [item.x * zoom, item.y * zoom];
    const [wide, tall] = [el.clientWidth, el.clientHeight];
    if (!wide) return;
    const edge = 30 * zoom;
    el.scrollLeft = clamp(el.scrollLeft, Math.min(x + edge + 54 - wide, x - edge), x - edge);
    el.scrollTop = clamp(el.scrollTop, Math.min(y + edge - tall, y - edge), y - edge);
    later();
  }

  /** Bring what matters into the window: in a simulation where it begins and where it ends, else the active item. */
  function revealNow() {
    const { phase, lit, follow } = look();
    const node = !follow || !phase ? -1 : phase === 1 ? 0 : lit.nodes.at(-1);
    reveal(layout.at.get(node) ?? itemOf(active));
  }

  /** Zoom as the reader wants it, by a factor; 0 fits the tree into its place. */
  function zoomBy(factor) {
    fitted = factor === 0;
    if (factor) zoom = clamp(zoom * factor, 0.3, 2);
    fit();
    reveal();
  }
  function unfold(change) {
    folds = { ...folds, ...change };
    relayout();
    grow();
  }
  function fold(node, open) {
    (open ? folds.open : folds.closed).add(node);
    (open ? folds.closed : folds.open).delete(node);
    unfold();
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
      folds.more.set(item.node, (folds.more.get(item.node) ?? folds.count) + Math.max(folds.count, 4));
      unfold();
      const fresh = layout.at.get(item.node)?.children.find((child) => child.kind === "node" && !before.has(child.id) && isShown(child));
      if (fresh) activate(fresh);
      return;
    }
    if (!edgesOf(look().tree, item.node).length) return;
    const open = !folds.open.has(item.node);
    fold(item.node, open);
    onFold(item.node, open);
  }
  function onKey(event) {
    const { item, open } = moveTo(event.key, itemOf(active), layout, isShown, look().tree);
    (open ? act : activate)(item);
  }
  sheet.addEventListener("click", (event) => {
    const area = event.target.closest("[data-item]");
    if (!area) return;
    const item = itemOf(Number(area.getAttribute("data-item")));
    const folding = item.kind === "stub" || event.target.closest(".tx-badge") || event.detail === 2;
    if (item.kind === "node") activate(item);
    if (folding) act(item);
  });
  el.addEventListener("scroll", later, { passive: true });
  const observer = new ResizeObserver(() => {
    if (room !== `${el.clientWidth}/${el.clientHeight}` && el.clientWidth) { fit(); revealNow(); }
    later();
  });
  observer.observe(el);
  relayout(false);
  grow();

  return {
    el,
    keys: {
      ArrowLeft: ["parent", onKey], ArrowRight: ["most visited child", onKey], ArrowUp: ["sibling above", onKey],
      ArrowDown: ["sibling below", onKey], Home: ["root", onKey], Enter: ["fold or unfold", () => act(itemOf(active))],
    },
    focus: (options) => el.focus(options),
    /** Whether more than one way to a node is laid out. */
    further: () => layout.links.length > 0,
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
      const fresh = firstFolds(look().tree, folds);
      if (grown) for (const node of fresh.open) { if (!folds.closed.has(node)) folds.open.add(node); }
      else folds = fresh;
      active = chosen = look().selected;
      inPage.forEach((area, key) => forget(key, area));
      relayout(false);
      grow();
    },
    filter(change) { unfold({ more: new Map(), ...change }); },
    fold,
    zoom: zoomBy,
    destroy() { canvas.destroy(); moving.destroy(); observer.disconnect(); },
  };
}

/** An item in words: for screen readers, and as a tooltip. */
function spoken({ tree, line }, item, value, fold, differs) {
  const at = item.node;
  return [
    at === 0 ? "root" : `action ${actionName(tree, tree.edgeAction[item.edge])}`,
    tree.head.size === "nodes" ? `${plural(tree.visits[at], "node")} at and below it` : plural(tree.visits[at], "visit"),
    Number.isNaN(value) ? "no value" : `value ${brief(value)}`,
    item.edge >= 0 && tree.head.priors ? `prior ${brief(tree.edgePrior[item.edge])}` : null,
    hasFlag(tree, at, TERMINAL) ? "end of the episode" : null, hasFlag(tree, at, TRANSPOSITION) ? "reached in several ways" : null,
    isKept(tree, at) ? "kept from the previous search" : null,
    line.has(item.edge) ? "on the main line" : null, fold ? `${plural(fold, "action")} folded` : null,
    differs ? { only: "not in the other tree", best: "the other tree visits another action most" }[differs] : null,
  ].filter(Boolean).join(", ");
}

// The controls: phases of a simulation, search by a path, filters, and what asks a kernel; and the legend.

import { button, h, keyButton, legend, textWidth } from "../_core/core.js";
import { short } from "./notation.js";
import { PHASES } from "./records.js";
import { TERMINAL, actionName, edgeOf, hasFlag, isThere } from "./store.js";

/** The four phases as buttons, with one step back and one on. onPhase(place in PHASES), onStep(-1 or 1). */
export function phaseBar({ onPhase, onStep }) {
  const order = [1, 2, 3, 0];
  const buttons = order.map((phase) => button({
    text: PHASES[phase], label: `phase: ${PHASES[phase]}`, title: PHASES[phase], class: "tx-phase", onclick: () => onPhase(phase),
  }));
  const keys = {};
  const before = keyButton(keys, ",", { icon: "previous", label: "phase before", onclick: () => onStep(-1) });
  const after = keyButton(keys, ".", { icon: "next", label: "next phase", onclick: () => onStep(1) });
  const el = h("div", { class: "rlnb-group", role: "group", "aria-label": "phase of the simulation" }, before, ...buttons, after);
  return {
    el,
    keys,
    update(t, count, phase) {
      buttons.forEach((one, i) => {
        one.setAttribute("aria-pressed", String(order[i] === phase && (t > 0 || phase > 0)));
        one.disabled = count === 0;
      });
      before.disabled = t === 0 && phase === 0;
      after.disabled = t >= count;
    },
  };
}

/** A number that may be left empty. */
function number(label, title, value, least, onchange) {
  const field = h("input", { type: "number", class: "rlnb-field tx-number", min: least, step: 1, value, "aria-label": title, title });
  field.addEventListener("change", () => onchange(field.value === "" ? null : Math.max(Math.round(Number(field.value)), least)));
  return h("label", { class: "tx-field" }, label, " ", field);
}

/** Follow a path from the root, its words separated by spaces, commas or arrows: { node, message }, which is what stops it. */
export function followPath(tree, text) {
  const words = text.split(/[\s,→>]+/).filter(Boolean);
  let node = 0;
  for (const [i, word] of words.entries()) {
    const way = i === 0 ? "at the root" : `after ${words.slice(0, i).join(" ")}`;
    const action = actionOf(tree, word);
    const name = `Action ${actionName(tree, action)}`;
    const edge = edgeOf(tree, node, action);
    const child = edge < 0 ? -1 : tree.edgeChild[edge];
    if (action < 0) return { node, message: `There is no action “${word}”.` };
    if (edge < 0 && hasFlag(tree, node, TERMINAL)) return { node, message: `The episode ends ${way}.` };
    if (edge < 0) return { node, message: `${name} is not legal ${way}, or was left out.` };
    if (child < 0) return { node, message: `${name} was never tried ${way}.` };
    if (!isThere(tree, child)) return { node, message: `${name} is tried ${way} only by a later simulation.` };
    node = child;
  }
  return { node, message: "" };
}

/** The action with a name or a number, or -1. */
export function actionOf(tree, word) {
  const names = tree.head.actionNames ?? [];
  const named = names.findIndex((one) => one.toLowerCase() === word.toLowerCase());
  if (named >= 0) return named;
  const number = /^\d+$/.test(word) ? Number(word) : -1;
  return number < tree.head.actions ? number : -1;
}

/**
 * What stands beside the tabs: the search, a button that fits the tree, and "View", which unfolds over the picture what is
 * seldom needed: `playback`, parts of the bar of the record, zoom, filters and `further`. onFind(text) returns a message, empty
 * if the node was found; onFilter(change), onFollow(on), onZoom(factor), which is 0 for the whole tree.
 */
export function viewBar({ count, playback, further, onFind, onFilter, onFollow, onZoom }) {
  const search = h("input", {
    type: "search", class: "rlnb-field tx-search", placeholder: "actions: 0 4 8", "aria-label": "find a node by its path of actions",
  });
  const said = h("span", { class: "tx-said rlnb-note", role: "status" });
  const find = () => { said.textContent = onFind(search.value); };
  search.addEventListener("keydown", (event) => { if (event.key === "Enter") find(); });
  search.addEventListener("input", () => { if (search.value === "") find(); });
  const box = h("input", { type: "checkbox", checked: true });
  const about = "unfold the path of the simulation that is shown";
  const followed = h("label", { class: "tx-field", title: about }, box, " follow the simulation");
  box.addEventListener("change", () => onFollow(box.checked));
  const zoom = (text, label, by) => button({ text, label, onclick: () => onZoom(by) });
  const zooms = h("span", { class: "rlnb-group tx-field", role: "group", "aria-label": "zoom" },
    "zoom", zoom("in", "zoom in", 1.25), zoom("out", "zoom out", 0.8));
  const fit = zoom("fit", "show the whole tree", 0);
  const recorded = [...playback, followed];
  const more = h("details", { class: "tx-more" }, h("summary", { class: "rlnb-button" }, "View"), h("div", { class: "tx-moreBox" },
    ...recorded, zooms,
    number("children", "children drawn per node", count, 1, (n) => onFilter({ count: n ?? count })),
    number("visits ≥", "only nodes with at least this many visits", "", 0, (n) => onFilter({ least: n ?? 0 })),
    number("depth ≤", "only nodes up to this depth", "", 1, (n) => onFilter({ deepest: n ?? Infinity })), further));
  more.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !more.open) return;
    more.open = false;
    more.firstChild.focus();
    event.preventDefault();
    event.stopPropagation();
  });
  const el = h("div", { class: "tx-filters" }, search, fit, more, said);
  return {
    el,
    update(name, hasRecords) {
      for (const part of recorded) part.hidden = !hasRecords;
      fit.hidden = zooms.hidden = name !== "tree";
    },
    focusSearch: () => search.focus(),
  };
}

/**
 * The buttons that let the search work; ask(message) sends one to the kernel; null without a kernel.
 *
 * update(waiting, nameOf, actions): waiting is 0, 1 while an answer is awaited, 2 when that takes long; actions are those
 * that can be taken. `refresh` is a button to place elsewhere.
 */
export function searchBar({ ask, head, chosenAction }) {
  const many = h("input", {
    type: "number", class: "rlnb-field tx-number", min: 1, step: 1, value: 100, "aria-label": "how many simulations to run",
  });
  const act = (name, text, label, more = () => ({})) => {
    const onclick = () => ask({ do: name, ...more() });
    return [name, button({ text, label, solid: true, onclick })];
  };
  const made = Object.fromEntries([
    act("step", "Step", "run one simulation"), act("back", "Back", "undo the last simulation"),
    act("run", "Run", "run several simulations", () => ({ n: Math.max(Math.round(Number(many.value)) || 1, 1) })),
    // It is disabled where no action is chosen.
    act("advance", "Advance", "take an action at the root and keep its subtree", () => ({ action: chosenAction() })),
    act("refresh", "Refresh", "show the search as it is now"),
  ]);
  const note = h("span", { class: "rlnb-note rlnb-small tx-kernel" });
  const problem = h("p", { class: "rlnb-error tx-problem", role: "alert" });
  const buttons = ask ? [made.step, made.back, made.run, many, made.advance] : [];
  const el = h("div", {}, h("div", { class: "tx-row", role: "toolbar", "aria-label": "search" }, ...buttons, note), problem);
  return {
    el,
    refresh: made.refresh,
    update(waiting, nameOf, actions) {
      const { can, problem: words, kind } = head();
      el.hidden = made.refresh.hidden = kind !== "search";
      for (const [name, one] of Object.entries(made)) one.disabled = !ask || waiting > 0 || !(can?.[name] || name === "refresh");
      const action = chosenAction();
      const advance = (by) => `Take action ${nameOf(by)}`;
      made.advance.textContent = action >= 0 ? advance(action) : "Advance";
      // Room for the longest of the names, in bold, so that nothing beside it moves.
      made.advance.style.minWidth = `calc(${(1.12 * Math.max(...actions.map((by) => textWidth(advance(by), 1)), 0)).toFixed(2)}em + 26px)`;
      if (action < 0) made.advance.disabled = true;
      const now = ["", "The search is running.", "No answer yet: the kernel is busy, or gone."][waiting];
      note.textContent = note.title = ask ? now : "To continue the search, run this cell.";
      problem.hidden = !words;
      if (problem.textContent !== (words ?? "")) problem.textContent = words ?? "";
    },
  };
}

/**
 * The legend, only of what occurs: look() gives the tree, whole() whether the icicle is shown, further() whether two ways
 * to a node are drawn.
 */
export function legendPanel({ look, whole, further }) {
  const el = h("div", { class: "tx-legend" });
  let shown = "";
  function update() {
    const { both, tree, further: ways, icicle } = look().tree.head.legend;
    const items = [...both, ...(whole() ? icicle : [...tree, ...(further() ? ways : [])])];
    if (shown === String(items)) return;
    shown = String(items);
    el.replaceChildren(legend(items));
  }
  return { el, update };
}

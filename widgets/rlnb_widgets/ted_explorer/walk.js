// From one step to the one after it: what step_mdp carries, leaves behind and keeps, and what a reset replaces.

import { button, h, reducedMotion } from "../_core/core.js";
import { label } from "../_core/tree.js";
import { numbersAt, valueText } from "./values.js";

const MOST = 24;
const MS = 400;

/**
 * What becomes of an entry: carry is "carried", "kept", "dropped" or ""; over: an episode ends and is followed by a
 * reset; same: whether the next root holds what was carried or kept, null if that is not known.
 */
export function fateOf(carry, { over, beyond, same }) {
  if (carry === "kept") return same === false ? "rewritten" : "kept";
  if (carry !== "carried") return carry === "dropped" ? "left" : "";
  return beyond ? "waits" : over ? "replaced" : same === false ? "differs" : "carried";
}

/** The parts of the walk at a step, in order. */
export function partsOf({ over, beyond }) {
  return ["root", "next", ...(beyond ? [] : ["carry"]), ...(over && !beyond ? ["reset"] : [])];
}

/** A part of the walk in words. */
export function partWords(part, t, fates) {
  if (part === "root") return `root[${t}]: what was known at step ${t}, and the action chosen from it.`;
  if (part === "next") return `next[${t}]: what the step led to: the observation after it, the reward and the end signals.`;
  if (part === "reset") return `The episode ended at step ${t}: a reset replaces what was carried. root[${t + 1}] is a fresh start; the last observation stays in next[${t}] alone.`;
  const groups = {
    left: "Left behind", kept: `Kept from root[${t}]`, rewritten: `Kept from root[${t}], then rewritten`, differs: `Not what root[${t + 1}] holds`,
  };
  const named = (kind) => fates.filter((fate) => fate.kind === kind).map((fate) => fate.name).join(", ");
  const said = Object.entries(groups).filter(([kind]) => named(kind)).map(([kind, words]) => ` ${words}: ${named(kind)}.`);
  return `step_mdp makes root[${t + 1}] of next[${t}].${said.join("")}`;
}

const WORDS = { carried: "carried", replaced: "replaced by the reset", left: "left behind", kept: "kept", rewritten: "kept, then rewritten", differs: "differs", waits: "beyond the data", "": "" };

/** Make the panel. here() gives { over, beyond } at the playhead; select(row) selects an entry. Returns { el, keys, update }. */
export function walkPanel(view, playhead, here, select) {
  const all = view.rows.filter((row) => !row.node);
  const heads = Object.fromEntries(["key", "root", "next", "step_mdp", "then"].map((name) => [name, h("div", { class: `ted-head-${name}` }, /key|mdp/.test(name) ? name : "")]));
  const lines = all.slice(0, MOST).map((row) => {
    const [root, next, then] = ["root", "next", "then"].map((side) => h("div", { class: "ted-chip", "data-chip": side }));
    const fate = h("div", { class: "ted-fate" });
    const el = h("div", { class: "ted-step", "data-key": label(row), onclick: () => select(row) },
      h("div", { class: "ted-step-key", title: label(row) }, label(row)), root, next, fate, then);
    return { row, el, chips: { root, next, then }, fate };
  });
  const words = h("p", { class: "ted-part", role: "status" });
  const back = button({ text: "‹ part", label: "one part back", title: "one part back (Backspace)", onclick: () => turn(-1) });
  const on = button({ text: "part ›", label: "one part forward", title: "one part forward (Enter)", onclick: () => turn(1) });
  const steps = h("div", { class: "ted-steps", tabindex: 0, role: "group", "aria-label": "from one step to the next" },
    h("div", { class: "ted-step ted-step-head" }, ...Object.values(heads)), ...lines.map((line) => line.el));
  const el = h("div", { class: "ted-panel" }, h("div", { class: "rlnb-bar" }, h("span", { class: "rlnb-group" }, back, on), words), steps,
    all.length > MOST ? h("p", { class: "rlnb-note" }, `+${all.length - MOST} more entries`) : null);
  let part = 0;
  let at = playhead.t;

  const turn = (by) => {
    if (part + by >= 0 && part + by < partsOf(here()).length) {
      part += by;
      paint(by > 0);
    } else if (by < 0 ? playhead.t > 0 : playhead.t < playhead.last) {
      part = by < 0 ? 9 : 0;
      playhead.step(by);
    }
  };

  const textAt = (row, side, t) => (t < view.steps && row[side] ? valueText(view, row[side].values, 3, t) || row[side].preview || row[side].shape : "");
  const sameAt = (row, t) => {
    const source = row.carry === "kept" ? row.root : row.next;
    if (t + 1 >= view.steps || !row.root || !source) return null;
    const [a, b] = [numbersAt(view, source.values, t), numbersAt(view, row.root.values, t + 1)];
    return a && b ? a.every((x, i) => x === b[i] || (Number.isNaN(x) && Number.isNaN(b[i]))) : row.holds ?? null;
  };

  const paint = (moving = false) => {
    const { t } = view;
    const state = here();
    const parts = partsOf(state);
    part = Math.min(part, parts.length - 1);
    const [carried, reset] = ["carry", "reset"].map((name) => parts.slice(0, part + 1).includes(name));
    heads.root.textContent = `root[${t}]`;
    heads.next.textContent = `next[${t}]`;
    heads.then.textContent = state.beyond ? "beyond the data" : `root[${t + 1}]`;
    const fates = lines.map(({ row, el: line, chips, fate }) => {
      const kind = fateOf(row.carry, { ...state, same: sameAt(row, t) });
      const [left, stays] = [kind === "left", ["kept", "rewritten"].includes(kind)];
      const now = { root: textAt(row, "root", t), next: textAt(row, "next", t), then: textAt(row, "root", t + 1) };
      // Until the reset comes, the next root holds what was carried to it.
      if (parts[part] === "carry" && (state.over || stays)) now.then = stays ? now.root : left ? "" : now.next;
      const seen = { root: true, next: part > 0, then: carried && !left };
      for (const [side, chip] of Object.entries(chips)) {
        chip.textContent = now[side];
        chip.classList.toggle("ted-off", !seen[side] || !now[side]);
        chip.classList.toggle("ted-faded", side !== "then" && carried && left);
      }
      chips.then.classList.toggle("ted-fresh", reset && kind === "replaced");
      line.dataset.kind = kind;
      fate.textContent = !carried && !state.beyond ? "" : kind === "replaced" && !reset ? "carried" : WORDS[kind];
      if (moving) move(parts[part], kind, chips);
      return { name: label(row), kind };
    });
    words.textContent = partWords(parts[part], t, fates);
    back.disabled = part === 0 && t === 0;
    on.disabled = part === parts.length - 1 && t >= playhead.last;
  };

  return {
    el,
    focusable: steps,
    keys: { Enter: ["next part of the step", () => turn(1)], Backspace: ["previous part of the step", () => turn(-1)] },
    update() {
      const by = view.t - at;
      at = view.t;
      // Whole steps show where they end; one step by hand is seen moving.
      if (by !== 0 && part !== 0) part = 9;
      if (!el.hidden) paint(by === 1 && !playhead.playing);
    },
    show() { part = 9; paint(); },
  };
}

/** Let the chips travel to where they belong; at once where the reader asked for less motion. */
function move(part, kind, { root, next, then }) {
  if (reducedMotion() || !then.animate) return;
  for (const chip of [next, then]) for (const animation of chip.getAnimations()) animation.cancel();
  const travel = (source) => {
    const [a, b] = [source.getBoundingClientRect(), then.getBoundingClientRect()];
    const start = `translate(${a.left - b.left}px, ${a.top - b.top}px)`;
    then.animate([{ transform: start }, { transform: "none" }], { duration: MS, easing: "ease-in-out" });
  };
  if (part === "next" && !next.classList.contains("ted-off")) next.animate([{ opacity: 0 }, { opacity: 1 }], { duration: MS / 2 });
  if (part === "carry" && ["carried", "differs", "replaced"].includes(kind)) travel(next);
  if (part === "carry" && ["kept", "rewritten"].includes(kind)) travel(root);
  if (part === "reset" && kind === "replaced") then.animate([{ opacity: 0, transform: "translateY(-14px)" }, { opacity: 1, transform: "none" }], { duration: MS });
}

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
  if (carry === "dropped") return "left";
  if (carry !== "carried") return carry !== "kept" ? "" : same === false ? "rewritten" : "kept";
  if (beyond) return "waits";
  if (over) return "replaced";
  return same === false ? "differs" : "carried";
}

/** The parts of the walk at a step, in order. */
export function partsOf({ over, beyond }) {
  if (beyond) return ["root", "next"];
  return over ? ["root", "next", "carry", "reset"] : ["root", "next", "carry"];
}

/** A part of the walk in words. */
export function partWords(part, t, fates) {
  const names = (kind) => fates.filter((fate) => fate.kind === kind).map((fate) => fate.name).join(", ");
  if (part === "root") return `root[${t}]: what was known at step ${t}, and the action chosen from it.`;
  if (part === "next") return `next[${t}]: what the step led to: the observation after it, the reward and the end signals.`;
  if (part === "reset") return `The episode ended at step ${t}: a reset replaces what was carried. root[${t + 1}] is a fresh start; the last observation stays in next[${t}] alone.`;
  const said = [`step_mdp makes root[${t + 1}] of next[${t}].`];
  if (names("left")) said.push(`Left behind: ${names("left")}.`);
  if (names("kept")) said.push(`Kept from root[${t}]: ${names("kept")}.`);
  if (names("rewritten")) said.push(`Kept from root[${t}], then written anew: ${names("rewritten")}.`);
  if (names("differs")) said.push(`Not what root[${t + 1}] holds: ${names("differs")}.`);
  return said.join(" ");
}

const WORDS = { carried: "carried", replaced: "replaced by the reset", left: "left behind", kept: "kept", rewritten: "kept, then anew", differs: "differs", waits: "beyond the data", "": "" };

/** Make the panel. here() gives { over, beyond } at the playhead; select(row) selects an entry. Returns { el, keys, update }. */
export function walkPanel(view, playhead, here, select) {
  const leaves = view.rows.filter((row) => !row.node).slice(0, MOST);
  const more = view.rows.filter((row) => !row.node).length - leaves.length;
  const heads = ["key", "root", "next", "step_mdp", "then"].map((name) => h("div", { class: `ted-head-${name}` }, name === "key" || name === "step_mdp" ? name : ""));
  const lines = leaves.map((row) => {
    const cells = ["root", "next", "then"].map((side) => h("div", { class: "ted-chip", "data-chip": side }));
    const fate = h("div", { class: "ted-fate" });
    const el = h("div", { class: "ted-step", "data-key": label(row), onclick: () => select(row) },
      h("div", { class: "ted-step-key", title: label(row) }, label(row)), cells[0], cells[1], fate, cells[2]);
    return { row, el, cells, fate };
  });
  const words = h("p", { class: "ted-part", role: "status" });
  const back = button({ text: "‹ part", label: "one part back", title: "one part back (Backspace)", onclick: () => turn(-1) });
  const on = button({ text: "part ›", label: "one part on", title: "one part on (Enter)", onclick: () => turn(1) });
  const el = h("div", { class: "ted-panel" },
    h("div", { class: "rlnb-bar" }, h("span", { class: "rlnb-group" }, back, on), words),
    h("div", { class: "ted-steps", tabindex: 0, role: "group", "aria-label": "from one step to the next" },
      h("div", { class: "ted-step ted-step-head" }, ...heads), ...lines.map((line) => line.el)),
    more > 0 ? h("p", { class: "rlnb-note" }, `+${more} more entries`) : null);
  let part = 0;
  let at = playhead.t;
  let fates = [];

  const turn = (by) => {
    const parts = partsOf(here());
    if (part + by < 0) {
      if (playhead.t === 0) return;
      part = 9;
      playhead.step(-1);
    } else if (part + by >= parts.length) {
      if (playhead.t >= playhead.last) return;
      part = 0;
      playhead.step(1);
    } else {
      part += by;
      paint(by > 0);
    }
  };

  const chip = (row, side, t) => (t < view.steps && row[side] ? valueText(view.store, row[side].values, view.steps, view.element, t, 3) || row[side].preview || row[side].shape : "");
  const sameAt = (row, t) => {
    const source = row.carry === "kept" ? row.root : row.next;
    if (t + 1 >= view.steps || !row.root || !source) return null;
    const [a, b] = [numbersAt(view.store, source.values, view.steps, view.element, t), numbersAt(view.store, row.root.values, view.steps, view.element, t + 1)];
    if (!a || !b) return row.holds ?? null;
    return a.every((x, i) => x === b[i] || (Number.isNaN(x) && Number.isNaN(b[i])));
  };

  const paint = (moving = false) => {
    const { t } = view;
    const state = here();
    const parts = partsOf(state);
    part = Math.min(part, parts.length - 1);
    const now = parts[part];
    const passed = (name) => parts.indexOf(name) >= 0 && part >= parts.indexOf(name);
    fates = lines.map(({ row }) => ({ name: label(row), kind: fateOf(row.carry, { ...state, same: sameAt(row, t) }) }));
    heads[1].textContent = `root[${t}]`;
    heads[2].textContent = `next[${t}]`;
    heads[4].textContent = state.beyond ? "beyond the data" : `root[${t + 1}]`;
    lines.forEach(({ row, el: line, cells, fate }, i) => {
      const { kind } = fates[i];
      const [root, next, then] = cells;
      const reset = passed("reset");
      root.textContent = chip(row, "root", t);
      next.textContent = chip(row, "next", t);
      // Until the reset comes, the next root holds what was carried to it.
      const stays = ["kept", "rewritten"].includes(kind);
      const carried = stays ? chip(row, "root", t) : kind === "left" ? "" : chip(row, "next", t);
      then.textContent = now === "carry" && (state.over || stays) ? carried : chip(row, "root", t + 1);
      line.dataset.kind = kind;
      fate.textContent = !passed("carry") && !state.beyond ? "" : kind === "replaced" && !reset ? "carried" : WORDS[kind];
      root.classList.toggle("ted-off", !root.textContent);
      next.classList.toggle("ted-off", !passed("next") || !next.textContent);
      then.classList.toggle("ted-off", !passed("carry") || !then.textContent || kind === "left");
      next.classList.toggle("ted-faded", passed("carry") && kind === "left");
      root.classList.toggle("ted-faded", passed("carry") && kind === "left");
      then.classList.toggle("ted-fresh", reset && kind === "replaced");
      if (moving) move(now, kind, root, next, then);
    });
    words.textContent = partWords(now, t, fates);
    back.disabled = part === 0 && t === 0;
    on.disabled = part === parts.length - 1 && t >= playhead.last;
  };

  return {
    el,
    focusable: el.querySelector(".ted-steps"),
    keys: { Enter: ["next part of the step", () => turn(1)], Backspace: ["previous part of the step", () => turn(-1)] },
    update() {
      const by = view.t - at;
      at = view.t;
      const parts = partsOf(here());
      // Whole steps show where they end; one step by hand is seen moving.
      if (by !== 0 && part !== 0) part = parts.length - 1;
      if (!el.hidden) paint(by === 1 && !playhead.playing);
    },
    show() { part = partsOf(here()).length - 1; paint(); },
  };
}

/** Let the chips travel to where they belong; at once where the reader asked for less motion. */
function move(part, kind, root, next, then) {
  if (reducedMotion() || !then.animate) return;
  for (const chip of [next, then]) for (const animation of chip.getAnimations()) animation.cancel();
  const from = (source) => {
    const [a, b] = [source.getBoundingClientRect(), then.getBoundingClientRect()];
    return `translate(${a.left - b.left}px, ${a.top - b.top}px)`;
  };
  const travel = (start) => then.animate([{ transform: start }, { transform: "none" }], { duration: MS, easing: "ease-in-out" });
  if (part === "next" && !next.classList.contains("ted-off")) next.animate([{ opacity: 0 }, { opacity: 1 }], { duration: MS / 2 });
  if (part === "carry" && ["carried", "differs", "replaced"].includes(kind)) travel(from(next));
  if (part === "carry" && ["kept", "rewritten"].includes(kind)) travel(from(root));
  if (part === "reset" && kind === "replaced") then.animate([{ opacity: 0, transform: "translateY(-14px)" }, { opacity: 1, transform: "none" }], { duration: MS });
}

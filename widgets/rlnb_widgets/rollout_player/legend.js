// The legend: only what occurs is explained.

import { h } from "../_core/core.js";

/** The line of an end, of a role and with dashes, as a background. */
function lineOf([role, dash]) {
  const colour = `var(--rlnb-${role})`;
  return dash ? `repeating-linear-gradient(${colour} 0 ${dash[0]}px, transparent ${dash[0]}px ${dash[0] + dash[1]}px)` : colour;
}

/** A box of which row `row` of `rows` has the colour of a role, as in the band. */
function boxOf(role, row = 0, rows = 1) {
  const [from, to] = [row, row + 1].map((at) => `${Math.round((100 * at) / rows)}%`);
  return `linear-gradient(transparent ${from}, var(--rlnb-${role}) ${from} ${to}, transparent ${to})`;
}

const filled = (name, background) => h("i", { class: name, style: `background:${background}` });
const ITEMS = {
  rollout: (role, words) => [filled("rlnb-end rlnb-lane", `var(--rlnb-${role})`), words],
  end: (line, words) => [filled("rlnb-end", lineOf(line)), h("b", {}, words)],
  reset: (sign, words) => [h("span", { class: "rlnb-sign", "aria-hidden": "true" }, sign), h("b", {}, words)],
  heading: (_, words) => [h("b", {}, words)],
};

/** Make the list of what Python says is drawn (legend.py), with what ends and resets mean. */
export function legend(head) {
  const list = h("ul", { class: "rlnb-key", "aria-label": "legend" });
  for (const [kind, mark, words, ...part] of head.legend) {
    if (kind === "box") list.lastChild.append(h("span", { class: "rlnb-entry" }, filled("rlnb-swatch", boxOf(mark, ...part)), words), " ");
    else list.append(h("li", {}, ...ITEMS[kind](mark, words)));
  }
  const rules = head.rules.map(([name, rule]) => h("li", {}, h("b", {}, name), ` ${rule}`));
  return h("div", { class: "rlnb-note" }, list,
    rules.length ? h("details", {}, h("summary", {}, "What ends and resets mean for the value target"), h("ul", { class: "rlnb-rules" }, ...rules)) : null);
}

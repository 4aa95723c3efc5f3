// The legend: only what occurs is explained.

import { h } from "../_core/core.js";

const MOST = 12;

/** Make the list: rollouts compared, ends and resets with what they mean, the colours of agents and categories. */
export function legend(head, columns, compared) {
  const items = [];
  const rules = [];
  if (compared) items.push(...head.labels.map((name, e) => h("li", {}, h("i", { class: `rlnb-end rlnb-lane${e}` }), `rollout ${name}`)));
  const code = columns[head.code];
  const found = new Set(code);
  head.kinds.forEach((kind, k) => {
    if (!found.has(k) || !head.rules[kind]) return;
    // An open episode has a rule, but no line is drawn where the data end.
    if (head.ends[kind]) items.push(h("li", {}, h("i", { class: "rlnb-end", style: `background:${lineOf(...head.ends[kind])}` }), h("b", {}, kind)));
    rules.push(h("li", {}, h("b", {}, kind), ` ${head.rules[kind]}`));
  });
  if (head.stopped) rules.push(h("li", {}, h("b", {}, "truncated in the last row"), ` ${head.stopped}`));
  const resets = new Set(columns[head.resets]);
  head.resetKinds.forEach((kind, k) => {
    if (!kind || !resets.has(k)) return;
    items.push(h("li", {}, h("span", { class: "rlnb-sign", "aria-hidden": "true" }, head.resetSigns[kind]), h("b", {}, kind)));
    rules.push(h("li", {}, h("b", {}, kind), ` ${head.resetRules[kind]}`));
  });
  const agents = new Map();
  for (const strip of head.strips) {
    if (strip.role && strip.names.length > 1 && strip.names.length <= MOST) agents.set(strip.names.join("\n"), strip);
    const names = strip.kind === "bands" ? strip.values : strip.names;
    if (strip.kind === "line" || strip.kind === "lanes" || names.length < 2 || names.length > MOST) continue;
    items.push(h("li", {}, h("b", {}, strip.label), ...boxes(names, (k) => strip.categories[k])));
  }
  for (const strip of agents.values()) items.push(h("li", {}, h("b", {}, head.turns ? "players" : "agents"), ...boxes(strip.names, (k) => strip.roles[k])));
  return h("div", { class: "rlnb-note" },
    h("ul", { class: "rlnb-key", "aria-label": "legend" }, ...items),
    rules.length ? h("details", {}, h("summary", {}, "What ends and resets mean for the value target"), h("ul", { class: "rlnb-rules" }, ...rules)) : null);
}

/** The line of an end, of a role and with dashes, as a background. */
function lineOf(role, dash) {
  const colour = `var(--rlnb-${role})`;
  return dash ? `repeating-linear-gradient(${colour} 0 ${dash[0]}px, transparent ${dash[0]}px ${dash[0] + dash[1]}px)` : colour;
}

function boxes(names, colour) {
  return names.flatMap((name, k) => [
    h("span", { class: "rlnb-entry" }, h("i", { class: "rlnb-swatch", style: `background:var(--rlnb-${colour(k)})` }), name), " "]);
}

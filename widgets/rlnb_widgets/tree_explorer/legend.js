// What sizes, colours, lines and rings mean.

import { h, palette, watchTheme } from "../_core/core.js";
import { diverging } from "./colors.js";
import { short } from "./notation.js";
import { REUSED, TERMINAL, TRANSPOSITION } from "./store.js";

/** The legend; look() gives the tree. */
export function legend({ look }) {
  const scale = h("i", { class: "tx-scale", "aria-hidden": "true" });
  const el = h("ul", { class: "tx-legend", "aria-label": "legend" });
  const item = (mark, text) => h("li", {}, typeof mark === "string" ? h("i", { class: `tx-mark tx-mark-${mark}`, "aria-hidden": "true" }) : mark, text);
  const colours = () => {
    if (!el.isConnected) return;
    const colour = diverging(palette(el));
    scale.style.background = `linear-gradient(90deg, ${[-1, -0.5, 0, 0.5, 1].map(colour).join(", ")})`;
  };
  const unwatch = watchTheme(colours);
  let shown = null;
  function update() {
    const { tree, records, other } = look();
    if (shown === tree.head) return;
    shown = tree.head;
    const { low, high } = tree.head.value;
    const any = (flag) => tree.flags.some((flags) => (flags & flag) !== 0);
    el.replaceChildren(...[
      tree.head.size === "nodes" ? null : h("li", {}, `value ${short(low)} `, scale, ` ${short(high)}${tree.players ? `, as player ${tree.toPlay[0] + 1} sees it, who is to move at the root` : ""}`),
      item("size", tree.head.size === "visits" ? "area: visits; below: visits · value of the action that leads there" : "area: nodes at and below a node"),
      tree.head.priors ? item("prior", "line: prior") : null,
      item("main", tree.head.size === "visits" ? "line visited most" : "largest branch"),
      any(TERMINAL) ? item("ring", "ring: the episode ends") : null,
      any(TRANSPOSITION) ? item("further", "another way to the same node") : null,
      any(REUSED) && tree.head.reused < tree.count ? item("kept", "kept from the search before") : null,
      records.count ? item("lit", "path of the simulation") : null,
      other ? item("only", "only in this tree") : null,
      other ? item("best", "another action is visited most") : null,
    ].filter(Boolean));
    requestAnimationFrame(colours);
  }
  return { el, update, destroy: unwatch };
}

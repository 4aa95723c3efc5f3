// What sizes, colours, lines and rings mean: only those that occur.

import { h } from "../_core/core.js";
import { short } from "./notation.js";
import { REUSED, TERMINAL, TRANSPOSITION } from "./store.js";

/** The legend; look() gives the tree. */
export function legend({ look }) {
  const el = h("ul", { class: "rlnb-key tx-legend", "aria-label": "legend" });
  const scale = h("span", { class: "tx-scale", "aria-hidden": "true" });
  const item = (mark, text) => h("li", {}, h("i", { class: `tx-mark tx-mark-${mark}`, "aria-hidden": "true" }), text);
  let shown = null;
  function update() {
    const { tree, records, other } = look();
    if (shown === tree.head) return;
    shown = tree.head;
    const { low, high } = tree.head.value;
    const visits = tree.head.size === "visits";
    const any = (flag) => tree.flags.some((flags) => (flags & flag) !== 0);
    el.replaceChildren(...[
      visits ? h("li", {}, `value ${short(low)} `, scale, ` ${short(high)}${tree.players ? ` for player${tree.toPlay[0]}, who moves at the root` : ""}`) : null,
      visits ? h("li", {}, "at a node: visits · mean value") : null,
      item("size", visits ? "larger and wider: more visits" : "larger and wider: more nodes below"),
      item("main", visits ? "line visited most" : "largest branch"),
      any(TERMINAL) ? item("ring", "the episode ends") : null,
      any(TRANSPOSITION) ? item("further", "another way to the same node") : null,
      any(REUSED) && tree.head.reused < tree.count ? item("kept", "kept from the search before") : null,
      records.count ? item("lit", "path of the simulation") : null,
      other ? item("only", "only in this tree") : null,
      other ? item("best", "another action is visited most") : null,
    ].filter(Boolean));
  }
  return { el, update };
}

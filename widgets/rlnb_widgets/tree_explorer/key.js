// What sizes, colours, lines and rings mean: only those that occur.

import { h } from "../_core/core.js";
import { short } from "./notation.js";
import { REUSED, TERMINAL, TRANSPOSITION } from "./store.js";

/** The legend; look() gives the tree, whole() whether the icicle is shown, further() whether two ways to a node are drawn. */
export function legend({ look, whole = () => false, further = () => true }) {
  const el = h("ul", { class: "rlnb-key tx-legend", "aria-label": "legend" });
  const scale = h("span", { class: "tx-scale", "aria-hidden": "true" });
  const item = (mark, text) => h("li", {}, h("i", { class: `tx-mark tx-mark-${mark}`, "aria-hidden": "true" }), text);
  let shown = null;
  let state = "";
  function update() {
    const { tree, records, other } = look();
    const now = `${whole()} ${further()} ${records.count > 0}`;
    if (shown === tree.head && state === now) return;
    [shown, state] = [tree.head, now];
    const { low, high } = tree.head.value;
    const visits = tree.head.size === "visits";
    const any = (flag) => tree.flags.some((flags) => (flags & flag) !== 0);
    const kept = any(REUSED) && tree.head.reused < tree.count;
    const value = visits ? h("li", {}, `value ${short(low)} `, scale, ` ${short(high)}${tree.players ? ` for player${tree.toPlay[0]}, who moves at the root` : ""}`) : null;
    const main = visits ? "line visited most" : "largest branch";
    if (whole()) {
      el.replaceChildren(...[
        value, item("sizeBox", visits ? "wider: more visits" : "wider: more nodes below"), item("mainBox", main),
        any(TERMINAL) ? item("end", "the episode ends") : null, kept ? item("keptBox", "kept from the search before") : null,
        records.count ? item("litBox", "path of the simulation") : null,
      ].filter(Boolean));
      return;
    }
    el.replaceChildren(...[
      value,
      visits ? h("li", {}, "at a node: visits · mean value") : null,
      item("size", visits ? "larger and wider: more visits" : "larger and wider: more nodes below"),
      item("main", main),
      any(TERMINAL) ? item("ring", "the episode ends") : null,
      any(TRANSPOSITION) && further() ? item("further", "another way to the same node") : null,
      kept ? item("kept", "kept from the search before") : null,
      records.count ? item("lit", "path of the simulation") : null,
      other ? item("only", "only in this tree") : null,
      other ? item("best", "another action is visited most") : null,
    ].filter(Boolean));
  }
  return { el, update };
}

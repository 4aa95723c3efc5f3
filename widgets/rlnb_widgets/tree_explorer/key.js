// What sizes, colours, lines and rings mean: only those that occur.

import { h } from "../_core/core.js";
import { short } from "./notation.js";

const OF_TREE = ["further", "only", "best"]; // marks that no icicle has

/** The legend; look() gives the tree, whole() whether the icicle is shown, further() whether two ways to a node are drawn. */
export function legend({ look, whole, further }) {
  const el = h("ul", { class: "rlnb-key tx-legend", "aria-label": "legend" });
  const scale = h("span", { class: "tx-scale", "aria-hidden": "true" });
  let shown = null;
  let state = "";
  function update() {
    const { tree } = look();
    const { legend: marks, players, size, value: { low, high } } = tree.head;
    const now = `${whole()} ${further()}`;
    if (shown === tree.head && state === now) return;
    [shown, state] = [tree.head, now];
    const whose = players ? ` for player${tree.toPlay[0]}, who moves at the root` : "";
    const items = size === "visits" ? [h("li", {}, `value ${short(low)} `, scale, ` ${short(high)}${whose}`)] : [];
    if (size === "visits" && !whole()) items.push(h("li", {}, "at a node: visits · mean value"));
    for (const [mark, words] of marks) {
      if (whole() ? OF_TREE.includes(mark) : mark === "further" && !further()) continue;
      const wider = mark !== "size" ? "" : whole() ? "wider: " : "larger and wider: ";
      items.push(h("li", {}, h("i", { class: `tx-mark tx-mark-${mark}`, "aria-hidden": "true" }), wider + words));
    }
    el.classList.toggle("tx-whole", whole());
    el.replaceChildren(...items);
  }
  return { el, update };
}

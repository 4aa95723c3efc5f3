// Two trees side by side: which node is which, and where they differ.

import { button, h } from "../_core/core.js";
import { bestEdge } from "./store.js";

/** How a node differs from its match: "only" where there is none, "best" where another action is visited most, or "". */
export function difference(tree, node, other, match) {
  if (match[node] < 0) return "only";
  const [here, there] = [bestEdge(tree, node), bestEdge(other, match[node])];
  return here >= 0 && there >= 0 && tree.edgeAction[here] !== other.edgeAction[there] ? "best" : "";
}

/** The line above two trees: where they part first, and the way there. */
export function partingLine({ compare, onGo }) {
  const go = compare.part !== null ? button({ text: "go there", title: null, class: "tx-small", onclick: () => onGo(compare.part) }) : null;
  return h("p", { class: "tx-parting" }, compare.words, " ", go);
}

// The legend of a picture: a box of each colour, and its meaning.

import { h } from "./dom.js";

/** A list of [role, meaning] pairs. */
export function legend(items) {
  return h("ul", { class: "rlnb-key" }, ...items.map(([role, words]) =>
    h("li", {}, h("span", { class: "rlnb-swatch", style: `background:var(--rlnb-${role})`, "aria-hidden": "true" }), words)));
}

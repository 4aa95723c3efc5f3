// A shape in the page: batch, time, nested batch and features told apart by colour and by letter.

import { h, legend } from "./dom.js";

const COLORS = { b: "batch", t: "time", n: "nested", f: "ink" };
const NAMES = { b: "B batch", t: "T time", n: "N nested batch", f: "features" };

/** A shape with its roles told apart by colour and by letter. */
export function shapeOf(dims) {
  const box = h("span", { class: "rlnb-shape" }, "[");
  dims.forEach(([role, size], i) => {
    const same = i > 0 && dims[i - 1][0] === role;
    if (i) box.append(same ? "," : " | ");
    const tag = same || role === "f" ? "" : `${role.toUpperCase()}=`;
    box.append(h("span", { style: `color:var(--rlnb-${COLORS[role]})` }, `${tag}${size ?? -1}`));
  });
  box.append("]");
  return box;
}

/** What the colours of shapes mean, for the roles that occur in `shapes`, a list of lists of [role, size]. */
export function shapeLegend(shapes) {
  const found = new Set(shapes.flat().map(([role]) => role));
  const roles = Object.keys(NAMES).filter((role) => found.has(role));
  return legend(roles.map((role) => [COLORS[role], NAMES[role]]), "colours of the dimensions");
}

// The tree of a TED in the page: the shared tree with the columns of root and next.

import { h } from "../_core/core.js";
import { treeView } from "../_core/treeview.js";
import { paintThumbs, rowElement, updateRow } from "./row.js";
import { flagged, traits } from "./tree.js";

/** Make the tree; see the shared treeView for onSelect and onPaint. */
export function tedTree(view, onSelect, onPaint) {
  const [rootHead, nextHead, markHead] = [h("div", {}), h("div", {}), h("div", {}, "step_mdp")];
  const header = h("div", {}, h("div", {}, "key"), rootHead, ...(view.ted ? [nextHead, markHead] : []));
  const tree = treeView({
    rows: view.rows, name: "entries of the TensorDict", id: view.id, header, heights: [35, 56], narrow: 620, traits, flagged, onSelect, onPaint,
    build: (row, i, place) => rowElement(row, i, view, place),
    update: (element, row) => updateRow(element, row, view),
    paint: (element, row) => paintThumbs(element, row, view.thumbs),
  });
  tree.el.classList.toggle("ted-single", !view.ted);
  const updateRows = tree.update;
  tree.update = () => {
    const at = view.steps === null ? "" : `[${view.t}]`;
    rootHead.textContent = view.ted ? `root${at}` : "entry";
    nextHead.textContent = `next${at}`;
    // What follows is the root of the next step, so the arrow leads away from this row's root.
    markHead.textContent = view.steps === null ? "step_mdp" : `→ root[${view.t + 1}]`;
    updateRows();
  };
  return tree;
}

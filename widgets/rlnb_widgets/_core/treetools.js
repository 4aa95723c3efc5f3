// The tools above a tree: the search field with the number of rows that it finds, buttons that fold all, and toggles; and
// the words below it.

import { button, h } from "./dom.js";
import { foldable } from "./tree.js";

/**
 * Make the tools; `label` says what is searched, `flags` are the name and the title of the button that leaves only flagged rows.
 *
 * Returns { search, folds, only, count, filter(), find() }; where there is nothing to fold or flagged, folds or only is null.
 */
export function treeTools(tree, rows, label, flags) {
  const search = h("input", { type: "search", class: "rlnb-field rlnb-search", placeholder: "Search (/)", "aria-label": label, title: `${label} (/)` });
  const count = h("span", { class: "rlnb-note", role: "status" });
  const filter = () => {
    const shown = tree.filter(search.value);
    count.textContent = search.value || tree.filtering ? `${shown} of ${rows.length}` : "";
  };
  search.addEventListener("input", filter);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && search.value) { search.value = ""; filter(); event.stopPropagation(); }
    else if (event.key === "ArrowDown" || event.key === "Enter") { event.preventDefault(); event.stopPropagation(); tree.focus(); }
  });
  const fold = (words, on) => button({ text: words, label: words.toLowerCase(), onclick: () => tree.foldAll(on) });
  const folds = foldable(rows).length ? h("span", { class: "rlnb-group" }, fold("Expand all", false), fold("Collapse all", true)) : null;
  const only = tree.flagged ? toggle(`${flags[0]} (${tree.flagged})`, flags[1], false, (on) => { tree.filtering = on; filter(); }) : null;
  return { search, folds, only, count, filter, find() { search.focus(); search.select(); } };
}

/** A model in words, a paragraph for each part. */
export const inWords = (parts) => h("details", { class: "rlnb-inwords" }, h("summary", {}, "In words"), ...parts.map((part) => h("p", {}, part)));

/** A button that is on or off; flip(on) hears of it. `set(on)` shows the state without a call. */
export function toggle(text, title, on, flip) {
  const made = button({ text, label: text, title, onclick: () => { made.set(made.getAttribute("aria-pressed") !== "true"); flip(made.getAttribute("aria-pressed") === "true"); } });
  made.set = (now) => made.setAttribute("aria-pressed", String(now));
  made.set(on);
  return made;
}

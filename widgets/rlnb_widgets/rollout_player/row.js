// The TED row under the playhead: root at t beside "next" at t + 1.

import { h, text } from "../_core/core.js";

/** One side of an entry at a step, written shortly: { words, values }. */
export function sideAt(head, columns, side, e, t) {
  if (!side) return { words: "", values: null };
  const row = e * head.steps + t;
  if (head.kinds[columns[head.code][row]] === "padding" || side.absent.includes(e)) return { words: "—", values: null };
  const values = side.columns.map((c) => columns[c][row]);
  const written = values.map((v) => (side.texts ? side.texts[v] ?? "" : text(v))).join(", ");
  return { words: side.around.join(written), values: values.length ? values : null };
}

/** Whether two sides of an entry hold different values. */
export function changed(a, b) {
  if (!a.values || !b.values) return false;
  return a.values.some((v, i) => v !== b.values[i] && !(Number.isNaN(v) && Number.isNaN(b.values[i])));
}

/** Build the table; update(t, envs) writes the row of `count` environments, one, or two that are compared. */
export function rowPanel(head, columns, count) {
  const cells = (tag, attributes) => Array.from({ length: 2 * count }, () => h(tag, attributes));
  const top = cells("th", { scope: "col" });
  const rows = head.entries.map(() => cells("td"));
  const lines = head.entries.map(({ key, about }, i) => h("tr", {}, h("th", { scope: "row", title: about }, key), ...rows[i]));
  const el = h("div", { class: "rlnb-row-panel", tabindex: 0, role: "region", "aria-label": "the row at the playhead" },
    h("table", { class: "rlnb-data rlnb-ted-row" }, h("caption", {}, "The row at the playhead"),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "key"), ...top)), h("tbody", {}, ...lines)));
  el.style.setProperty("--rlnb-keys", Math.max(0, ...head.entries.map((entry) => entry.key.length)));

  return {
    el,
    update(t, envs) {
      top.forEach((cell, c) => {
        cell.textContent = (count > 1 ? `${head.labels[envs[c >> 1]]} ` : "") + (c % 2 ? `"next" at ${t + 1}` : `root at ${t}`);
      });
      head.entries.forEach((entry, i) => {
        const sides = envs.flatMap((e) => [entry.root, entry.next].map((side) => sideAt(head, columns, side, e, t)));
        rows[i].forEach((cell, c) => {
          const moved = c % 2 === 1 && changed(sides[c - 1], sides[c]);
          const parted = c >= 2 && changed(sides[c - 2], sides[c]);
          const why = [moved && "changed from the root", parted && "differs from a"].filter(Boolean).join(", ");
          cell.textContent = sides[c].words;
          cell.title = sides[c].words + (why && ` (${why})`);
          cell.className = [moved && "rlnb-changed", parted && "rlnb-parted"].filter(Boolean).join(" ");
          if (why) cell.append(h("span", { class: "rlnb-sr" }, ` ${why}`));
        });
      });
    },
  };
}

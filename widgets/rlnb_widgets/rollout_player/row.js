// The TED row under the playhead: root at t beside "next" at t + 1.

import { h, text } from "../_core/core.js";

/** One side of an entry at a step, written shortly: { words, values }. */
export function sideAt(head, columns, side, e, t) {
  if (!side) return { words: "", values: null };
  const over = head.kinds[columns[head.code][e * head.steps + t]] === "padding";
  if (over || side.absent.includes(e)) return { words: "—", values: null };
  const size = side.shape.reduce((a, b) => a * b, 1);
  const values = side.columns.map((c) => columns[c][e * head.steps + t]);
  if (side.texts) return { words: side.texts[values[0]] ?? "", values };
  if (side.hot) return { words: `one-hot [${size}], 1\u00a0at\u00a0${values[0]}`, values };
  if (values.length === 0) return { words: `${side.dtype} [${side.shape.join(", ")}]`, values: null };
  const written = values.map((v) => (side.dtype === "bool" ? (v ? "True" : "False") : text(v))).join(", ");
  if (size === 1 && side.shape.length <= 1) return { words: written, values };
  return { words: size > values.length ? `[${written}, … ${size}]` : `[${written}]`, values };
}

/** Whether two sides of an entry hold different values. */
export function changed(a, b) {
  if (!a.values || !b.values) return false;
  return a.values.some((v, i) => v !== b.values[i] && !(Number.isNaN(v) && Number.isNaN(b.values[i])));
}

/** Build the table; update(t, envs) writes the row of the environments (one, or two that are compared). */
export function rowPanel(head, columns) {
  const body = h("tbody", {});
  const top = h("tr", {});
  const table = h("table", { class: "rlnb-data rlnb-ted-row" },
    h("caption", {}, "The row at the playhead"), h("thead", {}, top), body);
  const el = h("div", { class: "rlnb-row-panel", tabindex: 0, role: "region", "aria-label": "the row at the playhead" }, table);
  el.style.setProperty("--rlnb-keys", Math.max(0, ...head.entries.map((entry) => entry.key.length)));
  const rows = head.entries.map((entry) => {
    const row = h("tr", {}, h("th", { scope: "row", title: about(entry) }, entry.key));
    body.append(row);
    return row;
  });

  const cells = (row, count) => {
    while (row.children.length < count + 1) row.append(h("td", {}));
    while (row.children.length > count + 1) row.lastChild.remove();
    return [...row.children].slice(1);
  };

  return {
    el,
    update(t, envs) {
      const two = envs.length > 1;
      const names = envs.flatMap((e) => {
        const who = two ? `${head.labels[e]} ` : "";
        return [`${who}root at ${t}`, `${who}"next" at ${t + 1}`];
      });
      top.replaceChildren(h("th", { scope: "col" }, "key"), ...names.map((name) => h("th", { scope: "col" }, name)));
      head.entries.forEach((entry, i) => {
        const sides = envs.map((e) => ["root", "next"].map((s) => sideAt(head, columns, entry[s], e, t)));
        const [first] = sides;
        cells(rows[i], 2 * envs.length).forEach((cell, c) => {
          const [root, next] = sides[c >> 1];
          const here = c % 2 ? next : root;
          const moved = c % 2 === 1 && changed(root, next);
          const parted = c >= 2 && changed(first[c % 2], here);
          cell.textContent = here.words;
          cell.title = here.words;
          cell.className = [moved && "rlnb-changed", parted && "rlnb-parted"].filter(Boolean).join(" ");
          if (moved || parted) {
            const why = [moved && "changed from the root", parted && "differs from a"].filter(Boolean).join(", ");
            cell.title = `${here.words} (${why})`;
            cell.append(h("span", { class: "rlnb-sr" }, ` ${why}`));
          }
        });
      });
    },
  };
}

function about(entry) {
  const side = (s) => (s ? `${s.dtype} [${s.shape.join(", ")}]` : "not there");
  return `${entry.key}\nroot: ${side(entry.root)}\nnext: ${side(entry.next)}`;
}

// The root in a chart: for each action its prior, its share of the visits, and the policy that the search makes of them.

import { h, legend, plural } from "../_core/core.js";
import { scored } from "./formulas.js";
import { short } from "./notation.js";
import { actionName } from "./store.js";

const MOST = 16;

/** The actions of the root as `scored` has them, with the share of their visits, and the prior where there are some. */
export function summaryOf(tree, c) {
  const rows = scored(tree, 0, c);
  const total = rows.reduce((all, row) => all + row.n, 0);
  return rows.map((row) => ({ ...row, share: total ? row.n / total : 0, prior: tree.head.priors ? row.p : null }));
}

/** The chart; look() gives { tree, own, selected }, onSelect(node). */
export function summaryPanel({ look, onSelect }) {
  const chart = h("div", { class: "tx-bars", role: "list" });
  const heading = h("h4");
  const key = h("div");
  const el = h("section", { class: "tx-summary", "aria-label": "actions of the root" }, heading, chart, key);

  function update() {
    const { tree, own, other, t, records } = look();
    const { head } = tree;
    const rows = summaryOf(tree, own);
    const visited = head.size === "visits";
    el.hidden = rows.length === 0;
    heading.textContent = head.priors ? "The root: prior, visits, policy" : visited ? "The root: visits" : "The root: nodes below each action";
    const there = other ? new Map(summaryOf(other, other.head.rule?.c ?? own).map((row) => [row.action, row])) : null;
    const shown = rows.length <= MOST ? rows : [...rows].sort((a, b) => b.n - a.n || (b.prior ?? 0) - (a.prior ?? 0)).slice(0, MOST);
    const most = Math.max(...shown.flatMap((row) => [row.share, row.prior ?? 0, row.improved ?? 0, there?.get(row.action)?.share ?? 0]), 1e-9);
    const ended = t === records.count && rows.find((row) => row.action === head.best);
    const best = ended || shown.reduce((a, b) => (b.n > a.n ? b : a), shown[0]);
    const bar = (role, share) => (share === null || share === undefined ? null : h("i", { class: "tx-bar", style: `background:var(--rlnb-${role});height:${((100 * share) / most).toFixed(1)}%` }));
    chart.replaceChildren(...shown.map((row) => {
      const name = actionName(tree, row.action);
      const percent = (share) => `${(100 * share).toFixed(share < 0.0995 && share > 0 ? 1 : 0)}%`;
      const words = [`action ${name}`, row.prior === null ? null : `prior ${percent(row.prior)}`, `${plural(row.n, head.size.slice(0, -1))}, ${percent(row.share)}`,
        there ? `${percent(there.get(row.action)?.share ?? 0)} in the other tree` : null,
        row.improved === null ? null : `improved policy ${percent(row.improved)}`, Number.isNaN(row.q) ? "never tried" : `value ${short(row.q)}`].filter(Boolean).join(", ");
      return h("div", { role: "listitem", class: "tx-barbox" }, h("button", {
        type: "button", class: `tx-barbutton${row === best && row.n ? " tx-best" : ""}`, "data-action": row.action, "aria-label": words, title: words, disabled: row.child < 0,
        onclick: () => onSelect(row.child),
      }, h("span", { class: "tx-columns" }, bar("c7", row.prior), bar("c0", row.share), there ? bar("c4", there.get(row.action)?.share ?? 0) : null, bar("c2", row.improved)),
      h("span", { class: "tx-percent" }, percent(row.improved ?? row.share)), h("span", { class: "tx-barname" }, name)));
    }));
    const improved = rows.some((row) => row.improved !== null);
    const same = !improved && visited && head.kind === "search" ? ", which is the improved policy" : "";
    key.replaceChildren(legend([
      head.priors ? ["c7", "prior"] : null,
      ["c0", visited ? `share of the visits${same}` : "share of the nodes"],
      there ? ["c4", "share of the visits in the other tree"] : null,
      improved ? ["c2", "improved policy"] : null,
    ].filter(Boolean)), ...(rows.length > shown.length ? [`${rows.length - shown.length} more actions`] : []));
  }
  return { el, update };
}

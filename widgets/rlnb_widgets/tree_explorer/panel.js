// What is known of the selected node (its position, its numbers, its actions with their scores, and the formula filled
// in), and of the root (a chart of its actions).

import { button, clamp, factList, h, keyboard, legend, plural } from "../_core/core.js";
import { sceneView } from "../_core/scene.js";
import { ranking, scored, written } from "./formulas.js";
import { fixed, math, short } from "./notation.js";
import { changedMean, keyOf } from "./records.js";
import { TERMINAL, actionName, bestAction, edgesTo, hasFlag, isKept, isThere, pathWords } from "./store.js";

const WAYS = 6; // to a node, written at the most
const ROWS = 60; // of the table, at the most
const BOARD = 196; // width of a position, as in live.css
const SMALL = 10; // less high letters cannot be read
const BARS = 16; // of the chart, at the most

/** The facts of a node, as pairs of name and value. */
export function factsOf(tree, node) {
  const visits = tree.visits[node];
  const mean = visits > 0 ? tree.valueSum[node] / visits : NaN;
  const facts = tree.head.size === "nodes" ? [["nodes at and below it", visits.toLocaleString("en")]]
    : [["visits", visits.toLocaleString("en")], ["mean value", short(mean)]];
  if (tree.head.kind === "search") facts.push(["evaluated as", short(tree.evaluation[node])]);
  if (tree.head.players) facts.push(["to move", `player${tree.toPlay[node]}`]);
  facts.push(["depth", String(tree.depth[node])]);
  if (tree.reward[node]) facts.push(["reward of the step here", short(tree.reward[node])]);
  if (tree.steps?.[node] > 1) facts.push(["steps from the node before", String(tree.steps[node])]);
  const ways = edgesTo(tree, node).filter((e) => isThere(tree, tree.edgeFrom[e]));
  const way = (e) => `${pathWords(tree, tree.edgeFrom[e])} by ${actionName(tree, tree.edgeAction[e])}`;
  const more = ways.length > WAYS ? [`${ways.length - WAYS} more`] : [];
  if (ways.length > 1) facts.push(["reached from", [...ways.slice(0, WAYS).map(way), ...more].join("; ")]);
  if (isKept(tree, node)) facts.push(["kept", "from the previous search"]);
  return facts;
}

/** The panel; look() as for the other views, with c, own (the search's own c), boards, matched(node); onC, onSelect. */
export function nodePanel({ look, onSelect, onC }) {
  let picked = -1; // the action whose formula is written; -1: the best one
  let seen = -1;
  let wide = 0;
  const title = h("h4", { tabindex: -1 });
  const scene = sceneBox();
  const facts = h("dl", { class: "rlnb-facts" });
  const body = h("tbody");
  const heads = h("tr");
  const table = h("table", { class: "rlnb-data tx-table", "aria-label": "actions" }, h("thead", {}, heads), body);
  const none = h("p", { class: "rlnb-note rlnb-small" });
  const formula = h("div", { class: "tx-formula", role: "group", "aria-label": "formula of the score" });
  const name = h("span", { class: "tx-cname" });
  const slider = h("input", { type: "range", class: "tx-range", "aria-label": "exploration constant", min: 0, step: "any" });
  const value = h("output", { class: "tx-c" });
  const reset = button({ text: "reset", label: "back to the constant of the search", class: "rlnb-small", onclick: () => onC(look().own) });
  const constant = h("div", { class: "tx-row tx-constant" }, h("label", { class: "tx-row" }, name, slider), value, reset);
  slider.addEventListener("input", () => onC(Number(slider.value)));
  const hint = h("p", { class: "rlnb-note rlnb-small" });
  const position = h("div", { class: "tx-position" }, scene.el, facts);
  const scroll = h("div", { class: "tx-scroll" }, table);
  const el = h("section", { class: "tx-panel", "aria-label": "selected node" }, title, position, none, scroll, constant, hint, formula);

  // The lines are made anew, and with them the one that had the focus.
  const focusPicked = () => (body.querySelector('[tabindex="0"]') ?? title).focus({ preventScroll: true });
  const pick = (action) => { picked = action; update(); focusPicked(); };
  const step = (way) => () => {
    const rows = [...body.children];
    const at = rows.findIndex((row) => row.classList.contains("tx-picked"));
    pick(Number(rows[clamp(at + way, 0, rows.length - 1)].dataset.action));
  };
  keyboard(table, { ArrowUp: ["action above", step(-1)], ArrowDown: ["action below", step(1)] });

  function update() {
    const state = look();
    const { tree, selected: node, c, own } = state;
    const { rule } = tree.head;
    const moved = node !== seen;
    if (moved) { seen = node; picked = -1; }
    const board = state.boards?.[node];
    title.textContent = pathWords(tree, node) + (board?.label ? `: ${board.label}` : "");
    scene.show(board, tree.head.scene);
    facts.replaceChildren(...factList(factsOf(tree, node)));
    const rows = scored(tree, node, c);
    none.hidden = rows.length > 0;
    table.hidden = !none.hidden;
    none.textContent = hasFlag(tree, node, TERMINAL) ? "The episode ends here: there is no action." : "No action is known here.";
    const order = ranking(rows);
    const chosen = rows.find((row) => row.action === picked) ?? rows[order[0]];
    const before = new Map(ranking(c === own ? rows : scored(tree, node, own)).map((i, place) => [rows[i].action, place]));
    // While a record is played, no row changes its place: the actions are in order, unless the reader ranks them anew.
    const listed = order.slice(0, ROWS);
    const hidden = order.length - listed.length;
    if (state.records.count && c === own) listed.sort((a, b) => rows[a].action - rows[b].action);
    const columns = columnsOf(state);
    const held = body.contains(document.activeElement);
    heads.replaceChildren(...headsOf(columns));
    body.replaceChildren(...listed.map((i) => lineOf(tree, rows[i], columns, { place: order.indexOf(i), before, chosen, pick, onSelect })));
    if (held) focusPicked();
    const slides = rows.length > 0 && Boolean(rule?.known && rule.cName);
    constant.hidden = !slides;
    hint.textContent = [
      slides && c !== own && "Ranked by this constant; the search itself is unchanged.",
      hidden && `${hidden.toLocaleString("en")} more actions, with lower scores.`,
    ].filter(Boolean).join(" ");
    hint.hidden = !slides && !hidden;
    if (slides) {
      const gamma = rule.cName === "gamma";
      name.textContent = gamma ? "γ" : rule.cName;
      Object.assign(slider, { max: String(Math.max(rule.cHigh || 4, c)), min: gamma ? "0.01" : "0", value: String(c) });
      value.textContent = short(c);
      reset.disabled = c === own;
    }
    paintFormula(formula, tree, node, chosen);
    if (moved) settle();
    el.setAttribute("data-node", String(node));
    el.setAttribute("data-order", order.map((i) => rows[i].action).join(" "));
  }
  /** Never be lower than for the nodes before, so that what is below stays in its place; in another width it begins anew. */
  function settle() {
    if (!el.clientWidth) return;
    if (el.clientWidth !== wide) { wide = el.clientWidth; el.style.minHeight = ""; }
    el.style.minHeight = `${Math.ceil(el.getBoundingClientRect().height)}px`;
  }
  const observer = new ResizeObserver(() => { if (el.clientWidth !== wide) settle(); });
  observer.observe(el);
  return { el, update, destroy() { scene.destroy(); observer.disconnect(); } };
}

/** The columns of the table: [head, what it is, cell of a row]. */
function columnsOf({ tree, changed, matched, other }) {
  const { rule, priors, kind, size, compare } = tree.head;
  const [n, w] = [({ edge }) => keyOf("edge_visits", edge), ({ edge }) => keyOf("edge_value_sum", edge)];
  return [
    size === "nodes" && ["nodes", "nodes at and below", (row) => [short(row.n)]],
    size === "visits" && ["n", "visits", (row) => arrow(changed.get(n(row)), row.n)],
    size === "visits" && ["W", "sum of the returns", (row) => arrow(changed.get(w(row)), row.w)],
    size === "visits" && ["Q", "mean return, W / n", (row) => arrow(changedMean(changed, w(row), n(row), row.w, row.n), row.q, fixed)],
    priors && ["P", "prior probability", (row) => [fixed(row.p)]],
    rule?.known && [rule.name === "Gumbel" ? "σ(Q)" : "U", "what the rule adds to the value", (row) => [fixed(row.u)]],
    kind === "search" && ["score", "what the rule selects by", (row) => [fixed(row.score), "tx-score"]],
    other && ["n other", `visits (${compare.names[1]})`, (row) => [short(matched(row)?.n ?? NaN)]],
    other && ["Q other", `mean return (${compare.names[1]})`, (row) => [fixed(matched(row)?.q ?? NaN)]],
  ].filter(Boolean);
}

/** A number, and what it was where the last phase changed it. */
function arrow(change, now, write = short) {
  if (!change || change[0] === change[1]) return [write(now)];
  return [h("span", {}, h("small", {}, `${write(change[0])} → `), write(change[1])), "tx-new"];
}

/** The heads of the columns, whose widths do not depend on what is in them: they would move while a record is played. */
function headsOf(columns) {
  const style = `width:${(75 / columns.length).toFixed(1)}%`;
  const head = ([name, about]) => h("th", { scope: "col", style, title: about, "aria-label": `${name}, ${about}` }, name);
  return [h("th", { scope: "col", style: "width:18%" }, "action"), ...columns.map(head), h("td")];
}

/** The line of an action: its place in the ranking, and where it was `before` the reader ranked anew. */
function lineOf(tree, row, columns, { place, before, chosen, pick, onSelect }) {
  const { action, child } = row;
  const moved = before.get(action) - place;
  const name = actionName(tree, action);
  const marks = [row === chosen && "tx-picked", place === 0 && "tx-first", row.n === 0 && "tx-untried"];
  const [way, sign, far] = [moved > 0 ? "up" : "down", moved > 0 ? "▲" : "▼", Math.abs(moved)];
  const arrow = moved ? h("span", { class: `tx-${way}`, title: `${far} ${way}` }, ` ${sign}${far}`) : null;
  const choose = h("button", {
    type: "button", class: "tx-pick", tabindex: row === chosen ? 0 : -1, "aria-pressed": String(row === chosen),
    title: `write the formula of action ${name}`,
  }, name, arrow);
  const go = h("button", {
    type: "button", class: "tx-go", "aria-label": `go to action ${name}`, title: "go there", onclick: () => onSelect(child),
  }, "›");
  const onclick = (event) => {
    event.stopPropagation(); // else the tree would take the focus
    if (!go.contains(event.target)) pick(action);
  };
  const cells = columns.map(([, , cell]) => { const [content, mark] = cell(row); return h("td", { class: mark ?? null }, content); });
  return h("tr", { "data-action": action, class: marks.filter(Boolean).join(" "), onclick },
    h("th", { scope: "row" }, choose), ...cells, h("td", {}, isThere(tree, child) ? go : null));
}

function paintFormula(box, tree, node, row) {
  const lines = row ? written(tree, node, row) : null;
  box.hidden = !lines;
  if (!lines) return;
  const { names, numbers, result, note, part } = lines;
  const name = actionName(tree, row.action);
  const key = [names, numbers, result, ...part, note, name].join("\n");
  if (box.getAttribute("data-formula") === key) return;
  box.setAttribute("data-formula", key);
  const lhs = (text) => h("span", { class: "rlnb-note rlnb-small" }, text);
  const [meaning, spelled] = part.map((text) => math(text));
  box.replaceChildren(...[
    h("p", {}, lhs("score = "), math(names)), meaning && h("p", {}, meaning),
    h("p", {}, lhs(`of ${name}: `), spelled, spelled && h("br"), math(numbers, result ? "" : note)),
    // An action that was never tried has no result yet, but its line.
    h("p", { class: "tx-result" }, result ? math(result, note) : "\u00a0"),
    h("p", { class: "tx-letters rlnb-note rlnb-small" }, tree.head.rule.letters),
  ].filter(Boolean));
}

/** Where the board or the observation of a node is drawn. */
function sceneBox() {
  const el = h("div", { class: "tx-board" });
  let view = null;
  let of = null;
  return {
    el,
    show(board, scene) {
      el.hidden = !board && !scene;
      if (scene && of !== scene) {
        of = scene;
        view?.destroy();
        const read = scene.marks.filter((mark) => mark.kind !== "text" || (mark.size * BOARD) / scene.width >= SMALL);
        view = sceneView({ ...scene, marks: read });
      }
      const kind = board?.frame && view ? "scene" : board?.pairs?.length ? "pairs" : "none";
      const content = {
        scene: () => view.el,
        pairs: () => h("dl", { class: "rlnb-facts" }, ...factList(board.pairs)),
        none: () => h("p", { class: "rlnb-note rlnb-small" }, "The position of this node needs a running kernel."),
      }[kind]();
      if (content !== el.firstChild) el.replaceChildren(content);
      if (kind === "scene") view.show(board.frame);
      el.role = kind === "scene" ? "img" : null;
      el.ariaLabel = kind === "scene" ? board.caption || board.label || "position" : null;
      el.classList.toggle("tx-text", kind !== "scene");
      el.dataset.board = kind;
    },
    destroy: () => view?.destroy(),
  };
}

/** The actions of the root as `scored` has them, with the share of their visits, and the prior where there are some. */
export function summaryOf(tree, c) {
  const rows = scored(tree, 0, c);
  const total = rows.reduce((all, row) => all + row.n, 0);
  return rows.map((row) => ({ ...row, share: total ? row.n / total : 0, prior: tree.head.priors ? row.p : null }));
}

/** The root in a chart: for each action its prior, its share of the visits, and the policy that the search makes of them. */
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
    heading.textContent = `The root: ${head.priors ? "prior, visits, policy" : visited ? "visits" : "nodes below each action"}`;
    const there = other ? new Map(summaryOf(other, other.head.rule?.c ?? own).map((row) => [row.action, row])) : null;
    const shareThere = (row) => there?.get(row.action)?.share ?? 0;
    const larger = (a, b) => b.n - a.n || (b.prior ?? 0) - (a.prior ?? 0);
    const shown = rows.length <= BARS ? rows : [...rows].sort(larger).slice(0, BARS);
    const most = Math.max(...shown.flatMap((row) => [row.share, row.prior ?? 0, row.improved ?? 0, shareThere(row)]), 1e-9);
    const best = bestAction(tree, t === records.count);
    const bar = (role, share) => {
      const height = `${((100 * share) / most).toFixed(1)}%`;
      return share === null ? null : h("i", { class: "tx-bar", style: `background:var(--rlnb-${role});height:${height}` });
    };
    const percent = (share) => `${(100 * share).toFixed(share < 0.0995 && share > 0 ? 1 : 0)}%`;
    chart.replaceChildren(...shown.map((row) => {
      const name = actionName(tree, row.action);
      const words = [
        `action ${name}`,
        row.prior === null ? null : `prior ${percent(row.prior)}`,
        `${plural(row.n, head.size.slice(0, -1))}, ${percent(row.share)}`,
        there ? `${percent(shareThere(row))} (${head.compare.names[1]})` : null,
        row.improved === null ? null : `improved policy ${percent(row.improved)}`,
        Number.isNaN(row.q) ? "never tried" : `value ${short(row.q)}`,
      ].filter(Boolean).join(", ");
      const bars = [bar("c7", row.prior), bar("c0", row.share), bar("c4", there ? shareThere(row) : null), bar("c2", row.improved)];
      const made = h("button", {
        type: "button", class: `tx-barbutton${row.action === best && row.n ? " tx-best" : ""}`, "data-action": row.action,
        "aria-label": words, title: words, disabled: row.child < 0, onclick: () => onSelect(row.child),
      }, h("span", { class: "tx-columns" }, ...bars),
      h("span", { class: "tx-percent" }, percent(row.improved ?? row.share)), h("span", { class: "tx-barname" }, name));
      return h("div", { role: "listitem", class: "tx-barbox" }, made);
    }));
    const improved = rows.some((row) => row.improved !== null);
    const same = !improved && visited && head.kind === "search" ? ", which is the improved policy" : "";
    const shares = `share of the ${visited ? "visits" : "nodes"}`;
    const [first, second] = there ? head.compare.names.map((name) => ` (${name})`) : [""];
    key.replaceChildren(legend([
      head.priors ? ["c7", "prior"] : null,
      ["c0", `${shares}${first}${same}`],
      there ? ["c4", `${shares}${second}`] : null,
      improved ? ["c2", "improved policy"] : null,
    ].filter(Boolean)), ...(rows.length > shown.length ? [`${rows.length - shown.length} more actions`] : []));
  }
  return { el, update };
}

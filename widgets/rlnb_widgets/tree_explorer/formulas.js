// The scores by which the rules select, computed in the page, and each written out with its numbers.

import { mapped, minus, num } from "./notation.js";
import { weightOf } from "./store.js";

/**
 * The actions of a node with what is known of them at the moment and what a rule makes of it.
 *
 * Returns rows { edge, action, child, n, w, q, p, u, score, terms } in the order of the actions; q is NaN where nothing
 * was tried, u is what the rule adds to the value, and score what it selects by. `c` is the constant to score with.
 */
export function scored(tree, node, c) {
  const { rule, scale } = tree.head;
  const rows = [];
  for (let e = tree.edgeStart[node]; e < tree.edgeStart[node + 1]; e++) {
    const n = tree.edgeVisits[e];
    const w = tree.edgeSum[e];
    rows.push({
      edge: e, action: tree.edgeAction[e], child: tree.edgeChild[e], n, w, q: n > 0 ? w / n : NaN, p: tree.edgePrior[e],
      extra: tree.edgeExtra?.[e] ?? 0, weight: weightOf(tree, e), u: NaN, score: NaN, terms: {},
    });
  }
  const score = rule?.known ? SCORES[rule.name] : null;
  if (score) score(rows, { tree, node, rule, scale, c, total: tree.visits[node] });
  else if (tree.edgeScore) for (const row of rows) row.score = tree.edgeScore[row.edge];
  return rows;
}

/** The places of rows by their score, the best first; without scores by visits; ties leave the order of the actions. */
export function ranking(rows) {
  const known = rows.some((row) => !Number.isNaN(row.score));
  const by = (row) => (known ? row.score : row.weight);
  return rows.map((_, i) => i).sort((a, b) => by(rows[b]) - by(rows[a]) || a - b);
}

const unit = ({ middle, half }, q) => (q - middle) / half;

const SCORES = {
  UCB1(rows, { scale, c, total }) {
    for (const row of rows) {
      row.u = row.n > 0 ? c * Math.sqrt(Math.log(total) / row.n) : Infinity;
      row.score = row.n > 0 ? unit(scale, row.q) + row.u : Infinity;
    }
  },
  UCB1Tuned(rows, { tree, scale, c, total }) {
    const low = scale.middle - scale.half;
    for (const row of rows) {
      const bound = Math.log(total) / row.n;
      const value = (row.q - low) / (2 * scale.half);
      const square = row.extra / row.n;
      const variance = square - value * value + Math.sqrt(c * bound);
      const capped = Math.min(Math.max(variance, 0), 0.25);
      row.terms = { value, square, variance, capped };
      row.u = row.n > 0 ? Math.sqrt(bound * capped) : Infinity;
      row.score = row.n > 0 ? value + row.u : Infinity;
    }
  },
  PUCT(rows, { rule, scale, c, total }) {
    const { base, first_play: first } = rule.params;
    const weight = base === null || base === undefined ? c : c + Math.log((total + base + 1) / base);
    for (const row of rows) {
      row.terms = { weight, value: row.n > 0 ? row.q : first };
      row.u = (weight * row.p * Math.sqrt(total)) / (1 + row.n);
      row.score = unit(scale, row.terms.value) + row.u;
    }
  },
  EXP3(rows, { c }) {
    const most = Math.max(...rows.map((row) => row.extra));
    const sum = rows.reduce((all, row) => all + Math.exp(row.extra - most), 0);
    for (const row of rows) {
      row.terms = { share: Math.exp(row.extra - most) / sum };
      row.u = c / rows.length;
      row.score = (1 - c) * row.terms.share + row.u;
    }
  },
  Gumbel(rows, { tree, node, rule, c }) {
    const shares = improved(rows, tree, node, rule, c);
    const visits = rows.reduce((all, row) => all + row.n, 0);
    const plan = node === 0 && rule.draws.length ? rootPlan(rows, rule) : null;
    rows.forEach((row, i) => {
      row.terms.share = shares[i];
      row.u = row.terms.sigma;
      if (!plan) { row.score = shares[i] - row.n / (1 + visits); row.terms.visits = visits; return; }
      Object.assign(row.terms, { draw: rule.draws[row.action], wanted: plan.wanted, since: plan.since[i] });
      row.terms.full = row.terms.draw + row.terms.logit;
      row.score = plan.since[i] === plan.wanted ? row.terms.full : -Infinity;
    });
  },
};

const TINY = 2.2250738585072014e-308;

/** The improved policy of Gumbel: softmax of the logarithm of the prior plus what the values say. */
function improved(rows, tree, node, rule, c) {
  const prior = rows.map((row) => Math.max(row.p, TINY));
  const visits = rows.reduce((all, row) => all + row.n, 0);
  const taken = rows.map((row, i) => (row.n > 0 ? prior[i] : 0));
  const mass = Math.max(taken.reduce((a, b) => a + b, 0), TINY);
  const known = rows.reduce((all, row, i) => all + (row.n > 0 ? taken[i] * row.q : 0), 0) / mass;
  const mixed = (tree.evaluation[node] + visits * known) / (visits + 1);
  const q = rows.map((row) => (row.n > 0 ? row.q : mixed));
  const low = Math.min(...q);
  const span = Math.max(Math.max(...q) - low, 1e-8);
  const weight = (rule.params.c_visit + Math.max(...rows.map((row) => row.n))) * c;
  rows.forEach((row, i) => {
    const sigma = (weight * (q[i] - low)) / span;
    row.terms = { sigma, weight, completed: q[i], stretched: (q[i] - low) / span, logit: Math.log(prior[i]) + sigma };
  });
  const most = Math.max(...rows.map((row) => row.terms.logit));
  const sum = rows.reduce((all, row) => all + Math.exp(row.terms.logit - most), 0);
  return rows.map((row) => Math.exp(row.terms.logit - most) / sum);
}

/** The improved policy of the actions of a node at the moment; null where the rule makes it of the visits alone. */
export function improvedPolicy(tree, node, c) {
  const { rule } = tree.head;
  return rule?.known && rule.name === "Gumbel" ? improved(scored(tree, node, c), tree, node, rule, c) : null;
}

/** Which actions of the root sequential halving compares now: those tried `wanted` times since the search began. */
function rootPlan(rows, rule) {
  const since = rows.map((row) => row.n - (rule.before[row.action] ?? 0));
  const turn = since.reduce((a, b) => a + b, 0);
  return { since, wanted: rule.plan[turn] ?? NaN };
}

// Written out ---------------------------------------------------------------------------------------------------------

/** What the letters of a formula mean. */
export const LETTERS = {
  UCB1: "Q: mean return of the action, n: its visits, N: visits of the node",
  UCB1Tuned: "q: mean return of the action, from 0 to 1, s²: mean of its squares, V: how far it may vary, n: its visits, N: visits of the node",
  PUCT: "Q: mean return of the action, P: its prior, n: its visits, N: visits of the node",
  EXP3: "w: weight of the action, Σ w: all weights, K: number of actions; the score is the chance to be drawn",
  Gumbel: "g: the draw of the action, P: its prior, n: visits, q: its value stretched to 0 to 1, π: improved policy, the softmax of ln P + (c_visit + max n) · c_scale · q",
};

/**
 * The formula of a row as [with names, with numbers, worked out], in the notation of notation.js, and after them a part
 * of it that has a name, with names and with numbers; null where it is not known.
 */
export function written(tree, node, row, c) {
  const { rule, scale } = tree.head;
  return rule?.known ? WRITTEN[rule.name]?.(row, { scale, c, total: tree.visits[node], rule, rootNode: node === 0, arms: tree.edgeStart[node + 1] - tree.edgeStart[node] }) ?? null : null;
}

const name = (text) => ["name", text];
const Q = name("Q");
const frac = (a, b) => ["frac", a, b];
const root = (x) => ["root", x];
const line = (...parts) => ["row", ...parts];
const UNTRIED = line(num(Infinity), ["words", "never tried: it comes first"]);

const WRITTEN = {
  UCB1(row, { scale, c, total }) {
    const names = line(mapped(scale, Q), "+", name("c"), "·", root(frac(line("ln", name("N")), name("n"))));
    if (!row.n) return [names, UNTRIED];
    return [names, line(mapped(scale, num(row.q)), "+", num(c), "·", root(frac(line("ln", num(total)), num(row.n)))), line("=", num(unit(scale, row.q)), "+", num(row.u), "=", num(row.score))];
  },
  UCB1Tuned(row, { c, total }) {
    const score = (q, n, N, spread) => line(q, "+", root(line(frac(line("ln", N), n), "·", "min(¼,", spread, ")")));
    const spread = (square, mean, weight, N, n) => line(square, "−", mean, "+", root(line(weight, "·", frac(line("ln", N), n))));
    const names = score(name("q"), name("n"), name("N"), name("V"));
    if (!row.n) return [names, UNTRIED];
    const { value, square, variance, capped } = row.terms;
    return [
      names, score(num(value), num(row.n), num(total), num(variance)),
      line("=", num(value), "+", root(line(num(Math.log(total) / row.n), "·", num(capped))), "=", num(row.score)),
      line(name("V"), "=", spread(name("s²"), name("q²"), name("c"), name("N"), name("n"))),
      line(name("V"), "=", spread(num(square), num(value * value), num(c), num(total), num(row.n)), "=", num(variance)),
    ];
  },
  PUCT(row, { scale, c, total, rule }) {
    const { base } = rule.params;
    const grown = base !== null && base !== undefined;
    const weight = grown ? line("(", name("c"), "+", "ln", frac(line(name("N"), "+", name("base"), "+", num(1)), name("base")), ")") : name("c");
    const filled = grown ? line("(", num(c), "+", "ln", frac(num(total + base + 1), num(base)), ")") : num(c);
    return [
      line(mapped(scale, Q), "+", weight, "·", name("P"), "·", frac(root(name("N")), line(num(1), "+", name("n")))),
      line(mapped(scale, num(row.terms.value)), "+", filled, "·", num(row.p), "·", frac(root(num(total)), line(num(1), "+", num(row.n)))),
      line("=", num(unit(scale, row.terms.value)), "+", num(row.u), "=", num(row.score)),
    ];
  },
  EXP3(row, { c, arms }) {
    return [
      line("(", num(1), "−", name("γ"), ")", "·", frac(name("w"), line("Σ", name("w"))), "+", frac(name("γ"), name("K"))),
      line("(", num(1), "−", num(c), ")", "·", num(row.terms.share), "+", frac(num(c), num(arms))), line("=", num(row.score)),
    ];
  },
  Gumbel(row, { rule, rootNode, c }) {
    const { sigma, stretched, draw, share, since, wanted, visits } = row.terms;
    if (!rootNode || !rule.draws.length) {
      return [
        line(name("π"), "−", frac(name("n"), line(num(1), "+", "Σ", name("n")))),
        line(num(share), "−", frac(num(row.n), num(1 + visits))), line("=", num(row.score)),
      ];
    }
    const filled = line(num(draw), "+", "ln", num(row.p), "+", num(row.terms.weight), "·", num(stretched));
    const sum = line("=", num(draw), "+", minus(Math.log(Math.max(row.p, TINY))), "+", num(sigma), "=", num(row.terms.full));
    return [
      line(name("g"), "+", "ln", name("P"), "+", "(", name("c_visit"), "+", "max", name("n"), ")", "·", name("c_scale"), "·", name("q")),
      filled,
      since === wanted ? sum : line(sum, ["words", `not compared now: tried ${since}, not ${wanted} times`]),
    ];
  },
};

// The scores of the rules, computed in the page, and the formula of each score with its numbers filled in.

import { mapped, minus, num } from "./notation.js";
import { formulas } from "./score_formulas.js";
import { weightOf } from "./store.js";

/**
 * The actions of a node with their statistics at the playhead and their scores.
 *
 * Returns rows { edge, action, child, n, w, q, p, weight, u, score, improved, terms } in the order of the actions. q is
 * NaN for an action never tried, u is the bonus that the rule adds to the value, improved its share of the policy; null
 * for a rule whose policy is the share of the visits. `c` is the exploration constant to score with.
 */
export function scored(tree, node, c) {
  const { rule, scale } = tree.head;
  const rows = [];
  for (let e = tree.edgeStart[node]; e < tree.edgeStart[node + 1]; e++) {
    const n = tree.edgeVisits[e];
    const w = tree.edgeSum[e];
    rows.push({
      edge: e, action: tree.edgeAction[e], child: tree.edgeChild[e], n, w, q: n > 0 ? w / n : NaN, p: tree.edgePrior[e],
      extra: tree.edgeExtra?.[e] ?? 0, weight: weightOf(tree, e), u: NaN, score: NaN, improved: null, terms: {},
    });
  }
  const score = rule?.known ? SCORES[rule.name] : null;
  if (score) score(rows, { tree, node, rule, scale, c, total: tree.visits[node] });
  else if (tree.edgeScore) for (const row of rows) row.score = tree.edgeScore[row.edge];
  return rows;
}

/** The indices of rows sorted by score, best first; without scores by visits. Ties keep the order of the actions. */
export function ranking(rows) {
  const known = rows.some((row) => !Number.isNaN(row.score));
  const by = (row) => (known ? row.score : row.weight);
  return rows.map((_, i) => i).sort((a, b) => by(rows[b]) - by(rows[a]) || a - b);
}

const unit = ({ middle, half }, q) => (q - middle) / half;

const SCORES = {
  UCB1(rows, { scale, c, total }) {
    const log_total = Math.log(total);
    for (const row of rows) {
      row.u = row.n > 0 ? formulas.ucb1({ value: 0, visits: row.n, log_total, c }) : Infinity;
      row.score = row.n > 0 ? formulas.ucb1({ value: unit(scale, row.q), visits: row.n, log_total, c }) : Infinity;
    }
  },
  UCB1Tuned(rows, { tree, scale, c, total }) {
    const low = scale.middle - scale.half;
    for (const row of rows) {
      const known = { value: (row.q - low) / (2 * scale.half), square: row.extra / row.n, visits: row.n, log_total: Math.log(total), c };
      const variance = formulas.ucb1_tuned_variance(known);
      row.terms = { value: known.value, square: known.square, variance, capped: formulas.ucb1_tuned_capped({ variance }) };
      row.score = row.n > 0 ? formulas.ucb1_tuned(known) : Infinity;
      row.u = row.n > 0 ? row.score - known.value : Infinity;
    }
  },
  PUCT(rows, { rule, scale, c, total }) {
    const { base, first_play: first } = rule.params;
    const weight = base === null || base === undefined ? c : formulas.puct_constant({ total, c, base });
    for (const row of rows) {
      const known = { visits: row.n, root_total: Math.sqrt(total), prior: row.p, c: weight };
      row.terms = { weight, value: row.n > 0 ? row.q : first };
      row.u = formulas.puct({ ...known, value: 0 });
      row.score = formulas.puct({ ...known, value: unit(scale, row.terms.value) });
    }
  },
  EXP3(rows, { c }) {
    const shares = softmax(rows.map((row) => row.extra));
    rows.forEach((row, i) => {
      row.terms = { share: shares[i] };
      row.u = formulas.exp3({ share: 0, count: rows.length, gamma: c });
      row.score = formulas.exp3({ share: shares[i], count: rows.length, gamma: c });
    });
  },
  Gumbel(rows, { tree, node, rule, c }) {
    const shares = improved(rows, tree, node, rule, c);
    const visits = rows.reduce((all, row) => all + row.n, 0);
    const plan = node === 0 && rule.draws.length ? rootPlan(rows, rule) : null;
    rows.forEach((row, i) => {
      row.improved = shares[i];
      row.u = row.terms.sigma;
      if (!plan) { row.score = formulas.gumbel_score({ improved: shares[i], visits: row.n, total: visits }); row.terms.visits = visits; return; }
      Object.assign(row.terms, { draw: rule.draws[row.action], wanted: plan.wanted, since: plan.since[i] });
      row.terms.full = row.terms.draw + row.terms.logit;
      row.score = plan.since[i] === plan.wanted ? row.terms.full : -Infinity;
    });
  },
};

function softmax(logits) {
  const most = Math.max(...logits);
  const weights = logits.map((logit) => Math.exp(logit - most));
  const sum = weights.reduce((a, b) => a + b, 0);
  return weights.map((weight) => weight / sum);
}

/** The improved policy of Gumbel. It also fills in the terms of the rows. */
function improved(rows, tree, node, rule, c) {
  const total = rows.reduce((all, row) => all + row.n, 0);
  const taken = rows.filter((row) => row.n > 0);
  const share = (row) => Math.max(row.p, formulas.TINY);
  const mass = Math.max(taken.reduce((all, row) => all + share(row), 0), formulas.TINY);
  const known = taken.reduce((all, row) => all + share(row) * row.q, 0) / mass;
  const mixed = formulas.gumbel_mixed_value({ evaluation: tree.evaluation[node], known, total });
  const q = rows.map((row) => (row.n > 0 ? row.q : mixed));
  const low = Math.min(...q);
  const span = Math.max(...q) - low;
  const weight = formulas.gumbel_weight({ most: Math.max(...rows.map((row) => row.n)), c_visit: rule.params.c_visit, c_scale: node === 0 ? c : c * rule.params.below });
  rows.forEach((row, i) => {
    const stretched = formulas.gumbel_stretched({ value: q[i], low, span });
    const sigma = weight * stretched;
    row.terms = { sigma, weight, completed: q[i], stretched, logit: formulas.gumbel_logit({ prior: row.p, sigma }) };
  });
  return softmax(rows.map((row) => row.terms.logit));
}

/** What sequential halving compares at the root now: the actions tried `wanted` times since the search began. */
function rootPlan(rows, rule) {
  const since = rows.map((row) => row.n - (rule.before[row.action] ?? 0));
  const turn = since.reduce((a, b) => a + b, 0);
  return { since, wanted: rule.plan[turn] ?? NaN };
}

// Written out ---------------------------------------------------------------------------------------------------------

/** The meaning of the letters of a formula. */
export const LETTERS = {
  UCB1: "Q: mean return of the action, n: its visits, N: visits of the node",
  UCB1Tuned: "q: mean return of the action, from 0 to 1, s²: mean of its squares, V: how far it may vary, n: its visits, N: visits of the node",
  PUCT: "Q: mean return of the action, P: its prior, n: its visits, N: visits of the node",
  EXP3: "w: weight of the action, Σ w: all weights, K: number of actions; the score is the chance to be drawn",
  Gumbel: "g: the draw of the action, P: its prior, n: visits, q: its value stretched to 0 to 1, π: improved policy, the softmax of ln P + (c_visit + max n) · c_scale · q",
};

/**
 * The formula of a row in the notation of notation.js: [with names, with numbers, result], followed by a named part of it
 * with names and with numbers, if it has one. Null if the formula is not known.
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
    const { sigma, stretched, draw, since, wanted, visits } = row.terms;
    if (!rootNode || !rule.draws.length) {
      return [
        line(name("π"), "−", frac(name("n"), line(num(1), "+", "Σ", name("n")))),
        line(num(row.improved), "−", frac(num(row.n), num(1 + visits))), line("=", num(row.score)),
      ];
    }
    const filled = line(num(draw), "+", "ln", num(row.p), "+", num(row.terms.weight), "·", num(stretched));
    const sum = line("=", num(draw), "+", minus(formulas.gumbel_logit({ prior: row.p, sigma: 0 })), "+", num(sigma), "=", num(row.terms.full));
    return [
      line(name("g"), "+", "ln", name("P"), "+", "(", name("c_visit"), "+", "max", name("n"), ")", "·", name("c_scale"), "·", name("q")),
      filled,
      since === wanted ? sum : line(sum, ["words", `not compared now: tried ${since}, not ${wanted} times`]),
    ];
  },
};

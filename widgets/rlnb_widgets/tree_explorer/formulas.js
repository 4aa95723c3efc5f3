// The scores of the rules, computed in the page, and the formula of each score with its numbers filled in.

import { filled, short } from "./notation.js";
import { formulas } from "./score_formulas.js";
import { edgesOf } from "./store.js";

/** Whether sequential halving chooses among the actions. */
const halves = (rule, node) => node === 0 && Boolean(rule.atRoot);

/**
 * The actions of a node with their statistics at the playhead and their scores.
 *
 * Returns rows { edge, action, child, n, w, q, p, value, u, score, improved, numbers } in the order of the actions.
 * q is NaN for an action never tried, u is the bonus that the rule adds to the value, improved its share of the policy;
 * null for a rule whose policy is the share of the visits. `c` is the exploration constant to score with.
 */
export function scored(tree, node, c) {
  const { rule } = tree.head;
  const rows = edgesOf(tree, node).map((edge) => {
    const [n, w] = [tree.edgeVisits[edge], tree.edgeSum[edge]];
    return {
      edge, action: tree.edgeAction[edge], child: tree.edgeChild[edge], n, w, q: n > 0 ? w / n : NaN, p: tree.edgePrior[edge],
      extra: tree.edgeExtra?.[edge] ?? 0, value: NaN, u: NaN, score: NaN, improved: null, numbers: {},
    };
  });
  if (rule?.known) score(rows, tree, node, c);
  else if (tree.edgeScore) for (const row of rows) row.score = tree.edgeScore[row.edge];
  return rows;
}

/** The indices of rows sorted by score, best first; without scores by visits. Ties keep the order of the actions. */
export function ranking(rows) {
  const known = rows.some((row) => !Number.isNaN(row.score));
  const by = (row) => (known ? row.score : row.n);
  return rows.map((_, i) => i).sort((a, b) => by(rows[b]) - by(rows[a]) || a - b);
}

/** Fill in the scores of rows, and the numbers of their formulas by name. */
function score(rows, tree, node, c) {
  const { rule, scale } = tree.head;
  const unit = (q) => (q - scale.middle) / scale.half;
  const common = { N: tree.visits[node], c, ...rule.params };
  for (const row of rows) {
    row.numbers = { ...common, n: row.n, P: row.p, Q: row.q };
    row.value = unit(row.q);
  }
  SCORES[rule.name](rows, { tree, node, rule, c, unit, total: common.N, log_total: Math.log(common.N) });
  for (const row of rows) {
    if (row.skipped) row.score = -Infinity;
    if (isUntried(rule, row)) row.score = row.u = Infinity;
    if (Number.isNaN(row.u)) row.u = row.score - row.value;
  }
}

const isUntried = (rule, row) => row.n === 0 && rule.name.startsWith("UCB1");

/** The scores of rows by rule, the part of them that is no bonus, and the numbers that only this rule has. */
const SCORES = {
  UCB1(rows, { c, log_total }) {
    for (const row of rows) row.score = formulas.ucb1({ value: row.value, visits: row.n, log_total, c });
  },
  UCB1Tuned(rows, { c, unit, log_total }) {
    for (const row of rows) {
      const known = { value: (unit(row.q) + 1) / 2, square: row.extra / row.n, visits: row.n, log_total, c };
      row.value = known.value;
      row.score = formulas.ucb1_tuned(known);
      Object.assign(row.numbers, { q: known.value, "q²": known.value ** 2, "s²": known.square, V: formulas.ucb1_tuned_variance(known) });
    }
  },
  PUCT(rows, { rule, c, unit, total }) {
    const { base, first_play } = rule.params;
    const weight = base ? formulas.puct_constant({ total, c, base }) : c;
    for (const row of rows) {
      if (row.n === 0) row.numbers.Q = first_play;
      row.value = unit(row.numbers.Q);
      row.score = formulas.puct({ value: row.value, visits: row.n, root_total: Math.sqrt(total), prior: row.p, c: weight });
    }
  },
  EXP3(rows, { c }) {
    const shares = softmax(rows.map((row) => row.extra));
    rows.forEach((row, i) => {
      row.value = formulas.exp3({ share: shares[i], count: Infinity, gamma: c });
      row.score = formulas.exp3({ share: shares[i], count: rows.length, gamma: c });
      Object.assign(row.numbers, { γ: c, "w / (Σ w)": shares[i], K: rows.length });
    });
  },
  Gumbel(rows, { tree, node, rule, c }) {
    const total = rows.reduce((all, row) => all + row.n, 0);
    const taken = rows.filter((row) => row.n > 0);
    const share = (row) => Math.max(row.p, formulas.TINY);
    const mass = taken.reduce((all, row) => all + share(row), 0) || formulas.TINY;
    const known = taken.reduce((all, row) => all + share(row) * row.q, 0) / mass;
    const mixed = formulas.gumbel_mixed_value({ evaluation: tree.evaluation[node], known, total });
    const q = rows.map((row) => (row.n > 0 ? row.q : mixed));
    const low = Math.min(...q);
    const span = Math.max(...q) - low;
    const most = Math.max(...rows.map((row) => row.n));
    const c_scale = node === 0 ? c : c * rule.params.below;
    rows.forEach((row, i) => {
      const stretched = formulas.gumbel_stretched({ value: q[i], low, span });
      row.u = formulas.gumbel_weight({ most, c_visit: rule.params.c_visit, c_scale }) * stretched;
      row.logit = formulas.gumbel_logit({ prior: row.p, sigma: row.u });
      Object.assign(row.numbers, { "Σ n": total, "max n": most, c_scale, q: stretched });
    });
    const shares = softmax(rows.map((row) => row.logit));
    rows.forEach((row, i) => {
      row.improved = row.numbers.π = shares[i];
      row.score = formulas.gumbel_score({ improved: shares[i], visits: row.n, total });
    });
    if (halves(rule, node)) halved(rows, rule);
  },
};

/** What sequential halving compares at the root now: the actions tried `wanted` times since the search began. */
function halved(rows, rule) {
  const since = (row) => row.n - (rule.before[row.action] ?? 0);
  const wanted = rule.plan[rows.reduce((all, row) => all + since(row), 0)] ?? NaN;
  for (const row of rows) {
    row.numbers.g = rule.draws[row.action];
    row.score = row.numbers.g + row.logit;
    if (since(row) !== wanted) row.skipped = `not compared now: tried ${since(row)}, not ${wanted} times`;
  }
}

function softmax(logits) {
  const most = Math.max(...logits);
  const weights = logits.map((logit) => Math.exp(logit - most));
  const sum = weights.reduce((a, b) => a + b, 0);
  return weights.map((weight) => weight / sum);
}

/**
 * The formula of a row: { names, numbers, result, note, part }, `part` being what a name in it stands for, with names and
 * with numbers. Null if the formula is not known.
 */
export function written(tree, node, row) {
  const { rule } = tree.head;
  if (!rule?.known) return null;
  const { numbers } = row;
  const names = halves(rule, node) ? rule.atRoot : rule.formula;
  if (isUntried(rule, row)) return { names, numbers: "∞", result: "", note: "never tried: it comes first", part: [] };
  const part = rule.variance ? [`V = ${rule.variance}`, `V = ${filled(rule.variance, numbers)} = ${short(numbers.V)}`] : [];
  return { names, numbers: filled(names, numbers), result: resultOf(rule, node, row), note: row.skipped ?? "", part };
}

function resultOf(rule, node, { value, u, score: now, logit, numbers }) {
  if (halves(rule, node)) {
    const prior = short(formulas.gumbel_logit({ prior: numbers.P, sigma: 0 }));
    return `= ${short(numbers.g)} + ${prior.startsWith("−") ? `(${prior})` : prior} + ${short(u)} = ${short(numbers.g + logit)}`;
  }
  if (rule.name === "EXP3" || rule.name === "Gumbel") return `= ${short(now)}`;
  if (rule.name !== "UCB1Tuned") return `= ${short(value)} + ${short(u)} = ${short(now)}`;
  const [bound, capped] = [Math.log(numbers.N) / numbers.n, formulas.ucb1_tuned_capped({ variance: numbers.V })];
  return `= ${short(value)} + √(${short(bound)} · ${short(capped)}) = ${short(now)}`;
}

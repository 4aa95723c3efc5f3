// The score formulas. Generated from rlnb.modules.mcts.formulas; to write it again:
// python -m rlnb_widgets.tree_explorer.js_formulas

export const formulas = {
  TINY: 2.2250738585072014e-308,
  ucb1: ({ value, visits, log_total, c }) => (value + (c * ((log_total / visits) ** 0.5))),
  ucb1_tuned_variance: ({ value, square, visits, log_total, c }) => ((square - (value * value)) + ((c * (log_total / visits)) ** 0.5)),
  ucb1_tuned_capped: ({ variance }) => Math.min(Math.max(variance, 0), 0.25),
  ucb1_tuned: ({ value, square, visits, log_total, c }) => (value + (((log_total / visits) * Math.min(Math.max(((square - (value * value)) + ((c * (log_total / visits)) ** 0.5)), 0), 0.25)) ** 0.5)),
  puct_constant: ({ total, c, base }) => (c + Math.log((((total + base) + 1) / base))),
  puct: ({ value, visits, root_total, prior, c }) => (value + (((c * prior) * root_total) / (1 + visits))),
  exp3: ({ share, count, gamma }) => (((1 - gamma) * share) + (gamma / count)),
  gumbel_mixed_value: ({ evaluation, known, total }) => ((evaluation + (total * known)) / (total + 1)),
  gumbel_stretched: ({ value, low, span }) => ((value - low) / Math.max(span, 1e-08)),
  gumbel_weight: ({ most, c_visit, c_scale }) => ((c_visit + most) * c_scale),
  gumbel_logit: ({ prior, sigma }) => (Math.log(Math.max(prior, 2.2250738585072014e-308)) + sigma),
  gumbel_score: ({ improved, visits, total }) => (improved - (visits / (1 + total))),
};

"""Scores of the actions of a node under each rule, and their formulas with the numbers filled in."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from rlnb.modules.mcts import formulas
from rlnb.search.gumbel import Gumbel, considered_visits, sigma
from rlnb.search.rules import EXP3, PUCT, UCB1, Rule, UCB1Tuned
from rlnb_widgets._core.text import number
from rlnb_widgets.tree_explorer.schema import Edges, Nodes, RuleFacts, TreeModel, Values

_FORMULAS: dict[type[Rule], str] = {
    UCB1: "Q + c · √(ln N(node) / N)",
    UCB1Tuned: "Q + √(ln N(node) / N · min(¼, V)),  V = mean of squares - Q² + √(c · ln N(node) / N)",
    PUCT: "Q + c · P · √N(node) / (1 + N)",
    EXP3: "(1 - gamma) · share of the weights + gamma / actions",
    Gumbel: "at the root g + ln P + sigma(Q); below it improved policy - N / (1 + ΣN);  "
    "sigma(Q) = (c_visit + most visits) · c_scale · Q stretched to 0..1",
}
_GROWING = "Q + (c + ln((N(node) + base + 1) / base)) · P · √N(node) / (1 + N)"


def known_rule(rule: Rule) -> bool:
    """Whether the explorer knows the formula of a rule; a subclass may have another one."""
    return type(rule) in _FORMULAS


def rule_facts(rule: Rule, index: int, root_visits: np.ndarray, legal: int) -> RuleFacts:
    """Return the facts of a rule for one root of a search; without a formula if the rule is not known."""
    kind = type(rule)
    facts: dict[str, Any] = {"name": kind.__name__, "text": repr(rule)}
    if not known_rule(rule):
        return RuleFacts(**facts)
    facts["text"] = re.sub(r"\d+\.\d+", lambda found: number(float(found[0])), repr(rule))
    facts |= {"formula": _FORMULAS[kind], "params": {"low": float(rule.low), "high": float(rule.high)}}
    if isinstance(rule, (UCB1, UCB1Tuned, PUCT)):
        facts |= {"c_name": "c", "c": float(rule.c), "c_high": max(4.0, 2 * float(rule.c))}
    if isinstance(rule, PUCT):
        facts["params"] |= {"base": rule.base, "first_play": float(rule.first_play)}
        if rule.base is not None:
            facts["formula"] = _GROWING
    elif isinstance(rule, EXP3):
        facts |= {"c_name": "gamma", "c": float(rule.gamma), "c_high": 1.0}
    elif isinstance(rule, Gumbel):
        facts |= {"c_name": "c_scale", "c": float(rule.c_scale), "c_high": max(1.0, 2 * float(rule.c_scale))}
        facts["params"] |= {"c_visit": float(rule.c_visit), "simulations": rule.simulations, "below": rule.scale_below}
        if rule.scale_below != 1:
            facts["formula"] += f"; below the root c_scale is multiplied by {number(rule.scale_below)}"
        before = rule.before[index]
        considered = min(rule.considered, len(root_visits), legal)
        turn = int((root_visits - before).sum())
        facts |= {
            "draws": tuple(rule.draws[index].tolist()),
            "before": tuple(int(visits) for visits in before),
            "plan": considered_visits(considered, rule.simulations, turn + 1),
        }
    return RuleFacts(**facts)


class Scores(NamedTuple):
    """The scores of the actions of a node, one number for each of its edges."""

    value: np.ndarray  #: the value term of the formula, Q on its scale
    bonus: np.ndarray  #: the exploration term
    score: np.ndarray  #: their sum


def scores(model: TreeModel, node: int, c: float | None = None) -> Scores | None:
    """Return the scores of the actions of a node, with the rule's own constant if ``c`` is None; None without rule."""
    rule, edges = model.rule, model.edges
    if rule is None:
        return None
    at = edges.of(node)
    part = slice(at.start, at.stop)
    if not len(at):
        return Scores(np.zeros(0), np.zeros(0), np.zeros(0))
    if not rule.formula:
        found = np.full(len(at), np.nan) if edges.scores is None else edges.scores[part]
        return Scores(np.full(len(at), np.nan), np.full(len(at), np.nan), found)
    return _KNOWN[rule.name](model, rule, node, part, rule.c if c is None else float(c))


def _mean(edges: Edges, part: slice) -> np.ndarray:
    return edges.value_sum[part] / np.maximum(edges.visits[part], 1)


def _scaled(values: Values, mean: np.ndarray) -> np.ndarray:
    return (mean - (values.low + values.high) / 2) / ((values.high - values.low) / 2)


def _untried_first(edges: Edges, part: slice, value: np.ndarray, score: np.ndarray) -> Scores:
    score = np.where(edges.visits[part] == 0, np.inf, score)
    return Scores(value, score - value, score)


def _ucb1(model: TreeModel, rule: RuleFacts, node: int, part: slice, c: float) -> Scores:
    edges, visits = model.edges, np.maximum(model.edges.visits[part], 1)
    value = _scaled(model.values, _mean(edges, part))
    return _untried_first(edges, part, value, formulas.ucb1(value, visits, _log(model.nodes, node), c))


def _ucb1_tuned(model: TreeModel, rule: RuleFacts, node: int, part: slice, c: float) -> Scores:
    value, square, visits, log_total = _tuned_terms(model, rule, node, part)
    return _untried_first(model.edges, part, value, formulas.ucb1_tuned(value, square, visits, log_total, c))


def _tuned_terms(model: TreeModel, rule: RuleFacts, node: int, part: slice) -> tuple[Any, Any, Any, float]:
    """Return the value, the mean of squares and the visits of some edges, and the logarithm of the node's visits."""
    edges = model.edges
    assert edges.extra is not None
    visits = np.maximum(edges.visits[part], 1)
    low, high = rule.params["low"], rule.params["high"]
    return (_mean(edges, part) - low) / (high - low), edges.extra[part] / visits, visits, _log(model.nodes, node)


def _log(nodes: Nodes, node: int) -> float:
    return float(formulas.log(max(int(nodes.visits[node]), 1)))


def _puct(model: TreeModel, rule: RuleFacts, node: int, part: slice, c: float) -> Scores:
    edges, total, base = model.edges, float(model.nodes.visits[node]), rule.params["base"]
    visits = edges.visits[part]
    value = _scaled(model.values, np.where(visits > 0, _mean(edges, part), rule.params["first_play"]))
    constant = c if base is None else formulas.puct_constant(total, c, base)
    score = formulas.puct(value, visits, formulas.sqrt(total), edges.prior[part], constant)
    return Scores(value, score - value, score)


def _exp3(model: TreeModel, rule: RuleFacts, node: int, part: slice, c: float) -> Scores:
    assert model.edges.extra is not None
    share, count = formulas.softmax(model.edges.extra[part]), int(model.nodes.legal[node])
    value = formulas.exp3(share, np.inf, c)  # without the uniform part
    score = formulas.exp3(share, count, c)
    return Scores(value, score - value, score)


def _sigma(model: TreeModel, rule: RuleFacts, node: int, part: slice, c: float) -> np.ndarray:
    """Return ``sigma(q)`` of the edges of a node."""
    edges = model.edges
    columns = (edges.visits[part][None], edges.value_sum[part][None], edges.prior[part][None])
    evaluation, legal = model.nodes.evaluation[node : node + 1], np.ones_like(columns[0], dtype=bool)
    return sigma(*columns, evaluation, legal, rule.params["c_visit"], c * rule.params["below"] if node else c)[0]


def _gumbel(model: TreeModel, rule: RuleFacts, node: int, part: slice, c: float) -> Scores:
    edges, values = model.edges, _sigma(model, rule, node, part, c)
    logits, visits = formulas.gumbel_logit(edges.prior[part], values), edges.visits[part]
    if node:
        improved = formulas.softmax(logits)
        score = formulas.gumbel_score(improved, visits, visits.sum())
        return Scores(improved, score - improved, score)
    actions = edges.action[part]
    tried = visits - np.asarray(rule.before)[actions]
    score = np.asarray(rule.draws)[actions] + logits
    wanted = rule.plan[min(int(tried.sum()), len(rule.plan) - 1)]
    return Scores(values, score - values, np.where(tried == wanted, score, -np.inf))


_KNOWN = {"UCB1": _ucb1, "UCB1Tuned": _ucb1_tuned, "PUCT": _puct, "EXP3": _exp3, "Gumbel": _gumbel}


def improved_policy(rule: RuleFacts, model: TreeModel) -> np.ndarray:
    """Return the policy that the search found at its root, a probability for each edge of the root.

    It is Gumbel's improved policy; for other rules the shares of the visits, or the prior without visits.
    """
    at = model.edges.of(0)
    part = slice(at.start, at.stop)
    if rule.name == "Gumbel" and rule.formula and len(at):
        return formulas.softmax(formulas.gumbel_logit(model.edges.prior[part], _sigma(model, rule, 0, part, rule.c)))
    visits = model.edges.visits[part].astype(np.float64)
    return visits / visits.sum() if visits.sum() > 0 else model.edges.prior[part]


#: The formula of each rule with its numbers filled in.
_FILLED = {
    "UCB1": "{value} + {c} · √(ln {total} / {visits}) = {score}",
    "UCB1Tuned": "V = {square} - {value}² + √({c} · ln {total} / {visits}) = {variance};  "
    "{value} + √(ln {total} / {visits} · {capped}) = {score}",
    "PUCT": "{value} + {c} · {prior} · √{total} / (1 + {visits}) = {score}",
    "PUCT with a base": "{value} + ({c} + ln(({total} + {base} + 1) / {base})) · {prior} · √{total} / (1 + {visits})"
    " = {score}",
    "EXP3": "(1 - {c}) · {share} + {c} / {legal} = {score}",
    "Gumbel": "{draw} + {logit} + {value} = {score}",
    "Gumbel below the root": "{value} - {visits} / (1 + {tried}) = {score}",
}


def filled(model: TreeModel, node: int, edge: int, c: float | None = None) -> str:
    """Return the score of an action with its numbers filled in: ``"0.25 + 1.414 · √(ln 200 / 50) = 0.71"``.

    Empty without a rule.
    """
    found, rule, nodes, edges = scores(model, node, c), model.rule, model.nodes, model.edges
    if found is None or rule is None:
        return ""
    part, visits, action = slice(edges.first[node], edges.first[node + 1]), int(edges.visits[edge]), edges.action[edge]
    value, _, score = (float(column[edge - part.start]) for column in found)
    if not rule.formula:
        return f"{rule.name} scores {number(score)}"
    if score == np.inf:
        return "never taken: tried before all others"
    if score == -np.inf:
        return f"tried {visits - rule.before[action]} times; not compared in this round of the halving"
    name, numbers = rule.name, {"value": value, "score": score, "visits": visits, "total": int(nodes.visits[node])}
    numbers |= {"c": rule.c if c is None else float(c), "prior": float(edges.prior[edge])}
    if name == "UCB1Tuned":
        terms = _tuned_terms(model, rule, node, slice(edge, edge + 1))
        variance = formulas.ucb1_tuned_variance(*terms, numbers["c"])
        numbers |= {"square": terms[1][0], "variance": variance[0], "capped": formulas.ucb1_tuned_capped(variance)[0]}
    elif name == "PUCT" and rule.params["base"] is not None:
        name, numbers = "PUCT with a base", {**numbers, "base": rule.params["base"]}
    elif name == "EXP3":
        assert edges.extra is not None
        share = formulas.softmax(edges.extra[part])[edge - part.start]
        numbers |= {"share": share, "legal": int(nodes.legal[node])}
    elif name == "Gumbel" and node:
        name, numbers = "Gumbel below the root", {**numbers, "tried": int(edges.visits[part].sum())}
    elif name == "Gumbel":
        numbers |= {"draw": rule.draws[action], "logit": float(formulas.gumbel_logit(edges.prior[edge], 0.0))}
    return _FILLED[name].format(**{key: number(x) for key, x in numbers.items()})

"""Scores of the actions of a node under each rule, and their formulas with the numbers filled in."""

# Formulas have Greek letters and true minus signs.
# ruff: noqa: RUF001

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from rlnb.modules.mcts import formulas
from rlnb.search.gumbel import Gumbel, considered_visits, sigma
from rlnb.search.rules import EXP3, PUCT, UCB1, Rule, UCB1Tuned
from rlnb_widgets._core.text import number
from rlnb_widgets.tree_explorer.schema import Edges, Nodes, RuleFacts, TreeModel, Values

#: The score by rule. The page shows the same texts, as formulas.
_FORMULAS: dict[type[Rule], str] = {
    UCB1: "Q + c · √(ln N / n)",
    UCB1Tuned: "q + √(ln N / n · min(¼, V))",
    PUCT: "Q + c · P · √(N) / (1 + n)",
    EXP3: "(1 − γ) · w / (Σ w) + γ / K",
    Gumbel: "π − n / (1 + Σ n)",
}
_GROWING = "Q + (c + ln ((N + base + 1) / base)) · P · √(N) / (1 + n)"
_AT_ROOT = "g + ln P + (c_visit + max n) · c_scale · q"
_VARIANCE = "s² − q² + √(c · ln N / n)"
_VISITS = "n: its visits, N: visits of the node"
#: The meaning of the letters.
_LETTERS: dict[type[Rule], str] = {
    UCB1: f"Q: mean return of the action, {_VISITS}",
    UCB1Tuned: f"q: mean return of the action, from 0 to 1, s²: mean of its squares, V: how far it may vary, {_VISITS}",
    PUCT: f"Q: mean return of the action, P: its prior, {_VISITS}",
    EXP3: "w: weight of the action, Σ w: all weights, K: number of actions; the score is the chance to be drawn",
    Gumbel: "g: the draw of the action, P: its prior, n: visits, q: its value stretched to 0 to 1, π: improved policy, "
    "the softmax of ln P + (c_visit + max n) · c_scale · q",
}


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
    low, high = float(rule.low), float(rule.high)
    facts |= {"formula": _FORMULAS[kind], "letters": _LETTERS[kind], "params": {"low": low, "high": high}}
    if isinstance(rule, (UCB1, UCB1Tuned, PUCT)):
        facts |= {"c_name": "c", "c": float(rule.c), "c_high": max(4.0, 2 * float(rule.c))}
    if isinstance(rule, PUCT):
        facts["params"] |= {"base": rule.base, "first_play": float(rule.first_play)}
        if rule.base is not None:
            facts["formula"] = _GROWING
    if isinstance(rule, UCB1Tuned):
        facts["variance"] = _VARIANCE
    elif isinstance(rule, (UCB1, PUCT)):
        facts["formula"] = facts["formula"].replace("Q", _scaled_text(low, high))
    elif isinstance(rule, EXP3):
        facts |= {"c_name": "gamma", "c": float(rule.gamma), "c_high": 1.0}
    elif isinstance(rule, Gumbel):
        facts |= {"c_name": "c_scale", "c": float(rule.c_scale), "c_high": max(1.0, 2 * float(rule.c_scale))}
        facts["params"] |= {"c_visit": float(rule.c_visit), "simulations": rule.simulations, "below": rule.scale_below}
        if rule.scale_below != 1:
            facts["letters"] += f"; below the root c_scale is multiplied by {number(rule.scale_below)}"
        before = rule.before[index]
        considered = min(rule.considered, len(root_visits), legal)
        turn = int((root_visits - before).sum())
        facts |= {
            "at_root": _AT_ROOT,
            "draws": tuple(rule.draws[index].tolist()),
            "before": tuple(int(visits) for visits in before),
            "plan": considered_visits(considered, rule.simulations, turn + 1),
        }
    return RuleFacts(**facts)


def _scaled_text(low: float, high: float) -> str:
    """Return the formula of ``Q`` on the scale from -1 to 1: ``"(Q + 2) / 3"``."""
    middle, half = (low + high) / 2, (high - low) / 2
    shifted = f"(Q {'+' if middle < 0 else '−'} {number(abs(middle))})" if middle else "Q"
    return shifted if half == 1 else f"{shifted} / {number(half)}"


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


def _stretched(model: TreeModel, node: int, part: slice) -> tuple[np.ndarray, int]:
    """Return the values of the actions of a node, stretched to [0, 1], and the most visits of one of them."""
    edges = model.edges
    columns = (edges.visits[part][None], edges.value_sum[part][None], edges.prior[part][None])
    evaluation, legal = model.nodes.evaluation[node : node + 1], np.ones_like(columns[0], dtype=bool)
    most = int(columns[0].max())
    return sigma(*columns, evaluation, legal, c_visit=1 - most, c_scale=1)[0], most  # so sigma's weight is 1


def _c_scale(rule: RuleFacts, node: int, c: float) -> float:
    return c * rule.params["below"] if node else c


def _sigma(model: TreeModel, rule: RuleFacts, node: int, part: slice, c: float) -> np.ndarray:
    """Return ``sigma(q)`` of the edges of a node."""
    q, most = _stretched(model, node, part)
    return np.asarray(formulas.gumbel_weight(most, rule.params["c_visit"], _c_scale(rule, node, c)) * q)


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


def filled(model: TreeModel, node: int, edge: int, c: float | None = None) -> str:
    """Return the score of an action with its numbers filled in: ``"0.25 + 1.414 · √(ln 200 / 50) = 0.71"``.

    Empty without a rule.
    """
    found, rule, edges = scores(model, node, c), model.rule, model.edges
    if found is None or rule is None:
        return ""
    score = float(found.score[edge - edges.first[node]])
    if not rule.formula:
        return f"{rule.name} scores {number(score)}"
    if score == np.inf:
        return "never taken: tried before all others"
    if score == -np.inf:
        tried = int(edges.visits[edge]) - rule.before[edges.action[edge]]
        return f"tried {tried} times; not compared in this round of the halving"
    numbers = _numbers(model, rule, node, edge, rule.c if c is None else float(c))
    text = f"{_with_numbers(rule.formula_at(node), numbers)} = {_written(score)}"
    if rule.variance:
        text = f"V = {_with_numbers(rule.variance, numbers)} = {_written(numbers['V'])};  {text}"
    return text


def _numbers(model: TreeModel, rule: RuleFacts, node: int, edge: int, c: float) -> dict[str, float]:
    """Return the numbers of the formula of an action, by their names in it."""
    nodes, edges, at = model.nodes, model.edges, slice(edge, edge + 1)
    part = slice(int(edges.first[node]), int(edges.first[node + 1]))
    action, place, n = edges.action[edge], edge - part.start, int(edges.visits[edge])
    numbers = {"c": c, "N": int(nodes.visits[node]), "n": n, "P": edges.prior[edge], "Q": _mean(edges, at)[0]}
    if rule.name == "UCB1Tuned":
        terms = _tuned_terms(model, rule, node, at)
        variance = formulas.ucb1_tuned_variance(*terms, c)[0]
        numbers |= {"q": terms[0][0], "q²": terms[0][0] ** 2, "s²": terms[1][0], "V": variance}
    elif rule.name == "PUCT":
        numbers |= {"base": rule.params["base"], **({} if n else {"Q": rule.params["first_play"]})}
    elif rule.name == "EXP3":
        assert edges.extra is not None
        numbers |= {"γ": c, "w / (Σ w)": formulas.softmax(edges.extra[part])[place], "K": int(nodes.legal[node])}
    elif rule.name == "Gumbel":
        q, most = _stretched(model, node, part)
        numbers |= {"q": q[place], "max n": most, "c_visit": rule.params["c_visit"], "c_scale": _c_scale(rule, node, c)}
        numbers |= {"Σ n": int(edges.visits[part].sum()), "g": rule.draws[action]}
        numbers["π"] = _gumbel(model, rule, node, part, c).value[place]
    return numbers


def _with_numbers(formula: str, numbers: dict[str, float]) -> str:
    """Return a formula with numbers in place of its names, one of which may be part of another."""
    names = "|".join(re.escape(name) for name in sorted(numbers, key=len, reverse=True))
    return re.sub(rf"(?<![^\s(])({names})(?![^\s),])", lambda found: _written(numbers[found[0]]), formula)


def _written(x: float) -> str:
    return number(x).replace("-", "−")

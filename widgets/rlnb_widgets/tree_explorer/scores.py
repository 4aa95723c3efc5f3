"""The score of each rule, computed anew from columns, and written out with its numbers filled in."""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

import numpy as np

from rlnb.search import EXP3, PUCT, UCB1, Gumbel, Rule, UCB1Tuned
from rlnb.search.gumbel import considered_visits
from rlnb_widgets._core.text import number
from rlnb_widgets.tree_explorer.schema import Edges, Nodes, RuleFacts, TreeModel, Values

__all__ = ["Scores", "filled", "improved_policy", "known_rule", "rule_facts", "scores"]

_TINY = float(np.finfo(np.float64).tiny)
_CLOSE = 1e-8

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
    """Whether the explorer knows the formula of a rule; one that derives from another may score otherwise."""
    return type(rule) in _FORMULAS


def rule_facts(rule: Rule, index: int, root_visits: np.ndarray, legal: int) -> RuleFacts:
    """Read a rule.

    Args:
        rule: of a search.
        index: which of its roots.
        root_visits: how often each action of the root was taken, ``[A]``.
        legal: how many of them are legal.

    Returns:
        The facts; without a formula for a rule of somebody else's.
    """
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
        facts["params"] |= {"c_visit": float(rule.c_visit), "simulations": rule.simulations}
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
    """How the rule scores the actions of a node, a number for each of its edges.

    Attributes:
        value: what the formula takes as the value, Q on its scale.
        bonus: what it adds for exploration.
        score: the whole.
    """

    value: np.ndarray
    bonus: np.ndarray
    score: np.ndarray


def scores(model: TreeModel, node: int, c: float | None = None) -> Scores | None:
    """Score the actions of a node.

    Args:
        model: what is shown.
        node: which.
        c: the constant of exploration; None for that of the rule.

    Returns:
        The scores; None without a rule.
    """
    rule, edges = model.rule, model.edges
    if rule is None:
        return None
    at = edges.of(node)
    part = slice(at.start, at.stop)
    if not rule.formula:
        found = np.full(len(at), np.nan) if edges.scores is None else edges.scores[part]
        return Scores(np.full(len(at), np.nan), np.full(len(at), np.nan), found)
    return _KNOWN[rule.name](model, rule, node, part, rule.c if c is None else float(c))


def _mean(edges: Edges, part: slice) -> np.ndarray:
    return edges.value_sum[part] / np.maximum(edges.visits[part], 1)


def _scaled(values: Values, mean: np.ndarray) -> np.ndarray:
    return (mean - (values.low + values.high) / 2) / ((values.high - values.low) / 2)


def _first(edges: Edges, part: slice, value: np.ndarray, bonus: np.ndarray) -> Scores:
    """Actions never taken come first."""
    never = edges.visits[part] == 0
    bonus = np.where(never, np.inf, bonus)
    return Scores(value, bonus, np.where(never, np.inf, value + bonus))


def _ucb1(model: TreeModel, rule: RuleFacts, node: int, part: slice, c: float) -> Scores:
    edges = model.edges
    bonus = c * np.sqrt(_log(model.nodes, node) / np.maximum(edges.visits[part], 1))
    return _first(edges, part, _scaled(model.values, _mean(edges, part)), bonus)


def _ucb1_tuned(model: TreeModel, rule: RuleFacts, node: int, part: slice, c: float) -> Scores:
    edges = model.edges
    assert edges.extra is not None
    least = np.maximum(edges.visits[part], 1)
    low, high = rule.params["low"], rule.params["high"]
    value, bound = (_mean(edges, part) - low) / (high - low), _log(model.nodes, node) / least
    variance = edges.extra[part] / least - value * value + np.sqrt(c * bound)
    return _first(edges, part, value, np.sqrt(bound * np.clip(variance, 0, 0.25)))


def _log(nodes: Nodes, node: int) -> float:
    return math.log(max(int(nodes.visits[node]), 1))


def _puct_factor(rule: RuleFacts, total: float, c: float) -> float:
    base = rule.params["base"]
    return c if base is None else c + math.log((total + base + 1) / base)


def _puct(model: TreeModel, rule: RuleFacts, node: int, part: slice, c: float) -> Scores:
    edges, total = model.edges, float(model.nodes.visits[node])
    visits = edges.visits[part]
    mean = np.where(visits > 0, _mean(edges, part), rule.params["first_play"])
    value = _scaled(model.values, mean)
    bonus = _puct_factor(rule, total, c) * edges.prior[part] * math.sqrt(total) / (1 + visits)
    return Scores(value, bonus, value + bonus)


def _exp3(model: TreeModel, rule: RuleFacts, node: int, part: slice, c: float) -> Scores:
    edges = model.edges
    assert edges.extra is not None
    share = _softmax(edges.extra[part])
    bonus = np.full(len(share), c / max(int(model.nodes.legal[node]), 1))
    return Scores((1 - c) * share, bonus, (1 - c) * share + bonus)


def _softmax(logits: np.ndarray) -> np.ndarray:
    if not len(logits):
        return logits
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def _sigma(model: TreeModel, rule: RuleFacts, node: int, part: slice, c: float) -> np.ndarray:
    """``sigma(q)``, where an action never taken has an average of what is known of the node."""
    edges = model.edges
    visits, prior = edges.visits[part], np.maximum(edges.prior[part], _TINY)
    taken, mean = visits > 0, _mean(edges, part)
    weight = np.where(taken, prior, 0.0)
    known = (weight * mean).sum() / max(weight.sum(), _TINY)
    total = visits.sum()
    mean = np.where(taken, mean, (model.nodes.evaluation[node] + total * known) / (total + 1))
    low, span = mean.min(initial=np.inf), np.ptp(mean) if len(mean) else 0.0
    return (rule.params["c_visit"] + visits.max(initial=0)) * c * (mean - low) / max(span, _CLOSE)


def _gumbel(model: TreeModel, rule: RuleFacts, node: int, part: slice, c: float) -> Scores:
    edges = model.edges
    sigma = _sigma(model, rule, node, part, c)
    logits, visits = np.log(np.maximum(edges.prior[part], _TINY)) + sigma, edges.visits[part]
    if node:
        share = visits / (1 + visits.sum())
        improved = _softmax(logits)
        return Scores(improved, -share, improved - share)
    actions = edges.action[part]
    tried = visits - np.asarray(rule.before)[actions]
    value = np.asarray(rule.draws)[actions] + logits
    wanted = rule.plan[min(int(tried.sum()), len(rule.plan) - 1)]
    return Scores(sigma, value - sigma, np.where(tried == wanted, value, -np.inf))


_KNOWN = {"UCB1": _ucb1, "UCB1Tuned": _ucb1_tuned, "PUCT": _puct, "EXP3": _exp3, "Gumbel": _gumbel}


def improved_policy(rule: RuleFacts, model: TreeModel) -> np.ndarray:
    """Return what a search makes of the prior of its root, a probability for each of the root's edges.

    Args:
        rule: of the search.
        model: what is shown.

    Returns:
        The shares of the visits, the prior where nothing was visited yet; of Gumbel, its improved policy.
    """
    at = model.edges.of(0)
    part = slice(at.start, at.stop)
    if rule.name == "Gumbel" and rule.formula:
        sigma = _sigma(model, rule, 0, part, rule.c)
        return _softmax(np.log(np.maximum(model.edges.prior[part], _TINY)) + sigma)
    visits = model.edges.visits[part].astype(np.float64)
    return visits / visits.sum() if visits.sum() > 0 else model.edges.prior[part]


def filled(model: TreeModel, node: int, edge: int, c: float | None = None) -> str:
    """Write the score of an action with its numbers filled in.

    Args:
        model: what is shown.
        node: where it is taken.
        edge: which of the edges of the node.
        c: the constant of exploration; None for that of the rule.

    Returns:
        Such as ``"0.25 + 1.414 · √(ln 200 / 50) = 0.71"``; empty without a rule.
    """
    found, rule = scores(model, node, c), model.rule
    if found is None or rule is None:
        return ""
    i = edge - int(model.edges.first[node])
    value, bonus, score = (float(column[i]) for column in found)
    if not rule.formula:
        return f"{rule.name} scores {number(score)}"
    c = rule.c if c is None else float(c)
    return _WRITTEN[rule.name](model, rule, node, edge, c, (number(value), number(bonus), number(score)))


_Numbers = tuple[str, str, str]


def _write_ucb1(model: TreeModel, rule: RuleFacts, node: int, edge: int, c: float, n: _Numbers) -> str:
    visits = int(model.edges.visits[edge])
    if not visits:
        return "never taken: tried before all others"
    return f"{n[0]} + {number(c)} · √(ln {int(model.nodes.visits[node])} / {visits}) = {n[2]}"


def _write_tuned(model: TreeModel, rule: RuleFacts, node: int, edge: int, c: float, n: _Numbers) -> str:
    visits, total = int(model.edges.visits[edge]), int(model.nodes.visits[node])
    if not visits or model.edges.extra is None:
        return "never taken: tried before all others"
    low, high = rule.params["low"], rule.params["high"]
    value = (float(model.edges.value_sum[edge]) / visits - low) / (high - low)
    square, bound = float(model.edges.extra[edge]) / visits, math.log(total) / visits
    variance = square - value * value + math.sqrt(c * bound)
    return (
        f"V = {number(square)} - {number(value)}² + √({number(c)} · ln {total} / {visits}) = {number(variance)};  "
        f"{n[0]} + √(ln {total} / {visits} · {number(min(max(variance, 0.0), 0.25))}) = {n[2]}"
    )


def _write_puct(model: TreeModel, rule: RuleFacts, node: int, edge: int, c: float, n: _Numbers) -> str:
    total, visits = int(model.nodes.visits[node]), int(model.edges.visits[edge])
    base = rule.params["base"]
    factor = number(c) if base is None else f"({number(c)} + ln(({total} + {number(base)} + 1) / {number(base)}))"
    prior = number(float(model.edges.prior[edge]))
    return f"{n[0]} + {factor} · {prior} · √{total} / (1 + {visits}) = {n[2]}"


def _write_exp3(model: TreeModel, rule: RuleFacts, node: int, edge: int, c: float, n: _Numbers) -> str:
    edges = model.edges
    assert edges.extra is not None
    share = float(_softmax(edges.extra[edges.first[node] : edges.first[node + 1]])[edge - edges.first[node]])
    legal = int(model.nodes.legal[node])
    return f"(1 - {number(c)}) · {number(share)} + {number(c)} / {legal} = {n[2]}"


def _write_gumbel(model: TreeModel, rule: RuleFacts, node: int, edge: int, c: float, n: _Numbers) -> str:
    edges = model.edges
    visits = int(edges.visits[edge])
    if node:
        total = int(edges.visits[edges.first[node] : edges.first[node + 1]].sum())
        return f"{n[0]} - {visits} / (1 + {total}) = {n[2]}"
    action = int(edges.action[edge])
    draw, logit = rule.draws[action], math.log(max(float(edges.prior[edge]), _TINY))
    if n[2] == "-inf":
        return f"tried {visits - rule.before[action]} times; not compared in this round of the halving"
    return f"{number(draw)} + {number(logit)} + {n[0]} = {n[2]}"


_WRITTEN = {
    "UCB1": _write_ucb1,
    "UCB1Tuned": _write_tuned,
    "PUCT": _write_puct,
    "EXP3": _write_exp3,
    "Gumbel": _write_gumbel,
}

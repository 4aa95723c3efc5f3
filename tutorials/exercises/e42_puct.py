"""Exercise of lesson 42 on selection: the action that PUCT selects in a node, tested in a search."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from rlnb.envs import TicTacToeEnv
from rlnb.search import MCTS, Rule, SearchTree

from .asking import ask, fail, kind_of, require, right
from .exercise import exercise
from .mutants import instead
from .verdict import Outcome

SELECT = """
    def select(prior, visits, value_sum, legal, c):
        mean = value_sum / visits.clamp(min=1)
        bonus = c * prior * (1 + visits.sum()).sqrt() / (1 + visits)
        return (mean + bonus).masked_fill(~legal, -torch.inf).argmax()
"""
_SIMULATIONS = 100


class _Node(NamedTuple):
    prior: list[float]
    visits: list[int]
    value_sum: list[float]
    legal: list[bool]
    c: float


#: By what is special about them; each mistake that is known takes other actions in some of them.
NODES = {
    "a new node": _Node([0.1, 0.2, 0.6, 0.1], [0, 0, 0, 0], [0.0] * 4, [True] * 4, 1.5),
    "a node with an action that looks bad": _Node([0.1, 0.6, 0.3], [0, 4, 0], [0.0, -3.6, 0.0], [True] * 3, 1.0),
    "a node with an action that looks good": _Node([0.5, 0.4, 0.1], [1, 8, 0], [-0.5, 7.2, 0.0], [True] * 3, 1.0),
    "a node with two good ones": _Node([0.2, 0.2, 0.6], [9, 3, 5], [5.4, 2.1, -1.0], [True] * 3, 0.5),
    "a node that was visited often": _Node([0.05, 0.95], [60, 340], [33.0, 170.0], [True] * 2, 0.3),
    "a node in which all looks bad": _Node([0.5, 0.0, 0.5], [6, 0, 5], [-5.9, 0.0, -4.9], [True, False, True], 0.5),
    "a node with actions that were never taken": _Node([0.9, 0.1, 0.0], [10, 0, 0], [9.0, 0.0, 0.0], [True] * 3, 0.1),
    "a node without gains": _Node([0.12, 0.41, 0.47], [0, 8, 24], [0.0] * 3, [True] * 3, 1.0),
    "a node where much is explored": _Node([0.3, 0.4, 0.3], [5, 6, 2], [3.5, 3.0, 0.0], [True] * 3, 4.0),
}  # fmt: skip


@exercise(
    title="Select by PUCT",
    prompt="""
        Write `select(prior, visits, value_sum, legal, c)`: the action that PUCT selects in a node. The first four are
        tensors of shape `[actions]`: the probability of each action, its number of visits, the sum of its returns, and
        whether it is legal. The node itself has one visit more than all its actions together. The mean return of an
        action without visits counts as 0.

        The check also uses it in a search on tic-tac-toe.
    """,
    stub="""
        def select(prior, visits, value_sum, legal, c):
            # x.sqrt(), x.argmax(), x.masked_fill(mask, value) and x.clamp(min=...) may be useful
            ...
    """,
    hints=[
        "The score has two parts: the mean return and a bonus. The bonus contains the prior and shrinks with each "
        "visit.",
        "Divide by `visits.clamp(min=1)` to avoid dividing by 0. The sum of the returns is 0 there anyway.",
        "With `n = 1 + visits.sum()`, the bonus is `c * prior * n.sqrt() / (1 + visits)`. Set the score of illegal "
        "actions to minus infinity before `argmax()`.",
    ],
    solution=SELECT,
    wrong=[
        instead(SELECT, of="(1 + visits.sum()).sqrt()", put="visits.sum().sqrt()", says="has one visit of its own"),
        instead(SELECT, of="(1 + visits.sum()).sqrt()", put="(1 + visits.sum())", says="Without the square root"),
        instead(SELECT, of="(1 + visits.sum()).sqrt()", put="(1 + visits.sum()).log().sqrt()", says="no logarithm"),
        instead(SELECT, of="/ (1 + visits)", put="", says="does not shrink"),
        instead(SELECT, of="/ (1 + visits)", put="/ (1 + visits).sqrt()", says="shrinks too slowly"),
        instead(SELECT, of="/ (1 + visits)", put="/ visits", says="divides by 0"),
        instead(SELECT, of="value_sum / visits.clamp(min=1)", put="value_sum / visits", says="0 / 0"),
        instead(SELECT, of="value_sum / visits.clamp(min=1)", put="value_sum", says="The sum of the returns"),
        instead(SELECT, of="value_sum / visits.clamp(min=1)", put="-value_sum / visits.clamp(min=1)",
                says="the other way round"),
        instead(SELECT, of="c * prior", put="prior", says="`c` has no effect"),
        instead(SELECT, of="c * prior *", put="c *", says="Where is the prior"),
        instead(SELECT, of="(mean + bonus)", put="bonus", says="Where is the mean return"),
        instead(SELECT, of="(mean + bonus)", put="mean", says="Where is the bonus"),
        instead(SELECT, of=".masked_fill(~legal, -torch.inf)", put="", says="is not legal"),
        instead(SELECT, of=".argmax()", put="", says="Expected the index of an action"),
        instead(SELECT, of=".argmax()", put=".max()", says="is a score"),
    ],
    accepted=[
        SELECT.replace(".argmax()", ".argmax().numpy()"),
        SELECT.replace(".argmax()", ".argmax(keepdim=True)"),
    ],
    setup="import torch",
)  # fmt: skip
def select(select: Callable[..., Any]) -> Outcome:
    """Check nodes that each have a special feature, then select in a search."""
    answers = [_asked(select, name, node) for name, node in NODES.items()]
    wanted = [_best(_scores(node)) for node in NODES.values()]
    if answers != wanted:
        _explain(answers, wanted)
    game = TicTacToeEnv()
    search = MCTS(game, rule=_Learner(select, 1.5), solver=False, seed=0).reset(game.reset()).run(_SIMULATIONS)
    rule: Any = search.rule
    require(rule.right, "The single nodes are right, but in a search on tic-tac-toe it does not follow the formula.")
    tried = int((search.visits > 0).sum())
    return right(
        f"In {_SIMULATIONS} simulations of tic-tac-toe it followed the formula in each node. All priors are equal "
        f"there, and it tried {tried} of 9 moves. A move with a small prior may never be tried; UCB1 tries every "
        "move first."
    )


def _scores(node: _Node, **change: Any) -> list[float]:
    """Score by the formula, or by one that is wrong in a known way."""
    total = 1 + sum(node.visits)
    root = change.get("root", math.sqrt)(total)
    found = []
    for p, n, w, ok in zip(node.prior, node.visits, node.value_sum, node.legal, strict=True):
        mean = change.get("mean", lambda w, n: w / max(n, 1))(w, n)
        above = change.get("c", node.c) * (1.0 if change.get("flat") else p) * root
        under = change.get("under", lambda n: 1 + n)(n)
        bonus = above / under if under else math.inf * above  # as torch divides by 0
        score = {"mean": mean, "bonus": bonus}.get(change.get("only", ""), mean + bonus)
        found.append(score if ok else -math.inf)
    return found


def _best(scores: list[float]) -> int:
    return int(torch.tensor(scores, dtype=torch.float64).argmax())


def _asked(select: Callable[..., Any], name: str, node: _Node) -> int:
    given = [torch.tensor(values) for values in node[:4]]
    got = ask(select, *given, node.c)
    if isinstance(got, torch.Tensor) and got.shape == given[0].shape and got.numel() > 1:
        fail(f"Expected the index of an action, the one with the best score, got {len(node.prior)} numbers.")
    single = isinstance(got, int) or (isinstance(got, torch.Tensor) and got.numel() == 1)
    require(single, f"Expected the index of an action, got {kind_of(got)}.")
    if isinstance(got, torch.Tensor) and got.dtype.is_floating_point:
        fail(f"Expected the index of an action, got {got.item():.3g}, which is a score.")
    action, many = int(got), len(node.prior)
    require(0 <= action < many, f"For {name}, expected an action from 0 to {many - 1}, got {action}.")
    require(node.legal[action], f"In {name} it selects action {action}, which is not legal.")
    return action


#: The message for each mistake, and what the mistake changes in the formula.
_MISTAKES: dict[str, dict[str, Any]] = {
    "Where is the bonus?": {"only": "mean"},
    "Where is the mean return?": {"only": "bonus"},
    "`c` has no effect.": {"c": 1.0},
    "Where is the prior?": {"flat": True},
    "In a new node no action has visits, but the node has one visit of its own. Without it there is no bonus at all.": {
        "root": lambda total: math.sqrt(total - 1)
    },
    "Without the square root of the visits, the bonus never gets small.": {"root": float},
    "The bonus has no logarithm in it: UCB1 has one, PUCT does not.": {
        "root": lambda total: math.sqrt(math.log(total))
    },
    "The bonus does not shrink with the visits of the action.": {"under": lambda n: 1.0},
    "The bonus shrinks too slowly: only the visits of the node are under the square root.": {
        "under": lambda n: math.sqrt(1 + n)
    },
    "The bonus of an action without visits divides by 0. What should you add to its visits?": {"under": lambda n: n},
    "The mean of an action without visits is 0 / 0, and `argmax` picks `nan` first.": {
        "mean": lambda w, n: w / n if n else math.nan
    },
    "The sum of the returns grows with each visit. Use their mean.": {"mean": lambda w, n: w},
    "The sign is the other way round: the returns are those of the player to move here.": {
        "mean": lambda w, n: -w / max(n, 1)
    },
}


def _explain(answers: list[int], wanted: list[int]) -> None:
    """Name the mistake that takes these actions, or a node that can be computed by hand."""
    at = next(i for i, (got, want) in enumerate(zip(answers, wanted, strict=True)) if got != want)
    name, node = list(NODES.items())[at]
    table = f"prior {node.prior}, visits {node.visits}, sums {node.value_sum}, c = {node.c:g}"
    said = f"In {name} ({table}) it selects action {answers[at]}. "
    for words, change in _MISTAKES.items():
        if answers == [_best(_scores(one, **change)) for one in NODES.values()]:
            fail(said + words)
    scores = [round(score, 2) for score in _scores(node)]
    fail(f"{said}The PUCT scores are {scores}. Compute one of them by hand.")


class _Learner(Rule):
    """Selects with the learner's function, and notes whether each action has the best score by the formula."""

    right = True

    def __init__(self, select: Callable[..., Any], c: float) -> None:
        self.select, self.c = select, c

    def scores(self, tree: SearchTree, rows: np.ndarray) -> np.ndarray:
        found = np.zeros((len(rows), tree.n_actions))
        flat = tree.flat
        for at, row in enumerate(rows.tolist()):
            values = [column[row].copy() for column in (flat.prior, flat.edge_visits, flat.edge_value_sum, flat.legal)]
            action = int(self.select(*map(torch.from_numpy, values), self.c))
            prior, visits, sums, legal = (value.tolist() for value in values)
            scores = _scores(_Node(prior, visits, sums, legal, self.c))
            self.right = self.right and scores[action] > max(scores) - 1e-6
            found[at, action] = 1.0
        return found

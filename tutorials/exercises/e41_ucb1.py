"""Exercise of lesson 41 on selection: the UCB1 score of each action of a node."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .asking import ask, fail, kind_of, require, right
from .exercise import exercise
from .mutants import instead
from .verdict import Outcome

#: Visits and sums of returns of the actions of a node, and c.
NODES = (
    ([4, 2, 2, 2], [0.0, -2.0, -1.0, -1.0], math.sqrt(2)),
    ([40, 3, 9], [22.0, -1.5, 2.0], 0.5),
    ([1, 0, 3], [1.0, 0.0, -1.0], 2.0),
)

SCORES = """
    def ucb1(visits, value_sum, c):
        total = 1 + visits.sum()
        scores = value_sum / visits + c * (total.log() / visits).sqrt()
        return torch.where(visits > 0, scores, torch.inf)
"""


@exercise(
    title="The score of an action",
    prompt="""
        Write `ucb1(visits, value_sum, c)`: the UCB1 scores of the actions of a node. `visits` holds the number of
        visits of each action and `value_sum` the sum of its returns, two tensors of shape `[actions]`. The node itself
        has one visit more than all its actions together. An action without visits has the score `torch.inf`.
    """,
    stub="""
        def ucb1(visits, value_sum, c):
            # the natural logarithm of a tensor: tensor.log()
            ...
    """,
    hints=[
        "The score has two parts: the mean return of an action, and a bonus for rarely taken ones. Neither needs a "
        "loop.",
        "The bonus is `c` times the square root of: the logarithm of the visits of the node, divided by those of the "
        "action.",
        "With `total = 1 + visits.sum()`, the scores are `value_sum / visits + c * (total.log() / visits).sqrt()`. "
        "`torch.where(visits > 0, scores, torch.inf)` gives infinity to actions without visits.",
    ],
    solution=SCORES,
    wrong=[
        instead(SCORES, of="1 + visits.sum()", put="visits.sum()", says="has one visit more"),
        instead(SCORES, of="value_sum / visits +", put="value_sum +", says="The sum of the returns grows"),
        instead(SCORES, of="value_sum / visits +", put="", says="Where is the mean return"),
        instead(SCORES, of=" + c * (total.log() / visits).sqrt()", put="", says="Where is the bonus"),
        instead(SCORES, of="c * (total.log() / visits).sqrt()", put="(c * total.log() / visits).sqrt()",
                says="outside the square root"),
        instead(SCORES, of="c * (", put="(", says="without c"),
        instead(SCORES, of="total.log()", put="total", says="Without the logarithm"),
        instead(SCORES, of="total.log()", put="total.log10()", says="natural logarithm"),
        instead(SCORES, of="/ visits).sqrt()", put="/ visits)", says="the square root of"),
        instead(SCORES, of="(total.log() / visits)", put="(visits / total.log())", says="The bonus grows with"),
        instead(SCORES, of="+ c", put="- c", says="should score higher"),
        instead(SCORES, of="torch.where(visits > 0, scores, torch.inf)", put="scores", says="nan"),
        instead(SCORES, of="torch.where(visits > 0, scores, torch.inf)", put="scores.nan_to_num(0.0)",
                says="has the score 0"),
        instead(SCORES, of="scores, torch.inf", put="scores, -torch.inf", says="never will be"),
        instead(SCORES, of="return torch.where(visits > 0, scores, torch.inf)", put="return scores.argmax()",
                says="one score for each action"),
    ],
    setup="import torch",
)  # fmt: skip
def ucb1(ucb1: Callable[..., Any]) -> Outcome:
    """Compare with the scores of nodes, one of which has an action that was never taken."""
    for visits, sums, c in NODES:
        given = torch.tensor(visits), torch.tensor(sums)
        got = ask(ucb1, *given, c)
        require(isinstance(got, torch.Tensor), f"Expected a tensor, got {kind_of(got)}.")
        shape = f"Expected one score for each action, shape [{len(visits)}], got {list(got.shape)}."
        require(got.shape == given[0].shape, shape)
        _check(got.double(), visits, sums, c)
    return right(
        "The bonus is large where little is known, and shrinks with each visit. It grows slowly while other actions "
        "are visited, so no action is given up for good."
    )


def _check(got: torch.Tensor, visits: list[int], sums: list[float], c: float) -> None:
    said = f"For visits {visits}, sums {sums} and c = {c:.3g} it gave {[round(one, 3) for one in got.tolist()]}. "
    for action, count in enumerate(visits):
        score = float(got[action])
        if not count and score != math.inf:
            why = "so that it never will be" if score == -math.inf else "and should come before all others"
            fail(f"{said}Action {action} was never taken, and has the score {score:g}, {why}.")
    taken = [i for i, count in enumerate(visits) if count]
    n, total = torch.tensor(visits)[taken].double(), torch.tensor(1.0 + sum(visits)).double()
    sum_, scores = torch.tensor(sums)[taken].double(), got[taken]
    mean, log = sum_ / n, total.log()
    if torch.allclose(scores, mean + c * (log / n).sqrt(), atol=1e-4):
        return
    known = {
        "A node has one visit more than all its actions together.": mean + c * ((total - 1).log() / n).sqrt(),
        "The sum of the returns grows with each visit. Use their mean.": sum_ + c * (log / n).sqrt(),
        "Where is the mean return?": c * (log / n).sqrt(),
        "Where is the bonus?": mean,
        "`c` belongs outside the square root.": mean + (c * log / n).sqrt(),
        "It explores without c.": mean + (log / n).sqrt(),
        "Without the logarithm the bonus would never get small.": mean + c * (total / n).sqrt(),
        "`log10` is not the natural logarithm.": mean + c * (total.log10() / n).sqrt(),
        "The bonus is the square root of that.": mean + c * log / n,
        "The bonus grows with the visits of the action.": mean + c * (n / log).sqrt(),
        "Rarely taken actions should score higher, not lower.": mean - c * (log / n).sqrt(),
    }
    reasons = [words for words, numbers in known.items() if torch.allclose(scores, numbers, atol=1e-4)]
    fail(said + (reasons[0] if reasons else "Compute one of them by hand: mean, then bonus."))

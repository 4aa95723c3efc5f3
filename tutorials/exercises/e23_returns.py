"""Exercise of lesson 23 on returns: they bootstrap where an episode was cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase

from .asking import ask, fail, require, right
from .exercise import exercise
from .hall import GAMMA, Value, as_targets, beside_the_truth, close, odd_numbers, value_of_truth, value_table, walk
from .mutants import instead
from .recorded import some, where
from .verdict import Outcome

RETURNS = """
    def returns(td, value, gamma):
        after = value(td["next", "observation"])
        result = torch.zeros_like(td["next", "reward"])
        for t in reversed(range(len(td))):
            if td["next", "terminated"][t]:
                future = 0.0
            elif td["next", "done"][t] or t == len(td) - 1:
                future = after[t]
            else:
                future = result[t + 1]
            result[t] = td["next", "reward"][t] + gamma * future
        return result
"""


@exercise(
    title="Returns that bootstrap at a cut",
    prompt="""
        Write `returns(td, value, gamma)`: the discounted return from each step. It is the reward of the step plus
        `gamma` times the return from the next step. At the end of an episode or of the data, there is no next step:
        after a terminated step the future is 0, and after a cut it is `value` of the last cell that was seen. `td` has
        the shape `[T]`; `value` takes cells of shape `[T]` and returns values of shape `[T, 1]`, even for the goal, as
        a network would. The result has the shape `[T, 1]`. The check draws it on the map.
    """,
    stub="""
        def returns(td, value, gamma):
            # value(td["next", "observation"]) has the shape [T, 1]
            result = torch.zeros_like(td["next", "reward"])
            for t in reversed(range(len(td))):
                result[t] = ...
            return result
    """,
    hints=[
        "Going backwards, you know the return from step t + 1 when you reach step t. There are three cases: the "
        "episode continues in the next row, it terminated, or it was cut.",
        "`done` tells whether the next row belongs to another episode, and `terminated` whether there is no future. "
        "The last row of the data has no next row.",
        'Let `after` be `value(td["next", "observation"])`. If `td["next", "terminated"][t]`, the future is 0. Else, '
        'if `td["next", "done"][t]` or the row is the last one, it is `after[t]`. Else it is `result[t + 1]`.',
    ],
    solution=RETURNS,
    wrong=[
        instead(
            RETURNS,
            of='["next", "terminated"]',
            put='["next", "done"]',
            says="The episodes of these steps were truncated",
        ),
        instead(
            RETURNS, of='td["next", "done"][t] or t == len(td) - 1', put="t == len(td) - 1", says="of another episode"
        ),
        instead(
            RETURNS,
            of='if td["next", "terminated"][t]:\n            future = 0.0\n        el',
            put="",
            says="of these steps were terminated",
        ),
        instead(
            RETURNS,
            of='if td["next", "terminated"][t]:',
            put='if td["next", "terminated"][t] or t == len(td) - 1:',
            says="The data stop there, but the episode does not",
        ),
        instead(RETURNS, of='"next", "observation"', put='"observation"', says="seen before the last step"),
        instead(RETURNS, of="gamma * future", put="future", says="`gamma` has no effect"),
        instead(RETURNS, of="future = result[t + 1]", put="future = after[t]", says="Each holds only one reward"),
        instead(
            RETURNS,
            of='result[t] = td["next", "reward"][t] + gamma * future',
            put="result[t] = gamma * future",
            says="Where are the rewards",
        ),
        instead(RETURNS, of="return result", put="return result.squeeze(-1)", says="got (60,)"),
        instead(
            RETURNS,
            of='td["next", "done"][t] or t == len(td) - 1',
            put='td["next", "truncated"][t]',
            says="IndexError",
        ),
    ],
    setup="import torch",
)
def returns(returns: Callable[..., Any]) -> Outcome:
    """Compare with rewards and values that tell each mistake, then draw the answer for the hall."""
    shown, value = walk(400), value_of_truth()
    td = shown[:60].clone()
    td["next", "reward"] = odd_numbers(len(td))
    other = value_table(odd_numbers(32, seed=1).flatten() + 1.0)
    answers = [as_targets(ask(returns, td, other, gamma), td) for gamma in (0.9, 0.5)]
    require(not torch.allclose(answers[0], answers[1]), "`gamma` has no effect on the result.")
    if not close(answers[0], _returns(td, other, 0.9)):
        drawn = beside_the_truth(shown, as_targets(returns(shown, value, GAMMA), shown), "your returns")
        _explain_returns(answers[0], td, other, drawn)
    require(close(answers[1], _returns(td, other, 0.5)), "Wrong for gamma = 0.5.")
    drawn = beside_the_truth(shown, as_targets(returns(shown, value, GAMMA), shown), "your returns")
    return right("`done` ends the sum, `terminated` ends the future. Cuts do not change the values:", drawn)


def _returns(
    td: TensorDictBase,
    value: Value,
    gamma: float,
    *,
    no_future: str = "terminated",
    stop: str | None = "done",
    last: str = "cut",
    seen: str = "next",
) -> torch.Tensor:
    """The returns; the keywords make those of typical mistakes."""
    after = value(td["next", "observation"] if seen == "next" else td["observation"])
    nothing = torch.zeros_like(td["next", "done"])
    over = nothing if no_future == "nothing" else td["next", no_future]
    stops = nothing if stop is None else td["next", stop]
    result = torch.zeros_like(after)
    for t in reversed(range(len(td))):
        at_end = t == len(td) - 1
        future = after[t] if stops[t] or at_end else result[t + 1]
        if over[t] or (at_end and last == "over"):
            future = torch.zeros(1)
        result[t] = td["next", "reward"][t] + gamma * future
    return result


def _explain_returns(got: torch.Tensor, td: TensorDictBase, value: Value, picture: Any) -> None:
    """Say at which steps the returns are off, why if that is known, and show them on the map."""
    wanted = _returns(td, value, 0.9)
    one_step = td["next", "reward"] + 0.9 * value(td["next", "observation"]) * ~td["next", "terminated"]
    barren = td.clone()
    barren["next", "reward"] = torch.zeros_like(td["next", "reward"])
    known = {
        "The episodes of these steps were truncated: had they no future?": _returns(
            td, value, 0.9, no_future="done", last="cut"
        ),
        "The sum continues into the rewards of another episode.": _returns(td, value, 0.9, stop=None),
        "The episodes of these steps were terminated, so they have no future.": _returns(
            td, value, 0.9, no_future="nothing"
        ),
        "The data stop there, but the episode does not: it was cut, and has a future.": _returns(
            td, value, 0.9, last="over"
        ),
        "It bootstraps from the cell seen before the last step.": _returns(td, value, 0.9, seen="root"),
        "Each holds only one reward. Add those of the following steps.": one_step,
        "Where are the rewards?": _returns(barren, value, 0.9),
    }
    steps = where((got - wanted).abs() > 1e-4)
    why = [what for what, numbers in known.items() if close(got, numbers)]
    said = f"It is wrong at {len(steps)} of {len(td)} steps: {some(steps)}. "
    drawn = " The maps show the mean in each cell, with the true values as `value`: the first two should be alike."
    fail(said + (why[0] if why else "Which of the three cases are these?") + drawn, picture)

"""Exercise of lesson 28 on slices: returns within slices, bootstrapped with the value after the last step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data import LazyTensorStorage, SliceSampler, TensorDictReplayBuffer

from .asking import ask, fail, right
from .exercise import WrongAnswer, exercise
from .hall import GAMMA, Value, as_targets, beside_the_truth, close, odd_numbers, value_of_truth, value_table, walk
from .mutants import instead
from .recorded import some
from .verdict import Outcome

LENGTH, COUNT = 4, 12

RETURNS = """
    def slice_returns(slices, value, gamma):
        last = slices["next"][:, -1]
        ahead = value(last["observation"]) * ~last["terminated"]
        found = []
        for t in reversed(range(slices.shape[1])):
            ahead = slices["next", "reward"][:, t] + gamma * ahead
            found.append(ahead)
        return torch.stack(found[::-1], 1)
"""


@exercise(
    title="Returns of slices",
    prompt="""
        Write `slice_returns(slices, value, gamma)`. `slices` is a sample of a slice sampler, of shape
        `[slices, steps]`. Return the discounted return of each step, of shape `[slices, steps, 1]`: the rewards from
        there to the end of its slice, plus the value of the observation that follows the slice. `value(observation)`
        returns one number for each observation. After a terminated episode, the value is 0.
    """,
    stub="""
        def slice_returns(slices, value, gamma):
            # slices["next", "reward"][:, t] holds the rewards of step t of all slices, of shape [slices, 1]
            ...
    """,
    hints=[
        "Go backwards: the return from step t is its reward plus `gamma` times the return from step t + 1. What is the "
        "return after the last step?",
        "After the last step, use the value of its next observation, unless the episode terminated there. The sampler "
        "marks the last step of each slice as truncated and done. Which signal still shows whether the episode ended?",
        '`ahead = value(last["observation"]) * ~last["terminated"]`, with `last = slices["next"][:, -1]`. Then, for t '
        "from the last step to the first, `ahead = reward + gamma * ahead`. `torch.stack(..., 1)` puts them together.",
    ],
    solution=RETURNS,
    wrong=[
        instead(RETURNS, of='~last["terminated"]', put='~last["done"]', says="no value after"),
        instead(RETURNS, of='value(last["observation"]) * ~last["terminated"]', put="0.0", says="no value after"),
        instead(RETURNS, of=' * ~last["terminated"]', put="", says="after an episode that terminated"),
        instead(RETURNS, of='~last["terminated"]', put='last["terminated"]', says="the other way round"),
        instead(
            RETURNS,
            of='value(last["observation"])',
            put='value(slices["observation"][:, -1])',
            says="the last observation in the slice",
        ),
        instead(RETURNS, of="gamma * ahead", put="ahead", says="does not discount"),
        instead(RETURNS, of="+ gamma * ahead", put="* gamma + ahead", says="Check the last step of one slice"),
        instead(RETURNS, of="found[::-1]", put="found", says="in reverse order"),
        instead(RETURNS, of="found[::-1], 1", put="found[::-1]", says="got (4, 12, 1)"),
        WrongAnswer(
            """
            def slice_returns(slices, value, gamma):
                ahead = value(slices["next", "observation"]) * ~slices["next", "terminated"]
                return slices["next", "reward"] + gamma * ahead
            """,
            says="one-step targets",
        ),
        WrongAnswer(
            """
            def slice_returns(slices, value, gamma):
                rows = slices.reshape(-1)
                ahead = value(rows["next", "observation"][-1:]) * ~rows["next", "terminated"][-1:]
                ahead, found = ahead[0], []
                for t in reversed(range(len(rows))):
                    ahead = rows["next", "reward"][t] + gamma * ahead
                    found.append(ahead)
                return torch.stack(found[::-1]).reshape(*slices.shape, 1)
            """,
            says="across slices",
        ),
        WrongAnswer(
            """
            def slice_returns(slices, value, gamma):
                last = slices["next"][:, -1]
                ahead = value(last["observation"]) * ~last["terminated"]
                total = slices["next", "reward"].sum(1) + gamma * ahead
                return total.unsqueeze(1).expand(-1, slices.shape[1], -1)
            """,
            says="All steps of a slice have the same return",
        ),
    ],
    setup="import torch",
)  # fmt: skip
def slice_returns(slice_returns: Callable[..., Any]) -> Outcome:
    """Compare with numbers that tell each mistake, then draw the answer for the hall."""
    shown = _slices(16 * COUNT)
    true = value_of_truth()
    for gamma, count in ((0.8, COUNT), (0.5, 3)):
        odd, other = _slices(count), value_table(odd_numbers(32, seed=1).flatten())
        odd["next", "reward"] = odd_numbers(odd.numel()).reshape(*odd.shape, 1)
        got = as_targets(ask(slice_returns, odd, other, gamma), odd)
        if not close(got, _returns(odd, other, gamma)):
            _explain(got, odd, other, gamma, _drawn(slice_returns, shown, true))
    return right(
        "Slices end in the middle of episodes. Their returns still match those of whole episodes, as long as the "
        "value function is right. Here they are:",
        _drawn(slice_returns, shown, true),
    )


def _slices(count: int) -> TensorDictBase:
    """Slices out of a hall in which episodes are terminated, truncated, and cut by the seam."""
    sampler = SliceSampler(slice_len=LENGTH, end_key=("next", "done"))
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(300), sampler=sampler, batch_size=count * LENGTH)
    buffer.extend(walk(400, max_steps=9))
    found: TensorDictBase = buffer.sample().reshape(count, LENGTH)
    return found


def _drawn(slice_returns: Callable[..., Any], shown: TensorDictBase, true: Value) -> Any:
    got = as_targets(ask(slice_returns, shown, true, GAMMA), shown)
    return beside_the_truth(shown.reshape(-1), got.reshape(-1, 1), "your returns")


def _returns(td: TensorDictBase, value: Value, gamma: float, ahead: torch.Tensor | None = None) -> torch.Tensor:
    """The returns, with the value of what follows each slice."""
    last = td["next"][:, -1]
    if ahead is None:
        ahead = value(last["observation"]) * ~last["terminated"]
    found = []
    for t in reversed(range(td.shape[1])):
        ahead = td["next", "reward"][:, t] + gamma * ahead
        found.append(ahead)
    return torch.stack(found[::-1], 1)


def _explain(got: torch.Tensor, td: TensorDictBase, value: Value, gamma: float, picture: Any) -> None:
    """Say in which slices it is wrong, why if that is known, and draw it."""
    wanted = _returns(td, value, gamma)
    last = td["next"][:, -1]
    behind, over = value(last["observation"]), last["terminated"]
    rows = td.reshape(1, -1)
    next_value = value(td["next", "observation"]) * ~td["next", "terminated"]
    known = {
        "It adds no value after the slice. The sampler marks the last step of each slice as truncated and done, even "
        "where the episode went on.": _returns(td, value, gamma, 0 * behind),
        "It adds a value after an episode that terminated.": _returns(td, value, gamma, behind),
        "It adds the value only where an episode terminated. It should be the other way round.": _returns(
            td, value, gamma, behind * over
        ),
        "It uses the value of the last observation in the slice, not of the one that follows.": _returns(
            td, value, gamma, value(td["observation"][:, -1]) * ~over
        ),
        "It does not discount.": _returns(td, value, 1.0),
        "The steps are in reverse order.": wanted.flip(1),
        "These are one-step targets. Add the later rewards of the slice too.": td["next", "reward"]
        + gamma * next_value,
        "It sums across slices, but neighbouring slices are unrelated.": _returns(rows, value, gamma).reshape(
            wanted.shape
        ),
    }
    off = ((got - wanted).abs() > 1e-4).any(1).flatten().nonzero().flatten().tolist()
    said = f"It is wrong in {len(off)} of {len(td)} slices: {some(off)}. "
    why = [what for what, numbers in known.items() if close(got, numbers)]
    if not why and close(got, got[:, :1].expand_as(got)):
        why = ["All steps of a slice have the same return. Each should sum from its own step to the end."]
    drawn = " The maps show the mean of each cell next to the true values."
    fail(said + (why[0] if why else "Check the last step of one slice, then the one before it.") + drawn, picture)

"""Exercise of lesson 28 on slices: returns within slices, with a value for what lies behind them."""

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
        `[slices, steps]`. For each step: the rewards from there to the end of its slice, plus the value of what lies
        behind the slice, all of it discounted, of shape `[slices, steps, 1]`. `value(observation)` gives a number for
        each observation. Behind the end of an episode lies nothing, if it was terminated.
    """,
    stub="""
        def slice_returns(slices, value, gamma):
            # slices["next", "reward"][:, t] are the rewards of step t of all slices, of shape [slices, 1]
            ...
    """,
    hints=[
        "Go backwards: what comes of step t is its reward, and `gamma` times what comes of step t + 1. What comes of "
        "the step behind the last one?",
        "Behind the last step lies the value of its next observation, unless the episode was over there. The sampler "
        "has marked the last step of each slice as truncated and done. Which of the three signals still tells?",
        '`ahead = value(last["observation"]) * ~last["terminated"]`, with `last = slices["next"][:, -1]`. Then, for t '
        "from the last step to the first, `ahead = reward + gamma * ahead`. `torch.stack(..., 1)` puts them together.",
    ],
    solution=RETURNS,
    wrong=[
        instead(RETURNS, of='~last["terminated"]', put='~last["done"]', says="as if nothing came"),
        instead(RETURNS, of='value(last["observation"]) * ~last["terminated"]', put="0.0", says="as if nothing came"),
        instead(RETURNS, of=' * ~last["terminated"]', put="", says="an episode was terminated"),
        instead(RETURNS, of='~last["terminated"]', put='last["terminated"]', says="the other way round"),
        instead(
            RETURNS,
            of='value(last["observation"])',
            put='value(slices["observation"][:, -1])',
            says="the value of the last step",
        ),
        instead(RETURNS, of="gamma * ahead", put="ahead", says="Nothing is discounted"),
        instead(RETURNS, of="+ gamma * ahead", put="* gamma + ahead", says="Compare the last step of one"),
        instead(RETURNS, of="found[::-1]", put="found", says="the last step is first"),
        instead(RETURNS, of="found[::-1], 1", put="found[::-1]", says="Its shape is (4, 12, 1)"),
        WrongAnswer(
            """
            def slice_returns(slices, value, gamma):
                ahead = value(slices["next", "observation"]) * ~slices["next", "terminated"]
                return slices["next", "reward"] + gamma * ahead
            """,
            says="of a single step",
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
            says="from one slice into the next",
        ),
        WrongAnswer(
            """
            def slice_returns(slices, value, gamma):
                last = slices["next"][:, -1]
                ahead = value(last["observation"]) * ~last["terminated"]
                total = slices["next", "reward"].sum(1) + gamma * ahead
                return total.unsqueeze(1).expand(-1, slices.shape[1], -1)
            """,
            says="All steps of a slice have the same number",
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
        "Slices end in the middle of episodes, and their returns are those of whole ones all the same, as far as the "
        "value is right. Here it is:",
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
    """The returns, with what lies behind each slice."""
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
        "It is as if nothing came behind any slice. The sampler marks the last step of each as truncated, and as done: "
        "was the episode over?": _returns(td, value, gamma, 0 * behind),
        "Where an episode was terminated, it still looks behind the end.": _returns(td, value, gamma, behind),
        "It looks behind the slice where an episode was terminated, and nowhere else: the other way round.": _returns(
            td, value, gamma, behind * over
        ),
        "It adds the value of the last step, and not of what lies behind it.": _returns(
            td, value, gamma, value(td["observation"][:, -1]) * ~over
        ),
        "Nothing is discounted.": _returns(td, value, 1.0),
        "The order is turned: the last step is first.": wanted.flip(1),
        "These are targets of a single step: what of the rewards in between?": td["next", "reward"]
        + gamma * next_value,
        "It adds up from one slice into the next, and the two have nothing to do with each other.": _returns(
            rows, value, gamma
        ).reshape(wanted.shape),
    }
    off = ((got - wanted).abs() > 1e-4).any(1).flatten().nonzero().flatten().tolist()
    said = f"It is wrong in {len(off)} of {len(td)} slices: {some(off)}. "
    why = [what for what, numbers in known.items() if close(got, numbers)]
    if not why and close(got, got[:, :1].expand_as(got)):
        why = ["All steps of a slice have the same number. Each looks from itself to the end."]
    drawn = " The maps show the mean in each cell, beside the true values."
    fail(said + (why[0] if why else "Compare the last step of one of them, then the one before.") + drawn, picture)

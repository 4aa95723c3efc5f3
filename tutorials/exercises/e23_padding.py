"""Exercise of lesson 23 on trajectories of different lengths: means that do not count the padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase

from .asking import ask, fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .hall import walk
from .mutants import instead
from .verdict import Outcome

STEPS = 26  # six trajectories of one to five steps, the last of which is not finished

MEANS = """
    def mean_rewards(td):
        split = split_trajectories(td)
        rewards = split["next", "reward"].squeeze(-1)
        return rewards.sum(1) / split["mask"].sum(1)
"""


@exercise(
    title="A mean without padding",
    prompt="""
        Write `mean_rewards(td)`: the mean reward per step of each trajectory in a rollout of several episodes. Use
        `split_trajectories`. The result has the shape `[N]`, for `N` trajectories, including the last one, finished or
        not. A reward may be 0.
    """,
    stub="""
        def mean_rewards(td):
            # in a split, ("next", "reward") has the shape [N, longest, 1], and "mask" [N, longest]
            ...
    """,
    hints=[
        "A mean is a sum divided by a number. Does the padding change the sum? Does it change the number?",
        'The padding is zeros, so the sum over the steps is right. `split["mask"].sum(1)` is the number of steps of '
        "each trajectory.",
        "Both parts must have the shape `[N]`: remove the last dimension of the rewards with `.squeeze(-1)`.",
    ],
    solution=MEANS,
    wrong=[
        instead(MEANS, of='rewards.sum(1) / split["mask"].sum(1)', put="rewards.mean(1)", says="the padding counts"),
        instead(MEANS, of=' / split["mask"].sum(1)', put="", says="These are sums"),
        instead(MEANS, of='split["mask"].sum(1)', put='split["mask"].sum()', says="by all steps together"),
        instead(MEANS, of='split["mask"].sum(1)', put="len(split)", says="by the number of trajectories"),
        instead(MEANS, of=".squeeze(-1)", put="", says="got (7, 7)"),
        instead(
            MEANS,
            of='return rewards.sum(1) / split["mask"].sum(1)',
            put='return rewards[split["mask"]].mean()',
            says="got ()",
        ),
        instead(
            MEANS,
            of="split = split_trajectories(td)",
            put='split = split_trajectories(td)\n    split = split[(split["next", "done"].any(1)).squeeze(-1)]',
            says="The last trajectory is missing",
        ),
        WrongAnswer(
            """
            def mean_rewards(td):
                split = split_trajectories(td)
                return split["next", "reward"].sum(1) / split["mask"].sum(1, keepdim=True)
            """,
            says="one below the other",
        ),
        WrongAnswer(
            """
            def mean_rewards(td):
                rewards = split_trajectories(td)["next", "reward"].squeeze(-1)
                return rewards.sum(1) / (rewards != 0).sum(1)
            """,
            says="A reward of 0 is a reward",
        ),
    ],
    setup="import torch\nfrom rlnb.collectors.utils import split_trajectories",
)
def mean_rewards(mean_rewards: Callable[..., Any]) -> Outcome:
    """Compare with means taken between the ends, with and without rewards of zero."""
    td = walk(STEPS, seed=2)
    td["next", "reward"] = torch.arange(1.0, STEPS + 1).square().unsqueeze(-1)
    with_zeros = td.clone()
    with_zeros["next", "reward"][1::3] = 0.0
    for rollout in (td, with_zeros):
        got = ask(mean_rewards, rollout)
        if isinstance(got, list | tuple):
            got = torch.as_tensor(got)
        require(isinstance(got, torch.Tensor), f"Expected a tensor, got {kind_of(got)}.")
        _explain(got.detach().float(), rollout)
    return right("The mask tells how many steps are real. Here a sum may ignore it, but a mean may not.")


def _pieces(td: TensorDictBase) -> list[torch.Tensor]:
    """The rewards of each trajectory."""
    ends = td["next", "done"].flatten().clone()
    ends[-1] = True
    stops = (ends.nonzero().flatten() + 1).tolist()
    rewards = td["next", "reward"].flatten()
    return [rewards[start:stop] for start, stop in zip([0, *stops], stops, strict=False)]


def _explain(got: torch.Tensor, td: TensorDictBase) -> None:
    """Be content with the means, or name the mistake."""
    pieces = _pieces(td)
    count, longest = len(pieces), max(map(len, pieces))
    sums = torch.stack([piece.sum() for piece in pieces])
    wanted = torch.stack([piece.mean() for piece in pieces])
    shape = tuple(got.shape)
    if shape == (count - 1,) and torch.allclose(got, wanted[:-1]):
        fail("The last trajectory is missing. The rollout stops within it, but its steps count as well.")
    if shape == (count, 1):
        fail(f"Expected shape {(count,)} (one number for each trajectory, not one below the other), got {shape}.")
    require(
        shape == (count,),
        f"Expected shape {(count,)}, one number for each trajectory, got {shape}. "
        "Print the shapes of the two parts of the division.",
    )
    if torch.allclose(got, wanted):
        return
    known = {
        f"Here the padding counts as steps: each sum is divided by {longest}.": sums / longest,
        "These are sums. Divide each by its number of steps.": sums,
        "Each sum is divided by all steps together.": sums / len(td),
        "Each sum is divided by the number of trajectories.": sums / count,
        "A reward of 0 is a reward. Use the mask to find the padding.": torch.stack(
            [piece.sum() / (piece != 0).sum() for piece in pieces]
        ),
    }
    why = [what for what, numbers in known.items() if torch.allclose(got, numbers, equal_nan=True)]
    shown = [round(number, 2) for number in got.tolist()]
    lengths = [len(piece) for piece in pieces]
    totals = [round(number, 2) for number in sums.tolist()]
    said = f"It gave {shown}. The trajectories have {lengths} steps, and their rewards sum to {totals}. "
    fail(said + (why[0] if why else "Not all of these are means."))

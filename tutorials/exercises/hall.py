"""A hall with a goal in one corner and known values: the world of lesson 23."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.envs import GridWorldEnv

from .asking import require
from .value_map import ValueMaps

#: A value function: cells of shape [T] to values of shape [T, 1].
Value = Callable[[torch.Tensor], torch.Tensor]

HALL = ("SSSSSSSS", "SSSSSSSS", "SSSSSSSS", "SSSSSSSG")
TIME_LIMIT = 5
GAMMA = 0.9


def hall(max_steps: int | None = TIME_LIMIT) -> GridWorldEnv:
    """Make the hall: an episode starts in any cell, and the step onto the goal brings 1."""
    return GridWorldEnv(HALL, max_steps=max_steps, categorical_action_encoding=True)


def to_goal(cell: torch.Tensor) -> torch.Tensor:
    """Go right to the last column, then down: actions 2 and 1."""
    return torch.where(cell % 8 < 7, 2, 1)


def walk(steps: int, *, start: int | None = None, seed: int = 0, max_steps: int | None = TIME_LIMIT) -> TensorDictBase:
    """Record a rollout in the hall through the ends of episodes.

    Args:
        steps: how many.
        start: the cell of the first step; None draws one.
        seed: of the starts.
        max_steps: the time limit of an episode.

    Returns:
        A TED of shape ``[steps]``.
    """
    env = hall(max_steps)
    env.set_seed(seed)
    root: Any = None
    if start is not None:
        root = env.reset(TensorDict({}), state=torch.tensor(start))
    return env.rollout(
        steps, to_goal, tensordict=root, auto_reset=root is None, break_when_any_done=False, return_contiguous=True
    )


def true_values(gamma: float = GAMMA) -> torch.Tensor:
    """The value of each cell under :func:`to_goal` without a time limit, of shape ``[32]``.

    A cell that is d steps from the goal has the value ``gamma ** (d - 1)``.
    """
    row, column = torch.arange(4).view(4, 1), torch.arange(8)
    steps = (3 - row) + (7 - column)
    values = float(gamma) ** (steps - 1)
    values[-1, -1] = 0.0
    return values.flatten()


def mean_by_cell(td: TensorDictBase, numbers: torch.Tensor) -> torch.Tensor:
    """Average a number of each step over the steps that start in the same cell.

    Args:
        td: a TED of the hall, of shape ``[T]``.
        numbers: of shape ``[T, 1]``.

    Returns:
        The means, of shape ``[32]``; NaN for cells in which no step starts.
    """
    means = torch.full((32,), torch.nan)
    return means.scatter_reduce(0, td["observation"], numbers.flatten().float(), "mean", include_self=False)


def beside_the_truth(td: TensorDictBase, numbers: torch.Tensor, title: str, gamma: float = GAMMA) -> ValueMaps:
    """Draw the mean of a number in each cell beside the true values, and the difference if there is one."""
    mean, true = mean_by_cell(td, numbers), true_values(gamma)
    maps = {title: mean.tolist(), "true values": true.tolist()}
    off = mean - true
    if bool((off.abs() > 0.005).any()):
        maps["difference"] = off.tolist()
    return ValueMaps(HALL, maps)


def odd_numbers(size: int, seed: int = 0) -> torch.Tensor:
    """Numbers of shape ``[size, 1]`` whose sums all differ."""
    return torch.rand(size, 1, generator=torch.Generator().manual_seed(seed))


def value_table(values: torch.Tensor) -> Value:
    """A value function that looks values up: cells ``[T]`` to ``[T, 1]``."""
    return lambda cells: values[cells].unsqueeze(-1)


def value_of_truth() -> Value:
    """The true values as a function, which gives the goal some value as well, as a network would."""
    values = true_values()
    values[-1] = 1.0
    return value_table(values)


def as_targets(got: Any, td: TensorDictBase) -> torch.Tensor:
    """Take what a learner's function gave as a number for each step, or end the check."""
    require(isinstance(got, torch.Tensor), f"Expected a tensor, got a `{type(got).__name__}`.")
    shape, wanted = tuple(got.shape), tuple(td["next", "reward"].shape)
    what = f"Expected shape {wanted}, got {shape}. Print the shape of each part."
    require(shape == wanted, what)
    return got.detach().float()


def close(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Whether numbers are equal up to rounding."""
    return torch.allclose(one, two, atol=1e-4)

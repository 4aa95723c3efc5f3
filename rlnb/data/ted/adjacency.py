"""The adjacency rule of TED: steps whose "next" is not the root of the following step, and the likely causes."""

from __future__ import annotations

import torch

from rlnb.data.ted.columns import Column
from rlnb.data.ted.facts import Facts
from rlnb.data.ted.timeline import not_adjacent

_MAX_INTERLEAVED = 16
_LOOK_AT = 64


def disagreements(root: Column, after: Column, facts: Facts) -> torch.Tensor:
    """Find the steps whose "next" differs from the root of the following step of the same episode.

    ``root`` and ``after`` are the columns of an entry at the root and under "next". NaN equals NaN, and 0.0 equals -0.0.
    """
    if isinstance(root, torch.Tensor) and isinstance(after, torch.Tensor):
        found = not_adjacent(root, after, facts.stops)
        if found.shape[0] and root.dtype.is_floating_point:
            found = found[~_same(root[found + 1], after[found])]
        return found
    if not isinstance(root, list) or not isinstance(after, list):
        return torch.zeros(0, dtype=torch.int64)
    within = (~facts.stops).nonzero().flatten().tolist()
    return torch.tensor([step for step in within if not _equal(root[step + 1], after[step])], dtype=torch.int64)


def _same(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    same = (one == other) | (one.isnan() & other.isnan())
    return same.reshape(same.shape[0], -1).all(1)


def _agree(root: Column, after: Column, steps: torch.Tensor, ahead: int) -> bool:
    """Whether "next" of each of these steps equals the root ``ahead`` steps later."""
    if isinstance(root, torch.Tensor) and isinstance(after, torch.Tensor):
        return bool(_same(root[steps + ahead], after[steps]).all())
    return (
        isinstance(root, list)
        and isinstance(after, list)
        and all(_equal(root[step + ahead], after[step]) for step in steps.tolist())
    )


def _equal(one: object, other: object) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.shape == other.shape and one.dtype == other.dtype and bool(_same(one[None], other[None]))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    try:
        return one is other or bool(one == other)
    except (TypeError, ValueError, RuntimeError):
        return False


def likely_cause(root: Column, after: Column, found: torch.Tensor, facts: Facts) -> tuple[str, str]:
    """Guess why the steps ``found`` by :func:`disagreements` break the rule; return the likely cause and the fix."""
    steps = found[:_LOOK_AT]
    if _agree(root, after, steps, 0):
        return (
            "'next' holds the observation before the step, not the one after it",
            "write the output of env.step under 'next', and the input of the policy at the root",
        )
    for ahead in range(2, _MAX_INTERLEAVED + 1):
        inside = steps[steps % facts.length + ahead < facts.length]
        if inside.shape[0] > 1 and _agree(root, after, inside, ahead):
            return (
                f"'next' is the root {ahead} steps later: the steps of {ahead} episodes alternate, or MultiStep was "
                "applied",
                f"if they alternate, data.unflatten(-1, (-1, {ahead})).transpose(-1, -2) puts each one in its own row",
            )
    inside_episodes = int((~facts.stops).sum())
    if found.shape[0] > inside_episodes // 2:
        return (
            "the steps are not in chronological order (a sample of a buffer, a shuffled batch), or MultiStep was "
            "applied",
            "check the data before it is shuffled, or sample slices of episodes",
        )
    return _ONE


_ONE = (
    "two rollouts were put together, or an episode was reset, and no end signal says so",
    "set ('next', 'truncated') and ('next', 'done') to True at that step",
)

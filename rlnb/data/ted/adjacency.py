"""The adjacency rule of TED: steps whose "next" is not the root of the following step, and the likely causes."""

from __future__ import annotations

import torch

from rlnb.data.ted.columns import Column
from rlnb.data.ted.facts import Facts, all_of_step
from rlnb.data.ted.timeline import not_adjacent

_MAX_INTERLEAVED = 16
_LOOK_AT = 64


def disagreements(root: Column, after: Column, facts: Facts) -> torch.Tensor:
    """Find the steps whose "next" differs from the root of the following step of the same episode.

    ``root`` and ``after`` are the columns of an entry at the root and under "next". NaN equals NaN, and 0.0 equals
    -0.0.
    """
    if isinstance(root, torch.Tensor) and isinstance(after, torch.Tensor):
        found = not_adjacent(root, after, facts.stops)
    elif isinstance(root, list) and isinstance(after, list):
        found = (~facts.stops).nonzero().flatten()
    else:
        return torch.zeros(0, dtype=torch.int64)
    return found[~_agree(root, after, found, 1)]


def _agree(root: Column, after: Column, steps: torch.Tensor, ahead: int) -> torch.Tensor:
    """Whether "next" of each of these steps equals the root ``ahead`` steps later."""
    if isinstance(root, torch.Tensor) and isinstance(after, torch.Tensor):
        return all_of_step(_same(root[steps + ahead], after[steps]))
    assert isinstance(root, list) and isinstance(after, list)
    return torch.tensor([_equal(root[step + ahead], after[step]) for step in steps.tolist()], dtype=torch.bool)


def _same(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one == other) | (one.isnan() & other.isnan())


def _equal(one: object, other: object) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.shape == other.shape and one.dtype == other.dtype and bool(_same(one, other).all())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    try:
        return one is other or bool(one == other)
    except (TypeError, ValueError, RuntimeError):
        return False


def likely_cause(root: Column, after: Column, found: torch.Tensor, facts: Facts) -> tuple[str, str]:
    """Guess why the steps ``found`` by :func:`disagreements` break the rule; return the likely cause and the fix."""
    steps = found[:_LOOK_AT]
    if bool(_agree(root, after, steps, 0).all()):
        return (
            "'next' holds the observation before the step, not the one after it",
            "write the output of env.step under 'next', and the input of the policy at the root",
        )
    for ahead in range(2, _MAX_INTERLEAVED + 1):
        inside = steps[steps % facts.length + ahead < facts.length]
        if inside.shape[0] > 1 and bool(_agree(root, after, inside, ahead).all()):
            return (
                f"'next' is the root {ahead} steps later: the steps of {ahead} episodes alternate, or MultiStep was "
                "applied",
                f"if they alternate, data.unflatten(-1, (-1, {ahead})).transpose(-1, -2) puts each one in its own row",
            )
    if found.shape[0] > int((~facts.stops).sum()) // 2:
        return (
            "the steps are not in chronological order (a sample of a buffer, a shuffled batch), or MultiStep was "
            "applied",
            "check the data before it is shuffled, or sample slices of episodes",
        )
    return (
        "two rollouts were put together, or an episode was reset, and no end signal says so",
        "set ('next', 'truncated') and ('next', 'done') to True at that step",
    )

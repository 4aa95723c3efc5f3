"""Resets of single agents, which do not end the episode of the env."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlnb_widgets.rollout_player.carried import pairs, unequal_numbers
from rlnb_widgets.rollout_player.leaves import Key, RolloutLeaf

_ENDS = ("done", "terminated", "truncated")


def restarted_alone(leaves: Mapping[Key, RolloutLeaf], inside: np.ndarray) -> np.ndarray:
    """Find where some agents were reset while the episode of the env went on, bool ``[E, T - 1]``.

    An agent whose own end is set in ``"next"`` of row t and not at the root of row t + 1 was reset between them. If
    most numbers of the *other* agents differ there too, row t + 1 belongs to another trajectory: nobody was reset. Only
    places in ``inside`` count, where no end signal of the env and no padding separates t and t + 1. All False if the
    root holds no end signals of the agents.

    Example:
        >>> over = np.array([[[1, 0], [0, 0], [0, 0]]], bool)[..., None]
        >>> leaves = {key: RolloutLeaf(key, "number", "bool", (2, 1), data) for key, data in (
        ...     (("agents", "done"), over & False), (("next", "agents", "done"), over))}
        >>> restarted_alone(leaves, np.ones((1, 2), bool))
        array([[ True, False]])
    """
    again = {key: found for key in _groups(leaves) if (found := _again(leaves, key)) is not None}
    somebody = np.zeros_like(inside)
    moving, differing = np.zeros(inside.shape, int), np.zeros(inside.shape, int)
    for key, agents in again.items():
        somebody |= agents.any(-1)
        for root, following in pairs(leaves):
            if root.base[: len(key)] != key:
                continue
            count = agents.shape[-1]
            if count > 1 and root.shape[:1] != (count,):
                continue
            old, new = (side.values.reshape(*side.values.shape[:2], count, -1) for side in (following, root))
            moves = ((new != new[:, :1]) | (old != old[:, :1])).any(1, keepdims=True)
            counted = moves & ~agents[..., None]
            moving += counted.sum((-1, -2))
            differing += (unequal_numbers(old[:, :-1], new[:, 1:]) & counted).sum((-1, -2))
    return np.asarray(somebody & inside & (2 * differing <= moving))


def _groups(leaves: Mapping[Key, RolloutLeaf]) -> list[Key]:
    return list(dict.fromkeys(key[1:-1] for key in leaves if key[0] == "next" and len(key) > 2 and key[-1] in _ENDS))


def _again(leaves: Mapping[Key, RolloutLeaf], key: Key) -> np.ndarray | None:
    """Return where an agent has ended in "next" and not at the root after it, ``[E, T - 1, agents]``."""
    over, waits = (_any_end(leaves, (*side, *key)) for side in (("next",), ()))
    if over is None or waits is None or over.shape != waits.shape:
        return None
    return np.asarray(over[:, :-1] & ~waits[:, 1:])


def _any_end(leaves: Mapping[Key, RolloutLeaf], key: Key) -> np.ndarray | None:
    found = [leaf.columns() != 0 for name in _ENDS if (leaf := leaves.get((*key, name))) is not None and _is_flag(leaf)]
    return np.logical_or.reduce(found) if found and len({flags.shape for flags in found}) == 1 else None


def _is_flag(leaf: RolloutLeaf) -> bool:
    return leaf.kind == "number" and leaf.columns().shape[-1] > 0

"""Entries that ``step_mdp`` carries from ``"next"`` to the next root, and where the data differ."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlnb_widgets.rollout_player.leaves import Key, RolloutLeaf

# Not carried from "next" to the root of the next row.
_NOT_CARRIED = frozenset({"done", "terminated", "truncated", "reward"})


def breaks(leaves: Mapping[Key, RolloutLeaf], inside: np.ndarray) -> tuple[np.ndarray, dict[Key, np.ndarray]]:
    """Find where ``"next"`` of row t is not the root of row t + 1, for places in ``inside``, bool ``[E, T - 1]``.

    Returns all breaks, and the breaks by entry. NaN on one side is unknown, and does not count as a break.
    """
    found: dict[Key, np.ndarray] = {}
    for root, following in pairs(leaves):
        differs = unequal_numbers(following.columns()[:, :-1], root.columns()[:, 1:]).any(-1) & inside
        if differs.any():
            found[root.base] = differs
    return np.logical_or.reduce([np.zeros_like(inside), *found.values()]), found


def unequal_numbers(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compare numbers; NaN on either side is unknown.

    Example:
        >>> unequal_numbers(np.array([1.0, 1.0, np.nan]), np.array([1.0, 2.0, 2.0])).tolist()
        [False, True, False]
    """
    return np.asarray((a != b) & (a == a) & (b == b))


def pairs(leaves: Mapping[Key, RolloutLeaf]) -> list[tuple[RolloutLeaf, RolloutLeaf]]:
    """Return the numeric entries that are carried from ``"next"`` to the root, as (root, next)."""
    found = [(leaves[leaf.base], leaf) for leaf in leaves.values() if leaf.is_next and leaf.base in leaves]
    return [
        (root, following)
        for root, following in found
        if root.base[-1] not in _NOT_CARRIED
        and root.kind == following.kind == "number"
        and root.shape == following.shape
    ]

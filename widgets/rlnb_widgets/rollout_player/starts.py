"""Trajectory boundaries between rows that end signals do not mark, and inconsistent rows."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from rlnb.data.ted.keys import EPISODE, TRAJ_IDS_KEYS
from rlnb_widgets._core.text import key_text, plural, shorten
from rlnb_widgets.rollout_player.carried import pairs, unequal_numbers
from rlnb_widgets.rollout_player.leaves import Key, RolloutLeaf

_IDS: tuple[Key, ...] = (*TRAJ_IDS_KEYS, (EPISODE,))


def starts(leaves: Mapping[Key, RolloutLeaf], inside: np.ndarray, broken: np.ndarray) -> np.ndarray:
    """Find where row t + 1 begins another trajectory although no flag ends the one of row t.

    The data decides where it says so: by trajectory numbers (``("collector", "traj_ids")``, ``"traj_ids"`` or
    ``"episode"``), else by ``"is_init"`` and by a ``"step_count"`` that falls. Where it says nothing, rows that
    do not fit are taken for two trajectories in two cases only, and never if more than half of the rows do not fit:

    - they are the last rows of equal shares of the data, and every other share ends with a flag: a batch ``[B, T]``
      that was flattened (a single such row might be an accident, unless all numbers that ever change differ there);
    - a number of the observation jumps, in root and ``"next"`` alike, farther than any step of the data moves it.

    Example:
        >>> state = np.array([[[0.0], [1.0], [7.0], [8.0]]])
        >>> from rlnb_widgets.rollout_player.carried import breaks
        >>> keys = ("x",), ("next", "x")
        >>> leaves = {k: RolloutLeaf(k, "number", "float64", (1,), state + len(k) - 1) for k in keys}
        >>> inside = np.ones((1, 3), bool)
        >>> starts(leaves, inside, breaks(leaves, inside)[0])
        array([[False,  True, False]])
    """
    for key in _IDS:
        ids = leaves.get(key)
        if ids is not None and ids.kind == "number":
            numbers = ids.columns()
            return np.asarray(unequal_numbers(numbers[:, :-1], numbers[:, 1:]).any(-1) & inside)
    said = [
        found
        for name, rule in (("is_init", _begins), ("step_count", _starts_over))
        if (leaf := leaves.get((name,))) is not None and leaf.kind == "number" and (found := rule(leaf)) is not None
    ]
    if said:
        return np.asarray(np.any(said, axis=0) & inside)
    few = broken.sum(-1) * 2 <= inside.sum(-1)
    shares = _end_of_share(inside, broken) & ((broken.sum(-1) > 1)[:, None] | _throughout(leaves, inside))
    return np.asarray((shares | (_jumps(leaves, inside) & broken)) & few[:, None])


def _begins(leaf: RolloutLeaf) -> np.ndarray:
    return np.asarray((leaf.columns()[:, 1:] != 0).any(-1))


def _starts_over(leaf: RolloutLeaf) -> np.ndarray | None:
    count = leaf.columns()
    return np.asarray((count[:, 1:] < count[:, :-1]).all(-1)) if count.shape[-1] else None


def _end_of_share(inside: np.ndarray, broken: np.ndarray) -> np.ndarray:
    found = np.zeros_like(broken)
    steps = broken.shape[1] + 1
    for e, row in enumerate(broken):
        # The longest shares that end at every break; shorter ones would have to end at yet more rows.
        share = math.gcd(steps, *(np.flatnonzero(row) + 1).tolist())
        seams = np.arange(share, steps, share) - 1
        if 2 <= share < steps and (row | ~inside[e])[seams].all():
            found[e] = row
    return found


def _throughout(leaves: Mapping[Key, RolloutLeaf], inside: np.ndarray) -> np.ndarray:
    found = np.ones_like(inside)
    for root, following in pairs(leaves):
        if "float" in root.dtype:
            values = root.columns()
            still = (values == values[:, :1]).all(1, keepdims=True)
            found &= (unequal_numbers(following.columns()[:, :-1], values[:, 1:]) | still).all(-1)
    return found


def _jumps(leaves: Mapping[Key, RolloutLeaf], inside: np.ndarray) -> np.ndarray:
    found = np.zeros_like(inside)
    for root, following in pairs(leaves):
        if "float" not in root.dtype:
            continue
        a, b = (side.columns().astype(np.float64) for side in (root, following))
        with np.errstate(invalid="ignore", over="ignore"):
            farthest = np.fmax.reduce(np.abs(b - a), axis=1, keepdims=True)
            gaps = [np.abs(new[:, 1:] - old[:, :-1]) > farthest for new in (a, b) for old in (a, b)]
        found |= np.logical_and.reduce(gaps).any(-1)
    return found


def breaks_note(found: Mapping[Key, np.ndarray], begun: np.ndarray, alone: np.ndarray | None = None) -> list[str]:
    """Describe rows of an episode that do not continue the previous row, by entry as `breaks` returns them.

    A break is explained by another trajectory that begins there (``begun``), or by a reset of a single agent
    (``alone``).

    Example:
        >>> breaks_note({("observation",): np.array([[False, True, True]])}, np.zeros((1, 3), bool))[0][:78]
        'next[t] and root[t+1] differ at 2 steps, first at t = 1 in "observation"; that'
    """
    alone = np.zeros_like(begun) if alone is None else alone
    told = _where({key: differs & alone & ~begun for key, differs in found.items()})
    left = _where({key: differs & ~alone & ~begun for key, differs in found.items()})
    notes = []
    if told:
        notes.append(f"{told}: an agent was reset alone, and what it starts from stands in the root only.")
    if left:
        notes.append(
            f'{left}; that ends no episode. If another trajectory starts there, number the trajectories in "traj_ids".'
        )
    return notes


def _where(found: Mapping[Key, np.ndarray]) -> str:
    """Return in words where entries differ; empty if nowhere."""
    anywhere = np.logical_or.reduce([*found.values()]) if found else np.zeros((1, 0), bool)
    if not anywhere.any():
        return ""
    first = int(anywhere.any(0).argmax())
    key = next(key for key, differs in found.items() if differs[:, first].any())
    envs = f" of {plural(int(anywhere.any(1).sum()), 'environment')}" if len(anywhere) > 1 else ""
    return (
        f"next[t] and root[t+1] differ at {plural(int(anywhere.sum()), 'step')}{envs}, first at t = {first} in "
        f"{shorten(key_text(key), 60)}"
    )

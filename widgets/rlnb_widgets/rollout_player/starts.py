"""Trajectory boundaries that end signals do not mark, resets of single agents, and inconsistent rows."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from rlnb.data.ted.keys import END_KEYS, TRAJECTORY_KEYS
from rlnb_widgets._core.text import key_text, plural, shorten
from rlnb_widgets.rollout_player.leaves import Key, RolloutLeaf

# Not carried from "next" to the root of the next row.
_NOT_CARRIED = frozenset({"done", "terminated", "truncated", "reward"})


def starts(leaves: Mapping[Key, RolloutLeaf], inside: np.ndarray, broken: np.ndarray) -> np.ndarray:
    """Find where row t + 1 starts another trajectory although no end signal ends that of row t, bool ``[E, T - 1]``.

    Trajectory numbers (``("collector", "traj_ids")``, ``"traj_ids"`` or ``"episode"``) decide, else ``"is_init"`` and a
    ``"step_count"`` that decreases. Without any of these, rows that do not continue the previous one (``broken``) start
    a trajectory in two cases only, and never if more than half of the rows are broken:

    - they are the last rows of equal shares of the data, and every other share ends with an end signal: a flattened
      batch ``[B, T]`` (a single such row may be an accident, unless all numbers that ever change differ there);
    - a number of the observation jumps, in root and ``"next"``, farther than any step of the data moves it.

    Example:
        >>> state = np.array([[[0.0], [1.0], [7.0], [8.0]]])
        >>> from rlnb_widgets.rollout_player.starts import breaks
        >>> keys = ("x",), ("next", "x")
        >>> leaves = {k: RolloutLeaf(k, "number", "float64", (1,), state + len(k) - 1) for k in keys}
        >>> inside = np.ones((1, 3), bool)
        >>> starts(leaves, inside, breaks(leaves, inside)[0])
        array([[False,  True, False]])
    """
    for key in TRAJECTORY_KEYS:
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
        # The longest shares that end at every break; shorter ones would also end at other rows.
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
    return list(dict.fromkeys(key[1:-1] for key in leaves if key[0] == "next" and len(key) > 2 and key[-1] in END_KEYS))


def _again(leaves: Mapping[Key, RolloutLeaf], key: Key) -> np.ndarray | None:
    """Return where an agent has ended in "next" and not at the root after it, ``[E, T - 1, agents]``."""
    over, waits = (_any_end(leaves, (*side, *key)) for side in (("next",), ()))
    if over is None or waits is None or over.shape != waits.shape:
        return None
    return np.asarray(over[:, :-1] & ~waits[:, 1:])


def _any_end(leaves: Mapping[Key, RolloutLeaf], key: Key) -> np.ndarray | None:
    found = [
        leaf.columns() != 0 for name in END_KEYS if (leaf := leaves.get((*key, name))) is not None and _is_flag(leaf)
    ]
    return np.logical_or.reduce(found) if found and len({flags.shape for flags in found}) == 1 else None


def _is_flag(leaf: RolloutLeaf) -> bool:
    return leaf.kind == "number" and leaf.columns().shape[-1] > 0


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

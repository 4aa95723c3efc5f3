"""Where episodes end and how: terminated, truncated, cut, and what each means for bootstrapping."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlnb_widgets.rollout_player.leaves import Key, Leaf

__all__ = ["KINDS", "RULES", "Episode", "ends", "episodes", "returns_so_far"]

#: Kind of end by code; code 0 is a step inside an episode, 6 is padding after a shorter trajectory.
KINDS: tuple[str, ...] = ("", "terminated", "truncated", "done", "cut", "open", "padding")

#: What each end means for the value target of its last step.
RULES: dict[str, str] = {
    "terminated": "the episode is over: no bootstrap, the value target is the reward alone",
    "truncated": "stopped from outside: bootstrap from the value of the next observation",
    "done": "over, but the data does not say whether by termination or truncation",
    "cut": "the next row belongs to another trajectory: bootstrap from the value of the next observation",
    "open": "the data ends while the episode goes on: bootstrap from the value of the next observation",
}


@dataclass(frozen=True)
class Episode:
    """A stretch of steps of one environment that belong together.

    Attributes:
        env: Row among the environments shown.
        start: First step.
        stop: One past the last step.
        ret: Sum of the rewards, NaN if the rollout has none.
        end: How it ends, one of `KINDS`.
    """

    env: int
    start: int
    stop: int
    ret: float
    end: str


def ends(leaves: dict[Key, Leaf], count: int, steps: int) -> tuple[np.ndarray, list[str]]:
    """Return the code of `KINDS` for each step, ``[E, T]`` uint8, and notes on what is missing.

    Args:
        leaves: Leaves by key.
        count: Number of environments E.
        steps: Number of steps T.
    """
    notes: list[str] = []
    done, terminated, truncated = (_flag(leaves, name, notes) for name in ("done", "terminated", "truncated"))
    code = np.zeros((count, steps), np.uint8)
    if done is None and terminated is None and truncated is None:
        notes.append('There is no ("next", "done"): ends of episodes are unknown.')
        code[:, -1] = KINDS.index("open")
        code[_padding(leaves, code.shape)] = KINDS.index("padding")
        return code, notes
    code[:, :-1][_jumps(leaves, count, steps)] = KINDS.index("cut")
    code[:, -1] = KINDS.index("open")
    if done is not None:
        code[done] = KINDS.index("done")
    if truncated is not None:
        code[truncated] = KINDS.index("truncated")
    if terminated is not None:
        code[terminated] = KINDS.index("terminated")
    padding = _padding(leaves, code.shape)
    last = np.zeros_like(padding)
    last[:, :-1] = padding[:, 1:] & ~padding[:, :-1]
    # A shorter trajectory ends where its padding begins.
    code[last & ((code == 0) | (code == KINDS.index("cut")))] = KINDS.index("open")
    code[padding] = KINDS.index("padding")
    return code, notes


def _flag(leaves: dict[Key, Leaf], name: str, notes: list[str]) -> np.ndarray | None:
    leaf = leaves.get(("next", name))
    if leaf is not None and leaf.kind == "number":
        return np.asarray((leaf.columns() != 0).any(-1))
    nested = [v for k, v in leaves.items() if k[0] == "next" and k[-1] == name and len(k) > 2 and v.kind == "number"]
    if not nested:
        return None
    notes.append(f'"{name}" is taken from the groups: an end is drawn where every agent is {name}.')
    return np.asarray(np.stack([(v.columns() != 0).all(-1) for v in nested]).all(0))


def _padding(leaves: dict[Key, Leaf], shape: tuple[int, int]) -> np.ndarray:
    for key in (("mask",), ("collector", "mask")):
        leaf = leaves.get(key)
        if leaf is not None and leaf.dtype == "bool" and leaf.columns().shape[-1] == 1:
            return np.asarray(~leaf.columns()[..., 0])
    return np.zeros(shape, bool)


def _jumps(leaves: dict[Key, Leaf], count: int, steps: int) -> np.ndarray:
    """Return where row t+1 does not continue row t, ``[E, T - 1]``: trajectories laid end to end."""
    jump = np.zeros((count, max(steps - 1, 0)), bool)
    for key in (("collector", "traj_ids"), ("traj_ids",), ("episode",)):
        ids = leaves.get(key)
        if ids is not None and ids.kind == "number":
            flat = ids.columns()
            return np.asarray((flat[:, 1:] != flat[:, :-1]).any(-1))
    pairs = [(leaves[leaf.base], leaf) for leaf in leaves.values() if leaf.is_next and leaf.base in leaves]
    for root, following in pairs:
        observed = root.kind == "number" and root.base[-1] not in ("done", "terminated", "truncated", "reward")
        if observed and root.shape == following.shape and "float" in root.dtype:
            a, b = following.columns()[:, :-1], root.columns()[:, 1:]
            jump |= ((a != b) & ~(np.isnan(a) & np.isnan(b))).any(-1)
    return jump


def returns_so_far(reward: np.ndarray, code: np.ndarray) -> np.ndarray:
    """Return the sum of the rewards of the running episode up to and with each step, ``[E, T]`` float64.

    Args:
        reward: ``[E, T]``.
        code: As `ends` returns it.

    Example:
        >>> returns_so_far(np.ones((1, 4)), np.array([[0, 1, 0, 5]]))
        array([[1., 2., 1., 2.]])
    """
    out = np.empty(reward.shape, np.float64)
    for e in range(len(reward)):
        for start, stop in _spans(code[e]):
            out[e, start:stop] = np.cumsum(reward[e, start:stop], dtype=np.float64)
    return out


def _spans(code: np.ndarray) -> list[tuple[int, int]]:
    stops = (np.flatnonzero((code != 0) & (code != KINDS.index("padding"))) + 1).tolist()
    if not stops or stops[-1] != len(code):
        stops.append(len(code))
    return list(zip([0, *stops[:-1]], stops, strict=True))


def episodes(code: np.ndarray, returns: np.ndarray | None) -> tuple[Episode, ...]:
    """List the episodes of all environments, in order.

    Args:
        code: As `ends` returns it, ``[E, T]``.
        returns: As `returns_so_far` returns it, or None.
    """
    found = []
    for e, row in enumerate(code):
        for start, stop in _spans(row):
            kind = KINDS[row[stop - 1]]
            if kind == "padding":
                continue
            ret = float("nan") if returns is None else float(returns[e, stop - 1])
            found.append(Episode(e, start, stop, ret, kind))
    return tuple(found)

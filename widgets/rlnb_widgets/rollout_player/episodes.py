"""Ends of episodes (terminated, truncated, cut off) and resets, and their meaning for bootstrapping."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from rlnb.data.ted.ends import episode_ends
from rlnb.data.ted.keys import END_KEYS
from rlnb_widgets.rollout_player.leaves import Key, RolloutLeaf
from rlnb_widgets.rollout_player.starts import breaks, breaks_note, restarted_alone, starts

#: Kind of end by code; code 0 is a step inside an episode, 6 is padding after a shorter trajectory.
KINDS: tuple[str, ...] = ("", "terminated", "truncated", "done", "cut", "open", "padding")

#: Meaning of each end for the value target of its last step.
RULES: dict[str, str] = {
    "terminated": "the episode is over: no bootstrap, the value target is the reward alone",
    "truncated": "stopped from outside: bootstrap from the value of the next observation",
    "done": "over, but the data does not say whether by termination or truncation",
    "cut": "the next row belongs to another trajectory: bootstrap from the value of the next observation",
    "open": "the data ends while the episode goes on: bootstrap from the value of the next observation",
}


@dataclass(frozen=True)
class Episode:
    """An episode, or the part of it that is in the data: consecutive steps of one environment."""

    env: int  #: index among the environments that are shown
    start: int  #: first step
    stop: int  #: one past the last step
    ret: float  #: sum of the rewards; NaN without rewards
    end: str  #: kind of its end, one of `KINDS`


def ends(leaves: dict[Key, RolloutLeaf], count: int, steps: int) -> tuple[np.ndarray, list[str]]:
    """Return the kind of end at each step, an index into `KINDS`, uint8 ``[E, T]``, and notes about the data.

    An episode ends at an end signal in ``"next"``, where padding begins, and where another trajectory begins, as
    `starts` finds. Any other row that does not continue the previous one ends no episode; it is only noted.
    """
    notes: list[str] = []
    flags = _flags(leaves, notes)
    code = np.zeros((count, steps), np.uint8)
    padding = _padding(leaves, code.shape)
    for name in ("done", "truncated", "terminated"):
        if name in flags:
            code[flags[name]] = KINDS.index(name)
    if not flags:
        notes.append('There is no ("next", "done"): ends of episodes are unknown.')
    else:
        inside = (code[:, :-1] == 0) & ~padding[:, 1:] & ~padding[:, :-1]
        broken, by_key = breaks(leaves, inside)
        alone = restarted_alone(leaves, inside)
        begun = starts(leaves, inside, broken & ~alone)
        code[:, :-1][begun] = KINDS.index("cut")
        notes += breaks_note(by_key, begun, alone)
    # A trajectory without an end signal stops at the end of the data, or where its padding begins.
    last = np.append(padding[:, 1:], np.ones((count, 1), bool), axis=1)
    code[last & (code == 0)] = KINDS.index("open")
    code[padding] = KINDS.index("padding")
    return code, notes


def _flags(leaves: dict[Key, RolloutLeaf], notes: list[str]) -> dict[str, np.ndarray]:
    """Return the end signals by key, ``[E, T]`` each, as `episode_ends` reads them; empty if there are none."""
    found = {key: leaf for key, leaf in leaves.items() if key[-1] in END_KEYS and leaf.kind == "number"}
    signals = {key[1:]: _signal(leaf) for key, leaf in found.items() if key[0] == "next" and len(key) > 1}
    before = {key: _signal(leaf) for key, leaf in found.items() if key[0] != "next"}
    ends = episode_ends(signals, before)
    if ends and not any(len(path) == 1 for path in signals):
        notes.append('The end signals are taken from the groups: an end is drawn where any agent is "done".')
    shape = next((leaf.columns().shape[:2] for leaf in found.values()), ())
    return {name: flags.numpy().reshape(shape) for name, flags in ends.items()}


def _signal(leaf: RolloutLeaf) -> torch.Tensor:
    columns = leaf.columns() != 0
    return torch.from_numpy(np.ascontiguousarray(columns.reshape(-1, columns.shape[-1])))


def _padding(leaves: dict[Key, RolloutLeaf], shape: tuple[int, int]) -> np.ndarray:
    for key in (("mask",), ("collector", "mask")):
        leaf = leaves.get(key)
        if leaf is not None and leaf.dtype == "bool" and leaf.columns().shape[-1] == 1:
            return np.asarray(~leaf.columns()[..., 0])
    return np.zeros(shape, bool)


def returns_so_far(reward: np.ndarray, code: np.ndarray) -> np.ndarray:
    """Return the sum of the rewards of each episode up to and including each step, float64 ``[E, T]``.

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
    """Return start and stop of each episode and of padding."""
    padding = code == KINDS.index("padding")
    parted = ((code != 0) & ~padding)[:-1] | (padding[1:] != padding[:-1])
    edges = [0, *(np.flatnonzero(parted) + 1).tolist(), len(code)]
    return list(pairwise(edges))


def episodes(code: np.ndarray, returns: np.ndarray | None) -> tuple[Episode, ...]:
    """List the episodes of all environments, in order. Without ``returns`` their returns are NaN."""
    found = []
    for e, row in enumerate(code):
        for start, stop in _spans(row):
            kind = KINDS[row[stop - 1]]
            if kind == "padding":
                continue
            ret = float("nan") if returns is None else float(returns[e, stop - 1])
            found.append(Episode(e, start, stop, ret, kind))
    return tuple(found)


def episode_numbers(found: Iterable[Episode], shape: tuple[int, ...]) -> np.ndarray:
    """Return the number of each step's episode, counted from 1 in each environment, int32 ``[E, T]``; 0 outside.

    Example:
        >>> code = np.array([[0, 1, 0, 5, 6]], np.uint8)
        >>> episode_numbers(episodes(code, None), code.shape).tolist()
        [[1, 1, 2, 2, 0]]
    """
    numbers, counted = np.zeros(shape, np.int32), [0] * shape[0]
    for episode in found:
        counted[episode.env] += 1
        numbers[episode.env, episode.start : episode.stop] = counted[episode.env]
    return numbers


#: Kind of reset by code, at the first step of an episode; code 0 is any other step.
RESETS: tuple[str, ...] = ("", "reset", "partial reset", "auto-reset", "no reset")

#: Meaning of each, also for the value target of the step before it.
RESET_RULES: dict[str, str] = {
    "reset": (
        'a new episode begins; the last observation of the previous one is only in "next" of the step before, and '
        "truncation bootstraps from it"
    ),
    "partial reset": "only some environments begin a new episode; each bootstraps by its own end, the others go on",
    "auto-reset": (
        "the env reset itself, and its last observation is lost (nan): a truncated step cannot be bootstrapped"
    ),
    "no reset": "the root is already done: a step past the end of an episode, which no value target may use",
}

#: Sign of each in drawings.
RESET_SIGNS: dict[str, str] = {"reset": "▸", "partial reset": "▹", "auto-reset": "◉", "no reset": "✕"}

#: A rollout truncated at its own end cannot be distinguished from a time limit of the env at that step.
STOPPED = "by a limit of the env, or by rollout(set_truncated=True): the data does not say which"

_OVER = tuple(KINDS.index(kind) for kind in ("terminated", "truncated", "done"))


def resets(leaves: Mapping[Key, RolloutLeaf], code: np.ndarray) -> np.ndarray:
    """Return the kind of reset at the start of each episode, an index into `RESETS`, uint8 ``[E, T]``.

    Where another trajectory follows without an end signal, nothing was reset.

    Example:
        >>> resets({}, np.array([[0, 1, 0, 5], [0, 0, 0, 5]], np.uint8)).tolist()
        [[0, 0, 2, 0], [0, 0, 0, 0]]
    """
    padding = code == KINDS.index("padding")
    begun = np.zeros(code.shape, bool)
    begun[:, 1:] = np.isin(code[:, :-1], _OVER) & ~padding[:, 1:]
    kinds = np.zeros(code.shape, np.uint8)
    everywhere = (begun | padding).all(0)
    kinds[begun & everywhere] = RESETS.index("reset")
    kinds[begun & ~everywhere] = RESETS.index("partial reset")
    kinds[begun & _lost(leaves, code.shape)] = RESETS.index("auto-reset")
    kinds[begun & _done_root(leaves, code.shape)] = RESETS.index("no reset")
    return kinds


def stopped_at_the_end(code: np.ndarray) -> bool:
    """Whether an episode is truncated in the last row of the data.

    Example:
        >>> stopped_at_the_end(np.array([[0, 2]])), stopped_at_the_end(np.array([[2, 5]]))
        (True, False)
    """
    return bool((code[:, -1] == KINDS.index("truncated")).any())


def _lost(leaves: Mapping[Key, RolloutLeaf], shape: tuple[int, ...]) -> np.ndarray:
    """Return where the previous step lost its observation and this root has one."""
    found = np.zeros(shape, bool)
    for leaf in leaves.values():
        root = leaves.get(leaf.base)
        if not leaf.is_next or root is None or leaf.values.dtype.kind != "f" or root.shape != leaf.shape:
            continue
        if not leaf.columns().shape[-1] or leaf.base[-1] == "reward":
            continue
        gone, here = np.isnan(leaf.columns()).all(-1), ~np.isnan(root.columns()).any(-1)
        found[:, 1:] |= gone[:, :-1] & here[:, 1:]
    return found


def _done_root(leaves: Mapping[Key, RolloutLeaf], shape: tuple[int, ...]) -> np.ndarray:
    found = np.zeros(shape, bool)
    for name in END_KEYS:
        leaf = leaves.get((name,))
        if leaf is not None and leaf.kind == "number" and leaf.columns().shape[-1]:
            found |= (leaf.columns() != 0).all(-1)
    return found

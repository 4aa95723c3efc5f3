"""Resets in a rollout: full, partial, automatic, and missing ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlnb_widgets.rollout_player.episodes import KINDS
from rlnb_widgets.rollout_player.leaves import Key, RolloutLeaf

#: Kind of reset by code, at the first step of an episode; code 0 is any other step.
RESETS: tuple[str, ...] = ("", "reset", "partial reset", "auto-reset", "no reset")

#: What each means, and for the value target of the step before it.
RESET_RULES: dict[str, str] = {
    "reset": 'a fresh root; what the step before led to stands in its "next" alone, which truncated bootstraps from',
    "partial reset": "only some of the environments start anew; each bootstraps by its own end, the others go on",
    "auto-reset": (
        "the env reset itself, and its last observation is lost (nan): a truncated step cannot be bootstrapped"
    ),
    "no reset": "the root is done itself: a step past the end of an episode, which no value target may use",
}

#: How each is drawn.
RESET_SIGNS: dict[str, str] = {"reset": "▸", "partial reset": "▹", "auto-reset": "◉", "no reset": "✕"}

#: A rollout that marks its own end looks like an env's limit that happens to fall there.
STOPPED = "by a limit of the env, or by rollout(set_truncated=True): the data does not tell"

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
    for name in ("done", "terminated", "truncated"):
        leaf = leaves.get((name,))
        if leaf is not None and leaf.kind == "number" and leaf.columns().shape[-1]:
            found |= (leaf.columns() != 0).all(-1)
    return found

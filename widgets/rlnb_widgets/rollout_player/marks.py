"""Steps to jump to: ends of episodes and of agents, differences, changes of reward, and resets."""

from __future__ import annotations

import numpy as np

from rlnb_widgets.rollout_player.agents import LANES, RESTART
from rlnb_widgets.rollout_player.episodes import KINDS
from rlnb_widgets.rollout_player.model import PlayerModel

_DONE = [KINDS.index(kind) for kind in ("terminated", "truncated", "done")]


def jump_marks(model: PlayerModel) -> dict[str, np.ndarray]:
    """Return where the steps of each kind are, bool ``[E, T]``, in the order in which the page offers them."""
    code, padding = model.code, model.code == KINDS.index("padding")
    done = np.isin(code, _DONE)
    reset = np.zeros_like(done)
    reset[:, 1:] = (done | (code == KINDS.index("cut")))[:, :-1] & ~padding[:, 1:]
    parting = np.zeros_like(done)
    if model.parting is not None and model.parting.t is not None:
        parting[:, model.parting.t] = True
    return {
        "done": done,
        "an agent ends or starts": _alone(model),
        "first difference": parting,
        "reward change": _reward_changes(model) & ~padding,
        "reset": reset,
    }


def _alone(model: PlayerModel) -> np.ndarray:
    """Return where a single agent ends, or begins after its own reset."""
    found = np.zeros(model.code.shape, bool)
    for lanes in (strip.data for strip in model.strips if strip.kind == "lanes"):
        kinds = lanes % RESTART
        ends = (kinds > 0) & (kinds < LANES.index("waits")) & (model.code == 0)[..., None]
        found |= ((lanes >= RESTART) | ends).any(-1)
    return found


def _reward_changes(model: PlayerModel) -> np.ndarray:
    found = np.zeros(model.code.shape, bool)
    for values in (strip.data for strip in model.strips if strip.role == "reward"):
        before, after = values[:, :-1], values[:, 1:]
        found[:, 1:] |= ((before != after) & ~((before != before) & (after != after))).any(-1)
    # A reward that changes at every other step is no place to jump to.
    return np.asarray(found & (2 * found.sum(1, keepdims=True) < model.length))

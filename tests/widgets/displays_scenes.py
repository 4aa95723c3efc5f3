"""Display lists of the drawings of environments, of the player's film strip and of a match."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from rlnb_widgets import RolloutPlayer, play
from rlnb_widgets._core.display import Display
from rlnb_widgets.game.picture import picture
from rlnb_widgets.game.scene import match_display
from rlnb_widgets.rollout_player.scene import PlayerScene
from rlnb_widgets.scenes import find_scene

from rlnb.envs import ConnectFourEnv, GridWorldEnv, GymEnv, SpreadEnv, TicTacToeEnv

_BOARD = [[[1, -1, -1], [1, 0, -1], [0, 0, 0]]]
_COLUMNS = np.full((1, 6, 7), -1)
_COLUMNS[0, 5, :4], _COLUMNS[0, 4, :2] = [0, 1, 0, 1], [0, 1]
_STATE = [[[0, 0, 0], [1, 2, 1], [2, 1, 1], [0, 2, 0], [1, 2, 1], [2, 0, 0]]]

#: What is drawn, one frame of it, and an action.
_FRAMES: dict[str, tuple[Any, Any, Any]] = {
    "Acrobot": ("Acrobot-v1", [[0.5, 0.8, 0.9, -0.3, 0, 0]], [2]),
    "Blackjack": ("Blackjack-v1", [(14, 10, 1)], [1]),
    "CartPole": ("CartPole-v1", [[1.0, 0, 0.15, 0]], [0]),
    "CliffWalking": ("CliffWalking-v1", [25], [1]),
    "FrozenLake": ("FrozenLake-v1", [9], [1]),
    "MountainCar": ("MountainCarContinuous-v0", [[-0.2, 0.01]], [[0.6]]),
    "Pendulum": ("Pendulum-v1", [[0.3, -0.95, 0.1]], [[-1.5]]),
    "Taxi": ("Taxi-v3", [328], [0]),
    "a map with walls": (GridWorldEnv(["S.#", ".HG"]), [3], [2]),
    "a bandit": ("rlnb/Bandit", [[3, 0, 5, 1]], [2]),
    "columns of discs": (ConnectFourEnv(), _COLUMNS, [4]),
    "a won board": (TicTacToeEnv(), _BOARD, None),
    "agents that spread": (SpreadEnv(3, (3, 4)), _STATE, [[1, 0, 4]]),
}


def _of(env: Any, observations: Any, actions: Any) -> Callable[[], tuple[Display, dict[str, Any]]]:
    def made() -> tuple[Display, dict[str, Any]]:
        spec = find_scene(env)
        assert spec is not None
        scene = spec.pose(observations if isinstance(observations, list) else np.asarray(observations), actions)
        display = Display(scene.height)
        scene.draw(display)
        names = [part.name for part in scene.parts]
        return display, dict(zip(names, scene.poses_as_lists()[0], strict=True))

    return made


def _film() -> tuple[Display, dict[str, Any]]:
    env = GymEnv("MountainCar-v0")
    env.set_seed(0)
    display = PlayerScene(RolloutPlayer(env.rollout(50), env).model).film(20)
    assert display is not None
    return display, {}


def _match() -> tuple[Display, dict[str, Any]]:
    game = play(ConnectFourEnv(), seed=0)
    game.act(3)
    return match_display(game.match, picture(game.match, game._spec, 0)), {}


SCENES = {
    "the player's film": _film,
    "a match": _match,
    **{f"scene of {name}": _of(*frame) for name, frame in _FRAMES.items()},
}

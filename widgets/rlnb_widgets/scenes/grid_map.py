"""Scene of rlnb's grid worlds, with the map of the env."""

from __future__ import annotations

from typing import Any

from rlnb_widgets.scenes.grid import DOWN, LEFT, RIGHT, UP, GridWorld
from rlnb_widgets.scenes.scene import Scene


class GridMap:
    """Draws a GridWorldEnv from the index of the agent's cell, on the map of the env it is asked for.

    Example:
        >>> class Env:
        ...     desc = ("S.G", ".#H")
        >>> GridMap().for_env(Env()).pose([1], actions=[2]).caption_at(0)
        'agent at row 0, column 1, going right'
    """

    def for_env(self, env: Any) -> GridWorld:
        """Return the scene with the map of `env`, its ``desc``."""
        return GridWorld("GridWorld", env.desc, (LEFT, DOWN, RIGHT, UP), ("left", "down", "right", "up"))

    def pose(self, observations: Any, actions: Any = None) -> Scene:
        """Raise ``ValueError``: without the env there is no map."""
        raise ValueError("a grid world is drawn on the map of its env, and only a name was given: pass the env itself.")

"""rlnb's own Pendulum as a picture: drawn from its angle instead of sine and cosine."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlnb_widgets.scenes.inputs import feature_rows
from rlnb_widgets.scenes.pendulum import Pendulum
from rlnb_widgets.scenes.scene import Scene

__all__ = ["PendulumAngles"]


class PendulumAngles(Pendulum):
    """Draws PendulumEnv from (th, thdot): th is 0 upright and grows anticlockwise.

    Attributes:
        reads: the entries that the observations are read from, one a column.

    Example:
        >>> PendulumAngles().pose([[np.pi, 0.0]], actions=[[2.0]]).caption_at(0)
        'rod 180.0 degrees left, torque +2.00'
    """

    fields = ("th", "thdot")
    reads = ("th", "thdot")

    def pose(self, observations: Any, actions: Any = None) -> Scene:
        """Return the scene of observations [N, 2], with the torque where actions ([N] or [N, 1], N m) are given."""
        th, thdot = feature_rows(observations, "Pendulum", self.fields).T
        return super().pose(np.stack([np.cos(th), np.sin(th), thdot], axis=-1), actions)

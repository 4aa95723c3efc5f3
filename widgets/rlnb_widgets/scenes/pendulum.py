"""Scenes of Pendulum: the rod, its pivot and the torque as a round arrow."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from rlnb_widgets.scenes.drawing import arc_parts, arc_poses, box, disc, line, paper, pose, stack
from rlnb_widgets.scenes.inputs import action_values, feature_rows
from rlnb_widgets.scenes.scene import Limit, Part, Scene

_SIZE = 320.0
_CENTRE = _SIZE / 2
_ROD = 112.0
_MAX_TORQUE = 2.0  # N m; the env clips there
_SPEEDS = (Limit(-8.0, "≥ -8", "muted"), Limit(8.0, "≤ 8", "muted"))  # rad/s
_RADIUS, _SWEEP = 44.0, math.radians(150)

_BEAM = Part("rod", [box(-10, -_ROD - 10, 20, _ROD + 20, "accent", radius=10)])
_PIN = Part("pivot", [disc(0, 0, 5, "ink")])


class Pendulum:
    """Draws Pendulum from (cos(theta), sin(theta), theta_dot): theta is 0 upright and grows anticlockwise.

    Example:
        >>> import numpy as np
        >>> scene = Pendulum().pose(np.array([[-1.0, 0.0, 0.0]]), actions=np.array([[2.0]]))
        >>> scene.caption_at(0)
        'rod 180.0 degrees left, torque +2.00'
    """

    fields: tuple[str, ...] = ("cos(theta)", "sin(theta)", "theta_dot")
    limits: ClassVar = {"theta_dot": _SPEEDS}
    background = (
        paper(_SIZE, _SIZE),
        disc(_CENTRE, _CENTRE, _ROD + 20, stroke="line"),
        line(_CENTRE, 14, _CENTRE, 42, "good"),
    )

    def pose(self, observations: Any, actions: Any = None) -> Scene:
        """Return the scene of observations [N, 3], with the torque where actions ([N] or [N, 1], N m) are given."""
        rows = feature_rows(observations, "Pendulum", Pendulum.fields)
        torque = action_values(actions, _MAX_TORQUE, len(rows), "Pendulum")
        theta = np.arctan2(rows[:, 1], rows[:, 0])
        shown = np.isfinite(theta)
        # Screen angles are clockwise, the env's are anticlockwise; the arc starts beside the top and goes its way.
        turn = np.where(shown, -torque, np.nan)
        poses = stack(
            len(rows),
            pose(_CENTRE, _CENTRE, -theta, shown),
            pose(_CENTRE, _CENTRE, 0.0, shown),
            *arc_poses(turn, _CENTRE, _CENTRE, -math.pi / 2 - np.sign(np.nan_to_num(turn)) * _SWEEP / 2, _SWEEP),
        )

        def caption(i: int) -> str:
            if not shown[i]:
                return "no observation"
            lean = math.degrees(theta[i])
            words = (
                "rod upright" if abs(lean) < 0.05 else f"rod {abs(lean):.1f} degrees {'left' if lean > 0 else 'right'}"
            )
            return words if np.isnan(torque[i]) else f"{words}, torque {torque[i] * _MAX_TORQUE:+.2f}"

        return Scene(_SIZE, _SIZE, self.background, (_BEAM, _PIN, *arc_parts(_RADIUS, _SWEEP)), poses, caption)


class PendulumAngles(Pendulum):
    """Draws PendulumEnv from (th, thdot): th is 0 upright and grows anticlockwise.

    Example:
        >>> PendulumAngles().pose([[np.pi, 0.0]], actions=[[2.0]]).caption_at(0)
        'rod 180.0 degrees left, torque +2.00'
    """

    fields = ("th", "thdot")
    limits: ClassVar = {"thdot": _SPEEDS}
    reads = ("th", "thdot")

    def pose(self, observations: Any, actions: Any = None) -> Scene:
        """Return the scene of observations [N, 2], with the torque where actions ([N] or [N, 1], N m) are given."""
        th, thdot = feature_rows(observations, "Pendulum", self.fields).T
        return super().pose(np.stack([np.cos(th), np.sin(th), thdot], axis=-1), actions)

"""Scene of Acrobot: two links, the height to reach and the torque at the joint."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from rlnb_widgets.scenes.drawing import arc_parts, arc_poses, box, disc, line, paper, pose, stack
from rlnb_widgets.scenes.inputs import action_indices, feature_rows
from rlnb_widgets.scenes.scene import Limit, Part, Scene

_SIZE = 320.0
_CENTRE = _SIZE / 2
_LINK = 66.0  # scene units per metre; both links are 1 m long
_RADIUS, _SWEEP = 26.0, math.radians(130)


_LOOKS = {"link 1": "accent", "link 2": "wood"}
_LINKS = [Part(name, [box(-8, -8, 16, _LINK + 16, role, radius=8)]) for name, role in _LOOKS.items()]
_JOINTS = [Part(name, [disc(0, 0, 5, "paper", stroke="ink")]) for name in ("pivot", "joint")]


class Acrobot:
    """Draws Acrobot from the cosines and sines of its two angles: 0 hangs down, both grow anticlockwise.

    Example:
        >>> import numpy as np
        >>> Acrobot().pose(np.array([[1.0, 0, 1, 0, 0, 0]])).caption_at(0)
        'tip 2.00 below the pivot; the goal is 1 above it'
    """

    fields = ("cos(theta1)", "sin(theta1)", "cos(theta2)", "sin(theta2)", "theta1_dot", "theta2_dot")
    limits: ClassVar = {
        "theta1_dot": (Limit(-4 * math.pi, "≥ -4π", "muted"), Limit(4 * math.pi, "≤ 4π", "muted")),
        "theta2_dot": (Limit(-9 * math.pi, "≥ -9π", "muted"), Limit(9 * math.pi, "≤ 9π", "muted")),
    }
    background = (paper(_SIZE, _SIZE), line(12, _CENTRE - _LINK, _SIZE - 12, _CENTRE - _LINK, "good"))

    def pose(self, observations: Any, actions: Any = None) -> Scene:
        """Return the scene of observations [N, 6], with the torque of actions (index or one-hot [N, 3]) if given."""
        rows = feature_rows(observations, "Acrobot", self.fields)
        torque = action_indices(actions, 3, len(rows), "Acrobot") - 1
        first = np.arctan2(rows[:, 1], rows[:, 0])
        both = first + np.arctan2(rows[:, 3], rows[:, 2])
        shown = np.isfinite(both)
        x, y = _CENTRE + _LINK * np.sin(first), _CENTRE + _LINK * np.cos(first)
        turn = np.where(shown, -torque, np.nan)
        # Links are drawn hanging down; the arc lies across the second link, so it shows the way that link is turned.
        middle = math.pi / 2 - both
        poses = stack(
            len(rows),
            pose(_CENTRE, _CENTRE, -first, shown),
            pose(x, y, -both, shown),
            pose(_CENTRE, _CENTRE, 0.0, shown),
            pose(x, y, 0.0, shown),
            *arc_poses(turn, x, y, middle - np.sign(np.nan_to_num(turn)) * _SWEEP / 2, _SWEEP),
        )
        tip = -np.cos(first) - np.cos(both)

        def caption(i: int) -> str:
            if not shown[i]:
                return "no observation"
            side = "above" if tip[i] > 0 else "below"
            words = f"tip {abs(tip[i]):.2f} {side} the pivot; the goal is 1 above it"
            return words if np.isnan(torque[i]) else f"{words}; torque {torque[i]:+.0f}"

        parts = (*_LINKS, *_JOINTS, *arc_parts(_RADIUS, _SWEEP))
        return Scene(_SIZE, _SIZE, self.background, parts, poses, caption)

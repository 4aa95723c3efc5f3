"""Scene of CartPole: a cart on its track, the pole, the limits and the push."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from rlnb_widgets.scenes.drawing import arrow_parts, arrow_poses, box, disc, line, paper, pose, stack
from rlnb_widgets.scenes.inputs import action_indices, feature_rows
from rlnb_widgets.scenes.scene import Limit, Part, Scene

_WIDTH, _HEIGHT = 480.0, 230.0
_SCALE = 84.0  # scene units per metre: a little more than the 4.8 m between the limits
_LIMIT = 2.4  # metres; an episode ends beyond it
_TRACK, _AXLE = 160.0, 124.0
_POLE = 1.0 * _SCALE  # metres: twice the env's half length
_ARROW = 52.0

_WHEELS = [disc(x, 28, 8, "paper", stroke="ink") for x in (-15, 15)]
_CART = Part("cart", [*_WHEELS, box(-31, -6, 62, 30, "accent", radius=5)])
_BEAM = Part("pole", [box(-5, -_POLE, 10, _POLE + 5, "wood", radius=5)])
_PIN = Part("axle", [disc(0, 0, 4, "paper")])
_EDGES = [_WIDTH / 2 + x * _SCALE for x in (-_LIMIT, _LIMIT)]


class CartPole:
    """Draws CartPole from (x, x_dot, theta, theta_dot): theta > 0 leans to the right.

    Example:
        >>> import numpy as np
        >>> scene = CartPole().pose(np.array([[1.0, 0, 0.1, 0]]), actions=np.array([0]))
        >>> scene.caption_at(0)
        'cart at +1.00, pole leaning 5.7 degrees right, pushed left'
    """

    fields = ("x", "x_dot", "theta", "theta_dot")
    limits: ClassVar = {
        "x": (Limit(-_LIMIT, "-2.4 m"), Limit(_LIMIT, "2.4 m")),
        # In the unit of the value that stands beside them; 12 degrees.
        "theta": (Limit(-math.radians(12), "-0.209 rad"), Limit(math.radians(12), "0.209 rad")),
    }

    def pose(self, observations: Any, actions: Any = None) -> Scene:
        """Return the scene of observations [N, 4], with the push where actions (index or one-hot [N, 2]) are given."""
        rows = feature_rows(observations, "CartPole", self.fields)
        push = action_indices(actions, 2, len(rows), "CartPole") * 2 - 1
        x, theta = rows[:, 0], rows[:, 2]
        px = _WIDTH / 2 + x * _SCALE
        # Below the track and centred on the cart, the arrow stays in the picture even at the limits.
        start = px - np.nan_to_num(push) * _ARROW / 2
        shown = np.isfinite(px)
        poses = stack(
            len(rows),
            pose(px, _AXLE, 0.0, shown),
            pose(px, _AXLE, theta, shown),
            pose(px, _AXLE, 0.0, shown),
            *arrow_poses(np.where(shown, push, np.nan), start, _TRACK + 32, 0.0, _ARROW),
        )

        def caption(i: int) -> str:
            if not shown[i]:
                return "no observation"
            lean = math.degrees(theta[i])
            side = (
                "upright" if abs(lean) < 0.05 else f"leaning {abs(lean):.1f} degrees {'right' if lean > 0 else 'left'}"
            )
            words = f"cart at {x[i]:+.2f}, pole {side}"
            return words if np.isnan(push[i]) else f"{words}, pushed {'right' if push[i] > 0 else 'left'}"

        parts = (_CART, _BEAM, _PIN, *arrow_parts(_ARROW))
        return Scene(_WIDTH, _HEIGHT, self.background, parts, poses, caption)

    background = (
        paper(_WIDTH, _HEIGHT),
        line(12, _TRACK, _WIDTH - 12, _TRACK, "muted"),
        *(line(x, _TRACK - 26, x, _TRACK + 10, "bad") for x in _EDGES),
    )

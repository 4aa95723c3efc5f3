"""Scene of MountainCar: the hill, the flag at the goal, the car and its push."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlnb_widgets._core.display import Mark
from rlnb_widgets.scenes.drawing import arrow_parts, arrow_poses, box, disc, flag, paper, polygon, pose, stack
from rlnb_widgets.scenes.inputs import Floats, action_indices, action_values, feature_rows
from rlnb_widgets.scenes.scene import Limit, Part, Scene

_WIDTH, _HEIGHT = 480.0, 330.0
_LEFT, _RIGHT = -1.35, 0.75  # a little more than the car's range of -1.2 to 0.6
_SCALE = _WIDTH / (_RIGHT - _LEFT)
_GROUND = 322.0
_ARROW = 60.0

_CABIN = polygon([(-17, -26), (-10, -41), (11, -41), (19, -26)], "paper", stroke="accent")
_WHEELS = [disc(x, -9, 8, "paper", stroke="ink") for x in (-16, 16)]
_CAR = Part("car", [_CABIN, box(-31, -28, 62, 18, "accent", radius=6), *_WHEELS])


def _height(x: Any) -> Any:
    return np.sin(3 * x) * 0.45 + 0.55


def _screen(x: Any) -> tuple[Any, Any]:
    """Return the place of the hill at position `x` in the picture."""
    return (x - _LEFT) * _SCALE, _GROUND - _height(x) * _SCALE


def _hill() -> Mark:
    """Return the hill as one polygon whose sides and bottom lie outside the picture, so that only its ridge shows."""
    points = np.stack(_screen(np.linspace(_LEFT - 0.05, _RIGHT + 0.05, 84)), axis=-1).round(1).tolist()
    below = _HEIGHT + 10
    return polygon([(points[0][0], below), *points, (points[-1][0], below)], "ground", stroke="muted")


class MountainCar:
    """Draws MountainCar and MountainCarContinuous from (position, velocity).

    The flag is at ``goal``. In the continuous env actions are forces in [-1, 1], otherwise left, nothing and right.

    Example:
        >>> import numpy as np
        >>> MountainCar().pose(np.array([[-0.5, 0.01]]), actions=np.array([2])).caption_at(0)
        'car at -0.50 with speed +0.010, pushed right'
    """

    fields = ("position", "velocity")

    def __init__(self, goal: float = 0.5, continuous: bool = False) -> None:
        self.goal, self.continuous = goal, continuous
        self.name = "MountainCarContinuous" if continuous else "MountainCar"
        self.limits = {
            "position": (Limit(-1.2, "≥ -1.2", "muted"), Limit(goal, f"goal {goal:g}", "good")),
            "velocity": (Limit(-0.07, "≥ -0.07", "muted"), Limit(0.07, "≤ 0.07", "muted")),
        }
        self.background = (paper(_WIDTH, _HEIGHT), *flag(*_screen(goal), 60), _hill())

    def _push(self, actions: Any, frames: int) -> Floats:
        if self.continuous:
            return action_values(actions, 1.0, frames, self.name)
        return action_indices(actions, 3, frames, self.name) - 1

    def pose(self, observations: Any, actions: Any = None) -> Scene:
        """Return the scene of observations [N, 2], with the push where actions are given.

        Actions are 0, 1, 2 (or one-hot [N, 3]) or, in the continuous env, forces of shape [N] or [N, 1].
        """
        rows = feature_rows(observations, self.name, self.fields)
        push = self._push(actions, len(rows))
        x, speed = rows[:, 0], rows[:, 1]
        px, py = _screen(x)
        # Height falls on the screen as it grows in the world, so an upward slope tilts anticlockwise.
        tilt = -np.arctan(1.35 * np.cos(3 * x))
        shown = np.isfinite(px)
        # The arrow floats above the roof, centred on the car, so that it stays in the picture near both ends.
        lift, back = 56.0, np.nan_to_num(push) * _ARROW / 2
        poses = stack(
            len(rows),
            pose(px, py, tilt, shown),
            *arrow_poses(
                np.where(shown, push, np.nan),
                px + lift * np.sin(tilt) - back * np.cos(tilt),
                py - lift * np.cos(tilt) - back * np.sin(tilt),
                tilt,
                _ARROW,
            ),
        )

        def caption(i: int) -> str:
            if not shown[i]:
                return "no observation"
            words = f"car at {x[i]:+.2f} with speed {speed[i]:+.3f}"
            if np.isnan(push[i]):
                return words
            way = "right" if push[i] > 0 else "left"
            force = f" with force {abs(push[i]):.2f}" if self.continuous else ""
            return f"{words}, {f'pushed {way}{force}' if push[i] else 'not pushed'}"

        return Scene(_WIDTH, _HEIGHT, self.background, (_CAR, *arrow_parts(_ARROW)), poses, caption)

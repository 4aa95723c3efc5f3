"""A toy simulator that knows nothing of TensorDicts, to be wrapped: a kite on a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Reading:
    """What :class:`Kite` reports: of a reset only the first two are meaningful."""

    height: float  # in metres
    gust: int  # 1 while the wind blows hard
    effort: float = 0.0  # what it cost to hold the line in this step
    landed: bool = False  # it lies on the ground
    evening: bool = False  # time to go home, wherever the kite is


class Kite:
    """Pull at the line, from 0 to 1, and the kite rises; gusts lift it, and calms let it sink.

    Args:
        seed: seeds the wind.
        minutes: how many steps there are until the evening.
    """

    def __init__(self, seed: int | None = None, minutes: int = 30) -> None:
        self.wind, self.minutes = np.random.default_rng(seed), minutes

    def reset(self) -> Reading:
        """Let it fly from three metres."""
        self.height, self.minute = 3.0, 0
        return Reading(self.height, 0)

    def step(self, pull: Any) -> Reading:
        """Hold the line for a minute."""
        gust = int(self.wind.integers(2))
        self.height = max(self.height + float(pull[0]) + gust - 1.0, 0.0)
        self.minute += 1
        return Reading(self.height, gust, float(pull[0]) ** 2, self.height == 0.0, self.minute == self.minutes)

"""Display lists of the training monitor on small data."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from rlnb_widgets import TrainingMonitor
from rlnb_widgets._core.display import Columns, Display
from rlnb_widgets._core.display_svg import legend_display
from rlnb_widgets.training_monitor.scene import (
    curve_displays,
    curve_legend,
    film_display,
    map_display,
    progress_display,
)
from tensordict import TensorDictBase

from rlnb.envs import GymEnv

Made = tuple[Display, dict[str, Any]]


def _balance(td: TensorDictBase) -> TensorDictBase:
    right = (td["observation"][2] + td["observation"][3] > 0).long()
    return td.set("action", torch.nn.functional.one_hot(right, 2))


def monitor() -> TrainingMonitor:
    """A training of 3,000 iterations, stopped, with all that can be shown."""
    rng, env = np.random.default_rng(0), GymEnv("CartPole-v1")
    found = TrainingMonitor(total=4_000, curves=["return", "loss", "epsilon", "nothing"], goals={"return": 60})
    for name, steps in (("before", 9), ("half way", 40), ("after", 90)):
        env.set_seed(steps)
        found.snapshot(name, env.rollout(steps, _balance), env)
    with found:
        for i in found.watch(range(3_000)):
            loss = math.exp(-i / 800) + 0.1 * rng.normal() if i % 300 else math.nan
            found.log(loss=loss, epsilon=max(1 - i / 2_000, 0.05))
            if i % 10 == 0:
                found.log({"return": 10 + 40 * i / 3_000 + 3 * rng.normal()})
        raise KeyboardInterrupt
    values = np.linspace(0, 1, 12)
    found.show_values(values, (3, 4), np.arange(12) % 4, blocked=[5], goal=11)
    return found


def _curve(i: int) -> Callable[[], Made]:
    return lambda: (curve_displays(monitor()._modelled(40), Columns())[i], {"read": 1, "at": 900})


def _film() -> Made:
    display = film_display(monitor().model.shown)
    assert display is not None
    return display, {}


def _map() -> Made:
    grid = monitor().model.value_map
    assert grid is not None
    return map_display(grid, Columns()), {}


SCENES: dict[str, Callable[[], Made]] = {
    "progress of a training": lambda: (progress_display(monitor().model.progress), {}),
    "noisy curve with a goal": _curve(0),
    "curve with NaN": _curve(1),
    "smooth curve": _curve(2),
    "curve without values": _curve(3),
    "legend of the curves": lambda: (legend_display(curve_legend(monitor().model.curves)), {}),
    "agents before, half way and after": _film,
    "values of a grid": _map,
}

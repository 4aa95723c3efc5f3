"""Display lists of the visualizers on small data, with the values of their parameters, for tests that draw them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from rlnb_widgets import BatchedEnvTimeline, TransformInspector
from rlnb_widgets._core.display import Display
from rlnb_widgets.transform_inspector.scene import chain_display

from rlnb.envs import CartPoleEnv, Compose, RewardSum, StepCounter, TransformedEnv
from rlnb.envs.batched.trace import BatchTrace, Turn
from tests.widgets import (
    displays_buffers,
    displays_monitor,
    displays_player,
    displays_scenes,
    displays_spec,
    displays_ted,
    displays_trees,
)

Made = tuple[Display, dict[str, Any]]


def _timeline(steps: int, envs: int, t: int) -> BatchedEnvTimeline:
    """A timeline of a trace whose steps take 60 to 90 microseconds, with a reset after every seventh."""
    rng, turns, at = np.random.default_rng(0), [], 1_000
    for step in range(steps):
        told = np.sort(rng.integers(1_000, 20_000, envs))
        turns.append(_turn("step", at, told, rng.integers(10_000, 40_000, envs), 80_000))
        at += 90_000
        if step % 7 == 6:
            turns.append(_turn("reset", at, told, rng.integers(10_000, 40_000, envs), 70_000))
            at += 75_000
    return BatchedEnvTimeline(BatchTrace("ParallelEnv", envs, turns), t=t)


def _turn(what: str, at: int, told: np.ndarray, took: np.ndarray, whole: int) -> Turn:
    rows = np.zeros((len(told), 4), dtype=np.int64)
    rows[:, 0], rows[:, 2 if what == "reset" else 1], rows[:, 3] = at + told, at + told + took, at + told + took + 4_000
    return Turn(what, tuple(range(len(told))), at, at + whole, rows)


def _of_timeline(name: str, steps: int = 30, envs: int = 3) -> Callable[[], Made]:
    def made() -> Made:
        scene = _timeline(steps, envs, 6)._scene
        return getattr(scene, name)(), scene.params(6)

    return made


def _chain() -> Made:
    env = TransformedEnv(CartPoleEnv(), Compose(StepCounter(), RewardSum()))
    return chain_display(TransformInspector(env, seed=0).model), {}


#: Name to a function that returns a display list and its parameters.
SCENES: dict[str, Callable[[], Made]] = {
    "timeline summary": _of_timeline("summary"),
    "timeline of all steps": _of_timeline("overview"),
    "timeline of many steps": _of_timeline("overview", 4_000, 6),
    "timeline of one step": _of_timeline("detail"),
    "timeline resets": _of_timeline("resets"),
    "timeline of many resets": _of_timeline("resets", 4_000, 6),
    "chain of transforms": _chain,
    **displays_buffers.SCENES,
    **displays_trees.SCENES,
    **displays_spec.SCENES,
    **displays_player.SCENES,
    **displays_scenes.SCENES,
    **displays_ted.SCENES,
    **displays_monitor.SCENES,
}

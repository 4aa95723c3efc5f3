"""Display lists of the visualizers on small data, with the values of their parameters, for tests that draw them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from rlnb_widgets import BatchedEnvTimeline, TransformInspector
from rlnb_widgets._core.display import Display
from rlnb_widgets._core.timeline import marks_display
from rlnb_widgets.batched_timeline import batch_run, failure_of
from rlnb_widgets.transform_inspector import Moment
from rlnb_widgets.transform_inspector.scene import card_displays, chain_display

from rlnb.collectors.trace import Call, CollectorTrace, WorkerBatch
from rlnb.envs import CartPoleEnv, Compose, RenameTransform, RewardSum, StepCounter, TransformedEnv
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


def trace_of_batch(steps: int, envs: int) -> BatchTrace:
    """A trace whose steps take 60 to 90 microseconds, with a reset after every seventh."""
    rng, turns, at = np.random.default_rng(0), [], 1_000
    for step in range(steps):
        told = np.sort(rng.integers(1_000, 20_000, envs))
        turns.append(_turn("step", at, told, rng.integers(10_000, 40_000, envs), 80_000))
        at += 90_000
        if step % 7 == 6:
            turns.append(_turn("reset", at, told, rng.integers(10_000, 40_000, envs), 70_000))
            at += 75_000
    return BatchTrace("ParallelEnv", envs, turns)


def _turn(what: str, at: int, told: np.ndarray, took: np.ndarray, whole: int) -> Turn:
    rows = np.zeros((len(told), 4), dtype=np.int64)
    rows[:, 0], rows[:, 2 if what == "reset" else 1], rows[:, 3] = at + told, at + told + took, at + told + took + 4_000
    return Turn(what, tuple(range(len(told))), at, at + whole, rows)


def _marks() -> Made:
    marks = {"done": [3, 20, 21, 22], "a kind of mark with a long name": list(range(0, 60, 2)), "none": []}
    display = marks_display(marks, lambda kind: np.array(marks[kind], dtype=np.int64))
    return display, {"t": 22, "last": 59, "start": 10, "stop": 50, "length": 60}


def _of_timeline(name: str, steps: int = 30, envs: int = 3) -> Callable[[], Made]:
    def made() -> Made:
        scene = BatchedEnvTimeline(trace_of_batch(steps, envs), t=6)._scene
        return getattr(scene, name)(), scene.params(6)

    return made


def collectors(batches: int, workers: int) -> BatchedEnvTimeline:
    """A timeline of an asynchronous collector: each worker collects for 30 to 60 ms, the learner learns for 20 ms."""
    rng, trace = np.random.default_rng(0), CollectorTrace("MultiAsyncCollector", workers, start=1_000)
    free, now, version = [(1_000, 0)] * workers, 1_000, 0
    for call in range(batches):
        took = rng.integers(30_000_000, 60_000_000, workers)
        i = min(range(workers), key=lambda i: free[i][0])
        began, made = free[i][0] + 100_000, free[i][1]
        written = began + int(took[i])
        got = max(now, written) + 50_000
        trace.calls.append(Call(now, got, got + 400_000, True))
        trace.batches.append(WorkerBatch(i, began, (began, written - 900_000, written), 50, made, call, version))
        free[i] = got + 400_000, version
        now, version = got + 20_400_000, version + 1
        trace.updates.append((now, version))
    trace.sent = {i: at for i, (at, _) in enumerate(free)}
    trace.stop = max(now, *(at for at, _ in free)) + 5_000_000
    return BatchedEnvTimeline(trace)


def _of_collectors(name: str, batches: int = 12, workers: int = 3) -> Callable[[], Made]:
    def made() -> Made:
        scene = collectors(batches, workers)._scene
        return getattr(scene, name)(), scene.params(6)

    return made


def _failure() -> Made:
    run = batch_run("a batch", trace_of_batch(6, 3), failure=failure_of(RuntimeError("the env broke\nat step 6"), 6))
    return BatchedEnvTimeline(trace_of_batch(6, 3))._scene.failure(run.label, run.failure), {}


def _chain() -> Made:
    model = TransformInspector(_transformed(), seed=0).model
    failed = Moment("step", "step 1", (), (), failed=0)
    return chain_display(model, 1, failed), {}


def _card() -> Made:
    """A card in the page, with the cut before it and the arrows of a transform with an inverse."""
    card = card_displays(TransformInspector(_transformed(), seed=0).model)[2]
    return card, {"chosen": 1, "failed": 0, "unreached": 0}


def _transformed() -> TransformedEnv:
    inverse = RenameTransform([], [], ["action"], ["deed"])
    return TransformedEnv(CartPoleEnv(), Compose(StepCounter(), RewardSum(), inverse, StepCounter(step_count_key="n")))


#: Name to a function that returns a display list and its parameters.
SCENES: dict[str, Callable[[], Made]] = {
    "marks of a playhead": _marks,
    "timeline summary": _of_timeline("summary"),
    "timeline of all steps": _of_timeline("overview"),
    "timeline of many steps": _of_timeline("overview", 4_000, 6),
    "timeline of one step": _of_timeline("detail"),
    "timeline resets": _of_timeline("resets"),
    "timeline of many resets": _of_timeline("resets", 4_000, 6),
    "timeline of collectors, summary": _of_collectors("summary"),
    "timeline of all batches": _of_collectors("overview"),
    "timeline of many batches": _of_collectors("overview", 3_000, 6),
    "timeline of one batch": _of_collectors("detail"),
    "a failure": _failure,
    "chain of transforms": _chain,
    "a card of a chain": _card,
    **displays_buffers.SCENES,
    **displays_trees.SCENES,
    **displays_spec.SCENES,
    **displays_player.SCENES,
    **displays_scenes.SCENES,
    **displays_ted.SCENES,
    **displays_monitor.SCENES,
}

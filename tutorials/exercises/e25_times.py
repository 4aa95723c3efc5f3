"""Exercise of lesson 25 on speed: how long a batch takes, from how long its envs take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from rlnb_widgets import BatchedEnvTimeline

from rlnb.envs.batched.trace import BatchTrace, Turn

from .asking import as_number, ask, fail, require, right
from .exercise import exercise
from .mutants import instead
from .verdict import Outcome

PREDICT = """
    def predict(times, signal):
        serial = times.sum()
        parallel = times.max(1).values.sum() + signal * len(times)
        return serial, parallel
"""

SIGNAL = 50.0
#: Four steps of three envs, in microseconds; the slow env is another one each time.
UNEVEN = torch.tensor([[180.0, 40, 60], [20, 270, 40], [30, 50, 210], [340, 60, 20]])
SHORT = torch.full((5, 4), 8.0)


@exercise(
    title="Which batch is faster?",
    prompt="""
        Write `predict(times, signal)`: how long a batch takes for some steps, in microseconds, as a `SerialEnv` and as
        a `ParallelEnv` with a core for each env. `times` has the shape `[steps, envs]`: how long each env runs in each
        step. A `SerialEnv` runs the envs one after another. A `ParallelEnv` runs them at the same time, and each of its
        *steps* costs `signal` in addition: to tell the workers, and to hear that all are ready. Leave out the learner.
    """,
    stub="""
        def predict(times, signal):
            serial = ...
            parallel = ...
            return serial, parallel
    """,
    hints=[
        "The next step begins when all envs have finished this one. Which of them decides how long the step takes?",
        "Look at one row of `times`: the `SerialEnv` takes the sum of it, the `ParallelEnv` the largest of it.",
        "`times.max(1).values` is the slowest env of each step. Sum it, and add `signal` once for each step.",
    ],
    solution=PREDICT,
    wrong=[
        instead(PREDICT, of="times.max(1).values.sum()", put="times.sum(0).max()", says="wait for the slowest"),
        instead(PREDICT, of="times.max(1).values.sum()", put="times.max(0).values.sum()", says="the slowest step of"),
        instead(PREDICT, of="times.max(1).values.sum()", put="times.mean(1).sum()", says="an average env"),
        instead(PREDICT, of="times.max(1).values.sum()", put="times.max() * len(times)", says="worst step"),
        instead(PREDICT, of=" + signal * len(times)", put="", says="as if signals were free"),
        instead(PREDICT, of="signal * len(times)", put="signal", says="signals of a single step"),
        instead(PREDICT, of="signal * len(times)", put="signal * times.numel()", says="signals of each env"),
        instead(PREDICT, of="= times.sum()", put="= times.sum() + signal * len(times)", says="no signals"),
        instead(PREDICT, of="serial = times.sum()", put="serial = times.max(1).values.sum()", says="one after another"),
        instead(PREDICT, of="return serial, parallel", put="return parallel, serial", says="in the other order"),
        instead(PREDICT, of="return serial, parallel", put="return parallel", says="two numbers"),
    ],
    accepted=[
        PREDICT.replace("return serial, parallel", "return torch.stack([serial, parallel])"),
        PREDICT.replace("return serial, parallel", "return serial.numpy()[()], parallel.item()"),
    ],
    setup="import torch",
)  # fmt: skip
def predict(predict: Callable[..., Any]) -> Outcome:
    """Compare with the sums, and with those of typical mistakes; draw the times."""
    serial, parallel = _asked(predict, UNEVEN)
    right_serial, right_parallel = _answer(UNEVEN)
    if serial != right_serial:
        _explain_serial(serial, parallel)
    if parallel != right_parallel:
        _explain_parallel(parallel)
    short = _asked(predict, SHORT)
    require(short == _answer(SHORT), "With other times, of another shape, it is wrong.")
    return right(
        f"Here the `ParallelEnv` wins: {parallel:g} microseconds against {serial:g}. With three envs it is not three "
        "times as fast, though: in each step two of them wait for the slowest. And where four envs take 8 microseconds "
        f"each, the `SerialEnv` wins, {short[0]:g} against {short[1]:g} for five steps. The pictures are of the "
        "first case.",
        BatchedEnvTimeline(serial=_trace(UNEVEN, 0.0, False), parallel=_trace(UNEVEN, SIGNAL, True), t=0),
    )


def _asked(predict: Callable[..., Any], times: torch.Tensor) -> tuple[float, float]:
    got = ask(predict, times, SIGNAL)
    pair = isinstance(got, tuple | list | torch.Tensor) and not (isinstance(got, torch.Tensor) and got.ndim != 1)
    require(pair and len(got) == 2, "It must return two numbers: `serial, parallel`.")
    serial, parallel = (float(as_number(value, "each of the two is to be a single number")) for value in got)
    return round(serial, 3), round(parallel, 3)


def _answer(times: torch.Tensor) -> tuple[float, float]:
    return float(times.sum()), float(times.max(1).values.sum() + SIGNAL * len(times))


def _explain_serial(serial: float, parallel: float) -> None:
    """Name the mistake in the first number."""
    right_serial, right_parallel = _answer(UNEVEN)
    said = f"For the `SerialEnv` it gave {serial:g}. "
    picture = BatchedEnvTimeline(serial=_trace(UNEVEN, 0.0, False))
    if (serial, parallel) == (right_parallel, right_serial):
        fail("The numbers are those of the two batches, in the other order.")
    if serial == right_serial + SIGNAL * len(UNEVEN):
        fail(f"{said}It is one process: there are no signals to wait for.", picture)
    if serial == float(UNEVEN.max(1).values.sum()):
        fail(f"{said}Its envs do not run at the same time, but one after another.", picture)
    fail(f"{said}These are the times that it needs, drawn:", picture)


def _explain_parallel(parallel: float) -> None:
    """Name the mistake in the second number."""
    steps, signals = len(UNEVEN), SIGNAL * len(UNEVEN)
    slowest = float(UNEVEN.max(1).values.sum())
    known = {
        float(UNEVEN.sum(0).max()) + signals: "That is the time of the busiest env, as if the envs did not meet after "
        "each step. But all of them wait for the slowest one, and that is another one each time.",
        float(UNEVEN.max(0).values.sum())
        + signals: "It adds up the slowest step of each env. Which dimension is time, and which are the envs?",
        float(UNEVEN.mean(1).sum()) + signals: "It takes an average env in each step. Can a step be over before all "
        "envs have finished it?",
        float(UNEVEN.max()) * steps + signals: "It takes the worst step of all for each step.",
        slowest: "It is as if signals were free.",
        slowest + SIGNAL: "It has the signals of a single step.",
        slowest
        + SIGNAL * UNEVEN.numel(): "It has the signals of each env in each step; `signal` is what a step of the "
        "whole batch costs.",
    }
    why = known.get(parallel, "These are the times that it needs, drawn:")
    fail(
        f"For the `ParallelEnv` it gave {parallel:g}. {why}", BatchedEnvTimeline(parallel=_trace(UNEVEN, SIGNAL, True))
    )


def _trace(times: torch.Tensor, signal: float, parallel: bool) -> BatchTrace:
    """Make the trace of a batch that takes exactly these times, in microseconds."""
    n, now, turns = times.shape[1], 1000, []
    for row in (1000 * times).long().tolist():
        moments = np.zeros((n, 4), dtype=np.int64)
        start = now
        now += round(500 * signal)
        for env, spent in enumerate(row):
            begin = now if parallel or env == 0 else int(moments[env - 1, 3])
            moments[env] = [begin, begin + spent, 0, begin + spent]
        now = int(moments[:, 3].max()) + round(500 * signal)
        turns.append(Turn("step", tuple(range(n)), start, now, moments))
    return BatchTrace("ParallelEnv" if parallel else "SerialEnv", n, turns)

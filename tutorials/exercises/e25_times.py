"""Exercise of lesson 25 on speed: predict the time of a batch from the times of its envs."""

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
        Write `predict(times, signal)`: the time that some steps of a batch take, in microseconds, in a `SerialEnv` and
        in a `ParallelEnv` with a core for each env. `times`, of shape `[steps, envs]`, is the time of each env in each
        step. A `SerialEnv` runs the envs one after another. A `ParallelEnv` runs them at the same time, and each of
        its *steps* costs an extra `signal`: to notify the workers and wait for their replies. Ignore the learner's
        time.
    """,
    stub="""
        def predict(times, signal):
            serial = ...
            parallel = ...
            return serial, parallel
    """,
    hints=[
        "The next step starts when all envs have finished this one. Which env decides how long the step takes?",
        "Look at one row of `times`: the `SerialEnv` takes its sum, the `ParallelEnv` its maximum.",
        "`times.max(1).values` is the time of the slowest env in each step. Sum it, and add `signal` once per step.",
    ],
    solution=PREDICT,
    wrong=[
        instead(PREDICT, of="times.max(1).values.sum()", put="times.sum(0).max()", says="wait for the slowest"),
        instead(PREDICT, of="times.max(1).values.sum()", put="times.max(0).values.sum()", says="the slowest step of"),
        instead(PREDICT, of="times.max(1).values.sum()", put="times.mean(1).sum()", says="an average env"),
        instead(PREDICT, of="times.max(1).values.sum()", put="times.max() * len(times)", says="slowest step of all"),
        instead(PREDICT, of=" + signal * len(times)", put="", says="signals as free"),
        instead(PREDICT, of="signal * len(times)", put="signal", says="signals of a single step"),
        instead(PREDICT, of="signal * len(times)", put="signal * times.numel()", says="signals of each env"),
        instead(PREDICT, of="= times.sum()", put="= times.sum() + signal * len(times)", says="no signals"),
        instead(PREDICT, of="serial = times.sum()", put="serial = times.max(1).values.sum()", says="one after another"),
        instead(PREDICT, of="return serial, parallel", put="return parallel, serial", says="in the wrong order"),
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
    require(short == _answer(SHORT), "The result is wrong for other times, of another shape.")
    return right(
        f"Here the `ParallelEnv` wins: {parallel:g} microseconds against {serial:g}. But three envs are not three "
        "times as fast: in each step two of them wait for the slowest. With four envs of 8 microseconds each, the "
        f"`SerialEnv` wins, {short[0]:g} against {short[1]:g} for five steps. The pictures show the first case.",
        BatchedEnvTimeline(serial=_trace(UNEVEN, 0.0, False), parallel=_trace(UNEVEN, SIGNAL, True), t=0),
    )


def _asked(predict: Callable[..., Any], times: torch.Tensor) -> tuple[float, float]:
    got = ask(predict, times, SIGNAL)
    pair = isinstance(got, tuple | list | torch.Tensor) and not (isinstance(got, torch.Tensor) and got.ndim != 1)
    require(pair and len(got) == 2, "Return two numbers: `serial, parallel`.")
    serial, parallel = (float(as_number(value, "a single number for each of the two")) for value in got)
    return round(serial, 3), round(parallel, 3)


def _answer(times: torch.Tensor) -> tuple[float, float]:
    return float(times.sum()), float(times.max(1).values.sum() + SIGNAL * len(times))


def _explain_serial(serial: float, parallel: float) -> None:
    """Name the mistake in the first number."""
    right_serial, right_parallel = _answer(UNEVEN)
    said = f"For the `SerialEnv` it gave {serial:g}. "
    picture = BatchedEnvTimeline(serial=_trace(UNEVEN, 0.0, False))
    if (serial, parallel) == (right_parallel, right_serial):
        fail("The two numbers are in the wrong order.")
    if serial == right_serial + SIGNAL * len(UNEVEN):
        fail(f"{said}It runs in one process, so there are no signals to wait for.", picture)
    if serial == float(UNEVEN.max(1).values.sum()):
        fail(f"{said}Its envs run one after another, not at the same time.", picture)
    fail(f"{said}Here are its actual times:", picture)


def _explain_parallel(parallel: float) -> None:
    """Name the mistake in the second number."""
    steps, signals = len(UNEVEN), SIGNAL * len(UNEVEN)
    slowest = float(UNEVEN.max(1).values.sum())
    known = {
        float(UNEVEN.sum(0).max()) + signals: "That is the time of the busiest env. But after each step all of them "
        "wait for the slowest one, which is a different env each time.",
        float(UNEVEN.max(0).values.sum())
        + signals: "It adds up the slowest step of each env. Which dimension is time, and which one holds the envs?",
        float(UNEVEN.mean(1).sum()) + signals: "It takes an average env in each step. Can a step be over before all "
        "envs have finished it?",
        float(UNEVEN.max()) * steps + signals: "It uses the slowest step of all for each step.",
        slowest: "It treats signals as free.",
        slowest + SIGNAL: "It counts the signals of a single step.",
        slowest
        + SIGNAL
        * UNEVEN.numel(): "It counts the signals of each env in each step; `signal` is the cost of one step of "
        "the whole batch.",
    }
    why = known.get(parallel, "Here are its actual times:")
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

"""Exercise of lesson 22 on gradients: gradient ascent on a score, such as that of a differentiable rollout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .asking import as_number, ask, fail, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .verdict import Outcome

_STEPS, _TOP, _START = 4, 3.0, 1.0

TUNE = """
    def tune(score, gain, steps, rate):
        gain = torch.tensor(float(gain), requires_grad=True)
        for _ in range(steps):
            (slope,) = torch.autograd.grad(score(gain), gain)
            gain = (gain + rate * slope).detach().requires_grad_()
        return gain.item()
"""


@exercise(
    title="Tune the gain (optional)",
    prompt="""
        Write `tune(score, gain, steps, rate)`: gradient ascent on a function `score` of one number. Start at `gain`,
        take `steps` steps of `rate` times the gradient of the score, and return the final gain as a number. Then try
        `tune(score, 0.5, 30, 0.5)` with the `score` from above, in a new cell.
    """,
    stub="""
        def tune(score, gain, steps, rate):
            gain = torch.tensor(float(gain), requires_grad=True)
            ...
            return gain.item()
    """,
    hints=[
        "Loop `steps` times. Compute the gradient again in each iteration, at the current gain.",
        "`torch.autograd.grad(score(gain), gain)` returns a tuple with one gradient. The score should grow: which sign "
        "does the step have?",
        "The new gain is `(gain + rate * slope).detach().requires_grad_()`: a new leaf tensor, without the history of "
        "how it was computed.",
    ],
    solution=TUNE,
    wrong=[
        instead(TUNE, of="gain + rate", put="gain - rate", says="downhill"),
        instead(TUNE, of="rate * slope", put="slope", says="`rate` has no effect"),
        instead(TUNE, of="range(steps)", put="range(1)", says="after a single step"),
        instead(TUNE, of="range(steps)", put="range(steps + 1)", says="one step too many"),
        instead(TUNE, of="return gain.item()", put="return score(gain).item()", says="got the score"),
        instead(TUNE, of="return gain.item()", put="return gain", says="still requires gradients"),
        instead(TUNE, of=".detach().requires_grad_()", put=".detach()", says="does not require grad"),
        WrongAnswer(
            """
            def tune(score, gain, steps, rate):
                gain = torch.tensor(float(gain), requires_grad=True)
                for _ in range(steps):
                    score(gain).backward()
                    with torch.no_grad():
                        gain += rate * gain.grad
                return gain.item()
            """,
            says="accumulate",
        ),
        WrongAnswer(
            """
            def tune(score, gain, steps, rate):
                gain = torch.tensor(float(gain), requires_grad=True)
                (slope,) = torch.autograd.grad(score(gain), gain)
                for _ in range(steps):
                    gain = gain + rate * slope
                return gain.item()
            """,
            says="the gradient at the start",
        ),
    ],
    accepted=[
        TUNE.replace("gain.item()", "gain.detach()"),
        TUNE.replace("gain.item()", "gain.detach().numpy()[()]"),
    ],
    setup="import torch",
)
def tune(tune: Callable[..., Any]) -> Outcome:
    """Compare with the path of gradient ascent on a parabola, and with the paths of typical mistakes."""
    answers = [_tuned(tune, rate) for rate in (0.1, 0.2)]
    require(answers[0] != answers[1], "`rate` has no effect on the result.")
    for got, rate in zip(answers, (0.1, 0.2), strict=True):
        right_one = _ascent(_STEPS, rate)
        if abs(got - right_one) > 1e-3:
            _explain_tuning(got, rate, right_one)
    return right("It climbs. Now let `tune(score, 0.5, 30, 0.5)` find a gain for the pendulum.")


def _parabola(gain: torch.Tensor) -> torch.Tensor:
    return 7.0 - (gain - _TOP) ** 2


def _tuned(tune: Callable[..., Any], rate: float) -> float:
    got = ask(tune, _parabola, _START, _STEPS, rate)
    what = "Expected a number, got a tensor that still requires gradients. Return `gain.item()`."
    require(not (isinstance(got, torch.Tensor) and got.requires_grad), what)
    return float(as_number(got, "a `float`"))


def _ascent(steps: int, rate: float, *, keep: float = 0.0, fixed: bool = False) -> float:
    """Climb the parabola; ``keep`` is how much of the old gradients each step adds, ``fixed`` keeps the first one."""
    gain, slope = _START, 0.0
    for step in range(steps):
        if step == 0 or not fixed:
            slope = keep * slope - 2 * (gain - _TOP)
        gain += rate * slope
    return gain


def _explain_tuning(got: float, rate: float, wanted: float) -> None:
    """Name the mistake that this number comes from, if it is a known one."""
    known = {
        "It goes downhill.": _ascent(_STEPS, -rate),
        "That is the gain after a single step.": _ascent(1, rate),
        "That is one step too many.": _ascent(_STEPS + 1, rate),
        "That is one step too few.": _ascent(_STEPS - 1, rate),
        "Expected the gain, got the score.": 7.0 - (wanted - _TOP) ** 2,
        "The gradients accumulate: `backward` adds to `gain.grad`, which is never cleared.": _ascent(
            _STEPS, rate, keep=1.0
        ),
        "Each step uses the gradient at the start.": _ascent(_STEPS, rate, fixed=True),
    }
    said = f"For 7 - (gain - 3)², from 1, with {_STEPS} steps and a rate of {rate}, it gave {got:.4g}. "
    why = [what for what, number in known.items() if abs(got - number) < 1e-3]
    fail(said + (why[0] if why else f"Expected {wanted:.4g}."))

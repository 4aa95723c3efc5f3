"""Exercise of lesson 42 on temperature: turn visits into the probabilities of moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .asking import ask, fail, kind_of, require, right
from .exercise import exercise
from .mutants import instead
from .verdict import Outcome

SHARPEN = """
    def sharpen(visits, temperature):
        if temperature == 0:
            return torch.nn.functional.one_hot(visits.argmax(-1), visits.shape[-1]).float()
        return (visits.double().log() / temperature).softmax(-1)
"""
#: Visits of the roots of two batches, and of a single root that was visited often.
FEW = torch.tensor([[8, 4, 0, 20], [1, 1, 30, 0], [5, 15, 10, 2]])
TIES = torch.tensor([[3, 9, 9, 1], [0, 0, 7, 0]])
MANY = torch.tensor([100, 800, 780, 0])


@exercise(
    title="Apply a temperature",
    prompt="""
        Write `sharpen(visits, temperature)`: the probabilities of the moves, proportional to
        `visits ** (1 / temperature)`. They have the shape of `visits`, `[*batch, actions]`. With a temperature of 1
        these are the shares of the visits; a higher temperature makes them more uniform; a lower one favours the most
        visited action. With a temperature of 0, the most visited action has probability 1 (the first one, if there is
        a tie).

        It must also work with a temperature of 0.01, although `800 ** 100` is too large for a float.
    """,
    stub="""
        def sharpen(visits, temperature):
            # to sum over actions: x.sum(-1, keepdim=True)
            ...
    """,
    hints=[
        "Handle 0 first: `torch.nn.functional.one_hot` turns the index of an action into probabilities.",
        "A power with a large exponent overflows, but its logarithm does not: that of `n ** (1 / t)` is `log(n) / t`.",
        "`softmax(-1)` turns logarithms into probabilities that sum to 1. The logarithm of 0 is minus infinity, which "
        "softmax turns into 0.",
    ],
    solution=SHARPEN,
    wrong=[
        instead(SHARPEN, of="(visits.double().log() / temperature).softmax(-1)",
                put="visits ** (1 / temperature) / (visits ** (1 / temperature)).sum(-1, keepdim=True)",
                says="With a temperature of 0.01"),
        instead(SHARPEN, of="(visits.double().log() / temperature)", put="(visits.double().log() * temperature)",
                says="upside down"),
        instead(SHARPEN, of="visits.double().log() / temperature", put="visits.double() / temperature",
                says="softmax of the visits themselves"),
        instead(SHARPEN, of="visits.double().log() / temperature", put="(1 + visits.double()).log() / temperature",
                says="without visits"),
        instead(SHARPEN, of=" / temperature", put="", says="the same as with 1"),
        instead(SHARPEN, of=".softmax(-1)", put=".exp()", says="sum to"),
        instead(SHARPEN, of=".softmax(-1)", put=".softmax(0)", says="mixes the roots"),
        instead(SHARPEN, of="temperature).softmax(-1)", put="temperature)", says="is not between 0 and 1"),
        instead(SHARPEN, of="    if temperature == 0:\n        return torch.nn.functional.one_hot(visits.argmax(-1), "
                            "visits.shape[-1]).float()\n", put="", says="With a temperature of 0 "),
        instead(SHARPEN, of="torch.nn.functional.one_hot(visits.argmax(-1), visits.shape[-1]).float()",
                put="visits.argmax(-1)", says="expected a result of shape"),
        instead(SHARPEN, of="torch.nn.functional.one_hot(visits.argmax(-1), visits.shape[-1]).float()",
                put="(visits == visits.max(-1, keepdim=True).values).float()", says="If several"),
        instead(SHARPEN, of="visits.argmax(-1), visits.shape[-1]).float()",
                put="visits.argmin(-1), visits.shape[-1]).float()", says="should get all of it"),
        instead(SHARPEN, of="torch.nn.functional.one_hot(visits.argmax(-1), visits.shape[-1]).float()",
                put="torch.zeros_like(visits)", says="[0.0, 0.0, 0.0, 0.0], of the visits [8, 4, 0, 20], sum to 0"),
    ],
    setup="import torch",
)  # fmt: skip
def sharpen(sharpen: Callable[..., Any]) -> Outcome:
    """Sharpen the visits of several roots, of one root, and of one with many visits; then use a temperature of 0."""
    for temperature in (1.0, 0.5, 2.0):
        _check(sharpen, FEW, temperature)
    _check(sharpen, FEW[2], 0.5)
    _check(sharpen, MANY, 0.01)
    for visits in (FEW, TIES):
        _check(sharpen, visits, 0)
    rows = []
    for temperature in (2.0, 1.0, 0.5, 0.25, 0):
        shares = [f"{100 * share:.0f} %" for share in _wanted(FEW[2], temperature).tolist()]
        rows.append(f"with {temperature:g}: {', '.join(shares)}")
    return right(f"Visits {FEW[2].tolist()} become\n\n" + "\n".join(rows))


def _wanted(visits: torch.Tensor, temperature: float) -> torch.Tensor:
    if temperature == 0:
        return torch.nn.functional.one_hot(visits.argmax(-1), visits.shape[-1]).double()
    return (visits.double().log() / temperature).softmax(-1)


def _check(sharpen: Callable[..., Any], visits: torch.Tensor, temperature: float) -> None:
    said = f"With a temperature of {temperature:g} "
    try:
        got = ask(sharpen, visits, temperature)
    except ZeroDivisionError:
        fail(f"{said}it divides by 0.")
    require(isinstance(got, torch.Tensor), f"{said}expected a tensor, got {kind_of(got)}.")
    require(
        got.shape == visits.shape,
        f"{said}expected a result of shape {list(visits.shape)}, like `visits`, got {list(got.shape)}.",
    )
    got, wanted = got.double(), _wanted(visits, temperature)
    if torch.allclose(got, wanted, atol=1e-3):
        return
    shown = [round(value, 3) for value in got.reshape(-1, got.shape[-1])[0].tolist()]
    said += f"the visits {visits.reshape(-1, visits.shape[-1])[0].tolist()} become {shown}. "
    _explain(said, got, visits, temperature)


def _explain(said: str, got: torch.Tensor, visits: torch.Tensor, temperature: float) -> None:
    """Name what is wrong with numbers of the right shape."""
    if bool((got < 0).any()):
        fail(f"{said}A probability is not between 0 and 1.")
    require(got.isfinite().all(), f"{said}An intermediate number is too large for a float, or is 0 / 0.")
    if temperature == 0:
        _explain_zero(said, got, visits)
    logits = visits.double().log() / temperature
    known = {
        "That is a softmax of the visits themselves: one more visit makes a move at least e times as likely.": (
            visits.double() / temperature
        ).softmax(-1),
        "It is upside down: a lower temperature should favour the most visited action.": _wanted(
            visits, 1 / temperature
        ),
        "That is the same as with 1.": _wanted(visits, 1.0),
        "It mixes the roots: each row has its own probabilities.": logits.softmax(0),
    }
    for words, numbers in known.items():
        if torch.allclose(got, numbers, atol=1e-3):
            fail(said + words)
    off = (got.sum(-1) - 1).abs().max() > 1e-3
    require(not off, f"{said}These sum to {got.sum(-1).flatten()[0]:.3g}.")
    require(not bool((got[visits == 0] > 0).any()), f"{said}An action without visits gets a share.")
    fail(f"{said}Compute `visits ** {1 / temperature:g}`, then their shares.")


def _explain_zero(said: str, got: torch.Tensor, visits: torch.Tensor) -> None:
    rows, counts = got.reshape(-1, got.shape[-1]), visits.reshape(-1, visits.shape[-1])
    for row, count in zip(rows, counts, strict=True):
        total = float(row.sum())
        what = f"But {[round(share, 3) for share in row.tolist()]}, of the visits {count.tolist()}, sum to {total:.3g}."
        tied = bool(((row == 1) == (count == count.max())).all())  # the one mistake that is named below
        require(abs(total - 1) < 1e-3 or tied, f"With a temperature of 0 one action gets all of it. {what}")
    most = visits == visits.max(-1, keepdim=True).values
    require(not bool((got[~most] > 0).any()), f"{said}The most visited action should get all of it.")
    fail(f"{said}If several actions tie for the most visits, the first one gets all of it.")

"""Exercise of lesson 42 on temperature: from visits to the probabilities that a move is drawn with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .asking import ask, fail, require, right
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
    title="Hot and cold",
    prompt="""
        Write `sharpen(visits, temperature)`: the probabilities that moves are drawn with, of the shape of `visits`,
        which is `[*batch, actions]`. They are in proportion to `visits ** (1 / temperature)`. With a temperature of 1
        these are the shares of the visits; the hotter, the more alike; and the colder, the more goes to the action
        visited most. With a temperature of 0, that action gets all of it, and where several are visited most, the first
        of them.

        With a temperature of 0.01 it should still work: `800 ** 100` is too large for a float.
    """,
    stub="""
        def sharpen(visits, temperature):
            # the sum over actions: x.sum(-1, keepdim=True)
            ...
    """,
    hints=[
        "Handle 0 first: `torch.nn.functional.one_hot` makes probabilities of the number of an action.",
        "A power with a large exponent is too large, its logarithm is not: that of `n ** (1 / t)` is `log(n) / t`.",
        "`softmax(-1)` takes logarithms, and gives probabilities that sum to 1. The logarithm of 0 is minus infinity, "
        "and softmax makes 0 of it.",
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
                says="was never visited"),
        instead(SHARPEN, of=" / temperature", put="", says="the same as with 1"),
        instead(SHARPEN, of=".softmax(-1)", put=".exp()", says="sum to"),
        instead(SHARPEN, of=".softmax(-1)", put=".softmax(0)", says="mixes the roots"),
        instead(SHARPEN, of="temperature).softmax(-1)", put="temperature)", says="is not between 0 and 1"),
        instead(SHARPEN, of="    if temperature == 0:\n        return torch.nn.functional.one_hot(visits.argmax(-1), "
                            "visits.shape[-1]).float()\n", put="", says="With a temperature of 0 "),
        instead(SHARPEN, of="torch.nn.functional.one_hot(visits.argmax(-1), visits.shape[-1]).float()",
                put="visits.argmax(-1)", says="has the shape"),
        instead(SHARPEN, of="torch.nn.functional.one_hot(visits.argmax(-1), visits.shape[-1]).float()",
                put="(visits == visits.max(-1, keepdim=True).values).float()", says="Where several"),
        instead(SHARPEN, of="visits.argmax(-1), visits.shape[-1]).float()",
                put="visits.argmin(-1), visits.shape[-1]).float()", says="All of it should go"),
        instead(SHARPEN, of="torch.nn.functional.one_hot(visits.argmax(-1), visits.shape[-1]).float()",
                put="torch.zeros_like(visits)", says="[0.0, 0.0, 0.0, 0.0], of the visits [8, 4, 0, 20], sum to 0"),
    ],
    setup="import torch",
)  # fmt: skip
def sharpen(sharpen: Callable[..., Any]) -> Outcome:
    """Sharpen the visits of several roots, of one, and of one with many; then go down to 0."""
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
    require(isinstance(got, torch.Tensor), f"{said}it gave a `{type(got).__name__}`, and a tensor is wanted.")
    require(
        got.shape == visits.shape,
        f"{said}the result has the shape {list(got.shape)}, and `visits` has {list(visits.shape)}.",
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
        fail(f"{said}A probability is not between 0 and 1 there.")
    require(got.isfinite().all(), f"{said}A number in between is too large for a float, or is 0 / 0.")
    if temperature == 0:
        _explain_zero(said, got, visits)
    logits = visits.double().log() / temperature
    known = {
        "That is a softmax of the visits themselves: one visit more is then e times as likely, or more.": (
            visits.double() / temperature
        ).softmax(-1),
        "It is upside down: the colder, the more should go to the best.": _wanted(visits, 1 / temperature),
        "That is the same as with 1.": _wanted(visits, 1.0),
        "That mixes the roots: each row has probabilities of its own.": logits.softmax(0),
    }
    for words, numbers in known.items():
        if torch.allclose(got, numbers, atol=1e-3):
            fail(said + words)
    off = (got.sum(-1) - 1).abs().max() > 1e-3
    require(not off, f"{said}These sum to {got.sum(-1).flatten()[0]:.3g}.")
    require(not bool((got[visits == 0] > 0).any()), f"{said}An action gets a share that was never visited.")
    fail(f"{said}What are `visits ** {1 / temperature:g}`, and what are their shares?")


def _explain_zero(said: str, got: torch.Tensor, visits: torch.Tensor) -> None:
    rows, counts = got.reshape(-1, got.shape[-1]), visits.reshape(-1, visits.shape[-1])
    for row, count in zip(rows, counts, strict=True):
        total = float(row.sum())
        what = f"But {[round(share, 3) for share in row.tolist()]}, of the visits {count.tolist()}, sum to {total:.3g}."
        tied = bool(((row == 1) == (count == count.max())).all())  # the one mistake that is named below
        require(abs(total - 1) < 1e-3 or tied, f"With a temperature of 0 one action gets all of it. {what}")
    most = visits == visits.max(-1, keepdim=True).values
    require(not bool((got[~most] > 0).any()), f"{said}All of it should go to the action that was visited most.")
    fail(f"{said}Where several were visited most, the first of them gets all of it.")

"""Exercises of lesson 32: a dream step by step, and the step at which dream and reality diverge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .asking import as_number, ask, fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .verdict import Outcome

IMAGINE = """
    def imagine(move, th, thdot, torques):
        angles = []
        for torque in torques:
            th, thdot = move(th, thdot, torque)
            angles.append(th)
        return angles
"""

PARTING = """
    def parting(real, dream, limit):
        gap = (real - dream).abs()
        gap = torch.minimum(gap, 2 * torch.pi - gap)
        apart = (gap > limit).nonzero()
        return int(apart[0]) if len(apart) else None
"""


@exercise(
    title="A dream, step by step",
    prompt="""
        Write `imagine(move, th, thdot, torques)`: what the model predicts when these torques are applied one after
        another. `move(th, thdot, torque)` is the model: it returns the next angle and the next velocity. Return a list
        with the angle after each torque.
    """,
    stub="""
        def imagine(move, th, thdot, torques):
            angles = []
            ...
            return angles
    """,
    hints=[
        "Call `move` once per torque, without looking at the real pendulum in between. What does the second call get?",
        "The second call gets the angle and the velocity that the first one returned.",
        "Loop over `torques`: set `th, thdot = move(th, thdot, torque)`, then append `th`.",
    ],
    solution=IMAGINE,
    wrong=[
        instead(IMAGINE, of="th, thdot = move", put="th, _ = move", says="The velocity never changes"),
        instead(IMAGINE, of="th, thdot = move", put="_, thdot = move", says="The angle never changes"),
        instead(
            IMAGINE,
            of="th, thdot = move(th, thdot, torque)\n        angles.append(th)",
            put="angles.append(move(th, thdot, torque)[0])",
            says="Each step starts from the first state",
        ),
        instead(IMAGINE, of="thdot, torque)", put="thdot, torques[0])", says="the first torque"),
        instead(IMAGINE, of="append(th)", put="append(thdot)", says="got the velocities"),
        instead(IMAGINE, of="angles = []", put="angles = [th]", says="Expected 4 angles"),
        instead(IMAGINE, of="return angles", put="return th", says="Expected 4 angles"),
        instead(
            IMAGINE,
            of="th, thdot = move(th, thdot, torque)\n        angles.append(th)",
            put="angles.append(th)\n        th, thdot = move(th, thdot, torque)",
            says="the angle before",
        ),
    ],
    accepted=[
        IMAGINE.replace("return angles", "return torch.stack(angles)"),
        IMAGINE.replace("append(th)", "append(th.item())"),
    ],
    setup="import torch",
)
def imagine(imagine: Callable[..., Any]) -> Outcome:
    """Compare with the path under a known model, and with the paths of typical mistakes."""
    torques = torch.tensor([1.0, -2.0, 0.5, 3.0])
    th, thdot = torch.tensor(0.3), torch.tensor(-1.0)
    got = _numbers(ask(imagine, _move, th, thdot, torques))
    require(len(got) == len(torques), f"Expected {len(torques)} angles, one after each torque, got {len(got)}.")
    wanted = _path(th, thdot, torques)
    if torch.allclose(got, wanted, atol=1e-5):
        return right("The model is fed its own predictions, and so are their small errors.")
    states = [(th, thdot), *_states(th, thdot, torques)]
    known = {
        "The velocity never changes: the next call needs the new one.": _path(th, thdot, torques, keep="thdot"),
        "The angle never changes: the next call needs the new one.": _path(th, thdot, torques, keep="th"),
        "The angle never changes, although the model returned a new one.": th.expand(4),
        "Each step starts from the first state, not from the result of the previous step.": _path(
            th, thdot, torques, keep="both"
        ),
        "It applies the first torque at every step.": _path(th, thdot, torques[:1].expand(4)),
        "Expected the angles, got the velocities.": torch.stack([v for _, v in states[1:]]),
        "Expected the angle after each torque, got the angle before it.": torch.stack(
            [angle for angle, _ in states[:-1]]
        ),
    }
    why = [words for words, path in known.items() if torch.allclose(got, path, atol=1e-5)]
    found = ", ".join(f"{angle:.3g}" for angle in got)
    fail(f"From `th` = 0.3 and `thdot` = -1 it gave {found}. {why[0] if why else ''}".strip())


def _move(th: torch.Tensor, thdot: torch.Tensor, torque: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A model that can be computed by hand."""
    thdot = thdot + 0.7 * torque + 0.2 * th
    return th + 0.1 * thdot, thdot


def _states(th: torch.Tensor, thdot: torch.Tensor, torques: torch.Tensor, keep: str = "") -> list[Any]:
    found = []
    for torque in torques:
        after = _move(th, thdot, torque)
        found.append(after)
        th, thdot = th if keep in ("th", "both") else after[0], thdot if keep in ("thdot", "both") else after[1]
    return found


def _path(th: torch.Tensor, thdot: torch.Tensor, torques: torch.Tensor, keep: str = "") -> torch.Tensor:
    """The angles; ``keep`` names what is not carried over to the next step."""
    return torch.stack([angle for angle, _ in _states(th, thdot, torques, keep)])


def _numbers(got: Any) -> torch.Tensor:
    if isinstance(got, torch.Tensor):
        return got.detach().float().flatten()
    require(isinstance(got, (list, tuple)), f"Expected a list of angles, got {kind_of(got)}.")
    try:
        return torch.tensor([float(angle) for angle in got])
    except (TypeError, ValueError):
        fail(f"Expected a list of angles, got a list of `{type(got[0]).__name__}`.")


@exercise(
    title="When do they diverge?",
    prompt="""
        Write `parting(real, dream, limit)`. `real` and `dream` are tensors of angles of shape `[time]`, in radians from
        -pi to pi. Return the index of the first step at which they are more than `limit` apart, or `None` if they never
        are. The distance between two angles is the *shorter* way around the circle: 3.1 and -3.1 are close.
    """,
    stub="""
        def parting(real, dream, limit):
            # (real - dream).abs() is the distance one way around the circle
            ...
    """,
    hints=[
        "How long is the other way around?",
        "`torch.minimum(gap, 2 * torch.pi - gap)` is the shorter way.",
        "`(gap > limit).nonzero()` lists the steps at which they are too far apart. Return the first as an `int`, or "
        "`None` if the list is empty.",
    ],
    solution=PARTING,
    wrong=[
        instead(PARTING, of="torch.minimum(gap, 2 * torch.pi - gap)", put="gap", says="the long way around"),
        instead(PARTING, of="apart[0]", put="apart[-1]", says="the last such step"),
        instead(PARTING, of="int(apart[0])", put="int(apart[0]) + 1", says="counted from 0"),
        instead(PARTING, of="int(apart[0])", put="len(apart)", says="how many such steps"),
        instead(PARTING, of="(real - dream).abs()", put="real - dream", says="in either direction"),
        instead(PARTING, of=" if len(apart) else None", put="", says="IndexError"),
        WrongAnswer(
            """
            def parting(real, dream, limit):
                gap = (real - dream).abs()
                gap = torch.minimum(gap, 2 * torch.pi - gap)
                return int((gap > limit).int().argmax())
            """,
            says="They never diverge",
        ),
        WrongAnswer(
            """
            def parting(real, dream, limit):
                gap = (real - dream).abs()
                gap = torch.minimum(gap, 2 * torch.pi - gap)
                return int(gap.argmax()) if gap.max() > limit else None
            """,
            says="farthest apart",
        ),
        instead(PARTING, of="gap > limit", put="gap > 0.5", says="`limit` has no effect"),
    ],
    accepted=[
        """
        def parting(real, dream, limit):
            gap = real - dream
            gap = torch.atan2(gap.sin(), gap.cos()).abs()
            return next((t for t, far in enumerate(gap > limit) if far), None)
        """,
    ],
    setup="import torch",
)
def parting(parting: Callable[..., Any]) -> Outcome:
    """Compare with known tracks: across the seam at pi, on either side, and with other limits."""
    seam = torch.tensor([3.0, 3.1, -3.1, -3.0, -2.9, -2.8])
    _compare(
        _first(parting, seam, seam.roll(-1), 0.5),
        None,
        {1: "From 3.1 to -3.1 it takes the long way around.", 0: "They never diverge here: expected `None`."},
    )
    flat, away = torch.zeros(9), torch.tensor([0.0, 0.1, 0.6, 0.7, 0.9, 0.8, 0.7, 0.7, 0.1])
    known = {
        None: "A dream may run ahead or lag behind: a gap in either direction counts.",
        3: "Steps are counted from 0.",
        4: "That is where they are farthest apart.",
        6: "That is how many such steps there are.",
        7: "That is the last such step.",
    }
    for dream in (away, -away):
        _compare(_first(parting, flat, dream, 0.5), 2, known)
    _compare(_first(parting, flat, away, 0.65), 3, {2: "`limit` has no effect."})
    _compare(_first(parting, flat, away, 2.0), None, {0: "They never diverge here: expected `None`."})
    return right("Angles live on a circle, so gaps between them must be measured around it.")


def _first(parting: Callable[..., Any], real: torch.Tensor, dream: torch.Tensor, limit: float) -> int | None:
    got = ask(parting, real, dream, limit)
    return None if got is None else int(as_number(got, "a step or `None`"))


def _compare(got: int | None, wanted: int | None, known: dict[int | None, str]) -> None:
    if got != wanted:
        fail(f"Expected {wanted}, got {got}. {known.get(got, '')}".strip())

"""Diagram of the observations that each form stores, for the first trajectories of the data."""

from __future__ import annotations

from dataclasses import dataclass

import torch

MOST_STEPS = 3  # shown of a trajectory
MOST_RUNS = 2

#: What the kinds of box are, for legends.
KINDS = {
    "seen": "observation",
    "again": "the same observation again",
    "last": "last observation of a trajectory",
    "act": "action",
    "out": "reward and flags",
}


@dataclass(frozen=True)
class Line:
    """One line of a diagram."""

    label: str  #: text on its left
    #: text and kind of each box; ``"gap"`` separates trajectories, ``"more"`` is an ellipsis, ``"blank"`` an empty box
    boxes: tuple[tuple[str, str], ...]


Boxes = list[tuple[str, str]]
GAP = ("", "gap")
BLANK = ("", "blank")
MORE = ("…", "more")


def runs_of(stops: torch.Tensor) -> tuple[tuple[int, int], ...]:
    """Return start and stop of the first trajectories of one row of the data; ``stops`` is ``[T]``.

    Example:
        >>> runs_of(torch.tensor([False, True, False]))
        ((0, 2), (2, 3))
    """
    last = stops.clone()
    last[-1:] = True
    ends = [int(end) + 1 for end in last.nonzero().flatten()[:MOST_RUNS]]
    return tuple(zip([0, *ends], ends, strict=False))


def layouts_of(runs: tuple[tuple[int, int], ...]) -> dict[str, tuple[Line, ...]]:
    """Return the lines that show what each form stores of some trajectories, by the name of the form.

    ``s3`` is the observation at the root of step 3, ``s3'`` the one after it, if that is the last of its trajectory.

    Example:
        >>> [text for text, _ in layouts_of(((0, 2),))["flat"][0].boxes]
        ['s0', 's1', "s1'"]
    """
    parts = [_shown(start, stop) for start, stop in runs]
    every = [part for part in parts if part]
    return {
        "TED": (
            Line("root", _joined([[(f"s{t}", "seen") if t >= 0 else MORE for t in part] for part in every])),
            Line("action", _joined([_each(part, "a", "act") for part in every])),
            Line("next", _joined([_after(part, "again") for part in every])),
            Line("reward, done", _joined([_each(part, "r", "out") for part in every])),
        ),
        "flat": (
            Line("observation", _joined([_observations(part) for part in every])),
            Line("action", _joined([[*_each(part, "a", "act"), BLANK] for part in every])),
            Line("reward, done", _joined([[*_each(part, "r", "out"), BLANK] for part in every])),
        ),
        "nested": tuple(
            line
            for k, part in enumerate(every)
            for line in (
                Line(f"row {k}: observation", tuple(_observations(part))),
                Line("action", tuple(_each(part, "a", "act"))),
            )
        ),
        "tuples": tuple(
            Line(f"episode {k}", (("s" + str(part[0]), "seen"), GAP, *_steps(_ends(part))))
            for k, part in enumerate(every)
        ),
    }


def _shown(start: int, stop: int) -> list[int]:
    """Return the steps of a trajectory that are shown, with -1 for those left out."""
    steps = list(range(start, stop))
    return steps if len(steps) <= MOST_STEPS + 1 else [*steps[: MOST_STEPS - 1], -1, steps[-1]]


def _ends(part: list[int]) -> list[int]:
    """Return the first and the last of the steps that are shown: one has three boxes here."""
    return part if len(part) <= MOST_STEPS else [part[0], -1, part[-1]]


def _joined(parts: list[Boxes]) -> tuple[tuple[str, str], ...]:
    out: Boxes = []
    for part in parts:
        out += [GAP, *part] if out else part
    return tuple(out)


def _each(part: list[int], letter: str, kind: str) -> Boxes:
    return [(f"{letter}{t}", kind) if t >= 0 else MORE for t in part]


def _after(part: list[int], kind: str) -> Boxes:
    boxes: Boxes = [(f"s{t + 1}", kind) if t >= 0 else MORE for t in part[:-1]]
    return [*boxes, (f"s{part[-1]}'", "last")]


def _observations(part: list[int]) -> Boxes:
    return [*[(f"s{t}", "seen") if t >= 0 else MORE for t in part], (f"s{part[-1]}'", "last")]


def _steps(part: list[int]) -> Boxes:
    out: Boxes = []
    for t, (text, kind) in zip(part, _after(part, "seen"), strict=True):
        out += [MORE, GAP] if t < 0 else [(f"a{t}", "act"), (text, kind), (f"r{t}", "out"), GAP]
    return out[:-1]

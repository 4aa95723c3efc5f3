"""Shared timeline: a playhead with range, speed and loop, as traits of visualizers and as a widget."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import traitlets

from rlnb_widgets._core.display import Column, Display, Param
from rlnb_widgets._core.display_svg import stacked
from rlnb_widgets._core.esm import bundle_css, bundle_js
from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.text import plural, shorten
from rlnb_widgets._core.visualizer import Visualizer

#: Height of a row of marks, room for its name at the left, and for the number of the last step at the right.
_ROW, _LEFT, _RIGHT = 18.0, 110.0, 16.0
_FAR = 1e6


class TimeTraits(traitlets.HasTraits):
    """Traits of a visualizer with a time dimension; mix in before `Visualizer`.

    The playhead moves in the browser, which updates Python at most 25 times a second and never waits for it.

    Attributes:
        t: The step at the playhead, from 0 to ``length - 1``.
        length: Number of steps.
        fps: Steps per second at speed 1.
        speed: Factor on `fps`.
        loop: Whether playing starts over at the end.
        playing: Whether the playhead is running.
        range: The part to play, ``(start, stop)`` without *stop*. None: everything.
    """

    t = traitlets.Int(0).tag(sync=True)
    length = traitlets.Int(1, min=0).tag(sync=True)
    fps = traitlets.Float(30.0).tag(sync=True)
    speed = traitlets.Float(1.0).tag(sync=True)
    loop = traitlets.Bool(False).tag(sync=True)
    playing = traitlets.Bool(False).tag(sync=True)
    range = traitlets.Tuple(traitlets.Int(), traitlets.Int(), default_value=None, allow_none=True).tag(sync=True)

    @traitlets.validate("range")
    def _within(self, proposal: traitlets.Bunch) -> tuple[int, int] | None:
        value = proposal["value"]
        if value is not None and not 0 <= value[0] < value[1] <= self.length:
            raise traitlets.TraitError(
                f"range must be (start, stop) with 0 <= start < stop <= {self.length}, or None for all, got {value}."
            )
        return value

    @traitlets.validate("t")
    def _clamp(self, proposal: traitlets.Bunch) -> int:
        return int(min(max(proposal["value"], 0), max(self.length - 1, 0)))

    @traitlets.validate("speed", "fps")
    def _positive(self, proposal: traitlets.Bunch) -> float:
        value = float(proposal["value"])
        if not 0 < value < float("inf"):
            raise traitlets.TraitError(f"{proposal['trait'].name} must be a positive number, got {value}.")
        return value


def check_marks(marks: Mapping[str, Iterable[int]] | None, length: int) -> dict[str, list[int]]:
    """Return the steps of each kind of mark as sorted lists without duplicates.

    Raises:
        ValueError: If a step is outside ``0 .. length - 1``.

    Example:
        >>> check_marks({"done": (4, 2, 4)}, 5)
        {'done': [2, 4]}
    """
    checked: dict[str, list[int]] = {}
    for kind, steps in (marks or {}).items():
        values = sorted({operator.index(s) for s in steps})
        outside = [v for v in values if not 0 <= v < length]
        if outside:
            raise ValueError(
                f"mark {kind!r} is on step {outside[0]}, but the timeline has {plural(length, 'step')} "
                f"(0 to {length - 1}). Cut the marks to the range, or give a larger length."
            )
        checked[str(kind)] = values
    return checked


class Timeline(TimeTraits, Visualizer):
    """The controls of a playhead and a strip of marks, to link with other visualizers.

    Args:
        length: Number of steps, at least 1.
        marks: The steps of each kind of mark; the controls jump between them.
        t: First position of the playhead.
        fps: Steps per second at speed 1.
        speed: Factor on `fps`.
        loop: Whether playing starts over at the end.

    Raises:
        ValueError: If `length` is below 1, or a mark is outside of the timeline.
        TypeError: If an argument is unknown.

    Example:
        >>> Timeline(10, marks={"done": [4, 9]})
        Timeline(t=0 of 10 steps)
          done  2  4, 9
    """

    _esm = bundle_js(Path(__file__).parent / "timeline_widget.js")
    _css = bundle_css()
    marks = traitlets.Dict().tag(sync=True)
    _list = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        length: int,
        marks: Mapping[str, Iterable[int]] | None = None,
        *,
        t: int = 0,
        fps: float = 30.0,
        speed: float = 1.0,
        loop: bool = False,
        **unknown: Any,
    ) -> None:
        self._refuse_unknown(unknown)
        if length < 1:
            raise ValueError(f"a timeline needs at least 1 step, got length={length}.")
        super().__init__(length=length, marks=check_marks(marks, length), t=t, fps=fps, speed=speed, loop=loop)

    @traitlets.default("_list")
    def _marks_list(self) -> dict[str, Any]:
        return marks_display(self.marks, str).payload()

    @traitlets.observe("marks")
    def _on_marks(self, _change: traitlets.Bunch) -> None:
        self._list = self._marks_list()

    def _text(self) -> str:
        lines = [f"Timeline(t={self.t} of {plural(self.length, 'step')})"]
        for kind, steps in self.marks.items():
            shown = ", ".join(map(str, steps[:8])) + (", …" if len(steps) > 8 else "")
            lines.append(f"  {shorten(kind, 24)}  {len(steps)}  {shown}".rstrip())
        return "\n".join(lines)

    def _explain(self) -> str:
        kinds = "; ".join(f"{plural(len(v), f'mark {k!r}', f'marks {k!r}')}" for k, v in self.marks.items())
        return (
            f"A timeline of {plural(self.length, 'step')}, the playhead is on step {self.t}. "
            f"{kinds + '. ' if kinds else ''}"
            "Space plays, the arrow keys move by one step, Page Up and Page Down by ten."
        )

    def _svg(self) -> Svg:
        display = marks_display(self.marks, lambda kind: np.asarray(self.marks[kind], dtype=np.int64))
        start, stop = self.range or (0, self.length)
        params = {"t": self.t, "last": max(self.length - 1, 1), "start": start, "stop": stop, "length": self.length}
        return stacked(self._alt(), self._explain(), [display], params)


def marks_display(marks: Mapping[str, Iterable[int]], column: Column) -> Display:
    """Draw a row for each kind of mark over the steps from 0 to ``last``, what is not played, and the playhead ``t``.

    Args:
        marks: The steps of each kind.
        column: The display list's column of a kind.
    """
    low = _ROW * max(len(marks), 1) + 8
    display = Display(low + 16)
    middles = {kind: _ROW * (i + 0.5) + 4 for i, kind in enumerate(marks)}
    for kind, y in middles.items():
        display.text(0, y + 4, shorten(kind, 24), "muted", size=12, within=_LEFT - 12)
    with display.frame(_LEFT, _RIGHT, (0, Param("last"))):
        for i, (kind, y) in enumerate(middles.items()):
            display.line(0, y, Param("last"), y)
            display.rules(column(kind), y - 5, y + 5, f"c{i % 8}", 2)
        display.rect(0, Param("start"), 0, low, "panel", opacity=0.75)
        display.rect(Param("stop"), Param("length"), 0, low, "panel", opacity=0.75)
        display.axis(low, "count")
        display.line(Param("t"), 0, Param("t"), low, "ink", 1.5)
        display.disc(Param("t"), 4, 4, fill="ink")
        # A drag may leave the strip.
        display.hit(-_FAR, _FAR, -_FAR, 2 * _FAR, name="step")
    return display

"""Shared timeline: a playhead with range, speed and loop, as traits of visualizers and as a widget."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import traitlets

from rlnb_widgets._core.esm import bundle_css, bundle_js
from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.text import plural, shorten
from rlnb_widgets._core.visualizer import Visualizer


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
        rows = list(self.marks.items())
        height = 34 + 16 * max(len(rows), 1)
        svg = Svg(640, height, title="Timeline", desc=self._explain())
        x0, x1 = 110.0, 624.0
        scale = (x1 - x0) / max(self.length - 1, 1)
        for i, (kind, steps) in enumerate(rows):
            y = 22 + 16 * i
            svg.text(12, y + 4, shorten(kind, 14), fill="muted")
            svg.line(x0, y, x1, y)
            for step in steps[:500]:
                svg.line(x0 + step * scale, y - 5, x0 + step * scale, y + 5, stroke=f"c{i % 8}", stroke_width=1.5)
        x = x0 + self.t * scale
        svg.line(x, 10, x, height - 16, stroke="ink", stroke_width=1)
        svg.text(x0, height - 5, "0", fill="muted", size=10)
        svg.text(x1, height - 5, self.length - 1, fill="muted", size=10, anchor="end")
        return svg

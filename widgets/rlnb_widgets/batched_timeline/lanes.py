"""Lanes of measured runs on one time scale, of batched envs and of collectors, and the report of a failure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rlnb_widgets._core.display import Columns, Display, Number, Param, Sign
from rlnb_widgets._core.display_svg import WIDTH
from rlnb_widgets._core.measures import SPAN_ROOM, text_width
from rlnb_widgets._core.text import percent, plural, shorten
from rlnb_widgets.batched_timeline.failure import Failure

#: What the legend says of a picture in which many spans share a pixel.
CROWDED = "low: too close to draw one by one; the height is the share of the time"
LEFT, RIGHT, TITLE = 92.0, 12.0, 18.0
#: Heights of a strip below the lanes and of the numbers above it, and of numbers below a lane.
_STRIP, _ABOVE, _NUMBERS = 16.0, 11.0, 12.0
STRIP_ROLE = "c3"
#: Role of time in which somebody waits: lanes are empty above a line, and parts of a bar have an outline.
WAITS = "muted"


def _waits(sign: Sign) -> None:
    sign.line(0, 7, 10, 7, WAITS)
    sign.box(14, 2, 10, 10, "panel", stroke=WAITS)


#: The mark of waiting in legends: as in lanes, and as in bars.
WAITS_SIGN = Sign(24, _waits)
#: Resolution of the times that the page has, in microseconds: 32 bits hold 200 seconds of them.
UNIT = 0.1
_MOST_LINES = 14

#: Height of a lane at most, and of all lanes of a run.
Room = tuple[float, float]
#: Columns of starts and of stops, and the role of a kind of span.
Series = list[tuple[int, int, str]]


@dataclass(frozen=True)
class WorkerLane:
    """What one env or worker did."""

    name: str  #: its name
    spans: Series  #: what it did and when
    failed: bool = False  #: whether an error names it
    cross: bool = False  #: whether a cross at the end says that it failed
    numbers: tuple[int, int, int] | None = None  #: starts, stops and values of numbers below it, if there is room


@dataclass(frozen=True)
class RunLanes:
    """The lanes of a run, with the numbers of their columns."""

    label: str  #: label of the run
    name: str  #: name of its class
    stop: float  #: last time that is drawn, in microseconds
    page: dict[str, Any]  #: what the page looks up: facts, and columns; "end" is when a position ended
    first: str  #: name in `page` of the column of when a position of the playhead began
    learner: Series  #: what the learner did and when
    lanes: tuple[WorkerLane, ...]  #: what each env or worker did
    strip: tuple[tuple[float, int, int], ...] = ()  #: of each height in the strip: the height, starts and stops
    above: tuple[int, int, int] = (0, 0, 0)  #: starts, stops and values of the numbers above the strip

    def lane(self, room: Room) -> float:
        """Return the height of a lane."""
        return min(max(room[1] / len(self.lanes), 2.0), room[0])


@dataclass(frozen=True)
class Sizes:
    """Sizes of the picture of a run, in pixels."""

    learner: float  #: height of the learner's lane
    gap: float  #: below a run
    name: float  #: height at most in whose middle the name of a lane stands
    overview: Room  #: room of the lanes in the overview
    detail: Room  #: room of the lanes in the detail
    between: float | None  #: gap between spans


class LaneScene:
    """Display lists of runs on one time scale, with a lane for the learner and one for each env or worker."""

    unit: ClassVar[tuple[str, str]]  #: what the playhead counts, and several of it
    sizes: ClassVar[Sizes]
    strip: ClassVar[str] = ""  #: what is shown below the lanes in the overview, if there is something
    cuts: ClassVar[bool]  #: whether the detail shows only what lies within the position of the playhead

    def __init__(self, columns: Columns, of_run: list[RunLanes]) -> None:
        self.columns, self.of_run = columns, of_run
        self.whole = max((kept.stop for kept in of_run), default=1.0) or 1.0

    def params(self, t: int) -> dict[str, float]:
        """Return the parameters at position t: where it lies in each run, and how much time the detail shows."""
        found: dict[str, float] = {"t": t, "wide": 1}
        lengths = [0.0]
        for i, kept in enumerate(self.of_run):
            begin, end = (self.columns.arrays[kept.page[name]] for name in (kept.first, "end"))
            has = t < len(begin)
            found |= {f"from{i}": begin[t] if has else 0.0, f"to{i}": end[t] if has else 0.0, f"has{i}": has}
            lengths.append(found[f"to{i}"] - found[f"from{i}"])
        span = 1.04 * max(lengths) or 1.0
        ends = {f"end{i}": found[f"from{i}"] + span for i in range(len(self.of_run))}
        return {**found, **ends, "span": span}

    def overview(self) -> Display:
        """Draw all of each run on one time scale, with the position of the playhead marked."""
        strip = _ABOVE + _STRIP if self.strip else 0.0
        runs, height = self._placed(self.sizes.overview, strip)
        display = Display(height + 20, self.columns)
        for i, (kept, top, end) in enumerate(runs):
            x, y = Param(f"from{i}"), top + TITLE - 4
            with display.frame(LEFT, RIGHT, (0, self.whole)):
                self._draw_lanes(display, kept, top, self.sizes.overview, 0.0, kept.stop)
                if self.strip:
                    self._draw_strip(display, kept, end)
                display.hit(0, self.whole, top, end - top + (strip or self.sizes.gap), name=f"run{i}")
                with display.shown(Param(f"has{i}")):
                    display.rect(x, Param(f"to{i}"), y, end + 2 - y, stroke="accent", width=1.5, least=2, grow=1)
                    display.line(x, y, x, end + (strip or 2), stroke="ink")
            self._draw_names(display, kept, top, self.sizes.overview)
            if self.strip:
                display.text(LEFT - 8, end + _ABOVE + 12, self.strip, fill="muted", size=10, anchor="end")
        with display.frame(LEFT, RIGHT, (0, self.whole)):
            display.axis(height + 4, "duration")
        return display

    def detail(self) -> Display:
        """Draw the position of the playhead in each run, from its start."""
        room = self.sizes.detail
        runs, height = self._placed(room)
        display = Display(height + 20, self.columns)
        for i, (kept, top, end) in enumerate(runs):
            begin, stop = Param(f"from{i}"), Param(f"to{i}")
            with (
                display.shown(Param(f"has{i}")),
                display.frame(LEFT, RIGHT, (begin, Param(f"end{i}")), clip=True),
            ):
                if self.cuts:
                    with display.part(begin, stop):
                        self._draw_lanes(display, kept, top, room, begin, stop)
                else:
                    y = top + TITLE - 4
                    self._draw_lanes(display, kept, top, room, 0.0, kept.stop)
                    display.rect(begin, stop, y, end - y, stroke="accent", width=1.5)
            self._draw_names(display, kept, top, room)
        with display.frame(LEFT, RIGHT, (0, Param("span"))):
            display.axis(height + 4, "duration")
        return display

    def resets(self) -> Display | None:
        """Draw which envs were reset after which step; None if none was, or there are no envs."""
        return None

    def failure(self, label: str, failure: Failure) -> Display:
        """Write how a worker failed, with its traceback, for the static view."""
        lines = [(line.text, line.own) for line in failure.lines[-_MOST_LINES:]]
        if len(failure.lines) > _MOST_LINES:
            lines.insert(0, (f"  ... {len(failure.lines) - _MOST_LINES} lines ...", False))
        display = Display(30 + 14 * len(lines), self.columns)
        said = f"{label}, after {plural(failure.step, *self.unit)}: {failure.headline}"
        display.text(0, 14, said, fill="bad", bold=True, within=730)
        for i, (text, own) in enumerate(lines):
            words = text if len(text) <= 104 else text[:103] + "…"
            display.text(8, 32 + 14 * i, words, fill="ink" if own else "muted", size=10, mono=True)
        return display

    def _placed(self, room: Room, strip: float = 0.0) -> tuple[list[tuple[RunLanes, float, float]], float]:
        """Return each run with its top and the end of its lanes, and the height of all."""
        found, y = [], 0.0
        for kept in self.of_run:
            end = self._top(y) + kept.lane(room) * len(kept.lanes)
            found.append((kept, y, end))
            y = end + strip + self.sizes.gap
        return found, y

    def _top(self, top: float) -> float:
        """Return the top of the lanes below that of the learner."""
        return top + TITLE + self.sizes.learner + 3

    def _draw_lanes(
        self, display: Display, kept: RunLanes, top: float, room: Room, start: Number, stop: Number
    ) -> None:
        """Draw the lanes of the learner and of the others, in a frame of microseconds."""
        display.rect(start, stop, top + TITLE + self.sizes.learner - 1, 1, fill=WAITS)
        display.spans(kept.learner, top + TITLE, self.sizes.learner, least=1)
        tall = kept.lane(room)
        height = bar_height(tall)
        for i, lane in enumerate(kept.lanes):
            y = self._top(top) + i * tall
            display.rect(start, stop, y + height - 1, 1, fill=WAITS)
            display.spans(lane.spans, y, height, least=1, gap=self.sizes.between)
            if lane.numbers and _has_numbers(tall):
                starts, stops, values = lane.numbers
                display.labels(starts, stops, y + height + 10, size=10, values=values, anchor="middle")
            if lane.cross:
                display.glyph(kept.stop, y + height / 2, "cross", size=min(height, 8), fill="bad", width=2)

    @staticmethod
    def _draw_strip(display: Display, kept: RunLanes, top: float) -> None:
        """Draw the strip below the lanes, and its numbers above it."""
        y = top + _ABOVE
        display.rect(0.0, kept.stop, y, _STRIP, fill="panel")
        for share, start, stop in kept.strip:
            tall = max(_STRIP * share, 1.5)
            display.spans([(start, stop, STRIP_ROLE)], y + _STRIP - tall, tall, least=1, gap=1)
        starts, stops, values = kept.above
        display.labels(starts, stops, y - 1, size=10, values=values, anchor="middle")

    def _draw_names(self, display: Display, kept: RunLanes, top: float, room: Room) -> None:
        """Write the label of a run, and the names of its lanes."""
        name = "" if kept.label == kept.name else f" ({kept.name})"
        display.text(0, top + 12, shorten(kept.label, 60) + name, bold=True, size=12)
        middle = top + TITLE + self.sizes.learner / 2 + 4
        display.text(LEFT - 8, middle, "learner", fill="muted", size=10, anchor="end")
        self.draw_lane_names(display, kept, self._top(top), kept.lane(room))

    def draw_lane_names(self, display: Display, kept: RunLanes, top: float, tall: float) -> None:
        """Write the names of lanes that are ``tall`` pixels high, as many as have room."""
        for i in range(0, len(kept.lanes), max(1, math.ceil(11 / tall))):
            lane = kept.lanes[i]
            middle = top + i * tall + min(max(tall - 2, 10), self.sizes.name) / 2 + 3.5
            role = "bad" if lane.failed else "muted"
            display.text(LEFT - 8, middle, lane.name, fill=role, size=10, anchor="end")
            if lane.numbers and _has_numbers(tall):
                display.text(LEFT - 8, top + (i + 1) * tall - 2, "version", fill="muted", size=10, anchor="end")


def bar_height(lane: float) -> float:
    """Return the height of the spans in a lane."""
    below = _NUMBERS if _has_numbers(lane) else 2 if lane > 4 else 0
    return max(lane - below, 1)


def _has_numbers(lane: float) -> bool:
    return lane > 20


def crowded(spans: int) -> bool:
    """Whether so many spans in a lane of the static view are too close to be drawn one by one."""
    return spans * SPAN_ROOM > WIDTH - LEFT - RIGHT


def draw_shares(
    display: Display, shares: np.ndarray, phases: dict[str, str], roles: dict[str, str], who: str, y: float, tall: float
) -> None:
    """Draw shares of somebody's time as parts of a bar, in a frame from 0 to 1."""
    x = 0.0
    for share, (phase, means) in zip(shares.tolist(), phases.items(), strict=True):
        if not share:
            continue
        waits = roles[phase] == WAITS
        display.rect(x, x + share, y, tall, fill="panel" if waits else roles[phase], stroke=WAITS if waits else None)
        display.hit(x, x + share, y, tall, tip=f"{percent(share)} of its time {who} {means}")
        if share >= 0.08:
            words = f"{percent(share)}{' for the learner' if phase == 'learner' and share >= 0.2 else ''}"
            middle = x + share / 2
            if not waits:
                room = text_width(words, 10) / 2 + 3
                display.rect(middle, middle, y + tall / 2 - 6, 12, fill="paper", radius=3, grow=room)
            display.text(middle, y + tall / 2 + 4, words, size=10, anchor="middle", fill="muted" if waits else "ink")
        x += share

"""Display lists: what a visualizer draws, as plain marks that the SVG writer and the canvas painter both draw.

A visualizer's ``scene.py`` turns its model into a :class:`Display`. :func:`display_svg` draws it for the static view,
``paint.js`` on the canvas of the live one. Both read the same marks, so that nothing about a picture is decided twice.

Vertical coordinates are pixels. Horizontal coordinates are pixels from the left, or, inside of :meth:`Display.frame`,
values of a domain that is spread over the width that there is. Any number can be a :class:`Param`, whose value the page
knows and Python need not be asked for: the playhead, or the part of time that is shown. Long series are *columns*:
arrays that travel as bytes, or names of arrays that the page computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlnb_widgets._core.colors import role_of

#: Paths of the glyphs, in units of half their size, with the middle at 0, 0; None is a gap between two strokes.
GLYPHS: dict[str, tuple[tuple[float, float] | None, ...]] = {
    "up": ((-1, 1), (1, 1), (0, -1)),
    "down": ((-1, -1), (1, -1), (0, 1)),
    "left": ((1, -1), (1, 1), (-1, 0)),
    "right": ((-1, -1), (-1, 1), (1, 0)),
    "diamond": ((0, -1), (1, 0), (0, 1), (-1, 0)),
    "cross": ((-1, -1), (1, 1), None, (1, -1), (-1, 1)),
    "check": ((-1, 0), (-0.3, 0.8), (1, -0.9)),
}
#: Glyphs that are drawn as lines.
STROKED = ("cross", "check")
#: Formats of the numbers at an axis.
FORMATS = ("number", "duration", "count")


@dataclass(frozen=True)
class Param:
    """A number that the page supplies by name, such as the playhead ``"t"``, plus a constant.

    Example:
        >>> Param("t", 0.5).value({"t": 3})
        3.5
    """

    name: str
    plus: float = 0.0

    def value(self, params: Mapping[str, float]) -> float:
        """Return the number for the values of the parameters."""
        return float(params[self.name]) + self.plus


Number = float | int | Param
#: A mark: its ``"kind"``, and the attributes that are given.
Mark = dict[str, Any]
#: Function that returns a column by its name: the numbers ``[n]``, or, for the page, the name itself (`str`).
Column = Callable[[str], Any]


class Columns:
    """Arrays of numbers of one or more display lists, for the page as one block of bytes.

    Example:
        >>> columns = Columns()
        >>> columns.add(np.array([1.0, 2.0])), columns.add(np.arange(3)), columns.arrays[1].tolist()
        (0, 1, [0, 1, 2])
    """

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self._kept: list[list[Any]] = []
        self._blob = bytearray()

    def add(self, values: Any, unit: float | None = None) -> int:
        """Keep a one-dimensional array and return its number.

        Args:
            values: The numbers, ``[n]``. Integers keep their values; floats become float32.
            unit: Resolution of floats that must stay exact far from zero, such as times: they travel as multiples of it
                in 32 bits.
        """
        array = np.asarray(values)
        if array.ndim != 1:
            raise ValueError(f"a column has one dimension, got the shape {list(array.shape)}.")
        kind, stored = stored_as(array, unit)
        self._blob += bytes(-len(self._blob) % stored.itemsize)
        self._kept.append([kind, len(self._blob), len(stored), *([] if unit is None else [unit])])
        self._blob += stored.tobytes()
        self.arrays.append(array)
        return len(self.arrays) - 1

    def payload(self) -> tuple[list[list[Any]], bytes]:
        """Return kind, first byte, length and unit of each column, and the bytes of all."""
        return self._kept, bytes(self._blob)


def stored_as(array: np.ndarray, unit: float | None = None) -> tuple[str, np.ndarray]:
    """Return numbers as they travel, with the name of their kind in the page; ``unit`` is that of `Columns.add`."""
    if unit is not None:
        return "i4", np.round(array / unit).astype("<i4")
    return narrowest(array) if array.dtype.kind in "biu" else ("f4", array.astype("<f4"))


def narrowest(array: np.ndarray) -> tuple[str, np.ndarray]:
    """Return integers or booleans in the smallest kind of numbers that holds them all, with its name in the page.

    Example:
        >>> narrowest(np.array([-1, 200]))
        ('i2', array([ -1, 200], dtype=int16))
    """
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    kinds = ("i1", "u1", "i2", "u2", "i4")
    fitting = (kind for kind in kinds if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    kind = next(fitting, "f8")
    return kind, array.astype(f"<{kind}")


class Display:
    """A display list: marks from back to front, ``height`` pixels high and as wide as there is room.

    Args:
        height: Height in pixels.
        columns: Store of the long series; several lists of one visualizer share it. None: one of its own.

    Colours are roles of `rlnb_widgets._core.colors.ROLES`. A style that is not given is left to both painters.

    Example:
        >>> display = Display(20)
        >>> with display.frame(10, 10, (0, 4)):
        ...     display.rect(1, 2, 5, 10, fill="accent")
        >>> display.payload()["marks"][0]["marks"]
        [{'kind': 'rect', 'x': 1, 'x2': 2, 'y': 5, 'h': 10, 'fill': 'accent'}]
    """

    def __init__(self, height: float, columns: Columns | None = None) -> None:
        self.height = float(height)
        self.columns = columns if columns is not None else Columns()
        self.marks: list[Mark] = []
        self._open = [self.marks]

    def payload(self) -> dict[str, Any]:
        """Return the list without its columns, for JSON."""
        return {"height": self.height, "marks": _plain(self.marks)}

    def add(self, marks: Iterable[Mark]) -> None:
        """Add marks that were made before."""
        self._open[-1].extend(marks)

    # Groups

    def frame(
        self, left: float, right: float, domain: tuple[Number, Number] = (0.0, 1.0), clip: bool = False
    ) -> AbstractContextManager[None]:
        """Let horizontal coordinates inside be values of ``domain``.

        Args:
            left: Pixels to the left of the frame.
            right: Pixels to the right of it.
            domain: Values at the left and at the right edge.
            clip: Whether to draw nothing outside.
        """
        return self._group(left=left, right=right, domain=list(domain), clip=clip or None)

    def part(
        self, low: Number, high: Number, domain: tuple[Number, Number] | None = None
    ) -> AbstractContextManager[None]:
        """Draw inside only what lies between two values of the frame's domain.

        Args:
            low: Value at the left edge.
            high: Value at the right edge.
            domain: What the two edges stand for inside, as in a frame within the frame. None: the same two values.
        """
        return self._group(part=[low, high], domain=None if domain is None else list(domain))

    def moved(self, y: Number) -> AbstractContextManager[None]:
        """Move all that is drawn inside down by ``y`` pixels."""
        return self._group(y=y)

    def placed(
        self, at: Sequence[Number] | Param, scale: float | None = None, clip: tuple[float, float] | None = None
    ) -> AbstractContextManager[None]:
        """Draw inside about an origin of its own, in pixels from there.

        Args:
            at: Where the origin is, and by how many radians all is turned clockwise: (x, y, turn), or a parameter whose
                value is these three, or None to hide all.
            scale: Factor on all lengths.
            clip: Width and height of the part from the origin on, outside of which nothing is drawn.
        """
        return self._group(at=at, scale=scale, size=clip)

    def shared(self, name: str) -> AbstractContextManager[None]:
        """Draw what is drawn again under the same name, which the SVG holds only once."""
        return self._group(shared=name)

    def shown(self, where: Number) -> AbstractContextManager[None]:
        """Draw what is inside only where a number, such as the value of a parameter, is not zero."""
        return self._group(show=where)

    @contextmanager
    def _group(self, **attributes: Any) -> Iterator[None]:
        marks: list[Mark] = []
        self._add("group", **attributes, marks=marks)
        self._open.append(marks)
        try:
            yield
        finally:
            self._open.pop()

    # Single marks

    def rect(
        self, x: Number, x2: Number, y: Number, h: Number, fill: str | None = None, stroke: str | None = None,
        width: float | None = None, radius: float | None = None, opacity: float | None = None,
        least: float | None = None, grow: float | None = None,
    ) -> None:  # fmt: skip
        """Add a rectangle from ``x`` to ``x2``.

        Args:
            x: Left edge.
            x2: Right edge.
            y: Top edge, in pixels.
            h: Height.
            fill: Role of the inside.
            stroke: Role of the outline.
            width: Width of the outline, in pixels.
            radius: Radius of the corners.
            opacity: Opacity of the inside.
            least: Width in pixels that it has at least.
            grow: Pixels by which it is wider at each side; negative leaves a gap.
        """
        style = {"fill": fill, "stroke": stroke, "width": width, "opacity": opacity}
        self._add("rect", x=x, x2=x2, y=y, h=h, **style, radius=radius, least=least, grow=grow)

    def box(self, x: float, y: float, w: float, h: float, fill: str | None = None, **style: Any) -> None:
        """Add a rectangle by its width, outside of frames; style as for :meth:`rect`."""
        self.rect(x, x + w, y, h, fill, **style)

    def line(
        self, x: Number, y: Number, x2: Number, y2: Number, stroke: str = "line", width: float | None = None,
        dash: Sequence[float] | None = None, opacity: float | None = None, round: bool | None = None,
    ) -> None:  # fmt: skip
        """Add a straight line from (x, y) to (x2, y2); ``dash`` lists the pixels of dashes and gaps.

        With ``round``, its ends are.
        """
        style = {"stroke": stroke, "width": width, "dash": dash, "opacity": opacity, "round": round}
        self._add("poly", points=[(x, y), (x2, y2)], **style)

    def poly(
        self, points: Sequence[Sequence[Number]], fill: str | None = None, stroke: str | None = None,
        width: float | None = None, dash: Sequence[float] | None = None, opacity: float | None = None,
        closed: bool | None = None, round: bool | None = None,
    ) -> None:  # fmt: skip
        """Add a polygon, or an open line through points (x, y) if it has no fill and is not ``closed``.

        With ``round``, the corners and ends of its outline are.
        """
        style = {"stroke": stroke, "width": width, "dash": dash, "opacity": opacity, "round": round}
        self._add("poly", points=list(points), closed=closed, fill=fill, **style)

    def disc(
        self, x: Number, y: Number, r: float, fill: str | None = None, stroke: str | None = None,
        width: float | None = None, opacity: float | None = None,
    ) -> None:  # fmt: skip
        """Add a disc of radius ``r`` pixels."""
        self._add("disc", x=x, y=y, r=r, fill=fill, stroke=stroke, width=width, opacity=opacity)

    def sector(self, x: Number, y: Number, r: float, r2: float, turn: Number, turn2: Number, **look: Any) -> None:
        """Add the part of a ring between two radii and two turns, clockwise from the top; an arc if ``r == r2``.

        ``look`` is a style of :meth:`sectors`.
        """
        self._add("sectors", x=x, y=y, r=r, r2=r2, starts=[turn], stops=[turn2], looks=[_checked(look)])

    def glyph(
        self, x: Number, y: Number, name: str, size: float = 8, fill: str = "ink", width: float | None = None
    ) -> None:
        """Add one of `GLYPHS` around (x, y)."""
        self._add("poly", x=x, y=y, **_glyph(name, size, fill, width))

    def text(
        self, x: Number, y: Number, text: object, fill: str | None = None, size: float | None = None,
        anchor: str | None = None, bold: bool | None = None, mono: bool | None = None, within: float | None = None,
    ) -> None:  # fmt: skip
        """Add a line of text with its baseline at ``y``.

        Args:
            x: Where it begins, has its middle, or ends.
            y: Baseline, in pixels.
            text: The text, on one line, or a parameter whose value is one.
            fill: Role; ``"ink"`` if not given.
            size: Height of the font in pixels; 11 if not given.
            anchor: ``"middle"`` or ``"end"``; it begins at ``x`` if not given.
            bold: Whether to use bold letters.
            mono: Whether to use letters of one width.
            within: Pixels that it has; a longer text is cut and ends in an ellipsis.
        """
        style = {"fill": fill, "size": size, "anchor": anchor, "bold": bold, "mono": mono}
        words = text if isinstance(text, Param) else str(text)
        self._add("text", x=x, y=y, text=words, **style, within=within)

    def image(self, x: Number, y: Number, w: float, h: float, source: str) -> None:
        """Add a raster image from a ``data:`` address, ``w`` by ``h`` pixels, to the static view."""
        if not source.startswith("data:image/"):
            raise ValueError("an image is embedded: its source starts with data:image/.")
        self._add("image", x=x, y=y, w=w, h=h, source=source)

    def hit(self, x: Number, x2: Number, y: Number, h: Number, name: str | None = None, tip: str | None = None) -> None:
        """Add an area that answers the pointer: with a tooltip, and to the page by its name."""
        self._add("hit", x=x, x2=x2, y=y, h=h, name=name, tip=tip)

    # Series, drawn from columns

    def spans(
        self, series: Sequence[tuple[Any, Any, str]], y: float, h: float, least: float | None = None,
        gap: float | None = None, opacity: float | None = None,
    ) -> None:  # fmt: skip
        """Add spans of time in one lane; where they are too many to be told apart, the share of each kind is drawn.

        Args:
            series: Starts ``[n]``, stops ``[n]`` and role of each kind: arrays, or numbers of columns. The spans of a
                kind are in order, and do not overlap.
            y: Top edge of the lane.
            h: Height of the lane.
            least: Width in pixels that a span has at least.
            gap: Pixels between a span and the next one, where there is room.
            opacity: Opacity of the spans.
        """
        found = [[self._column(a), self._column(b), role] for a, b, role in series]
        self._add("spans", series=found, y=y, h=h, least=least, gap=gap, opacity=opacity)

    def curve(
        self, values: Any, y: float, h: float, low: Number, high: Number, stroke: str, width: float | None = None,
        cuts: Any = None, opacity: float | None = None, dash: Sequence[float] | None = None, places: Any = None,
    ) -> None:  # fmt: skip
        """Add a line through values over steps, each in the middle of its step; values that are not finite break it.

        A line that has more values than there are pixels for is thinned, unless its ``places`` are given.

        Args:
            values: The values ``[n]``, or the number of their column.
            y: Top edge of the plot.
            h: Height of the plot.
            low: Value at the bottom.
            high: Value at the top.
            stroke: Role of the line.
            width: Width of the line.
            cuts: Steps ``[m]`` at which a new line begins, or the number of their column.
            opacity: Opacity of the line.
            dash: Pixels of dashes and gaps.
            places: Where the values are ``[n]``, in order, or the number of their column. None: in the middle of steps.
        """
        columns = {"values": self._column(values), "cuts": self._column(cuts), "places": self._column(places)}
        style = {"stroke": stroke, "width": width, "opacity": opacity, "dash": dash}
        self._add("curve", **columns, y=y, h=h, low=low, high=high, **style)

    def shares(self, series: Sequence[tuple[Any, str]], y: float, h: float) -> None:
        """Add shares of one, stacked over steps from the bottom: values ``[n]``, or their column, and role of each."""
        self._add("shares", series=[[self._column(values), role] for values, role in series], y=y, h=h)

    def bars(
        self, values: Any, y: float, h: float, high: Number, fill: str, floors: Any = None, most: float | None = None,
        opacity: float | None = None,
    ) -> None:  # fmt: skip
        """Add a bar for each step, ``h`` pixels high for the value ``high``.

        Args:
            values: Where the bars end, ``[n]``, or the number of their column.
            y: Top edge of the plot.
            h: Height of the plot.
            high: Value at the top.
            fill: Role of the bars.
            floors: Where the bars begin, ``[n]``; such bars are at least a pixel high. None: at 0, the bottom.
            most: Width in pixels that a bar has at most.
            opacity: Opacity of the bars.
        """
        columns = {"values": self._column(values), "floors": self._column(floors)}
        self._add("bars", **columns, y=y, h=h, high=high, fill=fill, most=most, opacity=opacity)

    def heat(
        self, values: Any, rows: Number, x: Number, x2: Number, y: float, h: float, fill: str = "accent",
        low: Number = 0, high: Number = 1,
    ) -> None:  # fmt: skip
        """Add a grid of cells, which are the more opaque the higher their value; values that are not finite stay empty.

        Args:
            values: The values row by row, ``[rows * columns]``, or the number of their column.
            rows: Number of rows, the first one at the top.
            x: Left edge.
            x2: Right edge.
            y: Top edge, in pixels.
            h: Height of all rows.
            fill: Role of the cells.
            low: Value of the faintest cells.
            high: Value of the most opaque ones.
        """
        self._add("heat", values=self._column(values), rows=rows, x=x, x2=x2, y=y, h=h, fill=fill, low=low, high=high)

    def glyphs(self, places: Any, y: Number, name: str, size: float = 8, fill: str = "ink") -> None:
        """Add one of `GLYPHS` at each of ``places`` ``[n]``."""
        self._add("glyphs", places=self._column(places), y=y, **_glyph(name, size, fill))

    def sectors(
        self, x: Number, y: Number, r: float, r2: float, starts: Any, stops: Any, looks: Sequence[dict[str, Any]],
        kinds: Any = None, dot: float | None = None,
    ) -> None:  # fmt: skip
        """Add many parts of one ring, as :meth:`sector` does.

        Args:
            x: Middle of the ring.
            y: Middle of the ring.
            r: One radius.
            r2: The other radius; the same one makes arcs.
            starts: Turns at which they begin, ``[n]``.
            stops: Turns at which they end, ``[n]``.
            looks: Style of each kind: ``fill``, ``stroke``, ``width``, ``opacity`` and ``dash``.
            kinds: Kind of each, ``[n]``; None: all are of the first one.
            dot: Radius of discs that are drawn in their middles instead.
        """
        columns = {"starts": self._column(starts), "stops": self._column(stops), "kinds": self._column(kinds)}
        self._add("sectors", x=x, y=y, r=r, r2=r2, **columns, looks=[_checked(look) for look in looks], dot=dot)

    def rules(
        self, places: Any, y: float, y2: float, stroke: str, width: float | None = None,
        dash: Sequence[float] | None = None, dense: tuple[float, float] | None = None,
    ) -> None:  # fmt: skip
        """Add vertical lines at ``places`` ``[n]``, which are in order.

        If they are closer than six pixels, they reach from ``dense[0]`` to ``dense[1]`` only.
        """
        style = {"stroke": stroke, "width": width, "dash": dash}
        self._add("rules", places=self._column(places), y=y, y2=y2, **style, dense=dense)

    def labels(
        self, starts: Any, stops: Any, y: float, text: str | None = None, fill: str | None = None,
        size: float | None = None, shift: float | None = None, values: Any = None, anchor: str | None = None,
        halo: str | None = None,
    ) -> None:  # fmt: skip
        """Add a text at the start of each span that has room for it.

        Args:
            starts: Where the spans begin ``[n]``, in order, or the number of their column.
            stops: Where they end.
            y: Baseline, in pixels.
            text: The text of all; None numbers them from 1.
            fill: Role; ``"ink"`` if not given.
            size: Height of the font in pixels; 11 if not given.
            shift: Pixels to the right of the start.
            values: Numbers ``[n]`` that are written in place of a text.
            anchor: ``"middle"`` writes in the middle of the spans.
            halo: Role of an edge around the letters, which keeps them clear of lines below.
        """
        columns = {"starts": self._column(starts), "stops": self._column(stops), "values": self._column(values)}
        self._add("labels", **columns, y=y, text=text, fill=fill, size=size, shift=shift, anchor=anchor, halo=halo)

    def axis(self, y: float, format: str = "number", integer: bool | None = None, room: float | None = None) -> None:
        """Add the scale of the frame: ticks above ``y`` and numbers below, at round values.

        Args:
            y: Where the ticks end, in pixels.
            format: ``"number"``, ``"duration"`` (of microseconds) or ``"count"`` (with commas).
            integer: Whether only integers have ticks, in the middle of their step.
            room: Pixels that a tick has at least; 90 if not given.
        """
        if format not in FORMATS:
            raise ValueError(f"unknown format {format!r}; the formats are {', '.join(FORMATS)}.")
        self._add("axis", y=y, format=format, integer=integer, room=room)

    def _column(self, values: Any) -> int | str | None:
        # A name stands for numbers that only the page has, for example because they depend on what is selected.
        return values if values is None or isinstance(values, (int, str)) else self.columns.add(values)

    def _add(self, kind: str, **attributes: Any) -> None:
        self._open[-1].append({"kind": kind, **_checked(attributes)})


class Sign(Display):
    """A display list of 14 pixels' height and a width of its own: the mark of an item in a legend.

    Args:
        width: Width in pixels.
        draw: Function that draws into it.
    """

    def __init__(self, width: float, draw: Callable[[Sign], None]) -> None:
        super().__init__(14)
        self.width = width
        draw(self)


#: A legend: the marks of its items, which are signs, roles of boxes, or empty for headings, and what they mean.
Legend = Sequence[tuple[Sign | str, str]]


def _checked(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that are given, with roles that exist."""
    given = {name: value for name, value in attributes.items() if value is not None}
    for name in ("fill", "stroke", "halo"):
        if name in given:
            role_of(given[name])
    return given


def _glyph(name: str, size: float, role: str, width: float | None = None) -> dict[str, Any]:
    """Return points about the middle of a glyph, and its style."""
    if name not in GLYPHS:
        raise ValueError(f"unknown glyph {name!r}; the glyphs are {', '.join(GLYPHS)}.")
    half = size / 2
    points = [None if at is None else (half * at[0], half * at[1]) for at in GLYPHS[name]]
    style = {"stroke": role, "width": width or 1.6} if name in STROKED else {"fill": role}
    return {"points": points, **style}


def _plain(value: Any) -> Any:
    """Return marks for JSON: a parameter by its name, other numbers with nine digits."""
    if isinstance(value, Param):
        return {"param": value.name, "plus": value.plus} if value.plus else {"param": value.name}
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, (bool, str)) or value is None:
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    short = float(f"{float(value):.9g}")
    return int(short) if short.is_integer() else short

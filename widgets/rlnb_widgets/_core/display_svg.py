"""SVG writer of display lists: the static view of what ``paint.js`` draws on a canvas."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rlnb_widgets._core.display import Display, Legend, Mark, Param, Sign
from rlnb_widgets._core.measures import (
    BUCKET,
    CLIP_ROOM,
    FAINT,
    HALO,
    RULE_ROOM,
    SHADES,
    SPAN_ROOM,
    cut_text,
    format_value,
    heat_shades,
    spent,
    text_width,
    thin,
    ticks,
)
from rlnb_widgets._core.svg import Svg, box_path, coordinate

#: Width of static pictures without their margins, and a margin.
WIDTH, MARGIN = 736.0, 12.0

#: Part of a static picture: a display list, a legend, or a caption.
Part = Display | Legend | str


@dataclass(frozen=True)
class _Place:
    """Where marks go: the pixels and the domain of the frame, and the shift down."""

    left: float
    right: float
    low: float
    high: float
    down: float = 0.0

    @property
    def scale(self) -> float:
        """Pixels of one unit of the domain."""
        return (self.right - self.left) / ((self.high - self.low) or 1.0)

    def x(self, value: Any) -> Any:
        """Pixel of a value of the domain, or of each of an array."""
        return self.left + (value - self.low) * self.scale

    def edges(self) -> np.ndarray:
        """Edges of columns of `BUCKET` pixels, as values of the domain."""
        return np.linspace(self.low, self.high, max(round((self.right - self.left) / BUCKET), 1) + 1)


def draw_display(
    svg: Svg, display: Display, params: Mapping[str, Any] | None = None, y: float = 0.0, margin: float = MARGIN
) -> None:
    """Draw a display list into an SVG, ``y`` pixels down and between margins.

    Args:
        svg: The SVG.
        display: The list.
        params: Values of its parameters.
        y: Where its top goes.
        margin: Pixels to the left and to the right of it.
    """
    width, moved = svg.width - 2 * margin, bool(margin or y)
    if moved:
        svg.open(f"translate({coordinate(margin)} {coordinate(y)})")
    place = _Place(0.0, width, 0.0, width)
    _Writer(svg, display, dict(params or {}), width).draw(display.marks, place)
    if moved:
        svg.close()


class _Writer:
    """Draws the marks of one display list."""

    def __init__(self, svg: Svg, display: Display, params: dict[str, Any], width: float) -> None:
        self.svg, self.params, self.width, self.height = svg, params, width, display.height
        self.arrays = display.columns.arrays

    def draw(self, marks: Sequence[Mark], place: _Place) -> None:
        """Draw marks from back to front."""
        for mark in marks:
            draw: Callable[[Mark, _Place], None] = getattr(self, f"_{mark['kind']}")
            draw(mark, place)

    def _number(self, value: Any) -> float:
        return value.value(self.params) if isinstance(value, Param) else float(value)

    def _point(self, mark: Mark, place: _Place) -> tuple[float, float]:
        """Return the pixels of the point of a mark."""
        return place.x(self._number(mark["x"])), self._number(mark["y"]) + place.down

    def _column(self, values: int | list[Any]) -> np.ndarray:
        """Return the numbers of a column, as float64; those of a series of one are in the mark."""
        found = self.arrays[values] if isinstance(values, int) else [*map(self._number, values)]
        return np.asarray(found, dtype=np.float64)

    def _boxes(self, x: Any, y: Any, wide: Any, tall: Any, role: str, mark: Mark, **style: Any) -> None:
        """Draw the rectangles of a series as one path; their edges and sizes are arrays, or the same for all."""
        boxes = np.stack(np.broadcast_arrays(x, y, wide, tall), -1).tolist()
        if boxes:
            self.svg.path("".join(box_path(*box) for box in boxes), role, **_style(mark), **style)

    def _group(self, mark: Mark, place: _Place) -> None:
        if "show" in mark and not self._number(mark["show"]):
            return
        if "at" in mark:
            self._placed(mark, place)
            return
        if "shared" in mark:
            with self.svg.shared(mark["shared"]) as first:
                if first:
                    self.draw(mark["marks"], place)
            return
        if "part" in mark:
            low, high = map(self._number, mark["part"])
            place = replace(place, left=place.x(low), right=place.x(high), low=low, high=high)
        elif "domain" in mark:
            place = replace(place, left=mark["left"], right=self.width - mark["right"])
        if "domain" in mark:
            low, high = map(self._number, mark["domain"])
            place = replace(place, low=low, high=high)
        place = replace(place, down=place.down + self._number(mark.get("y", 0)))
        if not mark.get("clip"):
            self.draw(mark["marks"], place)
            return
        self.svg.open(
            clip_path=self._clip(place.left - CLIP_ROOM, place.right - place.left + 2 * CLIP_ROOM, self.height)
        )
        self.draw(mark["marks"], place)
        self.svg.close()

    def _clip(self, x: float, w: float, h: float) -> str:
        left, wide, tall = map(coordinate, (x, w, h))
        name = f"clip{left}-{wide}-{tall}".replace(".", "_")
        rect = f'<rect x="{left}" width="{wide}" height="{tall}"/>'
        self.svg.define(f'<clipPath id="{name}">{rect}</clipPath>')
        return f"url(#{name})"

    def _placed(self, mark: Mark, place: _Place) -> None:
        at = mark["at"]
        found = self.params[at.name] if isinstance(at, Param) else [*map(self._number, at)]
        if found is None:
            return
        x, y, turn = found
        moves = [f"translate({coordinate(place.x(x))} {coordinate(y + place.down)})"]
        if (degrees := coordinate(math.degrees(turn))) != "0":
            moves.append(f"rotate({degrees})")
        if "scale" in mark:
            moves.append(f"scale({mark['scale']:.4f})")
        self.svg.open(" ".join(moves), clip_path=self._clip(0, *mark["size"]) if "size" in mark else None)
        self.draw(mark["marks"], _Place(0.0, 1.0, 0.0, 1.0))
        self.svg.close()

    def _rect(self, mark: Mark, place: _Place) -> None:
        left, right, y, h = self._box(mark, place)
        grow = mark.get("grow", 0)
        wide = max(right - left + 2 * grow, mark.get("least", 0))
        self.svg.rect(left - grow, y, wide, h, mark.get("fill"), mark.get("radius", 0), **_style(mark))

    def _box(self, mark: Mark, place: _Place) -> tuple[float, float, float, float]:
        """Return the left and the right edge, the top and the height of a mark."""
        left, right = (place.x(self._number(mark[name])) for name in ("x", "x2"))
        return left, right, self._number(mark["y"]) + place.down, self._number(mark["h"])

    def _poly(self, mark: Mark, place: _Place) -> None:
        if "x" in mark:
            # About a point, such as those of a glyph, points are in pixels; None is a gap.
            left, top = self._point(mark, place)
            points = [(left + at[0], top + at[1]) if at else (math.nan, math.nan) for at in mark["points"]]
        else:
            points = [self._point({"x": x, "y": y}, place) for x, y in mark["points"]]
        if mark.get("fill") or mark.get("closed"):
            self.svg.polygon(points, mark.get("fill"), **_style(mark))
        else:
            self.svg.polyline(points, **{"stroke": "line", **_style(mark)})

    def _disc(self, mark: Mark, place: _Place) -> None:
        self.svg.circle(*self._point(mark, place), mark["r"], mark.get("fill"), **_style(mark))

    def _sectors(self, mark: Mark, place: _Place) -> None:
        (x, y), r, r2 = self._point(mark, place), mark["r"], mark["r2"]
        starts, stops = (self._column(mark[name]) for name in ("starts", "stops"))
        kinds = self.arrays[mark["kinds"]] if "kinds" in mark else np.zeros(len(starts))
        for kind, look in enumerate(mark["looks"]):
            spans = np.stack([starts, stops], -1)[kinds == kind].tolist()
            if "dot" in mark:
                path = "".join(_disc_path(x, y, (r + r2) / 2, sum(span) / 2, mark["dot"]) for span in spans)
            else:
                path = "".join(_sector_path(x, y, r, r2, *span) for span in spans)
            if path and ("fill" in look or "stroke" in look):
                self.svg.path(path, look.get("fill"), **_style(look))

    def _text(self, mark: Mark, place: _Place) -> None:
        size, text = mark.get("size", 11), mark["text"]
        if isinstance(text, Param):
            text = str(self.params[text.name])
        if "within" in mark:
            text = cut_text(text, mark["within"], size)
        kept = text.replace("  ", "\u00a0\u00a0") if mark.get("mono") else text
        style = {"bold": mark.get("bold", False), "mono": mark.get("mono", False)}
        anchor = mark.get("anchor", "start")
        self.svg.text(*self._point(mark, place), kept, mark.get("fill", "ink"), size, anchor, **style)

    def _image(self, mark: Mark, place: _Place) -> None:
        self.svg.image_from(*self._point(mark, place), mark["w"], mark["h"], mark["source"])

    def _hit(self, mark: Mark, place: _Place) -> None:
        if "tip" in mark:
            left, right, y, h = self._box(mark, place)
            self.svg.rect(left, y, right - left, h, None, pointer_events="all", hint=mark["tip"])

    def _spans(self, mark: Mark, place: _Place) -> None:
        series = [(self._column(a), self._column(b), role) for a, b, role in mark["series"]]
        seen = [_seen(a, b, place) for a, b, _ in series]
        edges = place.edges()
        base = np.zeros(len(edges) - 1)
        crowded = sum(max(stop - start, 0) for start, stop in seen) * SPAN_ROOM > place.right - place.left
        for (a, b, role), (start, stop) in zip(series, seen, strict=True):
            if stop <= start:
                continue
            if crowded:
                share = spent(a[start:stop], b[start:stop], edges) / (edges[1] - edges[0])
                self._stack(share, base, 0.01, role, mark, place)
            else:
                self._apart(a[start:stop], b[start:stop], role, mark, place)

    def _apart(self, starts: np.ndarray, stops: np.ndarray, role: str, mark: Mark, place: _Place) -> None:
        left, right = np.maximum(place.x(starts), place.left), np.minimum(place.x(stops), place.right)
        wide, gap = right - left, mark.get("gap", 0)
        kept = (wide >= 0) & (stops > starts)
        drawn = np.maximum(wide - np.where(wide > 3 * gap, gap, 0), mark.get("least", 0.5))
        self._boxes(left[kept], mark["y"] + place.down, drawn[kept], mark["h"], role, mark)

    def _stack(self, share: np.ndarray, base: np.ndarray, least: float, role: str, mark: Mark, place: _Place) -> None:
        """Draw shares above ``least`` in columns of pixels, on top of ``base``, which grows by them."""
        share = np.clip(share, 0.0, 1 - base)
        shown, h, wide = np.flatnonzero(share > least), mark["h"], (place.right - place.left) / len(base)
        tops = mark["y"] + place.down + h * (1 - base - share)
        self._boxes(place.left + shown * wide, tops[shown], wide, h * share[shown], role, mark)
        base += share

    def _shares(self, mark: Mark, place: _Place) -> None:
        edges, series = place.edges(), [(self._column(values), role) for values, role in mark["series"]]
        steps = np.floor((edges[:-1] + edges[1:]) / 2).astype(int)
        base = np.zeros(len(steps))
        for values, role in series:
            shown = (steps >= 0) & (steps < len(values))
            share = np.where(shown, np.nan_to_num(values[np.clip(steps, 0, len(values) - 1)]), 0.0)
            self._stack(share, base, 0, role, mark, place)

    def _curve(self, mark: Mark, place: _Place) -> None:
        y, h, values = mark["y"] + place.down, mark["h"], self._column(mark["values"])
        cuts = self.arrays[mark["cuts"]].tolist() if "cuts" in mark else []
        low, high = self._number(mark["low"]), self._number(mark["high"])
        span = high - low
        points: list[tuple[float, float]] = []
        places = self.arrays[mark["places"]].tolist() if "places" in mark else None
        for begin, end in zip([0, *cuts], [*cuts, len(values)], strict=True):
            start, stop = begin, end
            if places is None:
                start, stop = max(begin, math.floor(place.low)), min(end, math.ceil(place.high))
            if stop <= start:
                continue
            room = stop - start if places else max(2, round((stop - start) * place.scale / BUCKET))
            kept, broken = thin(values[start:stop], room)
            for i, new in zip(kept.tolist(), broken.tolist(), strict=True):
                if new:
                    points.append((math.nan, math.nan))
                share = (values[start + i] - low) / span if span else 0.5
                at = start + i + 0.5 if places is None else places[start + i]
                points.append((place.x(at), y + h - 1 - share * (h - 2)))
        self.svg.polyline(points, **_style({"width": 1.5, "round": True, **mark}))
        # A value between two gaps is a dot.
        drawn = [False, *(math.isfinite(x) for x, _ in points), False]
        for k, (px, py) in enumerate(points):
            if drawn[k + 1] and not drawn[k] and not drawn[k + 2]:
                self.svg.circle(px, py, 1.5, mark["stroke"])

    def _bars(self, mark: Mark, place: _Place) -> None:
        y, h, high = mark["y"] + place.down, mark["h"], self._number(mark["high"]) or 1.0
        wide = min(max(0.86 * place.scale, 0.5), mark.get("most", math.inf))
        tops, feet = (
            h * np.clip(self._column(mark[name]) / high, 0, 1) if name in mark else 0 for name in ("values", "floors")
        )
        tall = np.maximum(tops - feet, 1 if "floors" in mark else 0)
        shown = np.flatnonzero(tall > 0)
        at = place.x(shown + 0.5) - wide / 2
        self._boxes(at, (y + h - feet - tall)[shown], wide, tall[shown], mark["fill"], mark)

    def _heat(self, mark: Mark, place: _Place) -> None:
        values, rows = self._column(mark["values"]), round(self._number(mark["rows"]))
        left, right, y, h = self._box(mark, place)
        columns = max(len(values) // max(rows, 1), 1)
        # Whole pixels, so that neighbours neither overlap nor leave seams.
        lefts = np.floor(left + (right - left) * np.arange(columns + 1) / columns + 0.5)
        tops = np.floor(y + h * np.arange(rows + 1) / max(rows, 1) + 0.5)
        shades = heat_shades(values, self._number(mark["low"]), self._number(mark["high"]))
        for shade in np.unique(shades[shades >= 0]).tolist():
            r, c = np.divmod(np.flatnonzero(shades == shade), columns)
            look = {"opacity": FAINT + (1 - FAINT) * shade / (SHADES - 1)}
            wide, tall = np.diff(lefts)[c], np.diff(tops)[r]
            self._boxes(lefts[c], tops[r], wide, tall, mark["fill"], look, shape_rendering="crispEdges")

    def _glyphs(self, mark: Mark, place: _Place) -> None:
        for x in self.arrays[mark["places"]].tolist():
            self._poly({**mark, "x": x}, place)

    def _rules(self, mark: Mark, place: _Place) -> None:
        places = self._column(mark["places"])
        shown = places[(places >= place.low) & (places <= place.high)]
        if not len(shown):
            return
        dense = "dense" in mark and len(shown) * RULE_ROOM > place.right - place.left
        top, bottom = mark["dense"] if dense else (mark["y"], mark["y2"])
        y, y2 = coordinate(top + place.down), coordinate(bottom + place.down)
        xs = dict.fromkeys(map(coordinate, place.x(shown).tolist()))
        style = _style(mark)
        if dense:
            style = {**style, "stroke_dasharray": None, "stroke_width": 0.75}
        self.svg.path("".join(f"M{x} {y}V{y2}" for x in xs), None, **style)

    def _labels(self, mark: Mark, place: _Place) -> None:
        starts, stops = (self._column(mark[name]) for name in ("starts", "stops"))
        size, shift, anchor = mark.get("size", 11), mark.get("shift", 0), mark.get("anchor", "start")
        values = self.arrays[mark["values"]] if "values" in mark else None
        if "halo" in mark:
            self.svg.open(stroke=mark["halo"], stroke_width=HALO, stroke_linejoin="round", paint_order="stroke")
        for i in range(*_seen(starts, stops, place)):
            words = mark.get("text", str(i + 1)) if values is None else format_value(float(values[i]), "number")
            start, stop = max(place.x(float(starts[i])), place.left), min(place.x(float(stops[i])), place.right)
            # In the middle a text has a margin at both sides.
            if text_width(words, size) + (shift if anchor == "start" else 6) <= stop - start:
                x = start + shift if anchor == "start" else (start + stop) / 2
                self.svg.text(x, mark["y"] + place.down, words, mark.get("fill", "ink"), size, anchor)
        if "halo" in mark:
            self.svg.close()

    def _axis(self, mark: Mark, place: _Place) -> None:
        y, whole = mark["y"] + place.down, mark.get("integer", False)
        wide = place.right - place.left
        for value in ticks(place.low, place.high, wide / mark.get("room", 90), whole):
            x = place.x(value + (0.5 if whole else 0))
            words = format_value(value, mark["format"])
            half = text_width(words, 10) / 2
            self.svg.path(f"M{coordinate(x)} {coordinate(y - 4)}V{coordinate(y)}", None, stroke="line", stroke_width=1)
            middle = min(max(x, place.left + half), place.right - half)
            self.svg.text(middle, y + 11, words, "muted", 10, "middle")


def _seen(starts: np.ndarray, stops: np.ndarray, place: _Place) -> tuple[int, int]:
    """Return the first span that is in the frame, and the first one after it."""
    return int(np.searchsorted(stops, place.low, "right")), int(np.searchsorted(starts, place.high))


def _style(mark: Mark) -> dict[str, Any]:
    """Return the attributes of a mark's outline and opacity."""
    style: dict[str, Any] = {}
    if "stroke" in mark:
        style |= {"stroke": mark["stroke"], "stroke_width": mark.get("width", 1)}
        if mark.get("round"):
            style |= {"stroke_linecap": "round", "stroke_linejoin": "round"}
        if "dash" in mark:
            style["stroke_dasharray"] = " ".join(map(coordinate, mark["dash"]))
    return style if mark.get("opacity", 1) == 1 else {**style, "opacity": mark["opacity"]}


def _sector_path(x: float, y: float, r: float, r2: float, turn: float, turn2: float) -> str:
    def at(radius: float, share: float) -> str:
        angle = math.tau * share
        return f"{coordinate(x + radius * math.sin(angle))} {coordinate(y - radius * math.cos(angle))}"

    def arc(radius: float, start: float, stop: float) -> str:
        # In quarters: of a half circle, two rounded ends do not tell where the middle is.
        size, count = coordinate(radius), max(math.ceil(4 * abs(stop - start) - 1e-6), 1)
        ends = (start + (stop - start) * (k + 1) / count for k in range(count))
        return "".join(f"A{size} {size} 0 0 {int(stop > start)} {at(radius, end)}" for end in ends)

    outer = f"M{at(r2, turn)}{arc(r2, turn, turn2)}"
    return outer if r == r2 else f"{outer}L{at(r, turn2)}{arc(r, turn2, turn)}z"


def _disc_path(x: float, y: float, r: float, turn: float, size: float) -> str:
    px, py = x + r * math.sin(math.tau * turn), y - r * math.cos(math.tau * turn)
    half, whole = coordinate(size), coordinate(2 * size)
    return f"M{coordinate(px - size)} {coordinate(py)}a{half} {half} 0 1 1 {whole} 0a{half} {half} 0 1 1 -{whole} 0z"


def stacked(title: str, desc: str, parts: Sequence[Part], params: Mapping[str, float]) -> Svg:
    """Return display lists one below the other, under a title, as a picture of `WIDTH` pixels.

    Args:
        title: The title, also read by screen readers.
        desc: A longer description for them.
        parts: Display lists, legends and captions.
        params: Values of the parameters.
    """
    drawn = [part if isinstance(part, (Display, str)) else legend_display(part) for part in parts]
    height = 40.0 + sum(_height(part) + 10 for part in drawn)
    svg = Svg(WIDTH + 2 * MARGIN, height, title=title, desc=desc)
    svg.text(MARGIN, 22, cut_text(title, WIDTH, 13), size=13, bold=True)
    y = 36.0
    for part in drawn:
        if isinstance(part, Display):
            draw_display(svg, part, params, y)
        else:
            for i, line in enumerate(lines_of(part)):
                svg.text(MARGIN, y + 11 + 15 * i, line, "muted")
        y += _height(part) + 10
    return svg


def legend_display(items: Legend) -> Display:
    """Draw a legend in as many lines as it needs; headings are bold."""
    display, x, y = Display(0), 0.0, 0.0
    for mark, words in items:
        sign = mark if isinstance(mark, Sign) else _box(mark)
        left = sign.width + 5 if mark else 0.0
        wide = left + text_width(words, 12) * (1 if mark else 1.08)  # bold letters are wider
        if x and x + wide > WIDTH:
            x, y = 0.0, y + 16
        with display.placed((x, y + 1, 0)):
            display.add(sign.marks)
            look = {"fill": "muted"} if mark else {"bold": True}
            display.text(left, 11, words, size=12, within=WIDTH - left, **look)
        x += wide + 16
        display.height = y + 16
    return display


def _box(role: str) -> Sign:
    """Return the box of a role; a heading has none."""
    if not role:
        return Sign(0, lambda sign: None)
    return Sign(10, lambda sign: sign.box(0, 2, 10, 10, role, stroke="line", width=0.5, radius=2))


def text_sign(text: str) -> Sign:
    """Return a text as a mark of a legend."""
    return Sign(text_width(text, 12), lambda sign: sign.text(0, 11, text, size=12))


def line_sign(role: str, width: float = 2, dash: Sequence[float] | None = None) -> Sign:
    """Return a level line as a mark of a legend."""
    return Sign(20, lambda sign: sign.line(0, 7, 20, 7, role, width, dash))


def legend_payload(items: Legend) -> list[list[str]]:
    """Return a legend for the page: a sign as SVG."""
    return [[_fragment(mark) if isinstance(mark, Sign) else mark, words] for mark, words in items]


def _fragment(sign: Sign) -> str:
    svg = Svg(sign.width, sign.height, inline=True)
    draw_display(svg, sign, margin=0)
    return svg.fragment()


def lines_of(text: str, room: float = WIDTH) -> list[str]:
    """Break a text into lines of ``room`` pixels; a longer word has a line of its own.

    Example:
        >>> lines_of("reads the reward", 60)
        ['reads the', 'reward']
    """
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, 11) > room and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _height(part: Display | str) -> float:
    if isinstance(part, Display):
        return part.height
    return 15.0 * len(lines_of(part))

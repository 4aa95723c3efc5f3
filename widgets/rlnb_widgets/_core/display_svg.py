"""SVG writer of display lists: the static view of what ``paint.js`` draws on a canvas."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rlnb_widgets._core.display import GLYPHS, STROKED, Display, Param
from rlnb_widgets._core.measures import (
    BUCKET,
    FAINT,
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

Mark = Mapping[str, Any]
#: Part of a static picture: a display list, a legend of roles and their meanings, or a caption.
Part = Display | Sequence[tuple[str, str]] | str


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

    def x(self, value: float) -> float:
        """Pixel of a value of the domain."""
        return self.left + (value - self.low) * self.scale


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

    def draw(self, marks: list[dict[str, Any]], place: _Place) -> None:
        """Draw marks from back to front."""
        for mark in marks:
            draw: Callable[[Mark, _Place], None] = getattr(self, f"_{mark['kind']}")
            draw(mark, place)

    def _number(self, value: Any) -> float:
        return value.value(self.params) if isinstance(value, Param) else float(value)

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
        self.svg.open(clip_path=self._clip(place.left, place.right - place.left, self.height))
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
        x, w = _widths(place.x(self._number(mark["x"])), place.x(self._number(mark["x2"])), mark)
        y, h = self._number(mark["y"]) + place.down, self._number(mark["h"])
        self.svg.rect(x, y, w, h, mark.get("fill"), mark.get("radius", 0), **_style(mark))

    def _line(self, mark: Mark, place: _Place) -> None:
        x, x2 = (place.x(self._number(mark[name])) for name in ("x", "x2"))
        y, y2 = (self._number(mark[name]) + place.down for name in ("y", "y2"))
        self.svg.path(f"M{coordinate(x)} {coordinate(y)}L{coordinate(x2)} {coordinate(y2)}", **_style(mark))

    def _poly(self, mark: Mark, place: _Place) -> None:
        points = [(place.x(self._number(x)), self._number(y) + place.down) for x, y in mark["points"]]
        if mark.get("fill") or mark.get("closed"):
            self.svg.polygon(points, mark.get("fill"), **_style(mark))
        else:
            style = _style(mark)
            self.svg.polyline(points, style.pop("stroke", "line"), **style)

    def _disc(self, mark: Mark, place: _Place) -> None:
        x, y = place.x(self._number(mark["x"])), self._number(mark["y"]) + place.down
        self.svg.circle(x, y, mark["r"], mark.get("fill"), **_style(mark))

    def _sector(self, mark: Mark, place: _Place) -> None:
        x, y = place.x(self._number(mark["x"])), self._number(mark["y"]) + place.down
        path = _sector_path(x, y, mark["r"], mark["r2"], self._number(mark["turn"]), self._number(mark["turn2"]))
        self.svg.path(path, mark.get("fill"), **_style(mark))

    def _sectors(self, mark: Mark, place: _Place) -> None:
        x, y, r, r2 = place.x(self._number(mark["x"])), self._number(mark["y"]) + place.down, mark["r"], mark["r2"]
        starts, stops = (self.arrays[mark[name]].astype(np.float64) for name in ("starts", "stops"))
        kinds = self.arrays[mark["kinds"]] if "kinds" in mark else np.zeros(len(starts))
        for kind, look in enumerate(mark["looks"]):
            chosen = np.flatnonzero(kinds == kind)
            spans = zip(starts[chosen].tolist(), stops[chosen].tolist(), strict=True)
            if "dot" in mark:
                path = "".join(_disc_path(x, y, (r + r2) / 2, sum(span) / 2, mark["dot"]) for span in spans)
            else:
                path = "".join(_sector_path(x, y, r, r2, *span) for span in spans)
            if path and ("fill" in look or "stroke" in look):
                self.svg.path(path, look.get("fill"), **_style(look))

    def _glyph(self, mark: Mark, place: _Place) -> None:
        x, y, half = place.x(self._number(mark["x"])), self._number(mark["y"]) + place.down, mark["size"] / 2
        points = [(x + half * dx, y + half * dy) for dx, dy in GLYPHS[mark["name"]]]
        if mark["name"] not in STROKED:
            self.svg.polygon(points, mark["fill"])
            return
        pens = "MLML" if mark["name"] == "cross" else "MLL"
        path = "".join(f"{pen}{coordinate(px)} {coordinate(py)}" for pen, (px, py) in zip(pens, points, strict=True))
        self.svg.path(path, None, stroke=mark["fill"], stroke_width=mark.get("width", 1.6))

    def _text(self, mark: Mark, place: _Place) -> None:
        size, text = mark.get("size", 11), mark["text"]
        if isinstance(text, Param):
            text = str(self.params[text.name])
        if "within" in mark:
            text = cut_text(text, mark["within"], size)
        x = place.x(self._number(mark["x"]))
        y = self._number(mark["y"]) + place.down
        kept = text.replace("  ", "\u00a0\u00a0") if mark.get("mono") else text
        style = {"bold": mark.get("bold", False), "mono": mark.get("mono", False)}
        self.svg.text(x, y, kept, mark.get("fill", "ink"), size, mark.get("anchor", "start"), **style)

    def _image(self, mark: Mark, place: _Place) -> None:
        x, y = place.x(self._number(mark["x"])), self._number(mark["y"]) + place.down
        self.svg.image_from(x, y, mark["w"], mark["h"], mark["source"])

    def _hit(self, mark: Mark, place: _Place) -> None:
        if "tip" not in mark:
            return
        x, x2 = (place.x(self._number(mark[name])) for name in ("x", "x2"))
        y, h = self._number(mark["y"]) + place.down, self._number(mark["h"])
        self.svg.rect(x, y, x2 - x, h, None, pointer_events="all", hint=mark["tip"])

    def _spans(self, mark: Mark, place: _Place) -> None:
        series = [(self.arrays[a], self.arrays[b], role) for a, b, role in mark["series"]]
        seen = [_seen(a, b, place) for a, b, _ in series]
        y, h = mark["y"] + place.down, mark["h"]
        base = np.zeros(max(round((place.right - place.left) / BUCKET), 1))
        crowded = sum(max(stop - start, 0) for start, stop in seen) * SPAN_ROOM > place.right - place.left
        for (a, b, role), (start, stop) in zip(series, seen, strict=True):
            if stop <= start:
                continue
            a, b = a[start:stop].astype(np.float64), b[start:stop].astype(np.float64)
            path = self._crowd(a, b, base, y, h, place) if crowded else self._apart(a, b, y, h, mark, place)
            if path:
                self.svg.path(path, role, **_style(mark))

    def _apart(self, starts: np.ndarray, stops: np.ndarray, y: float, h: float, mark: Mark, place: _Place) -> str:
        parts = []
        gap, least = mark.get("gap", 0), mark.get("least", 0.5)
        for a, b in zip(starts.tolist(), stops.tolist(), strict=True):
            left, right = max(place.x(a), place.left), min(place.x(b), place.right)
            wide = right - left
            if wide >= 0 and b > a:
                parts.append(box_path(left, y, max(wide - (gap if wide > 3 * gap else 0), least), h))
        return "".join(parts)

    def _crowd(self, starts: np.ndarray, stops: np.ndarray, base: np.ndarray, y: float, h: float, place: _Place) -> str:
        """Return the shares of one kind in columns of pixels, on top of ``base``, which grows by them."""
        edges = np.linspace(place.low, place.high, len(base) + 1)
        share = np.clip(spent(starts, stops, edges) / (edges[1] - edges[0]), 0.0, 1 - base)
        wide = (place.right - place.left) / len(base)
        parts = [
            box_path(place.left + i * wide, y + h * (1 - base[i] - share[i]), wide, h * share[i])
            for i in np.flatnonzero(share > 0.01).tolist()
        ]
        base += share
        return "".join(parts)

    def _curve(self, mark: Mark, place: _Place) -> None:
        y, h, values = mark["y"] + place.down, mark["h"], self.arrays[mark["values"]].astype(np.float64)
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
        style = _style({"width": 1.5, "round": True, **mark})
        self.svg.polyline(points, style.pop("stroke"), **style)
        # A value between two gaps is a dot.
        drawn = [False, *(math.isfinite(x) for x, _ in points), False]
        for k, (px, py) in enumerate(points):
            if drawn[k + 1] and not drawn[k] and not drawn[k + 2]:
                self.svg.circle(px, py, 1.5, mark["stroke"])

    def _bars(self, mark: Mark, place: _Place) -> None:
        y, h, high = mark["y"] + place.down, mark["h"], self._number(mark["high"]) or 1.0
        wide = min(max(0.86 * place.scale, 0.5), mark.get("most", math.inf))
        tops = h * np.clip(self.arrays[mark["values"]].astype(np.float64) / high, 0, 1)
        feet, least = np.zeros(len(tops)), 0.0
        if "floors" in mark:
            feet, least = h * np.clip(self.arrays[mark["floors"]].astype(np.float64) / high, 0, 1), 1.0
        tall = np.maximum(tops - feet, least)
        path = "".join(
            box_path(place.x(i + 0.5) - wide / 2, y + h - feet[i] - tall[i], wide, tall[i])
            for i in np.flatnonzero(tall > 0).tolist()
        )
        if path:
            self.svg.path(path, mark["fill"], **_style(mark))

    def _heat(self, mark: Mark, place: _Place) -> None:
        values, rows = self.arrays[mark["values"]].astype(np.float64), round(self._number(mark["rows"]))
        low, high = self._number(mark["low"]), self._number(mark["high"])
        x, x2 = (place.x(self._number(mark[name])) for name in ("x", "x2"))
        columns = max(len(values) // max(rows, 1), 1)
        # Whole pixels, so that neighbours neither overlap nor leave seams.
        lefts = np.floor(x + (x2 - x) * np.arange(columns + 1) / columns + 0.5)
        tops = np.floor(mark["y"] + place.down + mark["h"] * np.arange(rows + 1) / max(rows, 1) + 0.5)
        shades = heat_shades(values, low, high)
        for shade in np.unique(shades[shades >= 0]).tolist():
            path = "".join(
                box_path(lefts[c], tops[r], lefts[c + 1] - lefts[c], tops[r + 1] - tops[r])
                for r, c in (divmod(i, columns) for i in np.flatnonzero(shades == shade).tolist())
            )
            style = _style({"opacity": FAINT + (1 - FAINT) * shade / (SHADES - 1)})
            self.svg.path(path, mark["fill"], **style, shape_rendering="crispEdges")

    def _glyphs(self, mark: Mark, place: _Place) -> None:
        for x in self.arrays[mark["places"]].tolist():
            self._glyph({**mark, "x": x}, place)

    def _shares(self, mark: Mark, place: _Place) -> None:
        y, h, series = mark["y"] + place.down, mark["h"], [(self.arrays[a], role) for a, role in mark["series"]]
        columns, count = max(round((place.right - place.left) / BUCKET), 1), len(series[0][0])
        wide = (place.right - place.left) / columns
        steps = np.floor(place.low + (np.arange(columns) + 0.5) * (place.high - place.low) / columns).astype(int)
        shown = (steps >= 0) & (steps < count)
        base = np.zeros(columns)
        for values, role in series:
            seen = values[np.clip(steps, 0, count - 1)].astype(np.float64)
            share = np.where(shown, np.clip(np.nan_to_num(seen), 0, 1 - base), 0.0)
            path = "".join(
                box_path(place.left + i * wide, y + h * (1 - base[i] - share[i]), wide, h * share[i])
                for i in np.flatnonzero(share > 0).tolist()
            )
            base += share
            if path:
                self.svg.path(path, role)

    def _rules(self, mark: Mark, place: _Place) -> None:
        places = self.arrays[mark["places"]].astype(np.float64)
        shown = places[(places >= place.low) & (places <= place.high)]
        if not len(shown):
            return
        dense = "dense" in mark and len(shown) * RULE_ROOM > place.right - place.left
        top, bottom = mark["dense"] if dense else (mark["y"], mark["y2"])
        y, y2 = coordinate(top + place.down), coordinate(bottom + place.down)
        xs = dict.fromkeys(coordinate(place.x(value)) for value in shown.tolist())
        style = _style(mark)
        if dense:
            style = {**style, "stroke_dasharray": None, "stroke_width": 0.75}
        self.svg.path("".join(f"M{x} {y}V{y2}" for x in xs), None, **style)

    def _labels(self, mark: Mark, place: _Place) -> None:
        starts, stops = (self.arrays[mark[name]].astype(np.float64) for name in ("starts", "stops"))
        size, shift, anchor = mark.get("size", 11), mark.get("shift", 0), mark.get("anchor", "start")
        values = self.arrays[mark["values"]] if "values" in mark else None
        for i in range(*_seen(starts, stops, place)):
            words = mark.get("text", str(i + 1)) if values is None else format_value(float(values[i]), "number")
            start, stop = max(place.x(float(starts[i])), place.left), min(place.x(float(stops[i])), place.right)
            # In the middle a text has a margin at both sides.
            if text_width(words, size) + (shift if anchor == "start" else 6) <= stop - start:
                x = start + shift if anchor == "start" else (start + stop) / 2
                self.svg.text(x, mark["y"] + place.down, words, mark.get("fill", "ink"), size, anchor)

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


def _widths(x: float, x2: float, mark: Mark) -> tuple[float, float]:
    """Return the left edge and the width of a rectangle, with ``grow`` and ``least`` applied."""
    grow = mark.get("grow", 0)
    return x - grow, max(x2 - x + 2 * grow, mark.get("least", 0))


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
    if turn2 - turn >= 1:
        # An arc from a point to itself is nothing.
        middle = (turn + turn2) / 2
        return _sector_path(x, y, r, r2, turn, middle) + _sector_path(x, y, r, r2, middle, turn2)

    def at(radius: float, share: float) -> str:
        angle = math.tau * share
        return f"{coordinate(x + radius * math.sin(angle))} {coordinate(y - radius * math.cos(angle))}"

    large = int(turn2 - turn > 0.5)
    outer = f"M{at(r2, turn)}A{coordinate(r2)} {coordinate(r2)} 0 {large} 1 {at(r2, turn2)}"
    if r == r2:
        return outer
    return f"{outer}L{at(r, turn2)}A{coordinate(r)} {coordinate(r)} 0 {large} 0 {at(r, turn)}z"


def _disc_path(x: float, y: float, r: float, turn: float, size: float) -> str:
    px, py = x + r * math.sin(math.tau * turn), y - r * math.cos(math.tau * turn)
    half, whole = coordinate(size), coordinate(2 * size)
    return f"M{coordinate(px - size)} {coordinate(py)}a{half} {half} 0 1 1 {whole} 0a{half} {half} 0 1 1 -{whole} 0z"


def stacked(title: str, desc: str, parts: Sequence[Part], params: Mapping[str, float]) -> Svg:
    """Return display lists one below the other, under a title, as a picture of `WIDTH` pixels.

    Args:
        title: The title, also read by screen readers.
        desc: A longer description for them.
        parts: Display lists, legends as pairs of a role and its meaning, and captions.
        params: Values of the parameters.
    """
    height = 40.0 + sum(_height(part) + 10 for part in parts)
    svg = Svg(WIDTH + 2 * MARGIN, height, title=title, desc=desc)
    svg.text(MARGIN, 22, cut_text(title, WIDTH, 13), size=13, bold=True)
    y = 36.0
    for part in parts:
        if isinstance(part, Display):
            draw_display(svg, part, params, y)
        elif isinstance(part, str):
            for i, line in enumerate(_lines(part)):
                svg.text(MARGIN, y + 11 + 15 * i, line, "muted")
        else:
            draw_legend(svg, part, y)
        y += _height(part) + 10
    return svg


def draw_legend(svg: Svg, items: Sequence[tuple[str, str]], y: float) -> None:
    """Draw a legend: a box of each role, and its meaning."""
    for (role, words), (x, line) in zip(items, _legend_places(items), strict=True):
        svg.rect(x, y + 16 * line + 2, 10, 10, fill=role, rx=2, stroke="line", stroke_width=0.5)
        svg.text(x + 15, y + 16 * line + 11, words, size=10.5)


def _legend_places(items: Sequence[tuple[str, str]]) -> list[tuple[float, int]]:
    places, x, line = [], MARGIN, 0
    for _, words in items:
        wide = 15 + text_width(words, 10.5) + 18
        if x + wide > MARGIN + WIDTH and x > MARGIN:
            x, line = MARGIN, line + 1
        places.append((x, line))
        x += wide
    return places


def _lines(caption: str) -> list[str]:
    """Break a caption into lines as wide as the picture."""
    lines = [""]
    for word in caption.split():
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, 11) > WIDTH and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _height(part: Part) -> float:
    if isinstance(part, Display):
        return part.height
    if isinstance(part, str):
        return 15.0 * len(_lines(part))
    places = _legend_places(part)
    return 16.0 * (places[-1][1] + 1) if places else 0.0

"""SVG writer with escaped text, rounded coordinates, and colour roles for light and dark."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any

import numpy as np

from rlnb._text import printable
from rlnb_widgets._core.colors import ROLES, role_of

_FONT = "system-ui,-apple-system,'Segoe UI',Helvetica,Arial,'DejaVu Sans',sans-serif"
_MONO = "ui-monospace,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace"
_NEUTRAL = "#808080"  # where style sheets are ignored: legible on white and on black


def coordinate(x: float) -> str:
    """Format a coordinate, rounded to a tenth, without trailing zeros or negative zero.

    Example:
        >>> coordinate(1.0), coordinate(-0.04), coordinate(2.25), coordinate(float("nan"))
        ('1', '0', '2.2', '0')
    """
    if not math.isfinite(x):
        return "0"
    text = f"{x:.1f}"
    text = text[:-2] if text.endswith(".0") else text
    return "0" if text == "-0" else text


def box_path(x: float, y: float, w: float, h: float) -> str:
    """Return the SVG path data of a rectangle, to draw many as one path."""
    return f"M{coordinate(x)} {coordinate(y)}h{coordinate(w)}v{coordinate(h)}h{coordinate(-w)}z"


def image_tag(svg: str, alt: str, measured: bool = False) -> str:
    """Wrap an SVG as an HTML image, which untrusted notebooks, nbconvert and code hosts all show.

    ``measured`` tells tools that compare outputs that the picture shows times, which differ from run to run.

    Example:
        >>> image_tag("<svg/>", 'a "b"')
        '<img alt="a &quot;b&quot;" src="data:image/svg+xml;base64,PHN2Zy8+">'
    """
    data = base64.b64encode(svg.encode()).decode()
    times = 'data-measured="1" ' if measured else ""
    return f'<img {times}alt="{escape(printable(alt), quote=True)}" src="data:image/svg+xml;base64,{data}">'


class Svg:
    """Collects shapes and writes them as SVG, which is well-formed whatever the texts contain.

    Colours are roles of `rlnb_widgets._core.colors.ROLES`; `None` means no colour.

    Args:
        width: Width in pixels.
        height: Height in pixels.
        title: Short name, read by screen readers.
        desc: Longer description, read by screen readers.
        inline: Whether it becomes a part of a live page, whose colours it takes.

    Example:
        >>> svg = Svg(40, 20, title="a <dot>")
        >>> svg.circle(10, 10, 4, fill="accent")
        >>> "<title>a &lt;dot&gt;</title>" in str(svg)
        True
    """

    def __init__(self, width: float, height: float, title: str = "", desc: str = "", inline: bool = False) -> None:
        self.width, self.height = float(width), float(height)
        self.title, self.desc = title, desc
        self._inline = inline
        self._body: list[str] = []
        self._definitions: dict[str, None] = {}
        self._shared: set[str] = set()
        self._roles: set[str] = {"paper"}

    def rect(
        self, x: float, y: float, w: float, h: float, fill: str | None = "ink", rx: float = 0, **style: Any
    ) -> None:
        """Add a rectangle with its top left corner at (x, y)."""
        self._shape("rect", {"x": x, "y": y, "width": max(w, 0), "height": max(h, 0), "rx": rx or None}, fill, style)

    def circle(self, x: float, y: float, r: float, fill: str | None = "ink", **style: Any) -> None:
        """Add a circle of radius `r` around (x, y)."""
        self._shape("circle", {"cx": x, "cy": y, "r": r}, fill, style)

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str = "line", **style: Any) -> None:
        """Add a straight line."""
        self._shape("line", {"x1": x1, "y1": y1, "x2": x2, "y2": y2}, None, {"stroke": stroke, **style})

    def polyline(self, points: Iterable[Sequence[float]], stroke: str = "accent", **style: Any) -> None:
        """Add a line through points (x, y); a point that is not finite breaks it."""
        path, pen = "", "M"
        for x, y in points:
            finite = math.isfinite(x) and math.isfinite(y)
            path += f"{pen}{coordinate(x)} {coordinate(y)}" if finite else ""
            pen = "L" if finite else "M"
        if path:
            self.path(path, None, stroke=stroke, **style)

    def polygon(self, points: Iterable[Sequence[float]], fill: str | None = "ink", **style: Any) -> None:
        """Add a closed shape through points (x, y)."""
        text = " ".join(f"{coordinate(x)},{coordinate(y)}" for x, y in points)
        self._shape("polygon", {"points": text}, fill, style)

    def path(self, d: str, fill: str | None = None, **style: Any) -> None:
        """Add a path from SVG path data (write its numbers with `coordinate`)."""
        self._shape("path", {"d": d}, fill, style)

    def text(
        self,
        x: float,
        y: float,
        text: object,
        fill: str = "ink",
        size: float = 11,
        anchor: str = "start",
        bold: bool = False,
        mono: bool = False,
        **style: Any,
    ) -> None:
        """Add a line of text with its baseline at (x, y); `anchor` is ``start``, ``middle`` or ``end``."""
        attrs = {
            "x": x,
            "y": y,
            "font-size": size,
            "text-anchor": None if anchor == "start" else anchor,
            "font-weight": "600" if bold else None,
            "class": "mono" if mono else None,
        }
        self._shape("text", attrs, fill, style, content=escape(str(text), quote=False))

    def image(self, x: float, y: float, w: float, h: float, data: bytes, mime: str = "image/png") -> None:
        """Add a raster picture, embedded."""
        self.image_from(x, y, w, h, f"data:{mime};base64,{base64.b64encode(data).decode()}")

    def image_from(self, x: float, y: float, w: float, h: float, source: str) -> None:
        """Add a raster picture by its ``data:`` address."""
        attrs = {"x": x, "y": y, "width": w, "height": h, "href": source, "image-rendering": "auto"}
        self._body.append(f"<image{_attributes(attrs)}/>")

    def open(self, transform: str = "", **attrs: Any) -> None:
        """Open a group, to be closed with `close`; its shapes inherit the role of its stroke."""
        if "stroke" in attrs:
            self._roles.add(role := role_of(attrs["stroke"]))
            attrs |= {"stroke": f"var(--rlnb-{role})"} if self._inline else {"stroke": _NEUTRAL, "class": f"s-{role}"}
        self._body.append(f"<g{_attributes({'transform': transform or None, **attrs})}>")

    def close(self) -> None:
        """Close the innermost group."""
        self._body.append("</g>")

    def define(self, fragment: str) -> None:
        """Add SVG text to the definitions, for ``<use>``; once however often it is given."""
        self._definitions[fragment] = None

    @contextmanager
    def shared(self, name: str) -> Iterator[bool]:
        """Write what is drawn inside to the definitions, and use it; whether it must be drawn is the value."""
        start, first = len(self._body), name not in self._shared
        self._shared.add(name)
        yield first
        if first:
            self.define(f'<g id="{name}">{"".join(self._body[start:])}</g>')
            del self._body[start:]
        self._body.append(f'<use href="#{name}"/>')

    def _shape(
        self, tag: str, attrs: dict[str, Any], fill: str | None, style: dict[str, Any], content: str = ""
    ) -> None:
        hint = style.pop("hint", None)
        stroke = style.pop("stroke", None)
        classes = [attrs.pop("class", None)]
        for prefix, role in (("f", fill), ("s", stroke)):
            if role is not None:
                self._roles.add(role_of(role))
                classes.append(None if self._inline else f"{prefix}-{role_of(role)}")
        colour = "var(--rlnb-{})" if self._inline else _NEUTRAL
        attrs["fill"] = "none" if fill is None else colour.format(fill)
        attrs["stroke"] = None if stroke is None else colour.format(stroke)
        attrs["class"] = " ".join(filter(None, classes)) or None
        attrs.update(style)
        inner = (f"<title>{escape(str(hint), quote=False)}</title>" if hint is not None else "") + content
        end = f">{inner}</{tag}>" if inner else "/>"
        self._body.append(f"<{tag}{_attributes(attrs)}{end}")

    def __str__(self) -> str:
        """Return the SVG text."""

        def rules(dark: bool) -> str:
            return self._rules(lambda role: ROLES[role][dark])

        return self._document(f"{rules(False)}@media (prefers-color-scheme:dark){{{rules(True)}}}")

    def fragment(self) -> str:
        """Return the SVG text of an inline picture that words beside it explain."""
        w, h = coordinate(self.width), coordinate(self.height)
        return printable(f'<svg width="{w}" height="{h}" aria-hidden="true">{"".join(self._body)}</svg>')

    def live(self) -> str:
        """Return the SVG text for a shadow root in a live widget: as wide as there is room, in the widget's colours."""
        return self._document(f"svg{{max-width:100%;height:auto}}{self._rules(lambda role: f'var(--rlnb-{role})')}")

    def _rules(self, colour: Callable[[str], str]) -> str:
        return "".join(f".f-{r}{{fill:{colour(r)}}}.s-{r}{{stroke:{colour(r)}}}" for r in ROLES if r in self._roles)

    def _document(self, colours: str) -> str:
        w, h = coordinate(self.width), coordinate(self.height)
        words = (("title", self.title), ("desc", self.desc))
        head = "".join(f"<{tag}>{escape(text, quote=False)}</{tag}>" for tag, text in words if text)
        fonts = f"text{{font-family:{_FONT}}}.mono{{font-family:{_MONO}}}"
        definitions = f"<defs>{''.join(self._definitions)}</defs>" if self._definitions else ""
        return printable(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img">'
            f"{head}<style>{fonts}{colours}</style>{definitions}"
            f'<rect width="{w}" height="{h}" rx="6" fill="none" class="f-paper"/>' + "".join(self._body) + "</svg>"
        )


def _attributes(attrs: dict[str, Any]) -> str:
    parts = []
    for name, value in attrs.items():
        if value is None:
            continue
        numeric = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        shown = _precise(name, float(value)) if numeric else escape(str(value), quote=True)
        parts.append(f' {name.replace("_", "-")}="{shown}"')
    return "".join(parts)


def _precise(name: str, value: float) -> str:
    # An opacity of 0.25 must not become 0.2.
    return f"{value:.2f}".rstrip("0").rstrip(".") if "opacity" in name else coordinate(value)

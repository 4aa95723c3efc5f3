"""Flipbook: a series of pictures under one playhead, such as the values of a map after each sweep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import traitlets

from rlnb_widgets._core.esm import bundle_css, bundle_js
from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.text import plural
from rlnb_widgets._core.timeline import TimeTraits
from rlnb_widgets._core.visualizer import Visualizer


class HasSvg(Protocol):
    """What a flipbook shows at one step: an SVG, and a text in its place."""

    def _svg(self) -> Svg: ...


class Flipbook(TimeTraits, Visualizer):
    """Pictures of one kind in a row, with a playhead that moves in the page without Python.

    Keys: space plays, the arrows move by one step, Home and End go to the first and the last picture.

    Args:
        pictures: At least one; each draws itself as a `Svg` with ``_svg()``, and its ``repr`` is its text.
        captions: A line below each picture. Default: none.
        unit: What the playhead counts, in the singular.
        title: A short title.
        t: The first picture shown; a negative one counts from the end.
        fps: Pictures per second at speed 1.

    Raises:
        ValueError: If there is no picture, or not one caption for each.
        TypeError: If an argument is unknown.

    Example:
        >>> class Dot:
        ...     def __init__(self, r): self.r = r
        ...     def __repr__(self): return f"a dot of radius {self.r}"
        ...     def _svg(self):
        ...         svg = Svg(40, 40)
        ...         svg.circle(20, 20, self.r)
        ...         return svg
        >>> Flipbook([Dot(5), Dot(10)], unit="size", t=1)
        Flipbook: size 1 of 1
        a dot of radius 10
    """

    _esm = bundle_js(Path(__file__).parent / "flipbook.js")
    _css = bundle_css()
    _pictures: traitlets.List[str] = traitlets.List().tag(sync=True)
    _captions: traitlets.List[str] = traitlets.List().tag(sync=True)
    _unit = traitlets.Unicode().tag(sync=True)
    _label = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        pictures: Sequence[HasSvg],
        *,
        captions: Sequence[str] | None = None,
        unit: str = "step",
        title: str = "Flipbook",
        t: int = 0,
        fps: float = 2.0,
        **unknown: Any,
    ) -> None:
        self._refuse_unknown(unknown)
        count = len(pictures)
        if not count:
            raise ValueError("a flipbook needs at least 1 picture, got none.")
        words = [""] * count if captions is None else list(captions)
        if len(words) != count:
            raise ValueError(f"captions must hold one line per picture: {plural(count, 'picture')}, got {len(words)}.")
        self.pictures = tuple(pictures)
        super().__init__(
            length=count, t=t % count if -count <= t < count else t, fps=fps,
            _pictures=[picture._svg().live() for picture in pictures], _captions=words, _unit=unit, _label=title,
        )  # fmt: skip

    def _text(self) -> str:
        lines = [f"{self._label}: {self._unit} {self.t} of {self.length - 1}", repr(self.pictures[self.t])]
        caption = self._captions[self.t]
        return "\n".join([*lines, caption] if caption else lines)

    def _svg(self) -> Svg:
        return self.pictures[self.t]._svg()

    def _explain(self) -> str:
        return (
            f"{plural(self.length, 'picture')} in a row, one for each {self._unit}; the playhead is on {self.t}. "
            "Space plays, the arrow keys move by one, Home and End go to the ends."
        )

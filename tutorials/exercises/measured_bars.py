"""Times measured here and now, as bars on a scale of powers of ten."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rlnb_widgets._core.svg import Svg, image_tag
from rlnb_widgets.batched_timeline.text import duration

_WIDTH, _TALL, _EDGE, _LABEL, _NUMBER = 620, 20, 10, 190, 80
_ROLES = ("c1", "c2", "c3", "c4")


def best_microseconds(call: Callable[[], object], repeats: int = 5, calls: int = 3) -> float:
    """Measure how long a call takes: the best of several goes.

    Args:
        call: what to call.
        repeats: how many goes.
        calls: how many calls a go has.

    Returns:
        Microseconds a call.

    Example:
        >>> best_microseconds(lambda: None) > 0
        True
    """
    goes = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        goes.append((time.perf_counter() - start) / calls)
    return 1e6 * min(goes)


def measured_tag(svg: Svg, alt: str) -> str:
    """Make the image of something that was measured here and now, which no test compares with another run.

    Args:
        svg: the picture.
        alt: what is read in its place; it is compared, and has no measured number.

    Returns:
        The HTML.

    Example:
        >>> measured_tag(Svg(20, 10), "times")[:36]
        '<img data-measured="1" alt="times" s'
    """
    return image_tag(str(svg), alt, measured=True)


@dataclass(frozen=True, repr=False)
class MeasuredBars:
    """Bars of times, grouped; the text face leaves the times out, which differ from run to run.

    Args:
        times: by group, by name, microseconds.

    Example:
        >>> MeasuredBars({"sample": {"a list": 80.0, "a tensor": 5.0}})
        sample: a list, a tensor
        the times, measured on this machine, are in the picture
    """

    times: Mapping[str, Mapping[str, float]]

    def __repr__(self) -> str:
        lines = [f"{group}: {', '.join(found)}" for group, found in self.times.items()]
        return "\n".join([*lines, "the times, measured on this machine, are in the picture"])

    def _repr_html_(self) -> str:
        return measured_tag(self._svg(), repr(self))

    def _svg(self) -> Svg:
        values = [value for found in self.times.values() for value in found.values()]
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 1e-9)
        scale = (_WIDTH - _EDGE - _LABEL - _NUMBER) / max(high - low, 1)
        rows = sum(len(found) + 1 for found in self.times.values())
        svg = Svg(_WIDTH, rows * _TALL + 2 * _EDGE + 14, title=", ".join(self.times))
        bottom = _EDGE + rows * _TALL
        for power in range(low, high + 1):
            x = _LABEL + (power - low) * scale
            svg.line(x, _EDGE, x, bottom)
            svg.text(x, bottom + 14, duration(10.0**power), fill="muted", size=10, anchor="middle")
        top = float(_EDGE)
        for group, found in self.times.items():
            svg.text(_EDGE, top + 14, group, bold=True)
            for place, (name, value) in enumerate(found.items()):
                top += _TALL
                long = (math.log10(value) - low) * scale
                svg.text(_LABEL - 8, top + 14, name, anchor="end")
                svg.rect(_LABEL, top + 3, long, _TALL - 6, fill=_ROLES[place % len(_ROLES)], rx=2)
                svg.text(_LABEL + long + 6, top + 14, duration(value), size=10.5)
            top += _TALL
        return svg

"""Measures of pictures that both painters need: widths of text, round ticks, thinned series, formatted numbers.

``measures.js`` has the same functions; a test runs both on the same values.
"""

from __future__ import annotations

import math

import numpy as np

from rlnb_widgets._core.text import duration

#: Pixels of the picture that one drawn value of a long series has, and one column of shares.
BUCKET = 3.0
#: Pixels that a span needs to be drawn on its own, and a vertical line.
SPAN_ROOM, RULE_ROOM = 4.0, 6.0
#: Pixels beyond the edges of a clipped frame, so that lines at the edges are whole.
CLIP_ROOM = 1.0
#: Width in pixels of the line around letters that have a halo.
HALO = 3.0
#: Number of shades of a heat map, and the opacity of the faintest one.
SHADES, FAINT = 12, 0.08

_NARROW, _WIDE = frozenset("fijlrtI.,:;|!'()[] "), frozenset("mwMW@%—…")


def text_width(text: str, size: float) -> float:
    """Estimate the width of a text in pixels, the same on every machine.

    Example:
        >>> text_width("ill", 10), text_width("MW", 10)
        (10.2, 19.0)
    """
    total = sum(34 if c in _NARROW else 95 if c in _WIDE else 72 if c.isupper() else 62 for c in text)
    return total * size / 100


def cut_text(text: str, within: float, size: float) -> str:
    """Return the text if it is at most ``within`` pixels wide, else its beginning and an ellipsis.

    Example:
        >>> cut_text("observation", 40, 10)
        'obser…'
    """
    if text_width(text, size) <= within:
        return text
    n = len(text)
    while n > 0 and text_width(f"{text[:n]}…", size) > within:
        n -= 1
    return f"{text[:n]}…" if n else ""


def round_step(span: float, count: float) -> float:
    """Return a round distance (1, 2 or 5 times a power of ten) of about ``count`` ticks over a span.

    Example:
        >>> round_step(100, 6), round_step(0.35, 4)
        (20.0, 0.1)
    """
    raw = span / max(count, 1)
    if not (math.isfinite(raw) and raw > 0):
        return 1.0
    unit = 10.0 ** math.floor(math.log10(raw))
    return next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= raw * 0.999)


def ticks(low: float, high: float, count: float, integer: bool = False) -> list[float]:
    """Return round values from ``low`` to ``high``, about ``count`` of them; integers stay below ``high``.

    None if the limits are so far apart that their distance is not finite.

    Example:
        >>> ticks(0, 10, 5), ticks(0, 4, 9, integer=True)
        ([0.0, 2.0, 4.0, 6.0, 8.0, 10.0], [0.0, 1.0, 2.0, 3.0])
    """
    if not math.isfinite(high - low):
        return []
    step = round_step(high - low, count)
    step = max(step, 1.0) if integer else step
    first, last = math.ceil(low / step - 1e-6), math.floor(high / step + 1e-6)
    return [i * step for i in range(first, last + 1) if not integer or i * step < high]


def thin(values: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the lowest and the highest of each of ``room`` parts, and where a drawn line breaks.

    Few values are all kept. Values that are not finite are left out, and break the line.

    Returns:
        Indices ``[m]`` in order, and for each whether the line is broken before it.

    Example:
        >>> kept, broken = thin(np.array([0.0, 5, 1, np.nan, -3, 2]), 9)
        >>> kept.tolist(), broken.tolist()
        ([0, 1, 2, 4, 5], [True, False, False, True, False])
    """
    finite = np.isfinite(values)
    if len(values) <= 2 * room:
        kept = np.flatnonzero(finite)
        broken = np.ones(len(kept), dtype=bool)
        broken[1:] = np.diff(kept) != 1
        return kept, broken
    kept_list: list[int] = []
    broken_list: list[bool] = []
    gap = True
    for b in range(room):
        start, stop = b * len(values) // room, (b + 1) * len(values) // room
        part = start + np.flatnonzero(finite[start:stop])
        if not len(part):
            gap = True
            continue
        low, high = int(part[np.argmin(values[part])]), int(part[np.argmax(values[part])])
        for i in sorted({low, high}):
            kept_list.append(i)
            broken_list.append(gap)
            gap = False
    return np.array(kept_list, dtype=np.int64), np.array(broken_list, dtype=bool)


def spent(starts: np.ndarray, stops: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return how much between adjacent edges lies in spans, which are in order and do not overlap.

    Example:
        >>> spent(np.array([1.0]), np.array([4.0]), np.array([0.0, 2, 4, 6])).tolist()
        [1.0, 2.0, 0.0]
    """
    if not len(starts):
        return np.zeros(len(edges) - 1)
    # Until a span starts the sum stays, and while it lasts it grows linearly.
    lasted = np.cumsum(stops - starts)
    at = np.stack([starts, stops], -1).ravel()
    until = np.stack([np.concatenate([[0.0], lasted[:-1]]), lasted], -1).ravel()
    return np.diff(np.interp(edges, at, until))


def heat_shades(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return the shade of each value, from 0 to ``SHADES - 1``; -1 for values that are not finite.

    Example:
        >>> heat_shades(np.array([0.0, 5, 10, np.nan]), 0, 10).tolist()
        [0, 6, 11, -1]
    """
    share = np.nan_to_num(np.asarray(values, dtype=np.float64) - low) / ((high - low) or 1.0)
    return np.where(np.isfinite(values), np.clip(np.floor(share * SHADES), 0, SHADES - 1), -1).astype(int)


def format_value(value: float, format: str) -> str:
    """Format a number at an axis as ``"number"``, ``"duration"`` (of microseconds) or ``"count"``.

    Example:
        >>> format_value(1500, "duration"), format_value(1500, "count"), format_value(0.25, "number")
        ('1.5 ms', '1,500', '0.25')
    """
    if value == 0:
        return "0"
    if format == "duration":
        return duration(value)
    return f"{round(value):,}" if format == "count" else short_number(value)


def short_number(value: float) -> str:
    """Format a number with four significant digits, with an exponent only from a million on or below 0.0001.

    Example:
        >>> short_number(12345), short_number(0.123456), short_number(2067006.5), short_number(-2e-9)
        ('12345', '0.1235', '2.067e6', '-2e-9')
    """
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if value == int(value) and size < 1e6:
        return str(int(value))
    if 1e-4 <= size < 1e6:
        return f"{float(f'{value:.4g}'):.10g}"
    digits, _, power = f"{value:.3e}".partition("e")
    return f"{float(digits):g}e{int(power)}"

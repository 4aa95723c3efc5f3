"""What a logged series did, in words: whether it rose or fell, what it does now, and since when nothing changed."""

from __future__ import annotations

import numpy as np

from rlnb_widgets._core.measures import short_number
from rlnb_widgets.training_monitor.series import Buckets

_FEWEST = 10  # values that show a trend
_PARTS = 20, 10, 4  # in which a series is compared with itself; in fewer, the noise of each is less
_QUIET = 0.3  # share at the end without a change that is worth a word
_SURE = 3.5 * 2**0.5  # a difference of two means, in their standard errors, that is hardly chance
_LEAST = 0.05  # smaller changes, as a share of all that the means went through, are not spoken of


def trend_words(buckets: Buckets) -> str:
    """Say what a series did; empty without a value.

    It is read off the means of its parts, a twentieth to a quarter each; a change counts if it is larger than the noise
    explains. Where there is hardly any noise, single values are named; of few values, only the first and the last.

    Example:
        >>> from rlnb_widgets.training_monitor.series import Series
        >>> def words(values):
        ...     series = Series()
        ...     series.extend(np.arange(len(values)), np.asarray(values, dtype=float))
        ...     return trend_words(series.buckets())
        >>> words(range(100)), words([1.0, 5.0, 3.0]), words([2.0] * 30)
        ('rose from 0 to 99, still rising', 'went from 1 to 3 in 3 values', '2 all the time')
        >>> words([*range(50), *[50] * 50])
        'rose from 0 to 50, no clear change in the last 50 values'
    """
    some = buckets.count > 0
    total, count = buckets.total[some], buckets.count[some]
    n = int(count.sum())
    if n == 0:
        return "no finite value so far" if len(buckets) else ""
    low, high = float(buckets.low[some].min()), float(buckets.high[some].max())
    if n == 1:
        return f"{short_number(low)}, its only value"
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        return f"{short_number(high)} all the time"
    if len(count) < _FEWEST:
        first, last = (short_number(float(total[i] / count[i])) for i in (0, -1))
        return f"went from {first} to {last} in {n:,} values"
    found = next(filter(None, (_change(total, count, min(parts, len(count))) for parts in _PARTS)), "")
    return found or f"no clear change, about {short_number(float(total.sum() / n))}"


def _change(total: np.ndarray, count: np.ndarray, number: int) -> str:
    """Compare a ``number`` of parts of sums and counts ``[n]``; empty if the noise explains how they differ."""
    parts = np.array_split(np.arange(len(count)), number)
    values, means = total / count, np.array([total[part].sum() / count[part].sum() for part in parts])
    noise, least = _SURE * _noise(values), _LEAST * float(np.ptp(means))
    tolerance = max(noise / np.sqrt(len(parts[-1])), least)
    # The parts at the end that differ from the last one no more than by chance.
    quiet = next((i for i, mean in enumerate(means[::-1]) if abs(mean - means[-1]) > tolerance), number)
    if quiet == number:
        return ""
    said = _path(values, tolerance) if noise <= least else _path(means, tolerance, "about ")
    if quiet >= _QUIET * number:
        return f"{said}, no clear change in the last {sum(count[part].sum() for part in parts[-quiet:]):,} values"
    way = "rising" if means[-1] > means[-1 - quiet] else "falling"
    still = "still" if ("rose" if way == "rising" else "fell") in said.split(", then ")[-1] else "now"
    return f"{said}, {still} {way}"


def _noise(values: np.ndarray) -> float:
    """Return the standard deviation of the noise; second differences leave out what the series does slowly."""
    return float(np.sqrt(np.mean((values[:-2] - 2 * values[1:-1] + values[2:]) ** 2) / 6))


def _path(values: np.ndarray, tolerance: float, about: str = "") -> str:
    """Say where values began, where they are, and the farthest place between if they turned there."""
    start, now, top, bottom = (float(x) for x in (values[0], values[-1], values.max(), values.min()))
    above, below = top - max(start, now), min(start, now) - bottom
    # Of a mean of noise, more digits would say nothing.
    begin, end, high, low = (short_number(float(f"{x:.3g}") if about else x) for x in (start, now, top, bottom))
    if above > tolerance and above >= below:
        return f"rose from {about}{begin} to {high}, then fell to {end}"
    if below > tolerance:
        return f"fell from {about}{begin} to {low}, then rose to {end}"
    return f"{'rose' if now > start else 'fell'} from {about}{begin} to {end}"

"""Logged series: all values, and a summary in a bounded number of buckets that new values are folded into."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

#: The most buckets of a summary. Once there are more, neighbours are merged, so that half of them remain.
MOST_BUCKETS = 160


@dataclass(frozen=True, eq=False)
class Buckets:
    """A series in buckets of ``width`` values each; the last one may have fewer. All arrays have the shape ``[n]``."""

    width: int  #: values of a bucket
    low: np.ndarray  #: lowest finite value; NaN if there is none
    low_at: np.ndarray  #: its step
    high: np.ndarray  #: highest finite value; NaN if there is none
    high_at: np.ndarray  #: its step
    total: np.ndarray  #: sum of the finite values
    count: np.ndarray  #: number of finite values
    missing: np.ndarray  #: number of values that are NaN or infinite
    start: np.ndarray  #: step of the first value
    end: np.ndarray  #: step of the last value

    def __len__(self) -> int:
        return len(self.low)


_ARRAYS = tuple(field.name for field in fields(Buckets) if field.name != "width")


def summarize(steps: np.ndarray, values: np.ndarray, width: int) -> Buckets:
    """Summarize values ``[n]`` at steps ``[n]`` in buckets of ``width`` values.

    Example:
        >>> buckets = summarize(np.arange(4.0), np.array([1.0, 3.0, np.nan, 2.0]), 2)
        >>> buckets.low.tolist(), buckets.high_at.tolist(), buckets.total.tolist(), buckets.missing.tolist()
        ([1.0, 2.0], [1.0, 3.0], [4.0, 2.0], [0, 1])
    """
    n, size = -(-len(values) // width), len(values)
    padded = np.full(n * width, np.nan)
    padded[:size] = values
    table = padded.reshape(n, width)
    finite = np.isfinite(table)
    rows, first = np.arange(n), np.arange(n) * width
    lowest = np.where(finite, table, np.inf).argmin(1)
    highest = np.where(finite, table, -np.inf).argmax(1)
    count = finite.sum(1)
    last = np.minimum(first + width, size) - 1
    some = count > 0
    return Buckets(
        width,
        low=np.where(some, table[rows, lowest], np.nan),
        low_at=steps[np.minimum(first + lowest, last)],
        high=np.where(some, table[rows, highest], np.nan),
        high_at=steps[np.minimum(first + highest, last)],
        total=np.where(finite, table, 0.0).sum(1),
        count=count,
        missing=last - first + 1 - count,
        start=steps[first],
        end=steps[last],
    )


def halved(buckets: Buckets) -> Buckets:
    """Merge neighbouring buckets in pairs; of an odd number the last one is left out."""
    n = len(buckets) // 2
    one, two = ({name: getattr(buckets, name)[k : 2 * n : 2] for name in _ARRAYS} for k in (0, 1))
    # Comparisons with NaN are false, so that a bucket without values loses against one with some.
    lower = (two["low"] < one["low"]) | (one["count"] == 0)
    higher = (two["high"] > one["high"]) | (one["count"] == 0)
    return Buckets(
        2 * buckets.width,
        low=np.where(lower, two["low"], one["low"]),
        low_at=np.where(lower, two["low_at"], one["low_at"]),
        high=np.where(higher, two["high"], one["high"]),
        high_at=np.where(higher, two["high_at"], one["high_at"]),
        total=one["total"] + two["total"],
        count=one["count"] + two["count"],
        missing=one["missing"] + two["missing"],
        start=one["start"],
        end=two["end"],
    )


def at_most(buckets: Buckets, most: int) -> Buckets:
    """Merge neighbouring buckets until there are at most ``most``; an odd one at the end stays as it is."""
    while len(buckets) > most:
        merged, odd = halved(buckets), len(buckets) % 2
        buckets = _joined(merged, _last(buckets)) if odd else merged
    return buckets


def _last(buckets: Buckets) -> Buckets:
    return Buckets(buckets.width, **{name: getattr(buckets, name)[-1:] for name in _ARRAYS})


def _joined(one: Buckets, two: Buckets) -> Buckets:
    return Buckets(one.width, **{name: np.concatenate([getattr(one, name), getattr(two, name)]) for name in _ARRAYS})


def _first(buckets: Buckets, n: int) -> Buckets:
    return Buckets(buckets.width, **{name: getattr(buckets, name)[:n] for name in _ARRAYS})


class Series:
    """One logged series.

    Appending costs the same however long it is. `buckets` reads only what was appended since it was last asked, and
    its result does not depend on when that was.

    Example:
        >>> series = Series()
        >>> for step in range(1000):
        ...     series.append(step, float(step % 7))
        >>> len(series), len(series.buckets()), series.buckets().width
        (1000, 125, 8)
    """

    def __init__(self) -> None:
        # Numbers of eight bytes each; a list of a million floats would take four times the memory.
        self._steps, self._values = array("d"), array("d")
        #: Values on other devices, by their place: reading them at once would wait for the device.
        self._waiting: list[tuple[int, Any]] = []
        self._buckets = summarize(np.empty(0), np.empty(0), 1)
        self._folded = 0

    def __len__(self) -> int:
        return len(self._values)

    def append(self, step: float, value: Any) -> None:
        """Append a number, or a tensor on another device, whose value is read when the series is."""
        if not isinstance(value, (float, int)):
            self._waiting.append((len(self._values), value))
            value = float("nan")
        self._steps.append(step)
        self._values.append(value)

    def extend(self, steps: np.ndarray, values: np.ndarray) -> None:
        """Append values ``[n]`` at steps ``[n]``."""
        self._steps.frombytes(np.ascontiguousarray(steps, dtype=np.float64).tobytes())
        self._values.frombytes(np.ascontiguousarray(values, dtype=np.float64).tobytes())

    def read(self, start: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return steps and values from ``start`` on, as arrays of their own."""
        for place, tensor in self._waiting:
            self._values[place] = float(tensor.item())
        # Only now, so that an interrupt loses none.
        self._waiting.clear()
        return np.array(self._steps[start:]), np.array(self._values[start:])

    @property
    def last(self) -> float:
        """The last value; NaN if there is none."""
        return self.read(max(len(self) - 1, 0))[1][0] if len(self) else float("nan")

    def buckets(self) -> Buckets:
        """Return the summary, of at most `MOST_BUCKETS` buckets."""
        # Tensors that are waiting may lie in buckets that are already made of other values.
        folded = min([self._folded, *(place for place, _ in self._waiting)])
        n = len(self)
        if folded == n:
            return self._buckets
        buckets = self._buckets
        while -(-n // buckets.width) > MOST_BUCKETS:
            buckets = halved(_first(buckets, folded // buckets.width))
        whole = min(folded // buckets.width, len(buckets))
        steps, values = self.read(whole * buckets.width)
        # One assignment each: an interrupt between the two leaves a summary that is only made anew.
        self._folded = 0 if whole == 0 else min(self._folded, whole * buckets.width)
        self._buckets = _joined(_first(buckets, whole), summarize(steps, values, buckets.width))
        self._folded = n
        return self._buckets

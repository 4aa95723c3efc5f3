"""Statistics and thumbnails of arrays of any dtype."""

from __future__ import annotations

import math

import numpy as np
import torch

from rlnb_widgets.ted_explorer.schema import Stats, Thumb

LEVELS = 63
POINTS = 48
BINS = 24
HEAT_ROWS = 16
MAX_COUNT = 16_000_000  # a larger leaf is looked at every n-th element


def as_array(tensor: torch.Tensor) -> np.ndarray:
    """Return a dense tensor as an array: a view if numpy has the dtype, else float32 (bfloat16, 8-bit floats).

    Example:
        >>> as_array(torch.ones(2, dtype=torch.bfloat16)).dtype
        dtype('float32')
    """
    tensor = tensor.detach()
    if tensor.dtype is torch.bfloat16 or str(tensor.dtype).startswith("torch.float8"):
        tensor = tensor.float()
    return tensor.resolve_conj().resolve_neg().cpu().numpy()


def stats_of(array: np.ndarray) -> Stats:
    """Return count, range, mean, NaN and inf of numbers or booleans; of the absolute values of complex numbers.

    Example:
        >>> stats_of(np.array([1.0, float("nan"), 3.0]))
        Stats(count=3, low=1.0, mean=2.0, high=3.0, nan=1, inf=0, of='value', sampled=False)
    """
    of = "|z|" if array.dtype.kind == "c" else "value"
    sampled = array.size > MAX_COUNT
    if sampled:
        array = array.reshape(-1)[:: math.ceil(array.size / MAX_COUNT)]
    if of == "|z|":
        array = np.abs(array)
    if array.size == 0:
        return Stats(0, None, None, None, of=of)
    nan = inf = 0
    finite = array
    if array.dtype.kind == "f":
        with np.errstate(all="ignore"):
            low, high = float(array.min()), float(array.max())
        if not (math.isfinite(low) and math.isfinite(high)):
            nan, inf = int(np.isnan(array).sum()), int(np.isinf(array).sum())
            finite = array[np.isfinite(array)]
            if finite.size == 0:
                return Stats(array.size, None, None, None, nan, inf, of, sampled)
    with np.errstate(over="ignore"):
        mean = float(finite.mean(dtype=np.float64))
    return Stats(array.size, float(finite.min()), mean, float(finite.max()), nan, inf, of, sampled)


def thumb_of(array: np.ndarray, batch_dims: int, has_time: bool) -> Thumb | None:
    """Return a thumbnail of a leaf ``[*B, T, ...]``; None if there is nothing to draw.

    It shows the first batch element over time, as a line or band for one feature and a heat map for up to 16 features;
    otherwise a histogram of all values.
    """
    if array.size < 2:
        return None
    if array.dtype.kind == "c":
        array = np.abs(array)
    if has_time and array.shape[batch_dims - 1] > 1:
        one = array[(0,) * (batch_dims - 1)]
        features = one.size // len(one)
        if features == 1:
            return _line(one.reshape(-1))
        if features <= HEAT_ROWS:
            return _heat(one.reshape(len(one), features))
    return histogram(array)


def _line(values: np.ndarray) -> Thumb:
    """Return a line; a long one as the band between the extremes of each share, so that single spikes stay visible."""
    if values.dtype == bool:
        values = values.astype(np.uint8)
    if len(values) <= POINTS or (np.isfinite(values[0]) and (values == values[0]).all()):
        return Thumb("spark", 1, _levels(values[:POINTS]))
    edges = np.linspace(0, len(values), POINTS + 1).astype(int)[:-1]
    with np.errstate(invalid="ignore"):
        pairs = np.stack([np.fmin.reduceat(values, edges), np.fmax.reduceat(values, edges)], 1)
    return Thumb("band", 1, _levels(pairs.reshape(-1)))


def _heat(grid: np.ndarray) -> Thumb:
    columns = min(len(grid), POINTS // 2)
    edges = np.linspace(0, len(grid), columns + 1).astype(int)[:-1]
    # each feature has its own scale: a position and a velocity would drown one another
    levels = _levels(grid[edges].T)
    return Thumb("heat", grid.shape[1], levels)


def histogram(array: np.ndarray) -> Thumb | None:
    """Return a histogram of at most 20,000 of the values; None if all finite values are equal."""
    flat = array.reshape(-1)
    flat = flat[:: max(1, flat.size // 20_000)].astype(np.float64)
    flat = flat[np.isfinite(flat)]
    if flat.size < 2:
        return None
    low, high = float(flat.min()), float(flat.max())
    if not high > low or not math.isfinite(high - low):
        return None
    counts = np.histogram(flat, bins=BINS, range=(low, high))[0]
    return Thumb("hist", 1, tuple(int(c) for c in np.ceil(counts / counts.max() * LEVELS)))


def _levels(lines: np.ndarray) -> tuple[int, ...]:
    """Scale each row of ``[n]`` or ``[rows, n]`` to 0..LEVELS by itself; the middle where all values are equal."""
    lines = np.atleast_2d(lines).astype(np.float64)
    finite = np.isfinite(lines)
    with np.errstate(all="ignore"):
        low = np.where(finite, lines, np.inf).min(1, keepdims=True)
        span = np.where(finite, lines, -np.inf).max(1, keepdims=True) - low
        scaled = np.where(span > 0, (lines - low) / span * LEVELS, LEVELS // 2).round()
    return tuple(np.where(finite & np.isfinite(scaled), scaled, -1).astype(int).reshape(-1).tolist())

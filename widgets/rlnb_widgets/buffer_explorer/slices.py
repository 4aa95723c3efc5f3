"""Slices of trajectories: whether a length is possible, why not, and the slices of a sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlnb.data.replay_buffers.samplers.slice_sampler import SliceSampler
from rlnb_widgets._core.text import plural
from rlnb_widgets.buffer_explorer.model import SliceFacts, StorageState, Trajectories


def slice_facts(trajectories: Trajectories, slice_len: int, strict: bool = True) -> SliceFacts:
    """Return whether slices of ``slice_len`` rows can be drawn, and if not, why.

    ``strict`` excludes shorter trajectories; otherwise they are drawn whole.
    """
    lengths = trajectories.length
    fits = lengths >= slice_len if strict else lengths > 0
    starts = np.maximum(lengths - slice_len + 1, 1)[fits].sum()
    fitting, longest = int(fits.sum()), int(lengths.max(initial=0))
    pieces = trajectories.interleaved
    verdict = _verdict(trajectories, slice_len, fitting, int(starts), longest, pieces, strict)
    return SliceFacts(slice_len, fitting, len(lengths), int(starts), longest, pieces, verdict)


def _verdict(
    trajectories: Trajectories, size: int, fitting: int, starts: int, longest: int, pieces: int, strict: bool
) -> str:
    """Return the summary, which the page repeats for other lengths (``values.js``)."""
    total, asked = len(trajectories), f"A slice of {plural(size, 'row')}"
    if not total:
        return f"{asked} cannot be drawn: no trajectories are known. {trajectories.note}"
    all_of_them = plural(total, "trajectory", "trajectories")
    mixed = (
        f"{plural(pieces, 'trajectory is', 'trajectories are')} interleaved with others, and a slice is a run of rows "
        "one after another"
    )
    apart = "Fix: a storage with ndim=2, in which each env has a column of its own."
    if fitting:
        short = int((trajectories.length < size).sum())
        text = f"{asked} fits into {fitting:,} of {all_of_them}, at {plural(starts, 'start')}."
        if not strict:
            text = f"Slices of up to {plural(size, 'row')} can begin at {plural(starts, 'place')}."
            text += f" {plural(short, 'trajectory is', 'trajectories are')} shorter, and drawn whole." if short else ""
        return text + (f" {mixed}. {apart}" if pieces else "")
    if pieces:
        return f"{asked} is impossible: {mixed}. The longest run has {plural(longest, 'row')}. {apart}"
    return (
        f"{asked} is impossible: the longest of {all_of_them} has {plural(longest, 'row')}. Fix: slices of "
        f"{longest:,} rows or fewer, longer trajectories, or strict_length=False, which draws short trajectories whole."
    )


def coverage(trajectories: Trajectories, ring: StorageState, slice_len: int, strict: bool = True) -> np.ndarray:
    """Return the share of each item in the draws of a slice sampler, ``[size, columns]``, with a sum of 1.

    The sampler draws uniformly among the trajectories that are long enough, then uniformly among the starts. All shares
    are 0 if no slice is possible.
    """
    share = np.zeros((ring.size, ring.columns))
    fits = trajectories.length >= (slice_len if strict else 1)
    lengths = trajectories.length[fits]
    each = np.repeat(np.arange(len(lengths)), lengths)
    at = np.arange(len(each)) - (np.cumsum(lengths) - lengths)[each]
    length = lengths[each]
    size = np.minimum(length, slice_len)
    starts = length - size + 1
    # Number of starts whose slice contains the step.
    held = np.minimum.reduce([at + 1, length - at, size, starts])
    rows = (trajectories.start[fits][each] + at) % ring.size
    share[rows, trajectories.column[fits][each]] = held / (starts * size * max(len(lengths), 1))
    return share


def slices_of(positions: np.ndarray, ring: StorageState, size: int | None = None) -> np.ndarray:
    """Split drawn positions ``row * columns + column`` into slices: column, first row and length, ``[slices, 3]``.

    A known slice length, ``size``, separates slices that are adjacent in the buffer.

    Example:
        >>> slices_of(np.array([8, 9, 0, 4, 5]), StorageState(10, 10, 10, 3, 13, 1, True)).tolist()
        [[0, 8, 3], [0, 4, 2]]
    """
    if not len(positions):
        return np.zeros((0, 3), np.int64)
    rows, columns = np.divmod(positions, ring.columns)
    follows = (np.diff(rows) % ring.size == 1) & (np.diff(columns) == 0)
    # No slice crosses the seam: the row at the cursor is the oldest.
    if ring.seam:
        follows &= rows[1:] != ring.cursor
    if size:
        follows[size - 1 :: size] = False
    starts = np.concatenate([[0], np.flatnonzero(~follows) + 1])
    lengths = np.diff(np.append(starts, len(rows)))
    return np.stack([columns[starts], rows[starts], lengths], 1)


def is_slicing(sampler: Any) -> bool:
    """Whether a sampler draws slices."""
    return isinstance(sampler, SliceSampler)


def slice_length(buffer: Any, asked: int | None) -> int | None:
    """Return the slice length that was asked for, else that of the buffer's sampler; None if it draws no slices."""
    sampler = buffer.sampler
    if asked is not None or not is_slicing(sampler):
        return asked
    if sampler.slice_len:
        return int(sampler.slice_len)
    if sampler.num_slices and buffer.batch_size:
        return max(int(buffer.batch_size) // int(sampler.num_slices), 1)
    return None


def is_strict(sampler: Any) -> bool:
    """Whether trajectories shorter than a slice are excluded."""
    return not is_slicing(sampler) or bool(sampler.strict_length)


def drawn_length(sampler: Any, count: int) -> int | None:
    """Return the common length of the slices in a sample of ``count`` items; None if it may differ."""
    if not is_slicing(sampler) or not sampler.strict_length or sampler.span:
        return None
    if sampler.slice_len:
        return int(sampler.slice_len)
    return count // int(sampler.num_slices) or None

"""Properties of samplers: whether they draw slices, of which length, and how strictly."""

from __future__ import annotations

from typing import Any

from rlnb.data.replay_buffers import SliceSampler


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

"""Properties of samplers: whether they draw slices, of which length, and how strictly."""

from __future__ import annotations

from typing import Any

from rlnb.data.replay_buffers import SliceSampler

__all__ = ["drawn_length", "is_slicing", "is_strict", "slice_length"]


def is_slicing(sampler: Any) -> bool:
    """Whether a sampler draws slices."""
    return isinstance(sampler, SliceSampler)


def slice_length(buffer: Any, asked: int | None) -> int | None:
    """Find out how long slices are.

    Args:
        buffer: the buffer.
        asked: what the user said.

    Returns:
        What was asked for; else what the sampler of the buffer draws; None if it draws no slices.
    """
    sampler = buffer.sampler
    if asked is not None or not is_slicing(sampler):
        return asked
    if sampler.slice_len:
        return int(sampler.slice_len)
    if sampler.num_slices and buffer.batch_size:
        return max(int(buffer.batch_size) // int(sampler.num_slices), 1)
    return None


def is_strict(sampler: Any) -> bool:
    """Whether slices are never shorter than asked for."""
    return not is_slicing(sampler) or bool(sampler.strict_length)


def drawn_length(sampler: Any, count: int) -> int | None:
    """Find out how long the slices of a sample are.

    Args:
        sampler: of the buffer.
        count: how many elements were drawn.

    Returns:
        The length of all of them; None where they may differ.
    """
    if not is_slicing(sampler) or not sampler.strict_length or sampler.span:
        return None
    if sampler.slice_len:
        return int(sampler.slice_len)
    return count // int(sampler.num_slices) or None

"""What is asked of samplers: whether they draw slices, how long, and how strictly."""

from __future__ import annotations

from typing import Any

from rlnb.data.replay_buffers import SliceSampler

__all__ = ["is_slicing", "is_strict", "slice_length"]


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

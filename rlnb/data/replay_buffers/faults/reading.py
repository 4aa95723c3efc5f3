"""What replay buffers say when data cannot be read."""

from __future__ import annotations

from collections.abc import Sequence

from rlnb.data.replay_buffers.faults.text import listed
from rlnb.data.ted.keys import NestedKey


def nothing_stored() -> str:
    """Say that a storage was read before anything was written."""
    return "The storage is empty. Fix: write with buffer.add(data) or buffer.extend(data) before reading."


def empty_sample() -> str:
    """Say that an empty buffer was sampled."""
    return "Cannot sample from an empty storage. Fix: write with buffer.add(data) or buffer.extend(data) first."


def no_batch_size() -> str:
    """Say that nothing tells how much to sample."""
    return (
        "The batch size is not known. Fix: give it to the constructor (batch_size=32) or to the call, "
        "buffer.sample(32)."
    )


def cannot_iterate() -> str:
    """Say that iteration needs a batch size."""
    return "Iterating over a buffer needs a batch size. Fix: give it to the constructor, batch_size=32."


def bad_batch_size(value: object) -> str:
    """Say that a batch size is no positive number."""
    return f"The batch size must be an integer of at least 1, and got {value!r}. Fix: such as 32."


def prefetch_without_batch_size() -> str:
    """Say that prefetching needs a batch size."""
    return (
        "Prefetching needs to know the batch size in advance. Fix: give the constructor batch_size=32 beside prefetch."
    )


def out_of_range(index: int, length: int, ndim: int) -> str:
    """Say that an index is outside what is filled, along one of ``ndim`` dimensions."""
    if not length:
        return f"Index {index} is out of range: {nothing_stored()[0].lower()}{nothing_stored()[1:]}"
    if ndim > 1:
        return f"Index {index} is out of range for a dimension of size {length}: it can be {-length} to {length - 1}."
    return f"Index {index} is out of range: {length} elements are stored, so it can be from {-length} to {length - 1}."


def mask_length(given: Sequence[int], length: Sequence[int]) -> str:
    """Say that a mask has another shape than the filled part."""
    return (
        f"A mask of shape {list(given)} cannot index stored elements of shape {list(length)}. "
        "Fix: give it one value for each stored element."
    )


def too_many_indices(given: int, ndim: int) -> str:
    """Say that an index has more parts than the storage has dimensions."""
    return (
        f"The index has {given} parts, and the elements are counted along {ndim} dimension{'s' if ndim > 1 else ''}. "
        "Fix: a list of positions is written buffer[[0, 1]]; entries are read as buffer[:]['key']."
    )


def outside(index: object, shape: Sequence[int], cause: IndexError) -> str:
    """Say that an index of several parts is outside what is filled."""
    return f"The index is outside of the stored elements, whose shape is {list(shape)}: {cause}."


def bad_index(index: object) -> str:
    """Say that something is no index."""
    dtype = getattr(index, "dtype", None)
    what = f"A {type(index).__name__}" + ("" if dtype is None else f" of dtype {dtype}")
    return f"{what} cannot index a buffer. Fix: give an integer, a slice, a list or tensor of integers, or a mask."


def too_many_without_replacement(batch_size: int, length: int) -> str:
    """Say that there are not as many elements as are to be drawn."""
    return (
        f"Cannot draw {batch_size} of {length} elements without replacement, and drop_last=True leaves out smaller "
        f"batches. Fix: drop_last=False, a batch size of at most {length}, or RandomSampler(), which draws with "
        "replacement."
    )


def no_such_entry(key: object, stored: Sequence[NestedKey]) -> str:
    """Say which entries there are."""
    return f"The storage has no entry {key!r}. It has {listed(stored)}."

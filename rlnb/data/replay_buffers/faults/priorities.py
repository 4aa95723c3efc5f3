"""What replay buffers say about priorities."""

from __future__ import annotations

from collections.abc import Sequence

from rlnb.data.replay_buffers.faults.text import listed
from rlnb.data.ted.keys import NestedKey


def bad_priority(position: int, value: float, most: float) -> str:
    """Say which priority is none."""
    if most < value < float("inf"):
        return (
            f"Number {position} of the priorities given is {value}; sums of such numbers would be infinite, and with "
            f"this alpha {most:.3g} is the largest there can be. Nothing was changed. A loss that large has mostly "
            "diverged. Fix: buffer.update_priority(index, td_error.abs().clamp(max=...))."
        )
    return (
        f"Priorities must be finite and at least 0, and number {position} of those given is {value}. "
        "Nothing was changed. A NaN often comes from a loss that diverged; a negative one from a TD error "
        "without its absolute value. Fix: buffer.update_priority(index, td_error.abs())."
    )


def priorities_for(count: int, given: Sequence[int]) -> str:
    """Say that there are not as many priorities as elements."""
    return (
        f"{count} elements need {count} priorities or a single one, and got a tensor of shape {list(given)}. "
        "Nothing was changed. Fix: give one for each index."
    )


def all_zero() -> str:
    """Say that nothing can be drawn."""
    return (
        "All priorities are zero, so nothing can be drawn. "
        "Fix: give some element a priority above 0, or make the sampler with eps above 0."
    )


def needs_priority(key: NestedKey, keys: Sequence[NestedKey]) -> str:
    """Say that a sample has no entry with the priorities, or with the indices."""
    if key == "index":
        return (
            f"The sample has no entry 'index' that says where it comes from; it has {listed(keys)}. "
            "Fix: keep the entry when you change a sample, or buffer.update_priority(index, priority)."
        )
    return (
        f"The priorities are read from {key!r}, which the data does not have; it has {listed(keys)}. "
        f"Fix: data.set({key!r}, td_error.abs()), or make the buffer with another priority_key."
    )


def no_numbers(what: str, got: str) -> str:
    """Say that indices or priorities are none."""
    fix = "index.nonzero() for a mask" if got == "bool" and what == "index" else "what came with a sample"
    fix = fix if what == "index" else "buffer.update_priority(index, td_error.abs())"
    numbers = "integers, the positions of elements" if what == "index" else "numbers, one for each element"
    return f"The {what} must hold {numbers}, and holds values of type {got}. Nothing was changed. Fix: {fix}."


def needs_sample(got: object) -> str:
    """Say that priorities are read from a sample."""
    return (
        f"update_tensordict_priority takes a sample, a TensorDict, and got: {type(got).__name__}. "
        "Fix: buffer.update_priority(index, priority)."
    )


def other_coordinates(given: int, ndim: int) -> str:
    """Say that an index has another number of coordinates than the storage has dimensions."""
    return (
        f"Each element of the storage has {ndim} coordinate(s), and the index has {given}. Nothing was changed. "
        'Fix: use the indices that came with a sample (sample["index"], or info["index"] with return_info=True).'
    )


def no_element(index: int | tuple[int, ...], length: int) -> str:
    """Say that a priority was given for no element."""
    return (
        f"There is no element {index}: {length} are stored, from 0 on. Nothing was changed. "
        'Fix: use the indices that came with a sample (sample["index"], or info["index"] with return_info=True).'
    )

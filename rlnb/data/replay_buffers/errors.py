"""Errors of replay buffers: ``MismatchError``, and the texts that several modules raise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from rlnb.data.ted.keys import NestedKey

MAX_LISTED = 8  # longer lists are cut in texts
EMPTY_SAMPLE = "Cannot sample from an empty storage. Fix: write with buffer.add(data) or buffer.extend(data) first."
NOTHING_STORED = "The storage is empty. Fix: write with buffer.add(data) or buffer.extend(data) before reading."


class MismatchError(ValueError, RuntimeError):
    """Data that differs in form from what is stored, or arguments that contradict one another.

    It is a :class:`ValueError`, and also a :class:`RuntimeError`, because that is what TorchRL raises in these cases
    and what programs written for TorchRL catch.
    """


def listed(values: Iterable[Any]) -> str:
    """List values in a text; long lists are cut."""
    values = list(values)
    more = f" and {len(values) - MAX_LISTED} more" if len(values) > MAX_LISTED else ""
    return ", ".join(map(repr, values[:MAX_LISTED])) + more


def at(key: NestedKey) -> str:
    """Name the key of a leaf in a sentence; empty for a bare tensor."""
    return "" if key == () else f" at {key!r}"


def looks(shape: Sequence[int], dtype: torch.dtype | None) -> str:
    """Describe a leaf; a dtype of None stands for non-tensor data."""
    return "non-tensor data" if dtype is None else f"shape {list(shape)} and dtype {dtype}"


def bad_size(name: str, value: object) -> str:
    """Text for a size that is not a positive integer."""
    fix = f" Fix: {name}={int(value)}." if isinstance(value, float) and value >= 1 and value.is_integer() else ""
    return f"{name} must be an integer of at least 1, and got {value!r}.{fix}"


def unknown_reduction(got: object, legal: Sequence[str]) -> str:
    """Text for an unknown reduction."""
    return f"Unknown reduction {got!r}. Fix: one of {listed(legal)}."


def other_state(kind: str, state: object, max_size: int) -> str:
    """Text for a state of another storage."""
    found = "is not a dictionary"
    if isinstance(state, dict):
        found = f"holds {state.get('length')} items, saved with room for {state.get('max_size')}"
    return (
        f"The state does not fit this {kind} with room for {max_size} items: it {found}. Nothing was changed. "
        "Fix: load it into a storage of the kind and size that it was saved from, empty or with data of the same keys, "
        "shapes and dtypes."
    )


def no_such_entry(key: object, stored: Sequence[NestedKey]) -> str:
    """Text for an unknown key."""
    return f"The storage has no entry {key!r}. It has {listed(stored)}."


def other_count(expected: int, got: int) -> str:
    """Text for an index and data that differ in the number of items."""
    return f"The index names {expected} items, and {got} were given. Nothing was written."


def no_leaves() -> str:
    """Text for data without tensors."""
    return "The data contains no tensor, so there is nothing to store. Fix: give at least one tensor."


def too_few_dims(what: str, ndim: int) -> str:
    """Text for data with too few leading dimensions."""
    if ndim > 1:
        return (
            f"The data needs {ndim} leading dimensions, such as [envs, time], and got {what}. Nothing was written. "
            "Fix: data.unsqueeze(0) for the steps of one env, or a storage with ndim=1."
        )
    return (
        f"The data needs a leading dimension that counts the items, and got {what}. Nothing was written. "
        "Fix: buffer.add(data) for a single item; buffer.extend(data) takes a batch of them."
    )


def priorities_for(count: int, given: Sequence[int]) -> str:
    """Text for a wrong number of priorities."""
    return (
        f"{count} items need {count} priorities or a single one, and got a tensor of shape {list(given)}. "
        "Nothing was changed. Fix: give one for each index."
    )


def no_item(index: int | tuple[int, ...], length: int) -> str:
    """Text for a priority of an item that does not exist."""
    return (
        f"There is no item {index}: {length} are stored, counted from 0. Nothing was changed. "
        'Fix: use the indices that came with a sample (sample["index"], or info["index"] with return_info=True).'
    )


def ensemble_is_read_only(method: str) -> str:
    """Text for writing to an ensemble."""
    calls = {
        "add": "ensemble[0].add(data)",
        "extend": "ensemble[0].extend(data)",
        "set": "ensemble[0][index] = data",
        "mark_update": "ensemble[0].mark_update(index)",
    }
    return (
        "An ensemble only reads: it does not know which of its members new data belongs to. Nothing was written. "
        f"Fix: write to a member, {calls[method]}."
    )


def empty_member(member: int) -> str:
    """Text for drawing from an empty member."""
    return (
        f"Member {member} of the ensemble is empty and was drawn. Fix: write to it first, "
        f"ensemble[{member}].extend(data), or give it the weight 0 in p."
    )


def no_such_member(index: object, count: int) -> str:
    """Text for an index that is not the number of a member."""
    if isinstance(index, int):
        return f"There is no member {index}: the ensemble has {count}, from 0 to {count - 1}."
    return (
        f"An ensemble is indexed by the number of a member, and got a {type(index).__name__}. "
        "Fix: ensemble[0] is a member, ensemble[0, 3] or ensemble[0][3] an item of it."
    )


def unequal_parts(counts: dict[str, int]) -> str:
    """Text for different numbers of storages, samplers and writers."""
    found = ", ".join(f"{count} {name}" for name, count in counts.items())
    return f"Every member of an ensemble has one storage, one sampler and one writer, and got {found}."


def unequal_member_batches(counts: Sequence[int]) -> str:
    """Text for batches of different sizes."""
    return (
        f"The members returned {list(counts)} items, which cannot be stacked. The last batch of an epoch is smaller. "
        "Fix: SamplerWithoutReplacement(drop_last=True) in the members."
    )

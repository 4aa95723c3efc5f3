"""What replay buffers say when data cannot be written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from rlnb.data.replay_buffers.faults.text import MANY, at, listed
from rlnb.data.ted.keys import NestedKey


def _leaf(shape: Sequence[int], dtype: torch.dtype | None) -> str:
    return "non-tensor data" if dtype is None else f"shape {list(shape)} and dtype {dtype}"


def other_keys(stored: Sequence[NestedKey], given: Sequence[NestedKey], kind: str) -> str:
    """Say which keys are missing or new."""
    if not given or stored == [()] or given == [()]:
        return (
            f"The storage holds {_kind(stored)}, and a {kind} came. Nothing was written. "
            "Fix: give data of the form that was stored first, or use another buffer."
        )
    missing = [key for key in stored if key not in set(given)]
    new = [key for key in given if key not in set(stored)]
    parts = [f"missing: {listed(missing)}"] if missing else []
    parts += [f"not stored before: {listed(new)}"] if new else []
    return (
        f"The data has other keys than what is stored ({'; '.join(parts)}). Nothing was written. "
        "The first data written decides the keys. "
        "Fix: give every key each time, for example with data.select(...), or use another buffer."
    )


def _kind(stored: Sequence[NestedKey]) -> str:
    return "bare tensors" if list(stored) == [()] else f"data with the keys {listed(stored)}"


def other_structure(stored: str, given: str) -> str:
    """Say that the keys agree but not what holds them."""
    return (
        f"The data has the keys that are stored, but in other containers: a {stored} is stored and a {given} came. "
        "Nothing was written. Fix: nest dictionaries, lists, tuples and TensorDicts as in the data written first."
    )


def other_leaves(differ: Sequence[tuple[NestedKey, Sequence[int], Any, Any]], lead: Sequence[int]) -> str:
    """Say which leaves have another shape or dtype; ``lead`` is the batch in front of each element."""
    lines = []
    for key, shape, dtype, value in differ[:MANY]:
        is_tensor = isinstance(value, torch.Tensor)
        got = _leaf(value.shape, value.dtype) if is_tensor else _leaf((), None)
        label = "" if key == () else f"{key!r}: "
        lines.append(f"\n  {label}expected {_leaf(shape, dtype)}, got {got}")
    more = f"\n  and {len(differ) - MANY} more" if len(differ) > MANY else ""
    many = f" (batch {list(lead)})" if lead else ""
    return (
        f"The data does not fit what is stored{many}. Nothing was written.{''.join(lines)}{more}\n"
        "The first data written decides shapes and dtypes. Fix: convert the data, or use another buffer."
    )


def looks_like_batch(count: int, ndim: int) -> str:
    """Say that ``add`` got several elements."""
    what = "element" if ndim == 1 else "row"
    return (
        f"add stores one {what}, and got data that looks like {count} of the {what}s that are stored. "
        f"Nothing was written. Fix: buffer.extend(data) to store {count} {what}s; "
        f"to store all of it as one {what}, use a buffer of its own, whose first {what} it is."
    )


def first_is_batch(batch: Sequence[int]) -> str:
    """Say what ``add`` makes of a first element with a batch size."""
    return (
        f"add stores this data of batch size {list(batch)} as one element, so every element of this buffer will have "
        f"that batch size. If these are {batch[0]} elements, use buffer.extend(data) on a new buffer."
    )


def no_tensor(value: Any) -> str:
    """Say that a leaf cannot stand in contiguous memory."""
    return (
        f"A contiguous storage holds tensors, arrays and numbers, and a {type(value).__name__} came. "
        "Fix: use ListStorage, which holds any object, or put the value into a TensorDict as non-tensor data."
    )


def no_leaves() -> str:
    """Say that there is nothing to store."""
    return "The data has no tensor in it, so there is nothing to store. Fix: give at least one tensor."


def ragged(cause: Exception) -> str:
    """Say that rows of a lazy stack differ in shape."""
    return (
        "The rows of this lazily stacked TensorDict have entries of different shapes, and contiguous memory holds one. "
        f"Nothing was written. ({str(cause).splitlines()[0]})\n"
        "Fix: pad them (tensordict.pad_sequence), or use ListStorage, which holds rows of any shape."
    )


def too_few_dims(what: str, ndim: int) -> str:
    """Say that a batch was expected."""
    if ndim > 1:
        return (
            f"The data needs {ndim} leading dimensions, such as [envs, time], and {what} came. Nothing was written. "
            "Fix: data.unsqueeze(0) for the steps of one env, or a storage with ndim=1."
        )
    return (
        f"The data needs a leading dimension that counts the elements, and {what} came. Nothing was written. "
        "Fix: buffer.add(data) for a single element; buffer.extend(data) takes a batch of them."
    )


def unequal_leads(leads: Sequence[tuple[NestedKey, Sequence[int]]]) -> str:
    """Say that the leaves of a PyTree are batches of different sizes."""
    lines = "".join(f"\n  {key!r}: {list(lead)}" for key, lead in leads[:MANY])
    return (
        "The tensors of a PyTree must lead with the same dimensions, for each position of them is one element. "
        f"Nothing was written. They lead with:{lines}\n"
        "Fix: make them equal. A list at the root means something else: a list of elements."
    )


def unequal_items(position: int, cause: object) -> str:
    """Say that the elements of a list differ."""
    return (
        f"A list stands for elements that are stored one by one, and number {position} of them does not fit. "
        f"{cause}\nIf the list itself is one PyTree of batches, give a tuple."
    )


def other_dims(stored: Sequence[int], given: Sequence[int]) -> str:
    """Say that a storage of several dimensions got another number of envs."""
    return (
        f"The storage holds {list(stored)} elements a row (such as one a env), and the data has {list(given)}. "
        "Nothing was written. Fix: give data of as many, or use another buffer."
    )


def no_elements_a_row(others: Sequence[int]) -> str:
    """Say that data of several dimensions has none along one of them."""
    return f"The data has {list(others)} elements a row (such as one a env), so there is nothing to store."


def other_count(expected: int, got: int) -> str:
    """Say that an index names another number of elements than were given."""
    return f"The index names {expected} elements, and {got} were given. Nothing was written."


def not_many(data: object) -> str:
    """Say that something holds no elements."""
    return (
        f"extend needs several elements: a list, a TensorDict, a tensor or a tuple of tensors, and got: "
        f"{type(data).__name__}. Nothing was written. Fix: buffer.add(data) stores one element, of any kind."
    )


def immutable() -> str:
    """Say that a dataset is not written to."""
    return (
        "This buffer is read-only: its writer is an ImmutableDatasetWriter. "
        "Fix: buffer.set_writer(RoundRobinWriter()) to write to it after all."
    )


def not_rankable(got: object, key: NestedKey) -> str:
    """Say that data has no entries to rank it by."""
    return (
        f"Elements are ranked by their entry {key!r}, and a {type(got).__name__} has no entries. Nothing was written. "
        "Fix: write TensorDicts, or give the buffer another writer."
    )


def needs_rank(key: NestedKey, keys: Sequence[NestedKey]) -> str:
    """Say that data has no rank."""
    return (
        f"Elements are ranked by {key!r}, which the data does not have; it has {listed(keys)}. Nothing was written. "
        "Fix: TensorDictMaxValueWriter(rank_key=...) with one of these."
    )


def rank_is_nan(key: NestedKey) -> str:
    """Say that a rank cannot be compared."""
    return f"The rank of an element, {key!r}, is NaN, and NaN is not more or less than anything. Nothing was written."


def no_index_field(name: str) -> str:
    """Say that a tensorclass has no place for its index."""
    return (
        f"Samples of this buffer say in 'index' where they are stored, and the tensorclass {name} has no such field. "
        f"Nothing was written. Fix: ReplayBuffer(...) with its default writer, which returns each {name} as it is; or "
        f"a field 'index: torch.Tensor | None = None' in {name}."
    )


def no_rank_of_rows(ndim: int) -> str:
    """Say that a storage of several dimensions has no single elements to rank."""
    return (
        f"A TensorDictMaxValueWriter ranks single elements, and this storage has {ndim} dimensions: what is written "
        "there is a row, the steps of all envs. Fix: a storage with ndim=1, whose elements are steps or trajectories; "
        "or a TensorDictRoundRobinWriter."
    )


def file_there(path: object) -> str:
    """Say that a file is in the way."""
    return (
        f"{path} is there already, and would be overwritten. "
        "Fix: give another scratch_dir, or existsok=True to write over it."
    )


def same_file(one: str, other: str) -> str:
    """Say that two entries do not fit into one folder; ``other`` may be another file of it."""
    return (
        f"{one} and {other} would be the same file. Nothing was written. "
        "Fix: rename one of them, or use LazyTensorStorage, which needs no files."
    )


def disk_full(name: str, needed: int, cause: OSError) -> str:
    """Say that there is no room on the disk."""
    return (
        f"No room on the disk for the next {needed:,} bytes of {name} ({cause.strerror}). Nothing was written. "
        "Fix: free some space, a smaller max_size, or a scratch_dir on another disk."
    )


def no_memory(key: NestedKey, shape: Sequence[int], dtype: torch.dtype, size: int) -> str:
    """Say that memory could not be had."""
    return (
        f"There is no memory for {size:,} bytes{at(key)}: shape {list(shape)} and dtype {dtype}. "
        "Nothing was written. Fix: a smaller max_size, a LazyMemmapStorage, which keeps its data in files, or a "
        "smaller dtype, such as uint8 for pixels."
    )


def no_files(folder: object, cause: Exception) -> str:
    """Say that files could not be made."""
    return (
        f"The memory-mapped files could not be made in {folder}: {cause}. Nothing was written. "
        "Fix: a smaller max_size, or a scratch_dir that can hold them."
    )


def not_mapped(keys: Sequence[NestedKey]) -> str:
    """Say that Python objects cannot stand in a file."""
    return (
        f"Memory-mapped files hold tensors, and these entries are non-tensor data: {listed(keys)}. "
        "Fix: LazyTensorStorage or ListStorage, or data.exclude(...)."
    )


def read_only_files(folder: object) -> str:
    """Say that a process may not write the files of a storage."""
    return (
        f"This process may only read the files of the storage, which are in {folder}. Nothing was written. "
        "Fix: write in a process that may write there, or copy what is there into a buffer of your own: "
        "other.extend(buffer[:])."
    )


def unfinished_write(folder: object) -> str:
    """Say that a process that may only read finds a write that another did not finish."""
    return (
        f"A process was ended while it wrote to the storage in {folder}, and this process may only read there. "
        "Fix: read it in a process that may write, which finishes what was begun."
    )

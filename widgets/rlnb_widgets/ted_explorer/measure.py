"""Measurements of an entry: shape, storage, statistics and a thumbnail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from tensordict import MemoryMappedTensor

from rlnb_widgets._core.text import object_text, values_text, without_addresses
from rlnb_widgets.ted_explorer.entries import TedEntry
from rlnb_widgets.ted_explorer.numbers import as_array, histogram, stats_of, thumb_of
from rlnb_widgets.ted_explorer.schema import Cell, Dim

_SHAPES = 4  # written out of those that vary


def measure(entry: TedEntry, batch_dims: int, has_time: bool) -> Cell:
    """Summarise one entry; an entry that cannot be summarised becomes a cell with a message.

    ``batch_dims`` counts the batch dimensions of the whole TensorDict; ``has_time`` tells whether the last one is time.
    """
    try:
        if entry.kind == "node":
            return _node(entry, batch_dims, has_time)
        if entry.kind == "non-tensor":
            return _non_tensor(entry, batch_dims, has_time)
        if entry.kind == "ragged":
            return _ragged(entry, batch_dims, has_time)
        if entry.kind == "leaf":
            return _leaf(entry, batch_dims, has_time)
        return Cell("?", "", (), None, "", message=f"cannot be read: {entry.note}")
    except Exception as error:
        return Cell("?", "", (), None, "", message=_cannot(error))


def _cannot(error: Exception) -> str:
    reason = without_addresses(str(error)).split("\n")[0][:160]
    return f"cannot be summarised: {type(error).__name__}: {reason}"


def dims_of(shape: tuple[int | None, ...], own: int, batch_dims: int, has_time: bool) -> tuple[Dim, ...]:
    """Return the role of each dimension of a shape; ``own`` counts the batch dimensions of the entry's TensorDict.

    Example:
        >>> [dim.role for dim in dims_of((4, 9, 2, 3), own=3, batch_dims=2, has_time=True)]
        ['batch', 'time', 'nested', 'feature']
    """
    out = []
    for i, size in enumerate(shape):
        if i < batch_dims:
            out.append(Dim("time" if has_time and i == batch_dims - 1 else "batch", size))
        else:
            out.append(Dim("nested" if i < own else "feature", size))
    return tuple(out)


def storage_of(value: Any, lazy: bool) -> str:
    """Return ``"lazily stacked"``, ``"memory-mapped"``, ``"shared"`` or ``"in memory"``."""
    if lazy:
        return "lazily stacked"
    is_mapped = value.is_memmap() if hasattr(value, "is_memmap") else isinstance(value, MemoryMappedTensor)
    if is_mapped:
        return "memory-mapped"
    # tensors on an accelerator always call themselves shared
    on_cpu = getattr(value.device, "type", "cpu") == "cpu"
    return "shared" if on_cpu and value.is_shared() else "in memory"


def _leaf(entry: TedEntry, batch_dims: int, has_time: bool) -> Cell:
    tensor = entry.value
    # a jagged tensor has sizes that are no numbers
    shape = tuple(size if type(size) is int else None for size in tensor.shape)
    cell = Cell(
        dtype=str(tensor.dtype).removeprefix("torch."),
        device=str(tensor.device),
        dims=dims_of(shape, entry.batch_dims, batch_dims, has_time),
        nbytes=None,
        storage="",
    )
    if tensor.is_meta:
        return replace(cell, nbytes=tensor.numel() * tensor.element_size(), storage="no values")
    try:
        array = as_array(tensor)
        return replace(
            cell,
            nbytes=tensor.numel() * tensor.element_size(),
            storage=storage_of(tensor, entry.lazy),
            stats=stats_of(array),
            thumb=thumb_of(array, batch_dims, has_time),
            preview="" if has_time else values_text(array),
            message="" if tensor.numel() else "no elements",
        )
    except Exception as error:
        return replace(cell, message=_cannot(error))


def _ragged(entry: TedEntry, batch_dims: int, has_time: bool) -> Cell:
    tensors = [value for value in entry.value.ravel() if value is not None]
    shape: list[int | None] = []
    if len({tensor.dim() for tensor in tensors}) == 1:
        sizes = zip(*(tensor.shape for tensor in tensors), strict=True)
        shape = [*entry.value.shape, *(group[0] if len(set(group)) == 1 else None for group in sizes)]
    flat = np.concatenate([as_array(tensor).reshape(-1) for tensor in tensors])
    dtypes = sorted({str(tensor.dtype).removeprefix("torch.") for tensor in tensors})
    shapes = list(dict.fromkeys(str(list(tensor.shape)) for tensor in tensors))
    return Cell(
        dtype="/".join(dtypes),
        device=str(tensors[0].device),
        dims=dims_of(tuple(shape), entry.batch_dims, batch_dims, has_time),
        nbytes=sum(tensor.numel() * tensor.element_size() for tensor in tensors),
        storage="lazily stacked",
        stats=stats_of(flat),
        thumb=histogram(flat) if flat.size > 1 else None,
        message=f"{entry.note}: {', '.join(shapes[:_SHAPES])}{', ...' if len(shapes) > _SHAPES else ''}",
    )


def _non_tensor(entry: TedEntry, batch_dims: int, has_time: bool) -> Cell:
    value = entry.value
    data = value.tolist()
    first: Any = data
    for size in value.batch_size:
        if not isinstance(first, list) or not size:
            break
        first = first[0]
    dims = dims_of(tuple(value.batch_size), entry.batch_dims, batch_dims, has_time)
    return Cell(type(first).__name__, "", dims, None, "non-tensor", preview=object_text(data))


def _node(entry: TedEntry, batch_dims: int, has_time: bool) -> Cell:
    td = entry.value
    dims = dims_of(tuple(td.batch_size), len(td.batch_size), batch_dims, has_time)
    lazy = entry.lazy or hasattr(td, "tensordicts")
    message = "" if list(td.keys()) or lazy else "empty"
    name = type(td).__name__
    name = "TensorDict" if "TensorDict" in name else name
    return Cell(name, str(td.device or ""), dims, None, storage_of(td, lazy), message=message)

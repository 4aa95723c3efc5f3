"""List of all entries of a TensorDict, whatever they hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tensordict import LazyStackedTensorDict, NonTensorData, TensorDict, is_non_tensor, is_tensor_collection

from rlnb.data.ted.ragged import values_of

Path = tuple[str, ...]


@dataclass(frozen=True)
class TedEntry:
    """One entry as found in the data."""

    path: Path  #: its keys
    #: tensor, nested TensorDict, non-tensor, object array of the tensors of each batch element (ragged), or None
    #: (error)
    value: Any
    kind: str  #: ``"leaf"``, ``"node"``, ``"non-tensor"``, ``"ragged"`` (sizes vary within a lazy stack) or ``"error"``
    batch_dims: int  #: batch dimensions of the TensorDict that holds it
    lazy: bool = False  #: whether that TensorDict is a lazy stack
    note: str = ""  #: a remark about the entry


def ted_entries(td: Any, skip: frozenset[str] = frozenset(), prefix: Path = ()) -> Iterator[TedEntry]:
    """Yield the entries of a TensorDict, lazy stack or tensorclass, parents before children, in its order.

    ``skip`` names top-level keys to leave out, and ``prefix`` is the path of ``td`` itself.
    """
    lazy = isinstance(td, LazyStackedTensorDict)
    for key in _keys(td):
        if key in skip:
            continue
        entry = _entry(td, key, (*prefix, str(key)), lazy)
        yield entry
        if entry.kind == "node":
            yield from ted_entries(entry.value, prefix=entry.path)


def _keys(td: Any) -> list[str]:
    if not isinstance(td, LazyStackedTensorDict):
        return list(td.keys())
    # keys() of a lazy stack names only what all its pieces share
    return list(dict.fromkeys(key for piece in td.tensordicts for key in _keys(piece)))


def _entry(td: Any, key: str, path: Path, lazy: bool) -> TedEntry:
    dims = len(td.batch_size)
    try:
        value = td.get(key)
    except Exception as error:
        return _ragged(td, key, path) if lazy else TedEntry(path, None, "error", dims, note=_reason(error))
    if value is None and lazy:  # not in all pieces
        return _ragged(td, key, path)
    if not isinstance(value, torch.Tensor) and not is_tensor_collection(value):  # a field of a tensorclass
        value = NonTensorData(value, batch_size=td.batch_size)
    if is_non_tensor(value):
        return TedEntry(path, value, "non-tensor", dims, lazy)
    if is_tensor_collection(value):
        return TedEntry(path, value, "node", dims, lazy)
    return TedEntry(path, value, "leaf", dims, lazy)


def _ragged(td: Any, key: str, path: Path) -> TedEntry:
    """Return an entry that a lazy stack cannot stack: its values, element by element."""
    batch = tuple(td.batch_size)
    # The size of a group that varies in number is no size to take apart.
    dims = next((i for i, size in enumerate(batch) if size < 0), len(batch))
    try:
        values = values_of(td, key, dims)
    except TypeError:
        note = "a lazy stack with something other than a tensor under this key in some of its pieces"
        return TedEntry(path, None, "error", len(batch), True, note=note)
    there = [value for value in values.ravel() if value is not None]
    if any(isinstance(value, list) for value in there):
        return TedEntry(path, None, "error", len(batch), True, note="pieces of pieces with differing shapes")
    missing = values.size - len(there)
    note = f"there in {len(there)} of {values.size} places only" if missing else "sizes vary"
    return TedEntry(path, values, "ragged", len(batch), True, note)


def values(entry: TedEntry) -> np.ndarray:
    """Split an entry into the values of its batch elements, an array of objects; None where a lazy stack lacks it."""
    if entry.kind == "ragged":
        return np.asarray(entry.value)
    return values_of(TensorDict({"": entry.value}), "", entry.batch_dims)


def _reason(error: BaseException) -> str:
    line = str(error).strip().splitlines()
    return f"{type(error).__name__}: {line[0][:160]}" if line else type(error).__name__

"""Walk a TensorDict and list its entries, whatever they hold, without ever failing on one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import LazyStackedTensorDict, NonTensorData, is_non_tensor, is_tensor_collection

Path = tuple[str, ...]


@dataclass(frozen=True)
class Entry:
    """One entry as found in the data.

    Args:
        path: its keys.
        value: a tensor, a nested TensorDict, a non-tensor, a tuple of pieces (``ragged``) or ``None`` (``error``).
        kind: ``"leaf"``, ``"node"``, ``"non-tensor"``, ``"ragged"`` (a lazy stack whose pieces differ) or ``"error"``.
        batch_dims: batch dimensions of the TensorDict that holds it.
        lazy: whether that TensorDict is a lazy stack.
        stack_dim: along which dimension the pieces of a ragged entry lie.
        pieces: how many pieces the lazy stack of a ragged entry has, also those without it.
        note: what is special about it.
    """

    path: Path
    value: Any
    kind: str
    batch_dims: int
    lazy: bool = False
    stack_dim: int = 0
    pieces: int = 0
    note: str = ""


def walk(td: Any, skip: frozenset[str] = frozenset(), prefix: Path = ()) -> Iterator[Entry]:
    """Yield the entries of a TensorDict, nodes before what they hold, in the order of the data.

    Args:
        td: a TensorDict, a lazy stack or a tensorclass.
        skip: top-level keys to leave out (``"next"``).
        prefix: the path of ``td`` itself.

    Yields:
        One :class:`Entry` for each key at each level.
    """
    lazy = isinstance(td, LazyStackedTensorDict)
    for key in _keys(td):
        if key in skip:
            continue
        entry = _entry(td, key, (*prefix, str(key)), lazy)
        yield entry
        if entry.kind == "node":
            yield from walk(entry.value, prefix=entry.path)


def _keys(td: Any) -> list[str]:
    if not isinstance(td, LazyStackedTensorDict):
        return list(td.keys())
    # keys() of a lazy stack names only what all its pieces share
    return list(dict.fromkeys(key for piece in td.tensordicts for key in _keys(piece)))


def _entry(td: Any, key: str, path: Path, lazy: bool) -> Entry:
    dims = len(td.batch_size)
    try:
        value = td.get(key)
    except Exception as error:
        return _ragged(td, key, path) if lazy else Entry(path, None, "error", dims, note=_reason(error))
    if value is None and lazy:  # not in all pieces
        return _ragged(td, key, path)
    if not isinstance(value, torch.Tensor) and not is_tensor_collection(value):  # a field of a tensorclass
        value = NonTensorData(value, batch_size=td.batch_size)
    if is_non_tensor(value):
        return Entry(path, value, "non-tensor", dims, lazy)
    if is_tensor_collection(value):
        return Entry(path, value, "node", dims, lazy)
    return Entry(path, value, "leaf", dims, lazy)


def _ragged(td: Any, key: str, path: Path) -> Entry:
    """What a lazy stack cannot hand over as one tensor: its pieces, as they are."""
    dims = len(td.batch_size)
    pieces, error = [], ""
    for piece in td.tensordicts:
        if key in _keys(piece):
            inner = _entry(piece, key, path, isinstance(piece, LazyStackedTensorDict))
            pieces.append(inner.value)
            error = error or (inner.note if inner.kind != "leaf" else "")
            if inner.kind not in ("leaf", "ragged"):
                error = error or f"a lazy stack with a {inner.kind} under this key in only some of its pieces"
    if error or any(piece is None or isinstance(piece, tuple) for piece in pieces):
        return Entry(path, None, "error", dims, True, note=error or "pieces of pieces with differing shapes")
    count = len(td.tensordicts)
    note = "the pieces have differing shapes" if len(pieces) == count else f"in {len(pieces)} of {count} pieces"
    return Entry(path, tuple(pieces), "ragged", dims, True, td.stack_dim, count, note)


def _reason(error: BaseException) -> str:
    line = str(error).strip().splitlines()
    return f"{type(error).__name__}: {line[0][:160]}" if line else type(error).__name__

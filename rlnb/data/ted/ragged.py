"""Ragged entries of lazy stacks: values whose shape varies from step to step, and keys that some steps lack."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tensordict import LazyStackedTensorDict, TensorDictBase, is_non_tensor

from rlnb._tensordict import raw_entries
from rlnb.data.ted.keys import as_tuple
from rlnb.data.ted.leaves import is_branch, leaf_keys

Path = tuple[str, ...]


class RaggedColumn(list[Any]):
    """A tensor for each row, of varying shape.

    A row that is ragged itself, such as agents with different observations, is a list of tensors.
    """


def values_of(data: TensorDictBase, name: str, dims: int) -> np.ndarray:
    """Read an entry as an object array of shape ``data.batch_size[:dims]``, which may hold tensors of any shapes.

    A value is ``None`` where the entry is missing, and a list where it is ragged itself.

    Raises:
        TypeError: If the entry is a tensor in some of the stacked TensorDicts only.
    """
    if isinstance(data, LazyStackedTensorDict):
        try:
            value = data.get(name)
        except (RuntimeError, AttributeError):  # shapes or types differ
            value = None
        if value is None:
            return _of_pieces(data, name, dims)
    else:
        value = data.get(name)
    if value is None:
        return _objects([None] * data.batch_size[:dims].numel(), data.batch_size[:dims])
    if not isinstance(value, torch.Tensor):
        raise TypeError(
            f"The entry {name!r} must be a tensor in all of the stacked TensorDicts, but is one in some of them only. "
            f"Fix: give it as a tensor everywhere, or leave it out with data.exclude({name!r})."
        )
    rows = value.flatten(0, dims - 1).unbind(0) if dims else [value]
    return _objects(rows, value.shape[:dims])


def _of_pieces(data: LazyStackedTensorDict, name: str, dims: int) -> np.ndarray:
    at = data.stack_dim
    pieces = [values_of(piece, name, dims - (at < dims)) for piece in data.tensordicts]
    if at < dims:
        return np.stack(pieces, at)
    rows = [list(row) for row in zip(*(piece.ravel() for piece in pieces), strict=True)]
    return _objects(rows, pieces[0].shape)


def _objects(values: Any, shape: tuple[int, ...]) -> np.ndarray:
    found = np.empty(len(values), object)
    for place, value in enumerate(values):
        found[place] = value
    return found.reshape(tuple(shape))


def ragged_column(data: TensorDictBase, name: str, dims: int) -> RaggedColumn:
    """Read an entry as a ragged column, over ``dims`` flattened batch dimensions; see :func:`values_of`."""
    return RaggedColumn(values_of(data, name, dims).reshape(-1).tolist())


def padded(rows: RaggedColumn) -> torch.Tensor | RaggedColumn:
    """Pad rows with zeros to one shape; rows that differ in dtype or number of dimensions are returned as they are.

    Example:
        >>> padded(RaggedColumn([torch.tensor([True]), torch.tensor([True, True])]))
        tensor([[ True, False],
                [ True,  True]])
    """
    if len({row_kind(row) for row in rows}) > 1 or not isinstance(rows[0], torch.Tensor):
        return rows
    sizes = [max(along) for along in zip(*(row.shape for row in rows), strict=True)]
    out = rows[0].new_zeros(len(rows), *sizes)
    for place, row in zip(out, rows, strict=True):
        place[tuple(map(slice, row.shape))] = row
    return out


def row_kind(row: Any) -> Any:
    """Return what the rows of a valid ragged column share: number of dimensions and dtype, for each part of a list."""
    if isinstance(row, list):
        return tuple(map(row_kind, row))
    return None if row is None else (row.dim(), row.dtype)


def lazy_branches(data: TensorDictBase, path: Path = ()) -> list[tuple[Path, LazyStackedTensorDict]]:
    """Find the outermost lazy stacks in a TensorDict; return path and value of each."""
    if isinstance(data, LazyStackedTensorDict):
        return [(path, data)]
    return [
        found
        for name, value in raw_entries(data).items()
        if not is_non_tensor(value) and is_branch(value)
        for found in lazy_branches(value, (*path, name))
    ]


def gaps_of(data: LazyStackedTensorDict, dims: int) -> dict[Path, np.ndarray]:
    """Find the entries of a lazy stack that some steps lack; return for each the flags of the steps that have it.

    The flags have shape ``data.batch_size[:dims]``.

    Example:
        >>> from tensordict import TensorDict, lazy_stack
        >>> gaps_of(lazy_stack([TensorDict({"a": torch.zeros(1)}), TensorDict()]), 1)
        {('a',): array([ True, False])}
    """
    there = _keys_of(data, dims)
    names = sorted(set().union(*there.ravel()))
    found = {name: np.array([name in keys for keys in there.ravel()]).reshape(there.shape) for name in names}
    return {name: flags for name, flags in found.items() if not flags.all()}


def _keys_of(data: TensorDictBase, dims: int) -> np.ndarray:
    """The keys of the leaves of each element."""
    if isinstance(data, LazyStackedTensorDict) and data.stack_dim < dims:
        return np.stack([_keys_of(piece, dims - 1) for piece in data.tensordicts], data.stack_dim)
    count = data.batch_size[:dims].numel()
    return _objects([frozenset(map(as_tuple, leaf_keys(data)))] * count, data.batch_size[:dims])

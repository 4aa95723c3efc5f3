"""Entries of lazy stacks that fit into no one tensor: their values step by step, and keys that come and go."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tensordict import LazyStackedTensorDict, TensorDictBase, is_non_tensor

from rlnb._tensordict import raw_entries
from rlnb.data.ted.keys import as_tuple
from rlnb.data.ted.leaves import is_branch, leaf_keys

Path = tuple[str, ...]


class Rows(list[Any]):
    """A tensor for each row, of sizes that differ from row to row.

    A row whose own parts differ, such as agents with observations of their own, is a list of tensors.
    """


def values_of(data: TensorDictBase, name: str, dims: int) -> np.ndarray:
    """Read an entry element by element, whatever the sizes.

    Args:
        data: a TensorDict, lazily stacked or not.
        name: of the entry.
        dims: how many of its batch dimensions to take apart.

    Returns:
        An array of objects of shape ``data.batch_size[:dims]``: tensors, None where the entry is missing, or a list
        where the value itself is a stack of differing sizes.

    Raises:
        TypeError: if the entry is not a tensor everywhere.

    Example:
        >>> from tensordict import TensorDict, lazy_stack
        >>> stack = lazy_stack([TensorDict({"a": torch.zeros(n)}) for n in (1, 3)])
        >>> [value.shape for value in values_of(stack, "a", 1)]
        [torch.Size([1]), torch.Size([3])]
    """
    if isinstance(data, LazyStackedTensorDict):
        try:
            value = data.get(name)
        except (RuntimeError, AttributeError):  # sizes or kinds that differ
            value = None
        if value is None:
            return _of_pieces(data, name, dims)
    else:
        value = data.get(name)
    if value is None:
        return _objects([None] * data.batch_size[:dims].numel(), data.batch_size[:dims])
    if not isinstance(value, torch.Tensor):
        raise TypeError(
            f"The entry {name!r} is a tensor in some of the stacked TensorDicts and none in others. "
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


def rows_of(data: TensorDictBase, name: str, dims: int) -> Rows:
    """Read an entry row by row.

    Args:
        data: a TensorDict, lazily stacked or not.
        name: of the entry.
        dims: its batch dimensions, flattened to rows.

    Returns:
        The value of each row.

    Raises:
        TypeError: if the entry is not a tensor everywhere.
    """
    return Rows(values_of(data, name, dims).reshape(-1).tolist())


def padded(rows: Rows) -> torch.Tensor | Rows:
    """Fill rows up to one size with zeros.

    Args:
        rows: of differing sizes.

    Returns:
        A tensor, or the rows themselves if they differ in more than their sizes.

    Example:
        >>> padded(Rows([torch.tensor([True]), torch.tensor([True, True])]))
        tensor([[ True, False],
                [ True,  True]])
    """
    if len({kind_of(row) for row in rows}) > 1 or not isinstance(rows[0], torch.Tensor):
        return rows
    sizes = [max(along) for along in zip(*(row.shape for row in rows), strict=True)]
    out = rows[0].new_zeros(len(rows), *sizes)
    for place, row in zip(out, rows, strict=True):
        place[tuple(map(slice, row.shape))] = row
    return out


def kind_of(row: Any) -> Any:
    """What rows that differ in nothing but their sizes have in common.

    Args:
        row: of :class:`Rows`.

    Returns:
        The number of dimensions and the dtype; of a list, those of its parts; None for nothing.

    Example:
        >>> kind_of(torch.zeros(2, 3)) == kind_of(torch.zeros(5, 1))
        True
    """
    if isinstance(row, list):
        return tuple(map(kind_of, row))
    return None if row is None else (row.dim(), row.dtype)


def lazy_branches(data: TensorDictBase, path: Path = ()) -> list[tuple[Path, LazyStackedTensorDict]]:
    """Find the lazy stacks in a TensorDict.

    Args:
        data: where to look.
        path: put before the paths.

    Returns:
        Where each stands, and what stands there; nothing from inside a lazy stack.

    Example:
        >>> from tensordict import TensorDict, lazy_stack
        >>> [path for path, _ in lazy_branches(TensorDict({"a": lazy_stack([TensorDict()])}))]
        [('a',)]
    """
    if isinstance(data, LazyStackedTensorDict):
        return [(path, data)]
    return [
        found
        for name, value in raw_entries(data).items()
        if not is_non_tensor(value) and is_branch(value)
        for found in lazy_branches(value, (*path, name))
    ]


def gaps_of(data: LazyStackedTensorDict, dims: int) -> dict[Path, np.ndarray]:
    """Find the entries that come and go.

    Args:
        data: a lazy stack.
        dims: how many of its batch dimensions to take apart.

    Returns:
        For each entry that is missing somewhere, where it is there: flags of shape ``data.batch_size[:dims]``.

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

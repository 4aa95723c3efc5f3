"""Columns: the entries of a TensorDict over its flattened batch, and TensorDicts built from columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from tensordict import LazyStackedTensorDict, NonTensorData, NonTensorStack, TensorDict, TensorDictBase, is_non_tensor

from rlnb._tensordict import raw_entries
from rlnb.data.ted.keys import as_key, nested_dict
from rlnb.data.ted.leaves import is_branch
from rlnb.data.ted.ragged import Path, RaggedColumn, ragged_column


@dataclass(frozen=True)
class Constant:
    """A column of non-tensor data that is the same in all rows."""

    value: Any


# A tensor [rows, ...]; a list with one value per row (a RaggedColumn of tensors); or one value for all rows.
Column: TypeAlias = torch.Tensor | list[Any] | Constant


@dataclass(frozen=True)
class Branch:
    """A nested TensorDict: its path, its batch dimensions beyond those of the root, and the names of all, if any."""

    path: Path
    extra: tuple[int, ...] = ()
    names: tuple[str | None, ...] | None = None

    def renamed(self, names: Sequence[str | None], dims: int) -> Branch:
        """Return the branch of a TensorDict with other batch dimensions instead of the first ``dims``."""
        extra = self.names[dims:] if self.names else (None,) * len(self.extra)
        return Branch(self.path, self.extra, (*names, *extra) if any((*names, *extra)) else None)


def alike(one: Column | None, other: Column | None) -> bool:
    """Whether two columns are tensors of the same shape and dtype."""
    return (
        isinstance(one, torch.Tensor)
        and isinstance(other, torch.Tensor)
        and one.shape == other.shape
        and one.dtype == other.dtype
    )


def read_columns(data: TensorDictBase, varying: bool = False) -> tuple[dict[Path, Column], list[Branch]]:
    """Split a TensorDict into the columns of its leaves, by path, and its branches, root first.

    In a column, the batch is flattened to one dimension; leaves of a TensorDict of batch size ``[]`` stay unchanged.
    A lazy stack is made contiguous; but with ``varying``, the column of an entry that varies in shape is a
    :class:`~rlnb.data.ted.ragged.RaggedColumn`.

    Raises:
        ValueError: If lazily stacked entries differ in shape without ``varying``.
        TypeError: If a leaf is neither a tensor nor non-tensor data.

    Example:
        >>> data = TensorDict({"a": {"b": torch.zeros(2, 3, 4)}}, batch_size=[2, 3])
        >>> columns, branches = read_columns(data)
        >>> {path: tuple(column.shape) for path, column in columns.items()}, [branch.path for branch in branches]
        ({('a', 'b'): (6, 4)}, [(), ('a',)])
    """
    columns: dict[Path, Column] = {}
    branches: list[Branch] = []
    _read(data, (), data.batch_dims, columns, branches, varying)
    return columns, branches


def _read(
    data: TensorDictBase,
    path: Path,
    batch_dims: int,
    columns: dict[Path, Column],
    branches: list[Branch],
    varying: bool,
) -> None:
    lazy = varying and isinstance(data, LazyStackedTensorDict)
    data = data if lazy else _stacked(data, path)
    names = tuple(data.names) if data.batch_dims else ()
    named = any(name is not None for name in names)
    branches.append(Branch(path, tuple(data.batch_size[batch_dims:]), names if named else None))
    for name, value in (_lazy_entries(data, batch_dims) if lazy else raw_entries(data)).items():
        where = (*path, name)
        if isinstance(value, torch.Tensor) and not value.is_nested:
            columns[where] = value.flatten(0, batch_dims - 1) if batch_dims > 1 else value
        elif isinstance(value, RaggedColumn):
            columns[where] = value
        elif is_non_tensor(value):
            columns[where] = _values(value, batch_dims)
        elif is_branch(value):
            _read(value, where, batch_dims, columns, branches, varying)
        else:
            kind = "a nested tensor" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
            raise TypeError(
                f"The entry {as_key(where)!r} is {kind}. Steps may hold tensors, TensorDicts and non-tensor data such "
                f"as strings. Fix: leave it out with data.exclude({as_key(where)!r}), or convert it."
            )


def _lazy_entries(data: TensorDictBase, batch_dims: int) -> dict[str, Any]:
    """The entries of a lazy stack, ragged where the rows do not stack."""
    found = {}
    for name in data.keys():  # noqa: SIM118 - iterating a TensorDict iterates its rows
        try:
            found[name] = data.get(name)
        except (RuntimeError, AttributeError):  # shapes or types differ
            found[name] = ragged_column(data, name, batch_dims)
    return found


def _stacked(data: TensorDictBase, path: Path) -> TensorDictBase:
    """Make a lazy stack contiguous."""
    if not isinstance(data, LazyStackedTensorDict):
        return data
    try:
        return data.contiguous()
    except RuntimeError as error:
        where = f"under {as_key(path)!r} " if path else ""
        raise ValueError(
            f"The data {where}is a lazy stack whose entries differ in shape from row to row, so they do not fit into "
            "one tensor. Fix: pad them to one shape, or leave them out with data.exclude(...). "
            f"({str(error).splitlines()[0]})"
        ) from error


def _values(value: Any, batch_dims: int) -> list[Any] | Constant:
    """The values of non-tensor data, with the batch flattened and further dimensions nested."""
    if isinstance(value, NonTensorData):
        return Constant(value.data)
    values = value.tolist()
    for _ in range(batch_dims - 1):
        values = [item for row in values for item in row]
    return values


def build(
    columns: Mapping[Path, Column],
    batch_size: Sequence[int],
    branches: Sequence[Branch] = (),
    device: torch.device | None = None,
) -> TensorDict:
    """Build a TensorDict of a batch size from columns, whose memory its tensors share; undoes :func:`read_columns`.

    ``branches`` describes the nested TensorDicts with further batch dimensions or names; all others have neither.

    Example:
        >>> build({("a", "b"): torch.zeros(6, 4)}, [2, 3])["a", "b"].shape
        torch.Size([2, 3, 4])
    """
    known = {branch.path: branch for branch in branches}
    empty: dict[Path, Any] = {path: {} for path in sorted(known, key=len) if path}
    return _build(nested_dict({**empty, **columns}), (), tuple(batch_size), known, device)


def _build(
    tree: dict[str, Any], path: Path, batch: tuple[int, ...], known: dict[Path, Branch], device: torch.device | None
) -> TensorDict:
    branch = known.get(path, Branch(path))
    whole = (*batch, *branch.extra)
    entries: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            value = _build(value, (*path, name), batch, known, device)
        elif isinstance(value, torch.Tensor):
            value = value.reshape(*batch, *value.shape[1:]) if len(batch) > 1 else value
        elif isinstance(value, Constant):
            value = NonTensorData(value.value, batch_size=whole)
        elif isinstance(value, list):  # nested already for the further batch dimensions
            for size in reversed(batch[1:]):
                value = [value[start : start + size] for start in range(0, len(value), size)]
            value = stack_values(value, len(whole))
        entries[name] = value
    return TensorDict(entries, whole, names=branch.names, device=device)  # type: ignore[arg-type]


def stack_values(values: list[Any], dims: int = 1) -> Any:
    """Stack non-tensor data, nested ``dims`` deep, without interpreting it: a value that is a list stays one value."""
    if dims == 0:
        return NonTensorData(values)
    return NonTensorStack(*[stack_values(value, dims - 1) for value in values])

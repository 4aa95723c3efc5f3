"""Abstract base class of forms, which take one kind of data apart into leaves and put it together again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from rlnb.data.replay_buffers import errors
from rlnb.data.replay_buffers.errors import MismatchError
from rlnb.data.ted.keys import NestedKey


class Leaf(NamedTuple):
    """Key, shape and dtype of a leaf in one item; the dtype is ``None`` for Python objects.

    Example:
        >>> from rlnb.data.replay_buffers.forms.tree_form import form_of
        >>> form_of({"a": torch.zeros(5, 3)}, 1).leaves
        [Leaf(key=('a',), shape=torch.Size([3]), dtype=torch.float32)]
    """

    key: NestedKey
    shape: torch.Size
    dtype: torch.dtype | None


class Form(ABC):
    """Abstract base class of the form that all items of a storage share, learned from the first one.

    A form takes data apart into a list of leaves, always in the same order, and puts leaves together again. It raises
    for data of another form, and names the entry that differs. It is learned from ``data``, an item or a batch of items
    that starts with ``ndim`` dimensions.

    Attributes:
        leaves: Leaves of one item.
        element_dims: Number of dimensions of the batch size of one item; 0 if it is not a TensorDict.
        device: Device of the TensorDicts that :meth:`build` makes.

    Example:
        >>> from rlnb.data.replay_buffers.forms.tree_form import form_of
        >>> data = {"a": torch.zeros(2), "b": torch.ones(2)}
        >>> form = form_of(data, 1)
        >>> form.build(form.take_apart(data, (2,)), torch.Size([2]))
        {'a': tensor([0., 0.]), 'b': tensor([1., 1.])}
    """

    leaves: list[Leaf]
    element_dims: int = 0
    device: torch.device | None = None

    def _learn(self, leaves: list[Leaf]) -> None:
        self.leaves = leaves
        self._dtypes = [leaf.dtype for leaf in leaves]
        self._expected: tuple[tuple[int, ...], list[Any]] = ((), [leaf.shape for leaf in leaves])
        self._objects = any(leaf.dtype is None for leaf in leaves)

    @abstractmethod
    def _take_apart(self, data: Any) -> list[Any]:
        """Return the leaves of ``data``; raises ``LookupError`` or ``TypeError`` if it has another structure."""

    def _take_each_apart(self, items: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return, for each leaf, that leaf of every item; see :meth:`_take_apart`."""
        return list(zip(*map(self._take_apart, items), strict=True))

    @abstractmethod
    def build(self, leaves: Sequence[Any], lead: torch.Size) -> Any:
        """Put leaves together, one for each of ``self.leaves``, of shape ``[*lead, *leaf.shape]``."""

    @abstractmethod
    def lead(self, data: Any, ndim: int) -> torch.Size:
        """Return the first ``ndim`` dimensions of a batch of items; raises ``ValueError`` if there are fewer."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Describe the form in plain values; :func:`~.form_from` reads them."""

    @abstractmethod
    def _keys(self, data: Any) -> list[NestedKey]:
        """Return the keys of the leaves of any data, for error messages."""

    def take_apart(self, data: Any, lead: tuple[int, ...]) -> list[Any]:
        """Check that data has this form, and return its leaves.

        Args:
            data: An item, or a batch of items.
            lead: Dimensions of the batch; none for a single item.

        Raises:
            ValueError: If keys, shapes or dtypes differ from what is stored; the error lists them.
        """
        try:
            leaves = self._take_apart(data)
        except (LookupError, TypeError, AttributeError):
            raise self._mismatch(data, lead) from None
        if self._objects:
            fits = all(map(_fits, leaves, self.leaves, [lead] * len(leaves)))
        else:
            fits = [leaf.shape for leaf in leaves] == self.expected(lead) and [
                leaf.dtype for leaf in leaves
            ] == self._dtypes
        if not fits:
            raise self._mismatch(data, lead)
        return leaves

    def expected(self, lead: tuple[int, ...]) -> list[torch.Size]:
        """Return the shapes of the leaves of a batch of the dimensions ``lead``."""
        known, shapes = self._expected
        if known != lead:
            shapes = [torch.Size((*lead, *leaf.shape)) for leaf in self.leaves]
            self._expected = (tuple(lead), shapes)
        return shapes

    def _mismatch(self, data: Any, lead: tuple[int, ...]) -> ValueError:
        """Return an error that lists how data differs from what is stored."""
        stored, given = [leaf.key for leaf in self.leaves], self._keys(data)
        if set(stored) != set(given):
            return MismatchError(_other_keys(stored, given, type(data).__name__))
        try:
            leaves = self._take_apart(data)
        except (LookupError, TypeError, AttributeError):
            return MismatchError(
                f"The data has the keys that are stored, but in other containers: stored is a {self._name()}, and got "
                f"a {type(data).__name__}. Nothing was written. "
                "Fix: nest dictionaries, lists, tuples and TensorDicts as in the data written first."
            )
        differ = [
            (leaf.key, shape, leaf.dtype, value)
            for leaf, shape, value in zip(self.leaves, self.expected(lead), leaves, strict=True)
            if not _fits(value, leaf, lead)
        ]
        return MismatchError(_other_leaves(differ, lead))

    def _name(self) -> str:
        """Return what the data is, for error messages."""
        return "TensorDict"

    def put_on(self, device: torch.device | None) -> None:
        """Set the device of the TensorDicts that :meth:`build` makes."""
        self.device = device


def _fits(value: Any, leaf: Leaf, lead: tuple[int, ...]) -> bool:
    if leaf.dtype is None:
        return not isinstance(value, torch.Tensor)
    return isinstance(value, torch.Tensor) and value.shape == (*lead, *leaf.shape) and value.dtype == leaf.dtype


def as_leaf(value: Any) -> torch.Tensor:
    """Turn a leaf of a PyTree, a tensor, array or number, into a tensor, which shares the memory of an array.

    Example:
        >>> as_leaf(2.5)
        tensor(2.5000)
    """
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, (np.ndarray, np.generic, bool, int, float, complex)):
        return torch.as_tensor(value)
    raise TypeError(
        f"A contiguous storage holds tensors, arrays and numbers, and got a {type(value).__name__}. "
        "Fix: use ListStorage, which holds any object, or put the value into a TensorDict as non-tensor data."
    )


def _other_keys(stored: Sequence[NestedKey], given: Sequence[NestedKey], kind: str) -> str:
    if not given or stored == [()] or given == [()]:
        held = "bare tensors" if list(stored) == [()] else f"data with the keys {errors.listed(stored)}"
        return (
            f"The storage holds {held}, and got a {kind}. Nothing was written. "
            "Fix: give data of the form that was stored first, or use another buffer."
        )
    missing = [key for key in stored if key not in set(given)]
    new = [key for key in given if key not in set(stored)]
    parts = [f"missing: {errors.listed(missing)}"] if missing else []
    parts += [f"not stored before: {errors.listed(new)}"] if new else []
    return (
        f"The data has other keys than what is stored ({'; '.join(parts)}). Nothing was written. "
        "The first data written decides the keys. "
        "Fix: give every key each time, for example with data.select(...), or use another buffer."
    )


def _other_leaves(differ: Sequence[tuple[NestedKey, Sequence[int], Any, Any]], lead: Sequence[int]) -> str:
    lines = []
    for key, shape, dtype, value in differ[: errors.MAX_LISTED]:
        got = errors.looks(value.shape, value.dtype) if isinstance(value, torch.Tensor) else errors.looks((), None)
        label = "" if key == () else f"{key!r}: "
        lines.append(f"\n  {label}expected {errors.looks(shape, dtype)}, got {got}")
    more = f"\n  and {len(differ) - errors.MAX_LISTED} more" if len(differ) > errors.MAX_LISTED else ""
    many = f" (batch {list(lead)})" if lead else ""
    return (
        f"The data does not fit what is stored{many}. Nothing was written.{''.join(lines)}{more}\n"
        "The first data written decides shapes and dtypes. Fix: convert the data, or use another buffer."
    )

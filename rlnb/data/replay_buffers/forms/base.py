"""Form: how one kind of data falls into leaves, and what every element of a storage looks like."""

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
    """What a leaf looks like in one element: its key, its shape and its dtype (None: Python objects)."""

    key: NestedKey
    shape: torch.Size
    dtype: torch.dtype | None


class Form(ABC):
    """The form that all elements of a storage share, learned from the first one.

    A form takes data apart into a list of leaves, always in the same order, and puts leaves together again. It refuses
    data of another form with the entry that differs.

    Attributes:
        leaves: what the leaves of one element look like.
        element_dims: how many dimensions the batch size of one element has; 0 where it is no TensorDict.
        device: of the TensorDicts that :meth:`build` makes.
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
        """Return the leaves of ``data``; raise ``LookupError`` or ``TypeError`` if its structure is another one."""

    def _take_each_apart(self, items: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return a column for each leaf, with that leaf of each item; see :meth:`_take_apart`."""
        return list(zip(*map(self._take_apart, items), strict=True))

    @abstractmethod
    def build(self, leaves: Sequence[Any], lead: torch.Size) -> Any:
        """Put leaves together.

        Args:
            leaves: one for each of ``self.leaves``, of shape ``[*lead, *leaf.shape]``.
            lead: the dimensions of the batch in front of an element; none for a single element.

        Returns:
            The data.
        """

    @abstractmethod
    def lead(self, data: Any, ndim: int) -> torch.Size:
        """Read the first ``ndim`` dimensions of a batch of elements.

        Args:
            data: the batch.
            ndim: how many.

        Returns:
            The sizes.

        Raises:
            ValueError: if there are fewer.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Describe the form in plain values that JSON can hold; :func:`~.form_from` reads them."""

    @abstractmethod
    def _keys(self, data: Any) -> list[NestedKey]:
        """List the keys of the leaves of any data, for error messages."""

    def take_apart(self, data: Any, lead: tuple[int, ...]) -> list[Any]:
        """Take data apart, after checking that it has this form.

        Args:
            data: an element, or a batch of them.
            lead: the dimensions of the batch; none for an element.

        Returns:
            Its leaves; those of Python objects as they stand in the data.

        Raises:
            ValueError: if a key, shape or dtype differs from what is stored, with all that do.
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
        """Return the shapes of the leaves of a batch.

        Args:
            lead: the dimensions of the batch.

        Returns:
            A shape for each leaf.
        """
        known, shapes = self._expected
        if known != lead:
            shapes = [torch.Size((*lead, *leaf.shape)) for leaf in self.leaves]
            self._expected = (tuple(lead), shapes)
        return shapes

    def _mismatch(self, data: Any, lead: tuple[int, ...]) -> ValueError:
        """Say in what data differs from what is stored."""
        stored, given = [leaf.key for leaf in self.leaves], self._keys(data)
        if set(stored) != set(given):
            return MismatchError(errors.other_keys(stored, given, type(data).__name__))
        try:
            leaves = self._take_apart(data)
        except (LookupError, TypeError, AttributeError):
            return MismatchError(errors.other_structure(self._name(), type(data).__name__))
        differ = [
            (leaf.key, shape, leaf.dtype, value)
            for leaf, shape, value in zip(self.leaves, self.expected(lead), leaves, strict=True)
            if not _fits(value, leaf, lead)
        ]
        return MismatchError(errors.other_leaves(differ, lead))

    def _name(self) -> str:
        """Say what the data is, for error messages."""
        return "TensorDict"

    def put_on(self, device: torch.device | None) -> None:
        """Say where the leaves are that :meth:`build` gets.

        Args:
            device: of the TensorDicts that it makes.
        """
        self.device = device

    @property
    def row_bytes(self) -> int:
        """How many bytes the tensors of one element have."""
        return sum(leaf.shape.numel() * leaf.dtype.itemsize for leaf in self.leaves if leaf.dtype is not None)


def _fits(value: Any, leaf: Leaf, lead: tuple[int, ...]) -> bool:
    if leaf.dtype is None:
        return not isinstance(value, torch.Tensor)
    return isinstance(value, torch.Tensor) and value.shape == (*lead, *leaf.shape) and value.dtype == leaf.dtype


def as_leaf(value: Any) -> torch.Tensor:
    """Turn a leaf of a PyTree into a tensor.

    Args:
        value: a tensor, a numpy array or a number.

    Returns:
        The tensor; it shares the memory of a numpy array.

    Raises:
        TypeError: if it is something else.

    Example:
        >>> as_leaf(2.5)
        tensor(2.5000)
    """
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, (np.ndarray, np.generic, bool, int, float, complex)):
        return torch.as_tensor(value)
    raise TypeError(errors.no_tensor(value))

"""ReshapableSpec: copies of a one-tensor spec with another shape, dtype or device."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.normalize import Device, Shape, as_device, as_dtype, as_size, as_sizes, leading_dim, leading_index
from rlnb.data.specs.variable import TensorMap, map_field, map_rows, map_size, shape_text


class ReshapableSpec(TensorSpec):
    """A spec whose fields follow its shape: expand, squeeze, unsqueeze, index, stack, move and cast."""

    #: Attributes that tell this spec from others of its class, beside shape, dtype and device.
    _fields: ClassVar[tuple[str, ...]] = ()
    #: Those of ``_fields`` that are tensors of the spec's leading shape and follow its shape operations.
    _shaped: ClassVar[tuple[str, ...]] = ()
    #: Those of ``_fields`` that have one more dim behind it: a row for each entry. None where there are no rows.
    _rowed: ClassVar[tuple[str, ...]] = ()

    def _prepare(self) -> None:
        """Recompute what is derived from the fields. Called after any of them changed."""

    def _with(self, **fields: Any) -> Self:
        new = copy.copy(self)
        for name, field in fields.items():
            setattr(new, name, field)
        new._prepare()
        return new

    def _mapped(self, fn: TensorMap) -> Self:
        ndim = self.ndim - self._event_dims
        lead = self._shape[:ndim]
        new = map_size(fn, lead)
        fields = {name: map_field(fn, getattr(self, name), lead, new) for name in self._shaped}
        rows = {name: getattr(self, name) for name in self._rowed}
        fields.update({name: map_rows(fn, field, lead, new) for name, field in rows.items() if field is not None})
        return self._with(_shape=torch.Size((*new, *self._shape[ndim:])), **fields)

    def clone(self) -> Self:
        """Return an independent copy."""
        tensors = {name: getattr(self, name) for name in self._fields}
        return self._with(**{k: t.clone() for k, t in tensors.items() if isinstance(t, torch.Tensor)})

    def to(self, dest: torch.dtype | Device) -> Self:
        """Return the spec with another dtype or on another device.

        Args:
            dest: a ``torch.dtype``, or a device.

        Example:
            >>> from rlnb.data import Bounded
            >>> Bounded(-1, 1, shape=(3,)).to(torch.float64).dtype
            torch.float64
        """
        if isinstance(dest, torch.dtype):
            return self if dest == self._dtype else self._to_dtype(as_dtype(dest, dest))
        device = as_device(dest)
        if device == self._device:
            return self
        tensors = {name: getattr(self, name) for name in self._fields}
        moved = {k: t.to(device) for k, t in tensors.items() if isinstance(t, torch.Tensor)}
        return self._with(_device=device, **moved)

    def _to_dtype(self, dtype: torch.dtype) -> Self:
        return self._with(_dtype=dtype)

    def _become(self, other: TensorSpec) -> None:
        """Take over everything of another spec: what assignments to ``shape``, ``dtype`` and ``device`` do."""
        self.__class__ = type(other)  # type: ignore[assignment]  # a Bounded of another dtype is of another class
        self.__dict__ = other.__dict__

    @property
    def shape(self) -> torch.Size:
        """The shape of one value. A shape that is assigned is one that `expand` or `reshape` leads to."""
        return self._shape

    @shape.setter
    def shape(self, shape: Shape) -> None:
        size = as_size(shape)
        if not self._fields and not self._event_dims:  # all entries are described alike
            self._become(self._with(_shape=size))
            return
        try:
            self._become(self.expand(*size))
        except ValueError:
            self._become(self.reshape(*size).clone())

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype of the values. Assigning another one casts the bounds; see `to`."""
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: torch.dtype) -> None:
        self._become(self.to(dtype).clone())

    @property
    def device(self) -> torch.device | None:
        """The device of the values. Assigning another one moves the bounds and masks; see `to`."""
        return self._device

    @device.setter
    def device(self, device: Device) -> None:
        self._become(self.to(device).clone())

    def make_neg_dim(self, dim: int) -> Self:
        """Make the dim ``dim`` one of variable size (-1), in place.

        Args:
            dim: the dim, not one of an encoding.

        Returns:
            The spec.

        Raises:
            IndexError: there is no such dim, or it holds the encoding.
            ValueError: the bounds, choices or masks differ along the dim.

        Example:
            >>> from rlnb.data import Unbounded
            >>> Unbounded((2, 3)).make_neg_dim(0).shape
            torch.Size([-1, 3])
        """
        at = leading_dim(dim, self.ndim, self._event_dims, f"{type(self).__name__}.make_neg_dim")
        row = self[(*[slice(None)] * at, slice(0, 1))]
        if row.expand(*self._shape) != self:
            raise ValueError(
                f"{type(self).__name__}.make_neg_dim: the spec differs along dim {dim}, so that it does not say what a "
                "value of another size may be. Choose a dim along which all entries are described alike."
            )
        self._become(row._with(_shape=torch.Size((*self._shape[:at], -1, *self._shape[at + 1 :]))))
        return self

    def expand(self, *shape: Any) -> Self:
        """Return the spec with leading dims added or stretched.

        Args:
            *shape: the whole new shape; -1 keeps a dim.

        Raises:
            ValueError: the spec's shape does not stretch to it.

        Example:
            >>> from rlnb.data import OneHot
            >>> OneHot(4).expand(2, 4).shape
            torch.Size([2, 4])
        """
        sizes = as_sizes(shape)
        event = self._shape[self.ndim - self._event_dims :]
        lead, tail = sizes[: len(sizes) - len(event)], sizes[len(sizes) - len(event) :]
        try:
            if any(new not in (-1, old) for new, old in zip(tail, event, strict=True)):
                raise RuntimeError
            return self._mapped(lambda tensor: tensor.expand(lead))
        except (RuntimeError, ValueError):
            raise ValueError(
                f"{type(self).__name__} of shape {shape_text(self._shape)} does not expand to {shape_text(sizes)}: the "
                f"new shape must end with {shape_text(self._shape)}, where only dims of size 1 may change."
            ) from None

    def squeeze(self, dim: int | None = None) -> Self:
        """Return the spec without the dim ``dim`` if its size is 1, or without all dims of size 1.

        Raises:
            IndexError: there is no such dim, or it holds the encoding.
        """
        if dim is None:
            return self._mapped(torch.squeeze)
        at = leading_dim(dim, self.ndim, self._event_dims, f"{type(self).__name__}.squeeze")
        return self._mapped(lambda tensor: tensor.squeeze(at))

    def unsqueeze(self, dim: int) -> Self:
        """Return the spec with a dim of size 1 put in at ``dim``.

        Raises:
            IndexError: there is no such place, or it is inside the encoding.
        """
        at = leading_dim(dim, self.ndim, self._event_dims, f"{type(self).__name__}.unsqueeze", insert=True)
        return self._mapped(lambda tensor: tensor.unsqueeze(at))

    def __getitem__(self, index: Any) -> Self:
        parts = leading_index(index, self.ndim - self._event_dims)
        return self._mapped(lambda tensor: tensor[parts])

    def _stack(self, others: Sequence[TensorSpec], dim: int) -> Self:
        at = leading_dim(dim, self.ndim, self._event_dims, "torch.stack", insert=True)
        new = self.unsqueeze(at)
        return new.expand(*new.shape[:at], len(others) + 1, *new.shape[at + 1 :])

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return False
        assert isinstance(other, ReshapableSpec)
        if (self._shape, self._dtype, self._device) != (other._shape, other._dtype, other._device):
            return False
        return all(_same(getattr(self, name), getattr(other, name)) for name in self._fields)

    def __hash__(self) -> int:
        return hash((type(self), self._shape, self._dtype, self._device, self._hash_key()))

    def _hash_key(self) -> Any:
        """Return what tells this spec from others of its kind and never changes: a mask is left out, for it does."""
        return None


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor):
        return isinstance(second, torch.Tensor) and torch.equal(first, second)
    return bool(first == second)

"""CompositeShapes: copies of a Composite with another batch size, dtype or device."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Self

import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite_subsets import CompositeSubsets
from rlnb.data.specs.normalize import Device, Shape, as_device, as_size, as_sizes, leading_dim, leading_index
from rlnb.data.specs.variable import TensorMap, map_size, shape_text
from rlnb.data.specs.violations import format_key


class CompositeShapes(CompositeSubsets):
    """The shape side of `Composite`: what is done to it is done to every entry."""

    def _rebuilt(self, shape: torch.Size, change: Callable[[TensorSpec], TensorSpec]) -> Self:
        new = copy.copy(self)
        new._shape, new._locked, new._owners = shape, False, ()
        new._specs = {key: None if spec is None else change(spec) for key, spec in self._specs.items()}
        return new

    def clone(self) -> Self:
        """Return an independent, unlocked copy."""
        return self._rebuilt(self._shape, lambda spec: spec.clone())

    @property
    def shape(self) -> torch.Size:
        """The batch size that all entries lead with. Setting it keeps the entries, which must lead with it."""
        return self._shape

    @shape.setter
    def shape(self, shape: Shape) -> None:
        size = as_size(shape)
        self._refuse_if_locked(f"set its batch size to {list(size)}")
        self._refuse_size(size, ())
        self._set_size(size)

    @property
    def batch_size(self) -> torch.Size:
        """The batch size that all entries lead with (another name of ``shape``)."""
        return self._shape

    @batch_size.setter
    def batch_size(self, shape: Shape) -> None:
        self.shape = shape

    def _refuse_size(self, size: torch.Size, prefix: tuple[str, ...]) -> None:
        for name, spec in self._specs.items():
            path = (*prefix, name)
            if isinstance(spec, CompositeShapes):
                spec._refuse_size(size, path)
            elif spec is not None and spec.shape[: len(size)] != size:
                raise ValueError(
                    f"{format_key(path)}: expected a shape that begins with {list(size)}, the new batch size of the "
                    f"Composite, got {list(spec.shape)}. Set a batch size that all entries lead with, or expand the "
                    "Composite: spec.expand(...)."
                )

    def _led_by(self, size: torch.Size) -> Self:
        if self._shape != size[: self.ndim]:
            return self
        leads = [spec.shape[: len(size)] == size for spec in self.values(True, True) if spec is not None]
        if all(leads):
            new = self.clone()
            new._set_size(size)
            return new
        return self if self.ndim or any(leads) else self.expand(size)

    def _set_size(self, size: torch.Size) -> None:
        for spec in self._specs.values():
            # A nested Composite may name more of its dims than its owner does.
            if isinstance(spec, CompositeShapes) and spec.shape[: len(size)] != size:
                spec._set_size(size)
        self._shape = size

    @property
    def device(self) -> torch.device | None:
        """Where all entries live; None where each says it itself. Setting it moves the entries."""
        return self._device

    @device.setter
    def device(self, device: Device) -> None:
        self._refuse_if_locked(f"set its device to {device}")
        if device is None:
            self._forget_device()
        else:
            moved = self.to(as_device(device))
            self._device = moved._device
            self._adopt(moved)

    def _forget_device(self) -> None:
        self._device = None
        for spec in self._specs.values():
            if isinstance(spec, CompositeShapes):
                spec._forget_device()

    def clear_device_(self) -> Self:
        """Say nothing about the device any more, here and in nested Composites; the leaves stay where they are."""
        self.device = None
        return self

    def to(self, dest: torch.dtype | Device) -> Self:
        """Return the spec with its entries on another device, or its floating entries in another floating dtype.

        Args:
            dest: a device, or a floating dtype (as for ``torch.nn.Module.to``, integers and booleans keep theirs).

        Raises:
            TypeError: the dtype is not a floating one.
        """
        if isinstance(dest, torch.dtype):
            if not dest.is_floating_point:
                raise TypeError(f"Composite.to changes floating entries only, got {dest}. Change the entry itself.")

            def cast(spec: TensorSpec) -> TensorSpec:
                floating = spec.dtype is not None and spec.dtype.is_floating_point
                return spec.to(dest) if floating or isinstance(spec, CompositeShapes) else spec.clone()

            return self._rebuilt(self._shape, cast)
        device = as_device(dest)
        # A leaf that is there already would be shared, and with it its mask.
        new = self._rebuilt(self._shape, lambda spec: spec.clone().to(device))
        new._device = device
        return new

    def expand(self, *shape: Any) -> Self:
        """Return the spec with batch dims added or stretched, in each entry too.

        Args:
            *shape: the whole new batch size; -1 keeps a dim.

        Raises:
            ValueError: the batch size does not stretch to it.
        """
        sizes = as_sizes(shape)
        try:
            size = map_size(lambda tensor: tensor.expand(sizes), self._shape)
        except RuntimeError:
            raise ValueError(
                f"Composite of shape {shape_text(self._shape)} does not expand to {list(sizes)}: the new shape must "
                f"end with {shape_text(self._shape)}, where only dims of size 1 may change."
            ) from None
        return self._rebuilt(size, lambda spec: spec.expand(*size, *spec.shape[self.ndim :]))

    def squeeze(self, dim: int | None = None) -> Self:
        """Return the spec without the batch dim ``dim`` if its size is 1, or without all of size 1."""
        if dim is None:
            new = self
            for at in reversed([i for i, length in enumerate(self._shape) if length == 1]):
                new = new.squeeze(at)
            return new
        at = leading_dim(dim, self.ndim, 0, "Composite.squeeze")
        if self._shape[at] != 1:
            return self
        return self._rebuilt(self._shape[:at] + self._shape[at + 1 :], lambda spec: spec.squeeze(at))

    def unsqueeze(self, dim: int) -> Self:
        """Return the spec with a batch dim of size 1 put in at ``dim``, in each entry too."""
        at = leading_dim(dim, self.ndim, 0, "Composite.unsqueeze", insert=True)
        size = torch.Size((*self._shape[:at], 1, *self._shape[at:]))
        return self._rebuilt(size, lambda spec: spec.unsqueeze(at))

    def _mapped(self, fn: TensorMap) -> Self:
        return self._rebuilt(map_size(fn, self._shape), lambda spec: spec._mapped(fn))

    def _indexed(self, index: Any) -> Self:
        parts = leading_index(index, self.ndim)
        size = map_size(lambda tensor: tensor[parts], self._shape)
        return self._rebuilt(size, lambda spec: spec[parts])

    def _stack(self, others: Sequence[TensorSpec], dim: int) -> Self:
        at = leading_dim(dim, self.ndim, 0, "torch.stack", insert=True)
        size = torch.Size((*self._shape[:at], len(others) + 1, *self._shape[at:]))
        return self._rebuilt(size, lambda spec: spec._stack([spec] * len(others), at))

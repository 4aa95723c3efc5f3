"""CompositeShapes: copies of a Composite with another batch size, dtype or device."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Self

import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite_keys import CompositeKeys
from rlnb.data.specs.normalize import Device, as_device, leading_dim, leading_index


class CompositeShapes(CompositeKeys):
    """The shape side of `Composite`: what is done to it is done to every entry."""

    def _rebuilt(self, shape: torch.Size, change: Callable[[TensorSpec], TensorSpec]) -> Self:
        new = copy.copy(self)
        new._shape, new._locked = shape, False
        new._specs = {key: None if spec is None else change(spec) for key, spec in self._specs.items()}
        return new

    def clone(self) -> Self:
        """Return an independent, unlocked copy."""
        return self._rebuilt(self._shape, lambda spec: spec.clone())

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
        new = self._rebuilt(self._shape, lambda spec: spec.to(device))
        new._device = device
        return new

    def expand(self, *shape: Any) -> Self:
        """Return the spec with batch dims added or stretched, in each entry too.

        Args:
            *shape: the whole new batch size; -1 keeps a dim.

        Raises:
            ValueError: the batch size does not stretch to it.
        """
        sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
        try:
            size = torch.empty(()).expand(self._shape).expand(sizes).shape
        except RuntimeError:
            raise ValueError(
                f"Composite of shape {list(self._shape)} does not expand to {list(sizes)}: the new shape must end with "
                f"{list(self._shape)}, where only dims of size 1 may change."
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

    def _indexed(self, index: Any) -> Self:
        parts = leading_index(index, self.ndim)
        size = torch.empty(()).expand(self._shape)[parts].shape
        return self._rebuilt(size, lambda spec: spec[parts])

    def _stack(self, others: Sequence[TensorSpec], dim: int) -> Self:
        for i, other in enumerate(others, start=1):
            assert isinstance(other, CompositeShapes)
            if set(other._specs) != set(self._specs) or other.shape != self.shape:
                raise ValueError(
                    f"torch.stack needs Composites of equal shape and keys: number {i} has shape {list(other.shape)} "
                    f"and keys {list(other._specs)}, number 0 has shape {list(self.shape)} and keys "
                    f"{list(self._specs)}."
                )
        at = leading_dim(dim, self.ndim, 0, "torch.stack", insert=True)
        new = self._rebuilt(torch.Size((*self._shape[:at], len(others) + 1, *self._shape[at:])), lambda spec: spec)
        for key, spec in self._specs.items():
            rest = [other._specs[key] for other in others if isinstance(other, CompositeShapes)]
            if spec is None and any(other is not None for other in rest):
                raise ValueError(f"torch.stack: {key} is None in number 0 and a spec in another.")
            new._specs[key] = None if spec is None else torch.stack([spec, *rest], at)  # type: ignore
        return new

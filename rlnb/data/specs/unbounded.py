"""Unbounded: spec of any numbers of a dtype."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch

from rlnb.data.specs.boxes import ContinuousBox
from rlnb.data.specs.leaf import LeafSpec
from rlnb.data.specs.normalize import Device, Shape, saturating_cast
from rlnb.data.specs.sampling import Draw, combinations, draw_normal
from rlnb.data.specs.variable import blank_size


class Unbounded(LeafSpec):
    """Any numbers, including NaN and infinities: only shape, dtype and device are checked.

    An instance is an ``UnboundedContinuous`` for a floating dtype and an ``UnboundedDiscrete`` for an integer one.

    Args:
        shape: the shape of one value.
        device: the device of the values; torch's default device if None.
        dtype: the dtype; torch's default dtype if None.

    Example:
        >>> spec = Unbounded(3)
        >>> spec.is_in(torch.tensor([0.0, 1e30, -5.0])), spec.is_in(torch.tensor([1, 2, 3]))
        (True, False)
    """

    _draw: Draw

    def __init__(self, shape: Shape = (1,), device: Device = None, dtype: torch.dtype | str | None = None) -> None:
        super().__init__(shape, device, dtype, torch.get_default_dtype())
        self._prepare()

    def _prepare(self) -> None:
        if type(self) in (Unbounded, UnboundedContinuous, UnboundedDiscrete):
            self.__class__ = UnboundedContinuous if self._dtype.is_floating_point else UnboundedDiscrete
        if self._dtype.is_floating_point:
            self._draw = partial(draw_normal, self._dtype, self._device)
        else:
            low, high = _limits(self._dtype)
            # The upper limit of torch.randint is exclusive, and must be an int64 itself.
            end = min(int(high) + 1, 2**63 - 1)
            self._draw = partial(torch.randint, int(low), end, dtype=self._dtype, device=self._device)

    @property
    def space(self) -> ContinuousBox:
        """The limits of the dtype: infinities, or the smallest and largest integer."""
        low, high = (
            torch.full(blank_size(self._shape), end, dtype=self._dtype, device=self._device)
            for end in _limits(self._dtype)
        )
        return ContinuousBox(low, high, changed=_refuse_bounds)

    def rand(self, shape: Shape | None = ()) -> torch.Tensor:
        """Draw standard normal numbers, or integers from the whole range of the dtype; see ``TensorSpec.rand``."""
        return self._draw(self._size(shape))

    def cardinality(self, use_mask: bool = False) -> int | float:
        """Return the number of distinct values: infinity for floats and for variable sizes."""
        if self._dtype.is_floating_point or -1 in self._shape:
            return math.inf
        low, high = _limits(self._dtype)
        return int(high - low + 1) ** self._shape.numel()

    def enumerate(self, use_mask: bool = False) -> torch.Tensor:
        """List all values of a small integer dtype or of booleans; see ``TensorSpec.enumerate``."""
        low, high = _limits(self._dtype)
        endless = self.cardinality() == math.inf
        counts = [math.inf] if endless else [int(high - low + 1)] * self._shape.numel()
        steps = combinations(counts, type(self).__name__)
        return (steps + int(low)).to(self._device, self._dtype).view(len(steps), *self._shape)

    def _contains(self, value: torch.Tensor) -> bool:
        return True

    def _outside(self, value: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(value, dtype=torch.bool)

    def _domain_text(self, index: tuple[int, ...]) -> str:
        low, high = _limits(self._dtype)
        return f"[{low}, {high}]"

    def _nearest(self, value: torch.Tensor) -> torch.Tensor:
        if self._dtype.is_floating_point or self._dtype == torch.bool or not value.is_floating_point():
            return value.to(self._dtype)
        return saturating_cast(value.nan_to_num(0.0).round(), self._dtype)


class UnboundedContinuous(Unbounded):
    """An ``Unbounded`` with a floating dtype.

    Args:
        shape, device: as for :class:`Unbounded`.
        dtype: a floating dtype; torch's default dtype if None.

    Example:
        >>> type(Unbounded(2)).__name__
        'UnboundedContinuous'
    """


class UnboundedDiscrete(Unbounded):
    """An ``Unbounded`` with an integer dtype.

    Args:
        shape, device: as for :class:`Unbounded`.
        dtype: an integer dtype, or ``torch.bool``; ``torch.int64`` by default.

    Example:
        >>> UnboundedDiscrete(2).dtype
        torch.int64
    """

    def __init__(
        self, shape: Shape = (1,), device: Device = None, dtype: torch.dtype | str | None = torch.int64
    ) -> None:
        super().__init__(shape, device, dtype)


def _refuse_bounds(**bounds: Any) -> None:
    raise AttributeError(
        f"an Unbounded has no bounds, so that {' and '.join(bounds)} cannot be set. Make it a Bounded: "
        "Bounded(low, high, shape=spec.shape, dtype=spec.dtype)."
    )


def _limits(dtype: torch.dtype) -> tuple[float | int, float | int]:
    if dtype.is_floating_point:
        return -torch.inf, torch.inf
    if dtype == torch.bool:
        return False, True
    info = torch.iinfo(dtype)
    return info.min, info.max

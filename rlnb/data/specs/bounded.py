"""Bounded: spec of numbers between a lower and an upper bound."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from rlnb.data.specs.boxes import ContinuousBox
from rlnb.data.specs.leaf import LeafSpec
from rlnb.data.specs.normalize import Device, Shape, as_dtype, as_size, saturating_cast
from rlnb.data.specs.sampling import Draw, combinations, sampler_between
from rlnb.data.specs.variable import blank_size
from rlnb.data.specs.violations import format_number

Bound = float | int | list[Any] | np.ndarray | torch.Tensor

#: Up to this number of entries, clamping to tensors is faster than clamping to numbers, which vectorizes better.
_SMALL = 64


class Bounded(LeafSpec):
    """Numbers with ``low <= x <= high``. A bound may be infinite.

    An instance is a ``BoundedContinuous`` for a floating dtype and a ``BoundedDiscrete`` for an integer one.

    Args:
        low: the lower bound (inclusive): a number, or an array that broadcasts to ``shape``.
        high: the upper bound (inclusive), likewise.
        shape: the shape of one value; the broadcast shape of the bounds if None.
        device: the device of the values; torch's default device if None.
        dtype: the dtype; torch's default dtype if None, whatever the dtype of the bounds.

    Raises:
        TypeError: If a bound is missing.
        ValueError: If no shape is given or implied, the bounds do not fit it, or no number lies between them (a bound
            is NaN, ``low > high``, or an infinity is on the wrong side).

    Example:
        >>> spec = Bounded(-1, 1, shape=(3,))
        >>> spec.project(torch.tensor([-2.0, 0.5, 3.0]))
        tensor([-1.0000,  0.5000,  1.0000])
    """

    _fields = ("_low", "_high")
    _shaped = ("_low", "_high")
    _low: torch.Tensor
    _high: torch.Tensor
    _draw: Draw
    _clip: tuple[torch.Tensor, torch.Tensor]
    _numbers: tuple[float | int, float | int] | None
    #: The sum of the versions of the bounds that the attributes above were computed from; -1 before the first use and
    #: after an assignment. None for tensors of inference mode, which have no version and cannot be written to.
    _seen: int | None

    def __init__(
        self,
        low: Bound | None = None,
        high: Bound | None = None,
        shape: Shape | None = None,
        device: Device = None,
        dtype: torch.dtype | str | None = None,
    ) -> None:
        if low is None or high is None:
            raise TypeError("Bounded needs both low and high; use -torch.inf or torch.inf for a side without a bound.")
        given = [_bound_tensor(bound) for bound in (low, high)]
        kind = as_dtype(dtype, torch.get_default_dtype())
        super().__init__(_implied_shape(given, shape), device, kind, kind)
        lower, upper = (_fit_bound(bound, kind) for bound in given)
        _check_bounds(lower, upper)
        self._low, self._high = (
            bound.to(self._device).expand(blank_size(self._shape)).contiguous() for bound in (lower, upper)
        )
        self._prepare()

    def _prepare(self) -> None:
        # The dtype decides on the class, even if the user named one: BoundedDiscrete(..., dtype=torch.float32).
        if type(self) in (Bounded, BoundedContinuous, BoundedDiscrete):
            self.__class__ = BoundedContinuous if self._dtype.is_floating_point else BoundedDiscrete
        self._seen = -1  # most specs are copied more often than they are drawn from

    @property
    def space(self) -> ContinuousBox:
        """The bounds. They may be assigned: ``spec.space.low = ...``, or ``spec.space = ContinuousBox(low, high)``."""
        # Expanded tensors save memory until the bounds are read, but cannot be written to.
        self._low, self._high = self._low.contiguous(), self._high.contiguous()
        return ContinuousBox(self._low, self._high, changed=self._set_bounds)

    @space.setter
    def space(self, space: ContinuousBox) -> None:
        self._set_bounds(low=space.low, high=space.high)

    def _set_bounds(self, *, low: Bound | None = None, high: Bound | None = None) -> None:
        """Set new bounds. They are compared when the spec is used, so that they can be assigned one after the other."""
        given = {name: _bound_tensor(bound) for name, bound in (("_low", low), ("_high", high)) if bound is not None}
        _implied_shape(list(given.values()), self._shape)
        size = blank_size(self._shape)
        fitted = {name: _fit_bound(bound, self._dtype).to(self._device) for name, bound in given.items()}
        for name, bound in fitted.items():
            setattr(self, name, bound.expand(size).contiguous())
        self._seen = -1

    def _refresh(self) -> None:
        """Compute what drawing and clamping need, at the first use and after the bounds were changed.

        They are changed by assignment, or in place (``spec.low.fill_(0)``).
        """
        low, high, seen = self._low, self._high, self._seen
        if seen is None or (seen != -1 and seen == low._version + high._version):
            return
        _check_bounds(low, high)
        self._draw = sampler_between(low, high)
        self._clip, self._numbers = (low, high), None
        if low.numel() and low.dtype != torch.bool:
            first, last = low.flatten()[0], high.flatten()[0]
            if bool((low == first).all()) and bool((high == last).all()):
                self._clip, self._numbers = (first, last), (first.item(), last.item())
        # Last: another thread that sees it uses the attributes above.
        tracked = not (low.is_inference() or high.is_inference())
        self._seen = low._version + high._version if tracked else None

    @property
    def low(self) -> torch.Tensor:
        """The lower bounds, of the spec's shape (1 in a dim of variable size)."""
        return self._low

    @property
    def high(self) -> torch.Tensor:
        """The upper bounds, of the spec's shape (1 in a dim of variable size)."""
        return self._high

    def rand(self, shape: Shape | None = ()) -> torch.Tensor:
        """Draw random values; see ``TensorSpec.rand``.

        Uniform between finite bounds; exponential away from the bound if the other one is infinite; standard normal if
        both are infinite.
        """
        self._refresh()
        return self._draw(self._size(shape))

    def _spans(self) -> list[int]:
        low, high = (bound.flatten().tolist() for bound in (self._low, self._high))
        return [int(last) - int(first) + 1 for first, last in zip(low, high, strict=True)]

    def cardinality(self, use_mask: bool = False) -> int | float:
        """Return the number of distinct values: a product for integers, infinity for floats and for variable sizes."""
        return math.inf if self._dtype.is_floating_point or -1 in self._shape else math.prod(self._spans())

    def enumerate(self, use_mask: bool = False) -> torch.Tensor:
        """List all values of integers; see ``TensorSpec.enumerate``.

        Example:
            >>> Bounded(0, [1, 2], dtype=torch.int64).enumerate().tolist()
            [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
        """
        endless = self.cardinality() == math.inf
        steps = combinations([math.inf] if endless else self._spans(), type(self).__name__)
        return steps.to(self._device).view(len(steps), *self._shape).add(self._low.to(torch.int64)).to(self._dtype)

    def _clipped(self, value: torch.Tensor) -> torch.Tensor:
        self._refresh()
        if self._numbers is not None and value.numel() > _SMALL:
            return torch.clamp(value, *self._numbers)
        return torch.clamp(value, *self._clip)

    def _contains(self, value: torch.Tensor) -> bool:
        if self._dtype == torch.bool:
            return not bool(self._outside(value).any())
        # NaN does not equal itself and therefore counts as outside.
        return torch.equal(self._clipped(value), value)

    def _outside(self, value: torch.Tensor) -> torch.Tensor:
        return ~((value >= self._low) & (value <= self._high))

    def _domain_text(self, index: tuple[int, ...]) -> str:
        return f"[{format_number(self._low[index].item())}, {format_number(self._high[index].item())}]"

    def _nearest(self, value: torch.Tensor) -> torch.Tensor:
        if self._dtype == torch.bool:
            return torch.minimum(torch.maximum(value.to(torch.bool), self._low), self._high)
        if value.is_floating_point():
            middle = torch.zeros((), dtype=value.dtype, device=value.device)
            value = torch.where(value.isnan(), middle, value)
            if not self._dtype.is_floating_point:
                value = value.round()
        else:
            info = None if self._dtype.is_floating_point else torch.iinfo(self._dtype)
            value = value.to(torch.int64)
            value = value if info is None else value.clamp(info.min, info.max)
        return self._clipped(saturating_cast(value, self._dtype))

    def _to_dtype(self, dtype: torch.dtype) -> Bounded:
        low, high = _fit_bound(self._low, dtype), _fit_bound(self._high, dtype)
        _check_bounds(low, high)
        return self._with(_dtype=dtype, _low=low, _high=high)

    def _hash_key(self) -> Any:
        # Numbers instead of bytes, because 0.0 and -0.0 are equal bounds.
        ends = (self._low.flatten()[:1], self._low.flatten()[-1:], self._high.flatten()[:1], self._high.flatten()[-1:])
        return tuple(number for end in ends for number in end.tolist())


class BoundedContinuous(Bounded):
    """A ``Bounded`` with a floating dtype.

    Args:
        low, high, shape, device: as for :class:`Bounded`.
        dtype: a floating dtype; torch's default dtype if None.

    Example:
        >>> type(Bounded(0, 1, shape=(2,))).__name__
        'BoundedContinuous'
    """


class BoundedDiscrete(Bounded):
    """A ``Bounded`` with an integer dtype.

    Args:
        low, high, shape, device: as for :class:`Bounded`.
        dtype: an integer dtype, or ``torch.bool``; ``torch.int64`` by default.

    Example:
        >>> type(Bounded(0, 255, shape=(2,), dtype=torch.uint8)).__name__
        'BoundedDiscrete'
    """

    def __init__(
        self,
        low: Bound | None = None,
        high: Bound | None = None,
        shape: Shape | None = None,
        device: Device = None,
        dtype: torch.dtype | str | None = torch.int64,
    ) -> None:
        super().__init__(low, high, shape, device, dtype)


def _bound_tensor(bound: Bound) -> torch.Tensor:
    # Copied, so that later changes of the caller's array do not change the bounds.
    if isinstance(bound, torch.Tensor):
        return bound.detach().clone()
    return torch.from_numpy(np.array(bound, copy=True))


def _implied_shape(bounds: list[torch.Tensor], shape: Shape | None) -> torch.Size:
    try:
        implied = torch.broadcast_shapes(*(bound.shape for bound in bounds))
        if shape is None and implied == ():
            raise ValueError("Bounded needs a shape: pass shape=(3,) or shape=(), or bounds that have one.")
        size = implied if shape is None else as_size(shape)
        blank = blank_size(size)
        if torch.broadcast_shapes(implied, blank) != blank:
            raise RuntimeError
    except RuntimeError:
        given = "none" if shape is None else list(as_size(shape))
        low, high = list(bounds[0].shape), list(bounds[-1].shape)
        raise ValueError(f"the bounds of shapes {low} (low) and {high} (high) do not fit the shape {given}.") from None
    return size


def _check_bounds(low: torch.Tensor, high: torch.Tensor) -> None:
    if bool((low != low).any() or (high != high).any()):
        raise ValueError("the bounds of Bounded must be numbers, got NaN.")
    if bool((low > high).any()):
        raise ValueError(f"Bounded needs low <= high everywhere, got {_bounds_text(low, high, low > high)}.")
    senseless = (low == torch.inf) | (high == -torch.inf) if low.is_floating_point() else torch.tensor(False)
    if bool(senseless.any()):
        raise ValueError(
            f"no number of {low.dtype} lies between the bounds of Bounded, {_bounds_text(low, high, senseless)}. Use "
            "-torch.inf for a low without a bound, torch.inf for a high without one."
        )


def _bounds_text(low: torch.Tensor, high: torch.Tensor, wrong: torch.Tensor) -> str:
    """Format the bounds if they are few, else the first wrong ones."""
    if wrong.numel() <= 8:
        return f"low={low.tolist()}, high={high.tolist()}"
    index = tuple(wrong.nonzero()[0].tolist())
    low, high = low.expand(wrong.shape), high.expand(wrong.shape)
    return f"low={format_number(low[index].item())}, high={format_number(high[index].item())} at index {index}"


def _fit_bound(bound: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if dtype.is_floating_point or dtype == torch.bool:
        return bound.to(dtype)
    info = torch.iinfo(dtype)
    if bound.is_floating_point():
        whole = bound.nan_to_num(0, float(info.max), float(info.min))
        if bool((whole != whole.round()).any()):
            raise ValueError(f"the bounds of a Bounded of {dtype} must be whole numbers, got {bound.tolist()}.")
    elif bool((bound < info.min).any() or (bound > info.max).any()):
        raise ValueError(f"the bounds {bound.tolist()} do not fit {dtype}, which holds {info.min} to {info.max}.")
    return saturating_cast(bound, dtype)

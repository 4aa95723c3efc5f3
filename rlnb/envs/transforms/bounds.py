"""Specs of numbers that a transform clips or maps through a monotone function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.unbounded import Unbounded


def mapped_spec(spec: TensorSpec, function: Callable[[torch.Tensor], torch.Tensor]) -> TensorSpec:
    """Return the spec of ``function(value)`` for a function that is monotone (rising or falling) in each number."""
    if not isinstance(spec, Bounded):
        return Unbounded(shape=spec.shape, dtype=spec.dtype, device=spec.device)
    ends = function(spec.low), function(spec.high)
    return Bounded(torch.minimum(*ends), torch.maximum(*ends), shape=spec.shape, dtype=spec.dtype, device=spec.device)


def clipped_spec(spec: TensorSpec, low: float | None, high: float | None) -> TensorSpec:
    """Return the spec, with bounds, of numbers after clipping; ``None`` is no bound."""
    if isinstance(spec, Bounded):
        return mapped_spec(spec, lambda value: value.clamp(low, high))
    assert spec.dtype is not None
    info: Any = torch.finfo(spec.dtype) if spec.dtype.is_floating_point else torch.iinfo(spec.dtype)
    infinity = torch.inf if spec.dtype.is_floating_point else None
    bottom = low if low is not None else info.min if infinity is None else -infinity
    top = high if high is not None else info.max if infinity is None else infinity
    return Bounded(bottom, top, shape=spec.shape, dtype=spec.dtype, device=spec.device)


def check_bounds(transform: Any, low_name: str, low: float | None, high_name: str, high: float | None) -> None:
    """Check the bounds that a transform clips to.

    Raises:
        TypeError: If both are ``None``, or one is not a number.
        ValueError: If the lower bound is not below the upper bound.
    """
    name = type(transform).__name__
    if low is None and high is None:
        raise TypeError(f"{name} needs a bound. Fix: {name}({low_name}=-1.0, {high_name}=1.0), or one of the two.")
    for bound_name, bound in ((low_name, low), (high_name, high)):
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, (int, float))):
            raise TypeError(f"{bound_name} must be a number, got a {type(bound).__name__}.")
    if low is not None and high is not None and not low < high:
        raise ValueError(f"{low_name} must be below {high_name}, got {low} and {high}.")


def check_bound_dtype(transform: Any, dtype: torch.dtype, **bounds: float | None) -> None:
    """Raise ``TypeError`` if integers would be clipped to bounds (by the name of their argument) that are not."""
    for name, bound in bounds.items():
        if bound is not None and not dtype.is_floating_point and bound != int(bound):
            raise TypeError(
                f"{type(transform).__name__} would clip values of dtype {dtype} to {name}={bound}, which is not an "
                f"integer. Fix: cast them first, DTypeCastTransform({dtype}, torch.float32, in_keys=[...])."
            )


__all__ = ["check_bound_dtype", "check_bounds", "clipped_spec", "mapped_spec"]

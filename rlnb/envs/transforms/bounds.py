"""Specs of numbers that a transform has changed: the bounds go through what the values go through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from rlnb.data import Bounded, TensorSpec, Unbounded


def through(spec: TensorSpec, change: Callable[[torch.Tensor], torch.Tensor]) -> TensorSpec:
    """Make the spec of ``change(value)``.

    Args:
        spec: of ``value``.
        change: rises or falls with each number.

    Returns:
        A spec with the bounds of the results, or without bounds if ``spec`` has none.

    Example:
        >>> through(Bounded(-1, 2, shape=(1,)), lambda value: -value).space.low
        tensor([-2.])
    """
    if not isinstance(spec, Bounded):
        return Unbounded(shape=spec.shape, dtype=spec.dtype, device=spec.device)
    ends = change(spec.low), change(spec.high)
    return Bounded(torch.minimum(*ends), torch.maximum(*ends), shape=spec.shape, dtype=spec.dtype, device=spec.device)


def clipped(spec: TensorSpec, low: float | None, high: float | None) -> TensorSpec:
    """Make the spec of numbers that are clipped.

    Args:
        spec: of the numbers before.
        low: the lower bound; None for none.
        high: the upper bound; None for none.

    Returns:
        A spec with bounds.

    Example:
        >>> clipped(Bounded(-3, 0.5, shape=(1,)), -1, 1).space.high
        tensor([0.5000])
    """
    if isinstance(spec, Bounded):
        return through(spec, lambda value: value.clamp(low, high))
    assert spec.dtype is not None
    info: Any = torch.finfo(spec.dtype) if spec.dtype.is_floating_point else torch.iinfo(spec.dtype)
    endless = torch.inf if spec.dtype.is_floating_point else None
    bottom = low if low is not None else info.min if endless is None else -endless
    top = high if high is not None else info.max if endless is None else endless
    return Bounded(bottom, top, shape=spec.shape, dtype=spec.dtype, device=spec.device)


def whole(number: float | None, dtype: torch.dtype, name: str, transform: Any) -> None:
    """Refuse a bound that integers cannot be clipped to.

    Args:
        number: the bound; None for none.
        dtype: of the values.
        name: of the bound, for the error.
        transform: for the error.

    Raises:
        TypeError: if the values are integers and the bound is none.
    """
    if number is not None and not dtype.is_floating_point and number != int(number):
        raise TypeError(
            f"{type(transform).__name__} would clip values of dtype {dtype} to {name}={number}, which is no integer. "
            f"Fix: cast them first, DTypeCastTransform({dtype}, torch.float32, in_keys=[...])."
        )


__all__ = ["clipped", "through", "whole"]

"""Hyperbolic tangent as a transform of distributions, kept away from its asymptotes so that everything stays finite."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributions import TanhTransform


class SafeTanhTransform(TanhTransform):
    """``y = tanh(x)``, with ``y`` kept within ``(-1 + eps, 1 - eps)``.

    In floating point ``tanh`` reaches 1 (in float32 from 9 on), where the inverse is infinite. ``eps`` is the
    resolution of the dtype: 1e-6 for float32, 1e-15 for float64. Gradients are those of ``tanh`` at the ``y`` that is
    returned, so a saturated action keeps a small gradient instead of none.

    Example:
        >>> SafeTanhTransform()(torch.tensor([0.5, 100.0])).lt(1).tolist()
        [True, True]
        >>> SafeTanhTransform().inv(torch.tensor([1.0, 2.0])).isfinite().tolist()
        [True, True]
    """

    def __init__(self, cache_size: int = 0) -> None:
        super().__init__(cache_size)

    def _call(self, x: torch.Tensor) -> torch.Tensor:
        return _SafeTanh.apply(x)

    def _inverse(self, y: torch.Tensor) -> torch.Tensor:
        return _SafeAtanh.apply(y)

    def with_cache(self, cache_size: int = 1) -> SafeTanhTransform:
        """Return the transform with another cache size."""
        return SafeTanhTransform(cache_size)


def clamp_unit(value: torch.Tensor) -> torch.Tensor:
    """Move values to within ``(-1, 1)``, by the resolution of their dtype."""
    limit = 1.0 - torch.finfo(value.dtype).resolution
    return value.clamp(-limit, limit)


class _SafeTanh(torch.autograd.Function):
    """``tanh`` with the gradient at the clamped result."""

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return clamp_unit(x.tanh())

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        (y,) = ctx.saved_tensors
        return grads[0] * (1 - y * y)


class _SafeAtanh(torch.autograd.Function):
    """``atanh`` of the clamped value, with the gradient there."""

    @staticmethod
    def forward(y: torch.Tensor) -> torch.Tensor:
        return clamp_unit(y).atanh()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
        ctx.save_for_backward(clamp_unit(inputs[0]))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        (y,) = ctx.saved_tensors
        return grads[0] / (1 - y * y)

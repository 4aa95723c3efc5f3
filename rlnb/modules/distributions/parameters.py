"""Parameters of distributions of continuous actions: location, scale and bounds, as tensors that were checked."""

from __future__ import annotations

from collections.abc import Callable

import torch

Number = float | torch.Tensor
Scale = torch.Tensor | float | Callable[[torch.Tensor], torch.Tensor]


def location_and_scale(
    name: str, loc: torch.Tensor, scale: Scale, upscale: Number, tanh_loc: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return location and scale as tensors of one shape, the location kept within ``upscale`` if ``tanh_loc``.

    Raises:
        ValueError: If the location has NaNs, or the scale is not positive.
    """
    if isinstance(scale, torch.Tensor):
        spread = scale
    else:
        spread = scale(loc) if callable(scale) else torch.full_like(loc, scale)
    if bool(loc.isnan().any()):
        raise ValueError(
            f"loc of {name} has NaNs. The usual causes are NaNs in the observation, or a step of learning that was too "
            "large. Fix: look at the loss before it, lower the learning rate, or clip the gradient."
        )
    if not bool((spread > 0).all()):
        raise ValueError(
            f"scale of {name} must be positive, got {spread.min().item():.4g}. "
            "Fix: end the network with NormalParamExtractor(), which makes the second half of its output positive."
        )
    if tanh_loc:
        loc = (loc / upscale).tanh() * upscale
    loc, spread = torch.broadcast_tensors(loc, spread)
    return loc, spread


def as_bounds(name: str, low: Number, high: Number, loc: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the bounds as tensors like ``loc``.

    Raises:
        ValueError: If ``high`` is not greater than ``low``.
    """
    numbers = isinstance(low, (int, float)) and isinstance(high, (int, float))
    ordered = numbers and high > low  # comparing tensors takes ten times as long
    low = torch.as_tensor(low, dtype=loc.dtype, device=loc.device)
    high = torch.as_tensor(high, dtype=loc.dtype, device=loc.device)
    if not ordered and not bool((high > low).all()):
        raise ValueError(
            f"The upper bounds of {name} must be greater than the lower ones, got low={low.tolist()} and "
            f"high={high.tolist()}. Fix: distribution_kwargs={{'low': spec.space.low, 'high': spec.space.high}}."
        )
    return low, high

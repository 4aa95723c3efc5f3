"""Random draws and enumeration of the values of specs. One draw of T rows equals T draws of one row.

``torch.rand`` and ``torch.randint`` have this property on the CPU. ``torch.randn`` does not have it for 16 or more
numbers, so that all functions here transform uniform numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch

Draw = Callable[[torch.Size], torch.Tensor]

#: Up to twice this number, float64 can represent every integer.
_EXACT = 2**52
#: The largest number of values to list. A mistake, such as a batch of choices, could otherwise fill the memory.
_LIMIT = 2**24


def draw_normal(dtype: torch.dtype, device: torch.device, size: torch.Size) -> torch.Tensor:
    """Draw standard normal numbers, by applying the inverse distribution function to uniform numbers."""
    wide = dtype if dtype in (torch.float32, torch.float64) else torch.float32
    drawn = torch.rand(size, dtype=wide, device=device)
    # At least half of the generator's resolution, for 0 would become minus infinity.
    drawn.clamp_(min=2.0**-54 if wide == torch.float64 else 2.0**-25)
    drawn = torch.special.ndtri(drawn)
    return drawn if wide == dtype else drawn.to(dtype)


def draw_choices(nvec: torch.Tensor, start: torch.Tensor | None, dtype: torch.dtype, size: torch.Size) -> torch.Tensor:
    """Draw integers from ``start`` (None for 0) to ``start + nvec - 1`` for each entry; see ``chooser``.

    ``nvec`` is in float64, where a uniform number below 1 times ``nvec`` never rounds up to it.
    """
    drawn = torch.rand(size, dtype=torch.float64, device=nvec.device).mul_(nvec)
    if dtype.is_floating_point:
        drawn.floor_()
    return drawn.to(dtype) if start is None else drawn.to(torch.int64).add_(start).to(dtype)


def chooser(nvec: torch.Tensor, start: torch.Tensor | None, dtype: torch.dtype) -> Draw:
    """Return a function that draws integers from ``start`` to ``start + nvec - 1`` for each entry.

    ``nvec`` and ``start`` (None for 0) are in int64. The function is picklable, and takes the size of its result, which
    ends with the shape of ``nvec``.

    Example:
        >>> chooser(torch.tensor([1, 1]), torch.tensor([3, 4]), torch.int64)(torch.Size([2]))
        tensor([3, 4])
    """
    if nvec.numel() and bool((nvec > _EXACT).any()):
        # A uniform float64 has 53 bits: times 2**62, it would be a multiple of 512.
        first = torch.zeros_like(nvec) if start is None else start
        return partial(draw_wide_integers, first, first + nvec - 1)
    return partial(draw_choices, nvec.double(), start, dtype)


def draw_wide_integers(low: torch.Tensor, high: torch.Tensor, size: torch.Size) -> torch.Tensor:
    """Draw integers from ``low`` to ``high`` (int64, inclusive) if their number is too large for float64.

    A random fraction of 128 bits is multiplied by the number of integers, so that their probabilities differ by at most
    2**-64. (The remainder of a 64-bit number would make some of 3 * 2**61 integers 1.5 times as likely as others.)
    """
    bits = torch.empty((*size, 2), dtype=torch.int64).random_(-(2**63), None)
    upper, lower = np.moveaxis(bits.numpy().view(np.uint64), -1, 0)
    first = low.cpu().contiguous().numpy().view(np.uint64)
    with np.errstate(over="ignore"):  # the arithmetic is modulo 2**64
        count = high.cpu().contiguous().numpy().view(np.uint64) - first + np.uint64(1)
        middle = upper * count
        carry = middle + _product_above(lower, count) < middle
        # The number of all 2**64 integers wraps around to 0.
        offset = np.where(count == 0, upper, _product_above(upper, count) + carry)
        drawn = np.asarray(first + offset, dtype=np.uint64)
    return torch.from_numpy(drawn.view(np.int64)).to(low.device)


def _product_above(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the upper 64 bits of the products of 64-bit integers, computed from their 32-bit halves."""
    half, low = np.uint64(32), np.uint64(2**32 - 1)
    a, b, c, d = first >> half, first & low, second >> half, second & low
    cross = (b * d >> half) + (a * d & low) + b * c
    return np.asarray(a * c + (a * d >> half) + (cross >> half), dtype=np.uint64)


def draw_between(low: torch.Tensor, high: torch.Tensor, size: torch.Size) -> torch.Tensor:
    """Draw uniform floats between finite bounds. ``lerp`` never exceeds them, whatever the rounding."""
    return torch.lerp(low, high, torch.rand(size, dtype=low.dtype, device=low.device))


def draw_between_huge(low: torch.Tensor, high: torch.Tensor, size: torch.Size) -> torch.Tensor:
    """Draw uniform floats between finite bounds whose difference overflows the dtype."""
    drawn = torch.lerp(low / 2, high / 2, torch.rand(size, dtype=low.dtype, device=low.device)) * 2
    return drawn.clamp_(low, high)


def draw_tailed(low: torch.Tensor, high: torch.Tensor, size: torch.Size) -> torch.Tensor:
    """Draw floats if some bounds are infinite, with the distributions of Gymnasium's ``Box``.

    Two finite bounds: uniform. One: exponential away from the bound. None: standard normal.
    """
    wide = torch.float64
    bottom, top = low.to(wide), high.to(wide)
    drawn = torch.rand(size, dtype=wide, device=low.device)
    away = -torch.log1p(-drawn)
    floored, capped = bottom.isfinite(), top.isfinite()
    inside = torch.lerp(bottom.nan_to_num(0, 0, 0), top.nan_to_num(0, 0, 0), drawn)
    normal = torch.special.ndtri(drawn.clamp(min=2.0**-54))
    one_sided = torch.where(floored, bottom + away, top - away)
    result = torch.where(floored & capped, inside, torch.where(floored | capped, one_sided, normal))
    return result.to(low.dtype).clamp_(low, high)


def sampler_between(low: torch.Tensor, high: torch.Tensor) -> Draw:
    """Return the fastest function that draws between ``low`` and ``high`` (same shape and dtype, inclusive).

    It is picklable, and takes the size of its result, which ends with the bounds' shape.
    """
    first_low, first_high = low.flatten()[:1], high.flatten()[:1]
    uniform = low.numel() > 0 and bool((low == first_low).all()) and bool((high == first_high).all())
    if uniform:
        low, high = first_low[0], first_high[0]
    if low.is_floating_point():
        if not bool(low.isfinite().all() and high.isfinite().all()):
            return partial(draw_tailed, low, high)
        huge = not bool((high - low).isfinite().all())
        return partial(draw_between_huge if huge else draw_between, low, high)
    if low.numel() == 0:
        return partial(draw_choices, low.double(), None, low.dtype)
    if uniform and high.item() < 2**63 - 1:
        return partial(torch.randint, int(low.item()), int(high.item()) + 1, dtype=low.dtype, device=low.device)
    if bool((high.double() - low.double() >= _EXACT).any()):
        return partial(draw_wide_integers, low, high)
    # Subtracted in int64: near its limits, rounding to float64 first would change the difference.
    spans = (high.to(torch.int64) - low.to(torch.int64)).double() + 1
    return partial(draw_choices, spans, low.to(torch.int64), low.dtype)


def combinations(counts: Sequence[int | float], what: str) -> torch.Tensor:
    """List all combinations of one of ``counts[i]`` choices for each ``i``: int64, ``[prod(counts), len(counts)]``.

    The last choice changes fastest. Raises a ``ValueError`` in the name of ``what`` if there are too many to list.

    Example:
        >>> combinations([2, 3], "MultiCategorical").tolist()
        [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    """
    total = math.prod(counts)
    if total > _LIMIT:
        many = "infinitely many" if total == math.inf else f"{total:,}" if total < 10**15 else "more than 10^15"
        raise ValueError(
            f"{what} has {many} values, and at most {_LIMIT:,} can be listed. Draw some instead: spec.rand((n,))."
        )
    columns = torch.unravel_index(torch.arange(int(total)), [int(count) for count in counts])
    return torch.stack(columns, -1) if counts else torch.zeros((1, 0), dtype=torch.int64)

"""Dims of variable size, which are -1 in a shape: comparison, formatting and shape operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

TensorMap = Callable[[torch.Tensor], torch.Tensor]

#: Two sizes to try for a variable dim: sizes of a result that differ between them are variable. Divisible by 1 to 10.
_STAND_INS = (5040, 10080)


def blank_size(shape: torch.Size) -> torch.Size:
    """Return the shape with size 1 for each variable dim."""
    return _filled(shape, 1) if -1 in shape else shape


def fits_shape(got: Sequence[int], shape: Sequence[int]) -> bool:
    """Return whether ``got`` equals ``shape``, except in its variable dims."""
    return len(got) == len(shape) and all(b in (-1, a) for a, b in zip(got, shape, strict=True))


def shape_text(shape: Sequence[int]) -> str:
    """Format a shape for a message, such as ``[3, any, 2]``."""
    return "[" + ", ".join("any" if length == -1 else str(length) for length in shape) + "]"


def map_size(fn: TensorMap, shape: torch.Size) -> torch.Size:
    """Apply a shape operation, given as a function of a tensor, to a shape that may have variable dims.

    Example:
        >>> map_size(lambda tensor: tensor.flatten(0, 1), torch.Size([3, -1, 2]))
        torch.Size([-1, 2])
    """
    if -1 not in shape:
        return fn(torch.empty(()).expand(shape)).shape
    first, second = (fn(torch.empty((), dtype=torch.bool).expand(_filled(shape, size))).shape for size in _STAND_INS)
    return torch.Size(a if a == b else -1 for a, b in zip(first, second, strict=True))


def map_field(fn: TensorMap, field: torch.Tensor, shape: torch.Size, new_shape: torch.Size) -> torch.Tensor:
    """Apply a shape operation to a tensor of shape ``blank_size(shape)``: one number for each entry of a spec.

    ``new_shape`` is the shape after the operation, from ``map_size``; the result has shape ``blank_size(new_shape)``.
    Raises a ``ValueError`` if the numbers would differ along a variable dim.
    """
    if -1 not in shape:
        return fn(field)
    new_blank = blank_size(new_shape)
    if field.numel() and bool((field == field.flatten()[0]).all()):
        return field.flatten()[0].expand(new_blank)
    whole = fn(field.expand(_filled(shape, _STAND_INS[0])))
    small = whole[tuple(slice(0, 1) if length == -1 else slice(None) for length in new_shape)]
    if not torch.equal(small.expand(whole.shape), whole):
        raise ValueError(
            f"a dim of variable size of {shape_text(shape)} cannot be merged with others here: the domain differs "
            "along them."
        )
    return small


def map_rows(fn: TensorMap, rows: torch.Tensor, shape: torch.Size, new_shape: torch.Size) -> torch.Tensor:
    """Apply ``map_field`` to a tensor of shape ``[*blank_size(shape), width]``: a row for each entry of a spec."""
    size = rows.shape[:-1]
    flat = rows.reshape(size.numel(), rows.shape[-1])
    number = torch.arange(size.numel())
    if -1 in shape and bool((flat == flat[:1]).all()):
        number = torch.zeros_like(number)
    return flat[map_field(fn, number.view(size), shape, new_shape).to(rows.device)]


def _filled(shape: torch.Size, size: int) -> torch.Size:
    return torch.Size(size if length == -1 else length for length in shape)

"""Turns what users write for shapes, dtypes, devices and keys into the one form that specs keep."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

Shape = int | Iterable[int]
Device = torch.device | str | int | None

#: What a spec can describe. torch has no comparisons for uint16, uint32 and uint64, so those are absent.
SUPPORTED_DTYPES = (
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.bool,
)

EMPTY = torch.Size(())


def as_size(shape: Shape) -> torch.Size:
    """Return ``shape`` as a ``torch.Size``.

    Args:
        shape: an int (one dimension) or the sizes; -1 is a dimension of variable size.

    Raises:
        ValueError: a size is below -1.

    Example:
        >>> as_size(3), as_size([2, -1])
        (torch.Size([3]), torch.Size([2, -1]))
    """
    size = torch.Size((shape,)) if isinstance(shape, int) else torch.Size(shape)
    if any(length < -1 for length in size):
        raise ValueError(
            f"a shape has no negative sizes but -1 (a dimension of variable size), got {tuple(size)}. Give every "
            "dimension its length."
        )
    return size


def as_lead(shape: Shape | None) -> torch.Size:
    """Return the sizes in front of a spec's shape, as `rand` and its kin take them; None is no size.

    Example:
        >>> as_lead(None), as_lead(3)
        (torch.Size([]), torch.Size([3]))
    """
    return EMPTY if shape is None else as_size(shape)


def as_sizes(shape: tuple[Any, ...]) -> tuple[int, ...]:
    """Return sizes given one by one, or as one sequence, as a tuple.

    Example:
        >>> as_sizes((2, 3)), as_sizes(([2, 3],))
        ((2, 3), (2, 3))
    """
    return tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape


def as_dtype(dtype: torch.dtype | str | None, default: torch.dtype) -> torch.dtype:
    """Return ``dtype`` as a ``torch.dtype`` that specs support.

    Args:
        dtype: a torch dtype, its name (``"float32"``), or None for ``default``.
        default: what None stands for.

    Raises:
        TypeError: no such dtype, or one that specs cannot describe.

    Example:
        >>> as_dtype("int64", torch.float32), as_dtype(None, torch.float32)
        (torch.int64, torch.float32)
    """
    found = default if dtype is None else getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if found not in SUPPORTED_DTYPES:
        names = ", ".join(str(d) for d in SUPPORTED_DTYPES)
        raise TypeError(f"a spec cannot have dtype {dtype}. Supported: {names}.")
    return found


def whole_numbers(dtype: torch.dtype) -> tuple[int, int]:
    """Return the first and the last whole number up to which a dtype holds all of them.

    Example:
        >>> whole_numbers(torch.uint8), whole_numbers(torch.bool), whole_numbers(torch.float16)
        ((0, 255), (0, 1), (-2048, 2048))
    """
    if dtype == torch.bool:
        return 0, 1
    if dtype.is_floating_point:
        last = int(2 / torch.finfo(dtype).eps)
        return -last, last
    return torch.iinfo(dtype).min, torch.iinfo(dtype).max


def as_device(device: Device) -> torch.device:
    """Return ``device`` as the ``torch.device`` that a tensor put there reports.

    None stands for torch's default device, and ``"cuda"`` for the current CUDA device with its index.

    Example:
        >>> as_device("cpu")
        device(type='cpu')
    """
    if device is None:
        return torch.get_default_device()
    found = torch.device(device)
    if found.type == "cuda" and found.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return found


def leading_dim(dim: int, ndim: int, fixed: int, what: str, *, insert: bool = False) -> int:
    """Return ``dim`` as a non-negative position among the leading dims.

    Args:
        dim: the dimension, negative ones counting from the end.
        ndim: how many dimensions the spec has.
        fixed: how many trailing dimensions may not be touched.
        what: the operation, for the error.
        insert: whether ``dim`` is a place between dimensions (there is one more of those).

    Raises:
        IndexError: there is no such dimension, or it is one of the fixed ones.

    Example:
        >>> leading_dim(-2, 3, 1, "squeeze")
        1
    """
    places = ndim + 1 if insert else ndim
    last = places - fixed
    found = dim + places if dim < 0 else dim
    if not 0 <= found < last:
        legal = f"0 to {last - 1}" if last else "none"
        why = f" (the last {fixed} dims hold the encoding and stay as they are)" if fixed else ""
        raise IndexError(f"{what}: dim {dim} is out of range for {ndim} dims; legal: {legal}{why}.")
    return found


def leading_index(index: Any, ndim: int) -> tuple[Any, ...]:
    """Return an index of the leading ``ndim`` dims with the Ellipsis written out.

    Trailing dims that the index does not reach are then free for whatever a nested spec has there.

    Example:
        >>> leading_index((..., 0), 3)
        (slice(None, None, None), slice(None, None, None), 0)
    """
    parts = index if isinstance(index, tuple) else (index,)
    used = sum(
        part.ndim if isinstance(part, torch.Tensor) and part.dtype == torch.bool else 1
        for part in parts
        if part is not None and part is not Ellipsis
    )
    if used > ndim:
        raise IndexError(f"index {index!r} has {used} dims, but only the {ndim} leading dims can be indexed.")
    if not any(part is Ellipsis for part in parts):
        return parts
    where = next(i for i, part in enumerate(parts) if part is Ellipsis)
    return parts[:where] + (slice(None),) * (ndim - used) + parts[where + 1 :]

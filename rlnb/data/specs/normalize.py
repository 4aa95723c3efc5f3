"""Arguments of specs in canonical form: shapes, dtypes, devices, dims and indices; casts that saturate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

Shape = int | Iterable[int]
Device = torch.device | str | int | None

#: The dtypes that specs support. torch cannot compare tensors of uint16, uint32 and uint64.
SUPPORTED_DTYPES = (
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
    *(torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool),
)

EMPTY = torch.Size(())


def as_size(shape: Shape) -> torch.Size:
    """Return ``shape`` (an int is one dim) as a ``torch.Size``; raise a ``ValueError`` for sizes below -1."""
    size = torch.Size((shape,)) if isinstance(shape, int) else torch.Size(shape)
    if any(length < -1 for length in size):
        raise ValueError(
            f"a shape has no negative sizes except -1 (a dim of variable size), got {tuple(size)}. Give every dim its "
            "size."
        )
    return size


def as_lead(shape: Shape | None) -> torch.Size:
    """Return the ``shape`` argument of ``rand``, ``zero`` and ``one`` as a ``torch.Size``. None is an empty one."""
    return EMPTY if shape is None else as_size(shape)


def as_sizes(shape: tuple[Any, ...]) -> tuple[int, ...]:
    """Return sizes given as separate arguments, ``(2, 3)``, or as one sequence, ``([2, 3],)``, as a tuple."""
    return tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape


def as_dtype(dtype: torch.dtype | str | None, default: torch.dtype) -> torch.dtype:
    """Return a dtype, its name or None (for ``default``) as a dtype; raise a ``TypeError`` unless specs support it."""
    found = default if dtype is None else getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if found not in SUPPORTED_DTYPES:
        names = ", ".join(str(d) for d in SUPPORTED_DTYPES)
        raise TypeError(f"a spec cannot have dtype {dtype}. Supported: {names}.")
    return found


def whole_numbers(dtype: torch.dtype) -> tuple[int, int]:
    """Return the smallest and the largest whole number between which a dtype holds all whole numbers.

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


def saturating_cast(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Cast a tensor. Floats beyond the range of an integer dtype become its limits instead of wrapping around."""
    if dtype.is_floating_point or not value.is_floating_point():
        return value.to(dtype)
    info = torch.iinfo(dtype)
    wide = value.double()
    cast = wide.clamp(info.min, info.max).to(dtype)
    # float64 rounds the largest int64 up, out of its range.
    ends = torch.tensor([info.min, info.max], dtype=dtype, device=value.device)
    return torch.where(wide >= info.max, ends[1], torch.where(wide <= info.min, ends[0], cast))


def as_device(device: Device) -> torch.device:
    """Return ``device`` as the ``torch.device`` that a tensor on it reports: ``"cuda"`` with the current index.

    None is torch's default device.
    """
    if device is None:
        return torch.get_default_device()
    found = torch.device(device)
    if found.type == "cuda" and found.index is None and torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return found


def leading_dim(dim: int, ndim: int, fixed: int, what: str, *, insert: bool = False) -> int:
    """Return ``dim`` as a non-negative position among the ``ndim - fixed`` leading dims of a spec.

    With ``insert``, it is a position between dims, one more than there are dims. Raises an ``IndexError`` in the name
    of the operation ``what`` if the dim does not exist, or is one of the ``fixed`` trailing ones.
    """
    places = ndim + 1 if insert else ndim
    last = places - fixed
    found = dim + places if dim < 0 else dim
    if not 0 <= found < last:
        legal = f"0 to {last - 1}" if last else "none"
        why = f" (the last {fixed} dims hold the encoding and cannot be changed)" if fixed else ""
        raise IndexError(f"{what}: dim {dim} is out of range for {ndim} dims; legal: {legal}{why}.")
    return found


def leading_index(index: Any, ndim: int) -> tuple[Any, ...]:
    """Return an index of the leading ``ndim`` dims as a tuple, with its Ellipsis replaced by slices.

    It then applies to specs that have more trailing dims, such as the entries of a Composite. Raises an ``IndexError``
    if it uses more dims than ``ndim``.
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

"""The counts of several choices: reading them, and laying rows of numbers out one after the other or below another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rlnb.data.specs.normalize import whole_numbers

Counts = Sequence[Any] | np.ndarray | torch.Tensor


def as_counts(name: str, nvec: Counts, start: Counts | int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``nvec`` and ``start`` as int64 tensors of one shape that share no memory with what was given.

    Args:
        name: the class of the spec, for the error.
        nvec: how many choices there are at each place.
        start: the smallest choice at each place, or everywhere.

    Raises:
        ValueError: a count is not positive, there is none, or the shapes do not fit.

    Example:
        >>> as_counts("MultiCategorical", [2, 3], 1)
        (tensor([2, 3]), tensor([1, 1]))
    """
    counts = torch.as_tensor(np.array(nvec) if not isinstance(nvec, torch.Tensor) else nvec).to(torch.int64).clone()
    if counts.ndim == 0 or counts.numel() == 0 or bool((counts < 1).any()):
        raise ValueError(f"{name} needs nvec as a list of positive numbers, got {counts.tolist()}.")
    first = torch.as_tensor(np.array(start) if not isinstance(start, torch.Tensor) else start).to(torch.int64)
    try:
        return counts, first.to(counts.device).expand(counts.shape).clone()
    except RuntimeError:
        raise ValueError(
            f"{name}: start has shape {list(first.shape)}, but nvec has shape {list(counts.shape)}."
        ) from None


def check_range(name: str, nvec: torch.Tensor, start: torch.Tensor, dtype: torch.dtype) -> None:
    """Raise unless ``dtype`` holds all choices from ``start`` to ``start + nvec - 1``.

    Raises:
        ValueError: it does not.
    """
    first, last = whole_numbers(dtype)
    low, high = int(start.min()), int((start + nvec).max()) - 1
    if low < first or high > last:
        raise ValueError(
            f"{name}: the choices go from {low} to {high}, but {dtype} holds {first} to {last}. Use torch.int64."
        )


def padded_rows(flat: torch.Tensor, nvec: torch.Tensor) -> torch.Tensor:
    """Lay rows of different lengths, given one after the other, out below one another, filled up with False.

    Args:
        flat: a tensor of shape ``[..., sum(nvec)]``.
        nvec: the length of each row, one dim.

    Returns:
        A tensor of shape ``[..., len(nvec), max(nvec)]``.

    Example:
        >>> padded_rows(torch.tensor([True, True, False, False, True]), torch.tensor([2, 3])).int().tolist()
        [[1, 1, 0], [0, 0, 1]]
    """
    nvec = nvec.reshape(-1)
    used = torch.arange(int(nvec.max()), device=nvec.device) < nvec[:, None]
    rows = torch.zeros((*flat.shape[:-1], *used.shape), dtype=flat.dtype, device=flat.device)
    rows[..., used] = flat
    return rows


def flat_mask(mask: Any, nvec: torch.Tensor) -> Any:
    """Return a mask with a row for each choice, ``[..., len(nvec), max(nvec)]``, as one vector; another one as it is.

    Args:
        mask: what the user gave.
        nvec: the length of each row, one dim. Entries of a shorter row beyond its length do not count.

    Example:
        >>> flat_mask([[True, False, False], [True, True, False]], torch.tensor([2, 3])).int().tolist()
        [1, 0, 1, 1, 0]
    """
    try:
        given = torch.as_tensor(mask)
    except (TypeError, ValueError, RuntimeError):
        return mask
    rows = (len(nvec), int(nvec.max())) if len(nvec) else None
    return flat_rows(given, nvec.to(given.device)) if len(nvec) > 1 and given.shape[-2:] == rows else mask


def flat_rows(rows: torch.Tensor, nvec: torch.Tensor) -> torch.Tensor:
    """Lay rows out one after the other: the inverse of `padded_rows`.

    Args:
        rows: a tensor of shape ``[..., len(nvec), max(nvec)]`` or wider.
        nvec: the length of each row, one dim.

    Returns:
        A tensor of shape ``[..., sum(nvec)]``.
    """
    nvec = nvec.reshape(-1)
    return rows[..., torch.arange(rows.shape[-1], device=nvec.device) < nvec[:, None]]

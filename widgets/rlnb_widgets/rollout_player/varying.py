"""Entries whose size varies from step to step: description, and a number for their strip."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlnb_widgets._core.text import number

_SHOWN = 4


def described(values: np.ndarray, most: int) -> tuple[list[str], np.ndarray, str]:
    """Return a text for each value, the size that varies, ``[E, T]``, and the dtypes.

    Values are tensors, lists of tensors or None, as objects ``[E, T]``. If there are more than ``most`` different
    texts, they are the shapes alone. If several sizes vary, the number of elements is returned.

    Example:
        >>> import torch
        >>> values = np.empty((1, 2), object)
        >>> values[0, 0], values[0, 1] = torch.zeros(1, 2), torch.ones(3, 2)
        >>> texts, sizes, dtype = described(values, 9)
        >>> texts, sizes.tolist(), dtype
        (['[1, 2]: 0, 0', '[3, 2]: 1, 1, 1, 1, … (mean 1)'], [[1, 3]], 'float32')
    """
    rows = [_parts(value) for value in values.ravel()]
    texts = [", ".join(map(_with_numbers, row)) for row in rows]
    if len(set(texts)) > most:
        texts = [", ".join(map(_shape, row)) for row in rows]
    dtypes = {str(part.dtype).removeprefix("torch.") for row in rows for part in row if part is not None}
    return texts, _sizes(rows).reshape(values.shape), " | ".join(sorted(dtypes))


def _parts(value: Any) -> list[Any]:
    return [part for below in value for part in _parts(below)] if isinstance(value, list) else [value]


def _shape(part: Any) -> str:
    return "missing" if part is None else str(list(part.shape))


def _with_numbers(part: Any) -> str:
    if part is None:
        return "missing"
    flat = part.detach().flatten()[:_SHOWN].cpu().tolist()
    shown = ", ".join(str(v) if isinstance(v, (bool, complex)) else number(v, 4) for v in flat)
    # The mean tells values apart whose first numbers are the same.
    more = f", … (mean {number(_mean(part), 4)})" if part.numel() > _SHOWN else ""
    return f"{_shape(part)}: {shown}{more}".removesuffix(": ")


def _mean(part: Any) -> float:
    part = part.detach()
    return float((part.abs() if part.is_complex() else part).double().mean())


def _sizes(rows: list[list[Any]]) -> np.ndarray:
    """Return the size of the one dimension that varies, else the number of elements."""
    shapes = [tuple(row[0].shape) for row in rows if len(row) == 1 and row[0] is not None]
    if len(shapes) == len(rows) and len(set(map(len, shapes))) == 1:
        varying = [sizes for sizes in zip(*shapes, strict=True) if len(set(sizes)) > 1]
        if len(varying) == 1:
            return np.array(varying[0], np.int64)
    return np.array([sum(0 if part is None else part.numel() for part in row) for row in rows], np.int64)

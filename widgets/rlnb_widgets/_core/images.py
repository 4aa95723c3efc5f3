"""Arrays of pixels: which shapes are images, and their conversion to 8-bit RGB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def as_rgb(frame: Any) -> np.ndarray:
    """Return one frame as ``[H, W, 3]`` uint8.

    It is ``[H, W]``, ``[H, W, C]`` or ``[C, H, W]`` with 1, 3 or 4 channels (RGBA is cut to RGB); uint8, or floats from
    0 to 1.

    Raises:
        ValueError: If the shape is not that of a picture.

    Example:
        >>> as_rgb(np.zeros((3, 8, 9), np.float32)).shape
        (8, 9, 3)
    """
    array = np.asarray(frame)
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim != 3:
        raise ValueError(f"a frame must have shape [H, W], [H, W, C] or [C, H, W], got {list(np.shape(frame))}.")
    if array.shape[-1] not in (1, 3, 4) and array.shape[0] in (1, 3, 4):
        array = np.moveaxis(array, 0, -1)
    if array.shape[-1] not in (1, 3, 4):
        raise ValueError(f"a frame must have 1, 3 or 4 channels, got shape {list(np.shape(frame))}.")
    if array.dtype == bool:
        array = array.astype(np.uint8) * 255
    elif array.dtype != np.uint8:
        scale = 255.0 if array.dtype.kind == "f" else 1.0
        array = np.clip(np.nan_to_num(array * scale), 0, 255).astype(np.uint8)
    return np.repeat(array, 3, axis=2) if array.shape[2] == 1 else array[..., :3]


def is_frames(shape: Sequence[int]) -> bool:
    """Return whether the shape of one step is that of an image.

    Example:
        >>> is_frames((3, 84, 84)), is_frames((4,))
        (True, False)
    """
    if len(shape) == 2:
        return min(shape) >= 8
    return len(shape) == 3 and (shape[-1] in (1, 3, 4) or shape[0] in (1, 3, 4)) and sorted(shape)[1] >= 8

"""Pixel frames: converted to 8-bit RGB, thinned out, scaled down and encoded within a byte budget."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

_LONGEST_SIDE = 320
_MOST_ENCODED = 600


@dataclass(frozen=True, eq=False)
class Pictures:
    """Encoded frames."""

    width: int  #: width in pixels
    height: int  #: height in pixels
    mime: str  #: media type of the pictures
    data: tuple[bytes, ...]  #: the distinct encoded pictures
    index: np.ndarray  #: index of the picture of each frame, int32 ``[N]``
    left_out: int  #: number of distinct pictures that did not fit the budget


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


def encode_frames(frame_at: Callable[[int], Any], count: int, budget: int) -> Pictures:
    """Scale down and encode frames, each distinct image once, thinned out evenly to fit ``budget`` bytes.

    Raises:
        ValueError: If the frames differ in size or are no pictures.
    """
    size = as_rgb(frame_at(0)).shape[:2]
    factor = -(-max(size) // _LONGEST_SIDE)

    def small(i: int) -> Image.Image:
        picture = as_rgb(frame_at(i))
        if picture.shape[:2] != size:
            found = list(picture.shape[:2])
            raise ValueError(f"all frames must have one size: frame 0 is {list(size)}, frame {i} is {found}.")
        image = Image.fromarray(np.ascontiguousarray(picture))
        return image.reduce(factor) if factor > 1 else image

    distinct, index = _distinct(small, count)
    write = _writer(small(distinct[len(distinct) // 2]))
    sample = [len(write(small(distinct[int(i)]))) for i in np.linspace(0, len(distinct) - 1, 4)]
    room = max(1, min(int(budget / (np.mean(sample) * 1.1)), _MOST_ENCODED))
    every = -(-len(distinct) // room)
    data: list[bytes] = []
    spent = 0
    for i in distinct[::every]:
        encoded = write(small(i))
        spent += len(encoded)
        if data and spent > budget:
            break
        data.append(encoded)
    width, height = small(0).size
    index = np.minimum(index // every, len(data) - 1).astype(np.int32)
    return Pictures(width, height, write.mime, tuple(data), index, len(distinct) - len(data))


def _distinct(small: Callable[[int], Image.Image], count: int) -> tuple[list[int], np.ndarray]:
    """Return the first frame of each distinct image, and for each frame the number of its image."""
    seen: dict[bytes, int] = {}
    firsts: list[int] = []
    index = np.empty(count, np.int32)
    for i in range(count):
        digest = hashlib.blake2b(small(i).tobytes(), digest_size=16).digest()
        if digest not in seen:
            seen[digest] = len(firsts)
            firsts.append(i)
        index[i] = seen[digest]
    return firsts, index


class _Writer:
    def __init__(self, kind: str, **options: Any) -> None:
        self.kind, self.options = kind, options
        self.mime = f"image/{kind.lower()}"

    def __call__(self, image: Image.Image) -> bytes:
        out = io.BytesIO()
        image.save(out, self.kind, **self.options)
        return out.getvalue()


def _writer(image: Image.Image) -> _Writer:
    """Choose the encoding: PNG for drawings, JPEG if PNG would be much larger, as for photographs."""
    png, jpeg = _Writer("PNG", compress_level=3), _Writer("JPEG", quality=82)
    return png if len(png(image)) <= 1.5 * len(jpeg(image)) else jpeg


def is_frames(shape: Sequence[int]) -> bool:
    """Return whether the shape of one step is that of an image.

    Example:
        >>> is_frames((3, 84, 84)), is_frames((4,))
        (True, False)
    """
    if len(shape) == 2:
        return min(shape) >= 8
    return len(shape) == 3 and (shape[-1] in (1, 3, 4) or shape[0] in (1, 3, 4)) and sorted(shape)[1] >= 8

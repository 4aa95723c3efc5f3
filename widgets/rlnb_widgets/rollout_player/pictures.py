"""Pixel frames: converted to 8-bit RGB, thinned out, scaled down and encoded within a byte budget."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from rlnb_widgets._core.images import as_rgb

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

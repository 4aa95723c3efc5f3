"""decode_image: images of datasets, and files that are not images."""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image

from rlnb.data.datasets.images import decode_image

PIXELS = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)


def encoded(array: np.ndarray[Any, Any], kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(array).save(file, kind)
    return file.getvalue()


def decoded(content: Any, *size: Any, **options: Any) -> np.ndarray[Any, Any]:
    return decode_image(content, *size, needed_by="This test", **options)


def test_pixels_are_what_they_were() -> None:
    assert np.array_equal(decoded(encoded(PIXELS), (4, 5)), PIXELS)
    assert np.array_equal(decoded(encoded(PIXELS[..., 0]), [4, 5]), PIXELS[..., 0])
    assert decoded(encoded(PIXELS[..., 0]), mode="RGB").shape == (4, 5, 3)
    depth = np.linspace(0, 1, 20, dtype=np.float32).reshape(4, 5)
    assert np.array_equal(decoded(encoded(depth, "TIFF"), formats=["TIFF"]), depth)


def stating(width: int, height: int) -> bytes:
    """A PNG file of no pixels that states a size."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header)) + b"\0\0\0\nIDAT"
    )


@pytest.mark.parametrize(
    ("content", "size", "reason"),
    [
        (encoded(PIXELS), (5, 4), r"it has 4 x 5 pixels, not 5 x 4"),
        (stating(9000, 9000), (4, 5), r"it has 9000 x 9000 pixels, not 4 x 5"),
        (stating(30_000, 30_000), None, r".*decompression bomb.*"),
        (encoded(PIXELS)[:45], None, r".*"),
        (encoded(PIXELS, "BMP"), None, r"it is not a JPEG or PNG file"),
        (None, None, r"it is not a JPEG or PNG file"),
        ("text", None, r"a bytes-like object is required, not 'str'"),
    ],
    ids=["another size", "a size that it has not", "bomb", "cut off", "another format", "nothing", "text"],
)
def test_images_that_are_refused(content: Any, size: Any, reason: str) -> None:
    with warnings.catch_warnings(), pytest.raises(ValueError, match=rf"^an image cannot be decoded \({reason}\)$"):
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        decoded(content, size)


def test_random_damage_raises_nothing_else() -> None:
    rng = np.random.default_rng(0)
    wholes = [encoded(PIXELS, kind) for kind in ("PNG", "JPEG", "TIFF")]
    for trial in range(300):
        content = bytearray(wholes[trial % 3])
        for place in rng.integers(0, len(content), 3):
            content[place] = rng.integers(256)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                decoded(bytes(content), formats=["PNG", "JPEG", "TIFF"])
            except ValueError as error:
                assert str(error).startswith("an image cannot be decoded (")

"""Compressed images in datasets, decoded without trusting what they say."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlnb._libraries import require_library
from rlnb.data.datasets.common import INSTALL


def decode_image(
    content: bytes,
    size: Sequence[int] | None = None,
    *,
    needed_by: str,
    mode: str | None = None,
    formats: Sequence[str] = ("JPEG", "PNG"),
) -> np.ndarray[Any, Any]:
    """Decode an image.

    Args:
        content: the file of the image.
        size: the height and the width that it must have. Default: any that Pillow takes for harmless.
        needed_by: who decodes it, for the error if Pillow is not installed.
        mode: mode of Pillow to convert it to, such as "RGB". Default: as it is stored.
        formats: formats that are decoded.

    Returns:
        The pixels, ``[height, width]`` or ``[height, width, channels]``.

    Raises:
        ImportError: If Pillow is not installed.
        ValueError: If it is damaged, or has another format or size.

    Example:
        >>> from PIL import Image
        >>> file = io.BytesIO()
        >>> Image.new("RGB", (6, 4)).save(file, "PNG")
        >>> decode_image(file.getvalue(), needed_by="This example").shape
        (4, 6, 3)
    """
    images = require_library("PIL.Image", needed_by, INSTALL)
    try:
        with images.open(io.BytesIO(content), formats=list(formats)) as image:
            # Its stated size is checked before memory for it is taken.
            if size is not None and (image.height, image.width) != tuple(size):
                raise ValueError(f"it has {image.height} x {image.width} pixels, not {size[0]} x {size[1]}")
            return np.array(image if mode is None else image.convert(mode))
    except images.UnidentifiedImageError:
        raise ValueError(f"an image cannot be decoded (it is not a {' or '.join(formats)} file)") from None
    except (OSError, ValueError, TypeError, SyntaxError, struct.error, images.DecompressionBombError) as error:
        raise ValueError(f"an image cannot be decoded ({error})") from error

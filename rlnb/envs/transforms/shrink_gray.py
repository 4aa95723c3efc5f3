"""``ShrinkGray``, a fast conversion of RGB frames to small gray images, without large float images in between."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import lru_cache

import torch
from torch.nn import functional

#: Perceived brightness of red, green and blue (ITU-R BT.601), to the digits that torchvision uses.
LUMA = (0.2989, 0.587, 0.114)
#: The number of floats in a strip, such that a strip fits in the cache of a core.
_STRIP = 200_000


def to_gray(red: torch.Tensor, green: torch.Tensor, blue: torch.Tensor) -> torch.Tensor:
    """Mix the planes of an RGB image, floats of shape ``[..., H, W]``, to a gray image ``[..., 1, H, W]``."""
    return (red * LUMA[0]).add_(green, alpha=LUMA[1]).add_(blue, alpha=LUMA[2]).unsqueeze(-3)


class ShrinkGray:
    """Scales a frame to between 0 and 1, converts it to gray, and resizes it (bilinear, with antialiasing).

    All three are linear, and resizing treats rows and columns separately, so their order only affects rounding. The
    rows are resized first, as a product with a sparse matrix, because that leaves the least data for the other steps.
    It works strip by strip, so that the floats of a strip never leave the cache.

    Args:
        size: the rows and columns of a frame ``[H, W, 3]`` of bytes.
        target: the rows and columns of the result ``[1, w, h]``, floats.
    """

    def __init__(self, size: tuple[int, int], target: tuple[int, int]) -> None:
        self.size, self.target = size, target
        unit = torch.eye(size[0]).reshape(1, 1, size[0], size[0])
        rows = functional.interpolate(unit, size=(target[0], size[0]), mode="bilinear", antialias=True)[0, 0]
        self._strips = list(_strips(rows / 255, max(1, _STRIP // (3 * size[1]))))
        self._luma = torch.tensor(LUMA)
        # Rounding must not leave the bounds of the env's spec.
        white = to_gray(*torch.ones(3, *size))
        self._most = functional.interpolate(white[None], size=target, mode="bilinear", antialias=True)[0]
        self._local = threading.local()

    def __call__(self, frame: torch.Tensor) -> torch.Tensor:
        """Convert a frame, uint8 of shape ``[H, W, 3]``, to a gray image, float32 of shape ``[1, w, h]``."""
        columns = self.size[1]
        floats, gray = self._memory()
        frame = frame.reshape(self.size[0], 3 * columns)
        for made, read, weights in self._strips:
            strip = floats[: read.stop - read.start].copy_(frame[read])
            torch.mv(torch.sparse.mm(weights, strip).reshape(-1, 3), self._luma, out=gray[made].view(-1))
        small = functional.interpolate(gray[None, None], size=self.target, mode="bilinear", antialias=True)[0]
        return small.clamp_(max=self._most)

    def _memory(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return this thread's buffers for a strip and for the gray rows: allocating them takes longer than filling."""
        found: tuple[torch.Tensor, torch.Tensor] | None = getattr(self._local, "memory", None)
        if found is None:
            most = max(read.stop - read.start for _, read, _ in self._strips)
            found = torch.empty(most, self.size[1] * 3), torch.empty(self.target[0], self.size[1])
            self._local.memory = found
        return found


def _strips(rows: torch.Tensor, most: int) -> Iterator[tuple[slice, slice, torch.Tensor]]:
    """Cut the weights that resize rows, ``[target rows, rows]``, into strips that read at most ``most`` rows.

    Yields:
        The target rows, the rows that they are computed from, and the weights as a sparse matrix.
    """
    used = rows != 0
    first = used.int().argmax(1).tolist()
    last = (rows.shape[1] - used.flip(1).int().argmax(1)).tolist()
    start = 0
    while start < len(rows):
        stop = start + 1
        while stop < len(rows) and last[stop] - first[start] <= most:
            stop += 1
        read = slice(first[start], last[stop - 1])
        yield slice(start, stop), read, rows[start:stop, read].to_sparse()
        start = stop


@lru_cache(maxsize=16)
def shrink_gray(size: tuple[int, int], target: tuple[int, int]) -> ShrinkGray:
    """Return the :class:`ShrinkGray` for these sizes, from a cache."""
    return ShrinkGray(size, target)


__all__ = ["LUMA", "ShrinkGray", "shrink_gray", "to_gray"]

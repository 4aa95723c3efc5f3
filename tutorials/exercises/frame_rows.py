"""Frames as a learner's network gets them: one row for each stack, the oldest frame on the left."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from rlnb_widgets._core.svg import Svg, image_tag

_WIDTH, _GAP, _HEAD, _EDGE = 132, 6, 22, 8
_LEAST = 320  # so that a title has room above a single frame


@dataclass(frozen=True, repr=False)
class FrameRows:
    """Rows of frames, each channel a picture in gray.

    Args:
        stacks: by title, frames of shape ``[N, H, W]``, floats from 0 to 1; values outside are clipped.

    Example:
        >>> FrameRows({"the last two": torch.zeros(2, 40, 60)})
        the last two: 2 frames of 40 x 60
    """

    stacks: Mapping[str, torch.Tensor]

    def __repr__(self) -> str:
        return "\n".join(f"{title}: {_count(stack)}" for title, stack in self.stacks.items())

    def _repr_html_(self) -> str:
        return image_tag(str(self._svg()), repr(self))

    def _svg(self) -> Svg:
        heights = [round(_WIDTH * stack.shape[-2] / stack.shape[-1]) for stack in self.stacks.values()]
        most = max(len(stack) for stack in self.stacks.values())
        svg = Svg(
            max(2 * _EDGE + most * (_WIDTH + _GAP) - _GAP, _LEAST),
            2 * _EDGE + sum(height + _HEAD + _GAP for height in heights),
            title=", ".join(self.stacks),
        )
        top = float(_EDGE)
        for (title, stack), height in zip(self.stacks.items(), heights, strict=True):
            svg.text(_EDGE, top + 14, f"{title}: {_count(stack)}", size=12)
            for i, frame in enumerate(stack):
                left = _EDGE + i * (_WIDTH + _GAP)
                svg.image(left, top + _HEAD, _WIDTH, height, _png(frame))
                svg.rect(left, top + _HEAD, _WIDTH, height, fill=None, stroke="line")
            top += height + _HEAD + _GAP
        return svg


def _count(stack: torch.Tensor) -> str:
    frames, rows, columns = stack.shape
    return f"{frames} frame{'s' * (frames > 1)} of {rows} x {columns}"


def _png(frame: torch.Tensor) -> bytes:
    gray = (frame.detach().float().clamp(0, 1) * 255).round().to(torch.uint8)
    out = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(gray.numpy())).save(out, "PNG")
    return out.getvalue()

"""Resize and CenterCrop: images of another size."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from rlnb.data import Bounded, TensorSpec
from rlnb.envs.transforms import image_faults as faults
from rlnb.envs.transforms.images import GrayScale, ImageTransform, ToTensorImage, is_frame
from rlnb.envs.transforms.observation import spec_of
from rlnb.envs.transforms.pixel_path import shrink_gray
from rlnb.envs.transforms.transform import Keys

#: The ways to interpolate, and whether each smooths what it makes smaller.
_MODES = {"bilinear": True, "bicubic": True, "nearest": False, "nearest-exact": False}


class _Sized(ImageTransform):
    """What both have in common: the size ``w`` by ``h``, of which ``w`` is the size of dimension -2."""

    def __init__(self, w: int, h: int | None, in_keys: Keys | None, out_keys: Keys | None) -> None:
        super().__init__(in_keys, out_keys)
        self.w, self.h = self._size("w", w), self._size("h", w if h is None else h)

    def _size(self, name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(faults.size(self, name, value))
        return value


class Resize(_Sized):
    """Scales images, ``(..., C, H, W)``, to ``(..., C, w, h)``.

    Bilinear and bicubic interpolation smooth an image that becomes smaller, so that nothing thin gets lost
    (antialiasing). Integers are rounded, and keep their dtype.

    Args:
        w: the size of dimension -2, the rows.
        h: the size of dimension -1, the columns. Default: ``w``.
        interpolation: "bilinear", "bicubic", "nearest" or "nearest-exact".
        in_keys: the images. Default: "pixels".
        out_keys: where the results go. Default: ``in_keys``.

    Raises:
        ValueError: if the size is not positive, or the interpolation is none of these.

    Example:
        >>> from tensordict import TensorDict
        >>> Resize(2, 3)(TensorDict({"pixels": torch.ones(3, 400, 600)}))["pixels"].shape
        torch.Size([3, 2, 3])
    """

    def __init__(
        self,
        w: int,
        h: int | None = None,
        interpolation: str = "bilinear",
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
    ) -> None:
        super().__init__(w, h, in_keys, out_keys)
        self.interpolation: str = getattr(interpolation, "value", interpolation)  # torchvision has an enumeration
        if self.interpolation not in _MODES:
            legal = ", ".join(map(repr, _MODES))
            raise ValueError(f"Resize knows no interpolation {interpolation!r}. Legal: {legal}.")

    def _apply_transform(self, value: torch.Tensor) -> torch.Tensor:
        self._assert_channels_first(value)
        if value.shape[-2:] == (self.w, self.h):
            return value
        return resized(value, self.w, self.h, self.interpolation)

    def _takes_over(self, source: ImageTransform) -> bool:
        # Rounding may differ in the last digit, which doubles would show.
        first = source._source
        return (
            isinstance(source, GrayScale)
            and isinstance(first, ToTensorImage)
            and first.dtype is torch.float32
            and self.interpolation == "bilinear"
        )

    def _whole(self, value: torch.Tensor) -> torch.Tensor:
        if self._source is None or not is_frame(value) or value.device.type != "cpu" or not value.numel():
            return super()._whole(value)
        rows, columns, channels = value.shape[-3:]
        shrink = shrink_gray((rows, columns), (self.w, self.h))
        if value.ndim == 3:
            return shrink(value)
        small = [shrink(frame) for frame in value.reshape(-1, rows, columns, channels)]
        return torch.stack(small).reshape(*value.shape[:-3], 1, self.w, self.h)

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        # Cubic curves overshoot.
        found = spec_of(self._apply_transform, spec, monotone=self.interpolation != "bicubic")
        even = isinstance(spec, Bounded) and _even(spec.low) and _even(spec.high)
        if not isinstance(found, Bounded) or not even:
            return found
        # Bounds that are the same in every pixel stay so: the weights of some add up to 1 less well than others'.
        low, high = found.low.amin((-2, -1), keepdim=True), found.high.amax((-2, -1), keepdim=True)
        low, high = low.expand(found.shape), high.expand(found.shape)
        return Bounded(low, high, shape=found.shape, dtype=found.dtype, device=found.device)

    def __repr__(self) -> str:
        return f"Resize(w={self.w}, h={self.h}, interpolation={self.interpolation!r}, keys={self.in_keys})"


class CenterCrop(_Sized):
    """Cuts ``(..., C, w, h)`` out of the middle of images ``(..., C, H, W)``; smaller images get a border of zeros.

    Args:
        w: the size of dimension -2, the rows.
        h: the size of dimension -1, the columns. Default: ``w``.
        in_keys: the images. Default: "pixels".
        out_keys: where the results go. Default: ``in_keys``.

    Raises:
        ValueError: if the size is not positive.

    Example:
        >>> from tensordict import TensorDict
        >>> CenterCrop(1, 2)(TensorDict({"pixels": torch.arange(12).reshape(1, 3, 4)}))["pixels"]
        tensor([[[5, 6]]])
    """

    def __init__(self, w: int, h: int | None = None, in_keys: Keys | None = None, out_keys: Keys | None = None) -> None:
        super().__init__(w, h, in_keys, out_keys)

    def _apply_transform(self, value: torch.Tensor) -> torch.Tensor:
        self._assert_channels_first(value)
        rows, columns = self.w - value.shape[-2], self.h - value.shape[-1]
        if rows > 0 or columns > 0:
            rows, columns = max(rows, 0), max(columns, 0)
            value = functional.pad(value, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))
        top, left = round((value.shape[-2] - self.w) / 2), round((value.shape[-1] - self.h) / 2)
        return value[..., top : top + self.w, left : left + self.h]

    def __repr__(self) -> str:
        return f"CenterCrop(w={self.w}, h={self.h}, keys={self.in_keys})"


def _even(bound: torch.Tensor) -> bool:
    return bool((bound == bound[..., :1, :1]).all())


def resized(value: torch.Tensor, w: int, h: int, interpolation: str) -> torch.Tensor:
    """Scale images.

    Args:
        value: of shape ``[..., C, H, W]`` and any dtype.
        w: the size of dimension -2.
        h: the size of dimension -1.
        interpolation: a mode of ``torch.nn.functional.interpolate``.

    Returns:
        Images of shape ``[..., C, w, h]`` and of the same dtype.

    Example:
        >>> resized(torch.tensor([[[0, 100]]], dtype=torch.uint8), 1, 1, "bilinear")
        tensor([[[50]]], dtype=torch.uint8)
    """
    exact = value.dtype in (torch.float32, torch.float64)
    # Every channel of every image is scaled alone, so that they may all be the channels of one.
    flat = value.reshape(1, -1, *value.shape[-2:])
    flat = functional.interpolate(
        flat if exact else flat.float(), size=(w, h), mode=interpolation, antialias=_MODES[interpolation]
    )
    if not value.is_floating_point():
        info = torch.iinfo(value.dtype) if value.dtype is not torch.bool else None
        flat = flat.clamp(0, 1) if info is None else flat.clamp(info.min, info.max)
        flat = flat.round()
    return flat.reshape(*value.shape[:-2], w, h).to(value.dtype)


__all__ = ["CenterCrop", "Resize", "resized"]

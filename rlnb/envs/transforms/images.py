"""Image transforms: ``ToTensorImage``, ``GrayScale``, ``Resize`` and ``CenterCrop``.

A chain of ToTensorImage, GrayScale and Resize, as Atari envs use it, is fused: the last of them does the work of all,
without the large float images in between (see :class:`ShrinkGray`). Only these very classes fuse, in a plain
:class:`Compose`; a subclass of one of them may override any method and is called as usual.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import torch
from tensordict import TensorDictBase
from torch.nn import functional

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.envs.transforms.compose import Compose
from rlnb.envs.transforms.transform import Keys, ObservationTransform

#: The numbers of channels that tell the channel dimension apart from rows and columns.
_CHANNELS = (1, 2, 3, 4)
#: The interpolation modes, and whether each smooths an image that it makes smaller.
_MODES = {"bilinear": True, "bicubic": True, "nearest": False, "nearest-exact": False}


def spec_of(function: Callable[[torch.Tensor], torch.Tensor], spec: TensorSpec, monotone: bool = True) -> TensorSpec:
    """Return the spec of the results of a function of tensors: Bounded if ``spec`` is and the function is monotone.

    ``monotone``: a greater input never has a smaller result, so that bounds map to bounds. This also holds for
    floating-point sums with non-negative weights, including rounding.
    """
    if monotone and isinstance(spec, Bounded):
        low, high = (function(bound.expand(spec.shape)) for bound in (spec.low, spec.high))
        return Bounded(low, high, shape=low.shape, dtype=low.dtype, device=spec.device)
    blank = function(spec.zero())
    return Unbounded(shape=blank.shape, dtype=blank.dtype, device=spec.device)


class ImageTransform(ObservationTransform):
    """Base class of image transforms, whose default key is "pixels"."""

    _default_keys = ("pixels",)
    #: The transform right before this one, whose work this one does too, and whether the next one does this one's.
    _fused_source: ImageTransform | None
    _fused_into_next: bool

    def __init__(self, in_keys: Keys | None = None, out_keys: Keys | None = None) -> None:
        super().__init__(in_keys, out_keys)

    def _unfuse(self) -> None:
        # Not by setattr: the transform before is not a submodule.
        self.__dict__.update(_fused_source=None, _fused_into_next=False)

    def _can_fuse(self, source: ImageTransform) -> bool:
        """Whether this transform can do the work of another one right before it."""
        return False

    def _apply_fused(self, value: torch.Tensor) -> torch.Tensor:
        """Do the work of all transforms that are fused into this one, and its own."""
        source = self._fused_source
        return self._apply_transform(value if source is None else source._apply_fused(value))

    def _learn_output(self, output_spec: Composite) -> None:
        self._unfuse()
        holder = self.container
        members = list(holder) if type(holder) is Compose else []
        at = next((i for i, member in enumerate(members) if member is self), 0)
        source = members[at - 1] if at else None
        if not isinstance(source, ImageTransform) or not source.out_keys == self.in_keys == self.out_keys:
            return
        if self._can_fuse(source):
            self.__dict__["_fused_source"] = source
            source.__dict__["_fused_into_next"] = True

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        return self._call_in_env(next_tensordict, False)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self._call_in_env(tensordict_reset, True)

    def _call_in_env(self, data: TensorDictBase, at_reset: bool) -> TensorDictBase:
        if self._fused_into_next:
            return data
        first: ImageTransform = self
        while first._fused_source is not None:
            first = first._fused_source
        first.__dict__["_at_reset"] = at_reset
        try:
            if first is self:
                return self._call(data)
            for in_key, out_key in zip(first.in_keys, self.out_keys, strict=True):
                value = first._read(data, in_key)
                if value is not None:
                    data.set(out_key, self._apply_fused(value))
            return data
        finally:
            first.__dict__["_at_reset"] = False

    def _forget(self) -> None:
        super()._forget()
        self._unfuse()

    def _assert_image(self, value: torch.Tensor, layout: str) -> None:
        if value.ndim < 3:
            raise ValueError(
                f"{type(self).__name__} takes images of shape {layout} and {_got(value)}. Fix: in_keys=[...] names the "
                "entries that are images; add a missing channel dimension with "
                "UnsqueezeTransform(dim=-3, in_keys=[...])."
            )

    def _assert_channels_first(self, value: torch.Tensor) -> None:
        self._assert_image(value, "(..., C, H, W)")
        integers = not value.is_floating_point()
        if integers and value.shape[-1] in _CHANNELS and value.shape[-3] not in _CHANNELS:
            name = type(self).__name__
            raise ValueError(
                f"{name} takes images with the channels before rows and columns, (..., C, H, W), and {_got(value)}: "
                "the channels are last, as envs return them. Fix: put ToTensorImage() before it, as in "
                f"Compose(ToTensorImage(), {name}(...))."
            )

    def _size(self, name: str, value: Any) -> int:
        """Check a number of rows or columns."""
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{type(self).__name__} takes {name} as a positive integer of pixels and got {value!r}.")
        return value

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        return spec_of(self._apply_transform, spec)


class ToTensorImage(ImageTransform):
    """Converts images of envs, ``(..., H, W, C)``, to images for networks, ``(..., C, H, W)``.

    Integers are scaled from 0..255 to 0..1. Floats keep their values.

    Args:
        from_int: whether to scale values. Default: if they are integers.
        unsqueeze: whether to add a dimension of size 1 before the channels.
        dtype: dtype of the result. Default: torch's default dtype.
        in_keys: the images. Default: "pixels".
        shape_tolerant: whether to keep the layout of images whose last dimension is not 3.

    Raises:
        TypeError: If ``from_int=True`` is combined with an integer ``dtype``.

    Example:
        >>> from tensordict import TensorDict
        >>> image = torch.full((4, 5, 3), 255, dtype=torch.uint8)
        >>> image = ToTensorImage()(TensorDict({"pixels": image}))["pixels"]
        >>> image.shape, image.max()
        (torch.Size([3, 4, 5]), tensor(1.))
    """

    #: Datasets of pictures look at this: where it is True, they leave pictures as they are stored.
    takes_channels_last = True

    def __init__(
        self,
        from_int: bool | None = None,
        unsqueeze: bool = False,
        dtype: torch.dtype | None = None,
        *,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        shape_tolerant: bool = False,
    ) -> None:
        super().__init__(in_keys, out_keys)
        self.from_int, self.unsqueeze, self.shape_tolerant = from_int, unsqueeze, shape_tolerant
        self.dtype = torch.get_default_dtype() if dtype is None else dtype
        if from_int:
            self._assert_float()

    def _assert_float(self) -> None:
        if not self.dtype.is_floating_point:
            raise TypeError(
                f"{type(self).__name__} scales integers to between 0 and 1, which {self.dtype} cannot hold. Fix: leave "
                "dtype out for floats, or from_int=False, which does not scale."
            )

    def _apply_transform(self, value: torch.Tensor) -> torch.Tensor:
        if not self.shape_tolerant:
            self._assert_image(value, "(..., H, W, C)")
            if _looks_channels_first(value):
                raise ValueError(
                    f"{type(self).__name__} takes images with the channels last, (..., H, W, C), and {_got(value)}: "
                    "the channels are already first. Fix: leave it out, or shape_tolerant=True, which keeps the "
                    "layout of such images."
                )
        moves = value.ndim > 2 and (value.shape[-1] == 3 or not self.shape_tolerant)
        value = self._scaled(value)  # first, in memory order: moving the channels only changes strides
        if moves:
            value = value.movedim(-1, -3)
        return value.unsqueeze(-4 if value.ndim > 2 else 0) if self.unsqueeze else value

    def _scaled(self, value: torch.Tensor) -> torch.Tensor:
        scaled = not value.is_floating_point() if self.from_int is None else self.from_int
        if not scaled:
            return value.to(self.dtype)
        self._assert_float()
        if value.dtype is torch.uint8 and self.dtype is torch.get_default_dtype():
            return torch.div(value, 255)
        return value.to(self.dtype) / 255


class GrayScale(ImageTransform):
    """Converts RGB images, ``(..., 3, H, W)``, to gray ones, ``(..., 1, H, W)``, by their perceived brightness.

    The result keeps the dtype; integers are rounded down.

    Args:
        in_keys: the images. Default: "pixels".

    Example:
        >>> from tensordict import TensorDict
        >>> red = torch.tensor([1.0, 0.0, 0.0]).reshape(3, 1, 1)
        >>> GrayScale()(TensorDict({"pixels": red}))["pixels"]
        tensor([[[0.2989]]])
    """

    def _apply_transform(self, value: torch.Tensor) -> torch.Tensor:
        self._assert_channels_first(value)
        if value.shape[-3] != 3:
            raise ValueError(
                f"{type(self).__name__} takes RGB images, (..., 3, H, W), and {_got(value)}, which has "
                f"{value.shape[-3]} channels. Fix: put it right after ToTensorImage(), before transforms that change "
                "the channels (such as CatFrames), and only once."
            )
        planes = (value if value.is_floating_point() else value.float()).unbind(-3)
        return to_gray(*planes).to(value.dtype)

    def _can_fuse(self, source: ImageTransform) -> bool:
        # Bytes become floats from 0 to 1 of shape [..., C, H, W], and nothing else changes.
        if type(self) is not GrayScale or type(source) is not ToTensorImage:
            return False
        return source.from_int is not False and source.dtype.is_floating_point and not source.unsqueeze

    def _apply_fused(self, value: torch.Tensor) -> torch.Tensor:
        source = self._fused_source
        if isinstance(source, ToTensorImage) and _is_frame(value):
            return to_gray(*(source._scaled(plane.contiguous()) for plane in value.unbind(-1)))
        return super()._apply_fused(value)


class Resize(ImageTransform):
    """Scales images, ``(..., C, H, W)``, to ``(..., C, w, h)``.

    Bilinear and bicubic interpolation smooth an image that becomes smaller, so that thin lines do not vanish
    (antialiasing). Integers are rounded and keep their dtype.

    Args:
        w: size of dimension -2, the rows.
        h: size of dimension -1, the columns. Default: ``w``.
        interpolation: "bilinear", "bicubic", "nearest" or "nearest-exact".
        in_keys: the images. Default: "pixels".

    Raises:
        ValueError: If the size is not positive, or the interpolation is unknown.

    Example:
        >>> from tensordict import TensorDict
        >>> Resize(2, 3)(TensorDict({"pixels": torch.ones(3, 400, 600)}))["pixels"].shape
        torch.Size([3, 2, 3])
    """

    _shown = ("w", "h", "interpolation", "keys")

    def __init__(
        self,
        w: int,
        h: int | None = None,
        interpolation: str = "bilinear",
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
    ) -> None:
        super().__init__(in_keys, out_keys)
        self.w, self.h = self._size("w", w), self._size("h", w if h is None else h)
        self.interpolation: str = getattr(interpolation, "value", interpolation)  # torchvision's enumeration
        if self.interpolation not in _MODES:
            legal = ", ".join(map(repr, _MODES))
            raise ValueError(f"Resize has no interpolation {interpolation!r}. Legal: {legal}.")

    def _apply_transform(self, value: torch.Tensor) -> torch.Tensor:
        self._assert_channels_first(value)
        if value.shape[-2:] == (self.w, self.h):
            return value
        return resized(value, self.w, self.h, self.interpolation)

    def _can_fuse(self, source: ImageTransform) -> bool:
        # Not in float64: the fused result may differ in the last digits of float32.
        first = source._fused_source
        return (
            type(self) is Resize
            and type(source) is GrayScale
            and isinstance(first, ToTensorImage)
            and first.dtype is torch.float32
            and self.interpolation == "bilinear"
        )

    def _apply_fused(self, value: torch.Tensor) -> torch.Tensor:
        if self._fused_source is None or not _is_frame(value) or value.device.type != "cpu" or not value.numel():
            return super()._apply_fused(value)
        rows, columns, channels = value.shape[-3:]
        shrink = _shrink_gray((rows, columns), (self.w, self.h))
        if value.ndim == 3:
            return shrink(value)
        small = [shrink(frame) for frame in value.reshape(-1, rows, columns, channels)]
        return torch.stack(small).reshape(*value.shape[:-3], 1, self.w, self.h)

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        # Bicubic interpolation overshoots the bounds.
        found = spec_of(self._apply_transform, spec, monotone=self.interpolation != "bicubic")
        bounds = (spec.low, spec.high) if isinstance(spec, Bounded) else ()
        if not isinstance(found, Bounded) or not all(bool((b == b[..., :1, :1]).all()) for b in bounds):
            return found
        # The weights of some pixels do not add up to exactly 1: bounds that are equal in all pixels stay equal.
        low, high = found.low.amin((-2, -1), keepdim=True), found.high.amax((-2, -1), keepdim=True)
        low, high = low.expand(found.shape), high.expand(found.shape)
        return Bounded(low, high, shape=found.shape, dtype=found.dtype, device=found.device)


class CenterCrop(ImageTransform):
    """Crops the center, ``(..., C, w, h)``, of images ``(..., C, H, W)``; smaller images are padded with zeros.

    Args:
        w: size of dimension -2, the rows.
        h: size of dimension -1, the columns. Default: ``w``.
        in_keys: the images. Default: "pixels".

    Raises:
        ValueError: If the size is not positive.

    Example:
        >>> from tensordict import TensorDict
        >>> CenterCrop(1, 2)(TensorDict({"pixels": torch.arange(12).reshape(1, 3, 4)}))["pixels"]
        tensor([[[5, 6]]])
    """

    _shown = ("w", "h", "keys")

    def __init__(self, w: int, h: int | None = None, in_keys: Keys | None = None, out_keys: Keys | None = None) -> None:
        super().__init__(in_keys, out_keys)
        self.w, self.h = self._size("w", w), self._size("h", w if h is None else h)

    def _apply_transform(self, value: torch.Tensor) -> torch.Tensor:
        self._assert_channels_first(value)
        return center_cropped(value, self.w, self.h)


def center_cropped(value: torch.Tensor, w: int, h: int) -> torch.Tensor:
    """Crop the center, ``[..., C, w, h]``, of images ``[..., C, H, W]``; smaller images are padded with zeros."""
    rows, columns = w - value.shape[-2], h - value.shape[-1]
    if rows > 0 or columns > 0:
        rows, columns = max(rows, 0), max(columns, 0)
        value = functional.pad(value, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))
    top, left = round((value.shape[-2] - w) / 2), round((value.shape[-1] - h) / 2)
    return value[..., top : top + w, left : left + h]


def resized(value: torch.Tensor, w: int, h: int, interpolation: str) -> torch.Tensor:
    """Scale images ``[..., C, H, W]`` of any dtype to ``[..., C, w, h]``, by a mode of ``torch``'s ``interpolate``."""
    if h == 1 and w > 1:
        # torch 2.13 repeats the first row in results of interpolate(antialias=True) that are one column wide.
        return resized(value.mT, 1, w, interpolation).mT
    exact = value.dtype in (torch.float32, torch.float64)
    # Channels are scaled independently, so those of all images can be the channels of one.
    flat = value.reshape(1, -1, *value.shape[-2:])
    flat = functional.interpolate(
        flat if exact else flat.float(), size=(w, h), mode=interpolation, antialias=_MODES[interpolation]
    )
    if not value.is_floating_point():
        info = torch.iinfo(value.dtype) if value.dtype is not torch.bool else None
        flat = flat.clamp(0, 1) if info is None else flat.clamp(info.min, info.max)
        flat = flat.round()
    return flat.reshape(*value.shape[:-2], w, h).to(value.dtype)


def _is_frame(value: torch.Tensor) -> bool:
    """Whether a tensor is an RGB image of bytes as envs return it, ``[..., H, W, 3]``."""
    rgb = value.dtype is torch.uint8 and value.ndim > 2 and value.shape[-1] == 3
    return rgb and not _looks_channels_first(value)


def _looks_channels_first(value: torch.Tensor) -> bool:
    """Whether the shape ``(..., C, H, W)`` is likely: at most 4 channels first, and more than 4 columns last."""
    return value.shape[-3] in _CHANNELS and value.shape[-1] not in _CHANNELS


def _got(value: torch.Tensor) -> str:
    return f"got shape {tuple(value.shape)} of dtype {value.dtype}"


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


#: The :class:`ShrinkGray` for a size and a target.
_shrink_gray = lru_cache(maxsize=16)(ShrinkGray)

"""ToTensorImage and GrayScale: images as networks take them."""

from __future__ import annotations

import torch

from rlnb.data import TensorSpec
from rlnb.envs.transforms import image_faults as faults
from rlnb.envs.transforms.observation import ObservationTransform, spec_of
from rlnb.envs.transforms.transform import Keys

# How bright the eye finds red, green and blue (ITU-R BT.601), to the digits that torchvision uses.
_LUMA = (0.2989, 0.587, 0.114)


class ImageTransform(ObservationTransform):
    """The base of transforms of images, whose entry is called "pixels" unless they are told otherwise.

    Args:
        in_keys: the images. Default: "pixels".
        out_keys: where the results go. Default: ``in_keys``.
    """

    _default_keys = ("pixels",)

    def __init__(self, in_keys: Keys | None = None, out_keys: Keys | None = None) -> None:
        super().__init__(in_keys, out_keys)

    def _assert_channels_first(self, value: torch.Tensor) -> None:
        if value.ndim < 3:
            raise ValueError(faults.no_image(self, value, "(..., C, H, W)"))
        if faults.looks_channels_last(value):
            raise ValueError(faults.channels_last(self, value))

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        return spec_of(self._apply_transform, spec)


class ToTensorImage(ImageTransform):
    """Makes images of envs, ``(..., H, W, C)``, into images of networks, ``(..., C, H, W)``.

    Integers are scaled from 0..255 to 0..1. Floats keep their values.

    Args:
        from_int: whether values are scaled. None (the default): where they are integers.
        unsqueeze: add a dimension of size 1 before the channels.
        dtype: of the result. Default: torch's default dtype.
        in_keys: the images. Default: "pixels".
        out_keys: where the results go. Default: ``in_keys``.
        shape_tolerant: leave the layout of images alone whose last dimension is not 3.

    Raises:
        TypeError: if ``from_int=True`` comes with an integer ``dtype``.

    Example:
        >>> from tensordict import TensorDict
        >>> image = torch.full((4, 5, 3), 255, dtype=torch.uint8)
        >>> image = ToTensorImage()(TensorDict({"pixels": image}))["pixels"]
        >>> image.shape, image.max()
        (torch.Size([3, 4, 5]), tensor(1.))
    """

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
        if from_int and not self.dtype.is_floating_point:
            raise TypeError(faults.integer_image(self, self.dtype))

    def _apply_transform(self, value: torch.Tensor) -> torch.Tensor:
        if value.ndim < 3 and not self.shape_tolerant:
            raise ValueError(faults.no_image(self, value, "(..., H, W, C)"))
        if not self.shape_tolerant and faults.looks_channels_first(value):
            raise ValueError(faults.channels_first(self, value))
        scaled = not value.is_floating_point() if self.from_int is None else self.from_int
        if scaled and not self.dtype.is_floating_point:
            raise TypeError(faults.integer_image(self, self.dtype))
        moves = value.ndim > 2 and (value.shape[-1] == 3 or not self.shape_tolerant)
        # Scaled as it lies in memory: to move the channels is a matter of strides.
        if scaled and value.dtype is torch.uint8 and self.dtype is torch.get_default_dtype():
            value = torch.div(value, 255)
        else:
            value = value.to(self.dtype)
            value = value / 255 if scaled else value
        if moves:
            value = value.movedim(-1, -3)
        return value.unsqueeze(-4 if value.ndim > 2 else 0) if self.unsqueeze else value


class GrayScale(ImageTransform):
    """Makes RGB images, ``(..., 3, H, W)``, gray: ``(..., 1, H, W)``, as bright as the eye finds them.

    The result keeps the dtype; integers are rounded down.

    Args:
        in_keys: the images. Default: "pixels".
        out_keys: where the results go. Default: ``in_keys``.

    Example:
        >>> from tensordict import TensorDict
        >>> red = torch.tensor([1.0, 0.0, 0.0]).reshape(3, 1, 1)
        >>> GrayScale()(TensorDict({"pixels": red}))["pixels"]
        tensor([[[0.2989]]])
    """

    def _apply_transform(self, value: torch.Tensor) -> torch.Tensor:
        self._assert_channels_first(value)
        if value.shape[-3] != 3:
            raise ValueError(faults.not_rgb(self, value))
        red, green, blue = (value if value.is_floating_point() else value.float()).unbind(-3)
        gray = (red * _LUMA[0]).add_(green, alpha=_LUMA[1]).add_(blue, alpha=_LUMA[2])
        return gray.to(value.dtype).unsqueeze(-3)


__all__ = ["GrayScale", "ImageTransform", "ToTensorImage"]

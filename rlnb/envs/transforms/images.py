"""ToTensorImage and GrayScale: images as networks take them."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data import Composite, TensorSpec
from rlnb.envs.transforms import image_faults as faults
from rlnb.envs.transforms.observation import ObservationTransform, spec_of
from rlnb.envs.transforms.pixel_path import mixed
from rlnb.envs.transforms.transform import Keys, Transform


class ImageTransform(ObservationTransform):
    """The base of transforms of images, whose entry is called "pixels" unless they are told otherwise.

    In a Compose in an env, a transform may do the work of the one right before it too (``_takes_over``), where nothing
    sees what that one makes: large images of floats cost more than all that is done with them.

    Args:
        in_keys: the images. Default: "pixels".
        out_keys: where the results go. Default: ``in_keys``.
    """

    _default_keys = ("pixels",)
    _source: ImageTransform | None
    _replaced: bool

    def __init__(self, in_keys: Keys | None = None, out_keys: Keys | None = None) -> None:
        super().__init__(in_keys, out_keys)
        self._stand_alone()

    def _stand_alone(self) -> None:
        # Not by setattr: what comes before is no submodule.
        self.__dict__.update(_source=None, _replaced=False)

    def _takes_over(self, source: ImageTransform) -> bool:
        """Whether this transform does the work of another too, which comes right before it."""
        return False

    def _whole(self, value: torch.Tensor) -> torch.Tensor:
        """Do the work of all that this transform took over, and its own."""
        return self._apply_transform(value if self._source is None else self._source._whole(value))

    def _learn_output(self, output_spec: Composite) -> None:
        self._stand_alone()
        holder = self.container
        members: list[Any] = list(getattr(holder, "transforms", ())) if isinstance(holder, Transform) else []
        at = next((i for i, member in enumerate(members) if member is self), 0)
        source = members[at - 1] if at else None
        if not isinstance(source, ImageTransform) or not source.out_keys == self.in_keys == self.out_keys:
            return
        if self._takes_over(source):
            self.__dict__["_source"] = source
            source.__dict__["_replaced"] = True

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        return self._call_in_env(next_tensordict, False)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self._call_in_env(tensordict_reset, True)

    def _call_in_env(self, data: TensorDictBase, at_reset: bool) -> TensorDictBase:
        if self._replaced:
            return data
        first: ImageTransform = self
        while first._source is not None:
            first = first._source
        first.__dict__["_at_reset"] = at_reset
        try:
            if first is self:
                return self._call(data)
            for in_key, out_key in zip(first.in_keys, self.out_keys, strict=True):
                value = first._read(data, in_key)
                if value is not None:
                    data.set(out_key, self._whole(value))
            return data
        finally:
            first.__dict__["_at_reset"] = False

    def _forget(self) -> None:
        super()._forget()
        self._stand_alone()

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
        if not self.shape_tolerant:
            if value.ndim < 3:
                raise ValueError(faults.no_image(self, value, "(..., H, W, C)"))
            if faults.looks_channels_first(value):
                raise ValueError(faults.channels_first(self, value))
        moves = value.ndim > 2 and (value.shape[-1] == 3 or not self.shape_tolerant)
        value = self._scaled(value)  # as it lies in memory: to move the channels is a matter of strides
        if moves:
            value = value.movedim(-1, -3)
        return value.unsqueeze(-4 if value.ndim > 2 else 0) if self.unsqueeze else value

    @property
    def makes_floats(self) -> bool:
        """Whether bytes become floats from 0 to 1 of shape ``[..., C, H, W]``, and nothing else happens to them."""
        return self.from_int is not False and self.dtype.is_floating_point and not self.unsqueeze

    def _scaled(self, value: torch.Tensor) -> torch.Tensor:
        scaled = not value.is_floating_point() if self.from_int is None else self.from_int
        if not scaled:
            return value.to(self.dtype)
        if not self.dtype.is_floating_point:
            raise TypeError(faults.integer_image(self, self.dtype))
        if value.dtype is torch.uint8 and self.dtype is torch.get_default_dtype():
            return torch.div(value, 255)
        return value.to(self.dtype) / 255


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
        planes = (value if value.is_floating_point() else value.float()).unbind(-3)
        return mixed(*planes).to(value.dtype)

    def _takes_over(self, source: ImageTransform) -> bool:
        return isinstance(source, ToTensorImage) and source.makes_floats

    def _whole(self, value: torch.Tensor) -> torch.Tensor:
        source = self._source
        if isinstance(source, ToTensorImage) and is_frame(value):
            return mixed(*(source._scaled(plane.contiguous()) for plane in value.unbind(-1)))
        return super()._whole(value)


def is_frame(value: torch.Tensor) -> bool:
    """Tell whether a value is an RGB image of bytes, as envs give it.

    Args:
        value: any tensor.

    Returns:
        True for uint8 of shape ``[..., H, W, 3]``.
    """
    rgb = value.dtype is torch.uint8 and value.ndim > 2 and value.shape[-1] == 3
    return rgb and not faults.looks_channels_first(value)


__all__ = ["GrayScale", "ImageTransform", "ToTensorImage", "is_frame"]

"""``PixelEmbedding``, the base class of transforms that replace images by the output of a published network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.transforms import errors
from rlnb.envs.transforms.images import ToTensorImage, resized
from rlnb.envs.transforms.pretrained import LazyNetwork
from rlnb.envs.transforms.transform import Keys, Transform, key_list

# Mean and standard deviation of each channel over ImageNet, which these networks were trained with.
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class PixelEmbedding(Transform):
    """Replaces images by vectors: images are scaled, normalized, and passed through a network.

    Args:
        network: maps images ``[N, 3, H, W]`` to vectors ``[N, n_features]``.
        n_features: size of a vector.
        scale: brings images ``[N, 3, H, W]``, between 0 and 1, to the size that the network takes.
        vector_key: base name of the default ``out_keys``; a number is added without ``stack_images``.
        del_keys: whether to remove the images.
    """

    def __init__(
        self,
        network: LazyNetwork,
        n_features: int,
        scale: Callable[[torch.Tensor], torch.Tensor],
        in_keys: Keys | None,
        out_keys: Keys | None,
        *,
        vector_key: str = "",
        stack_images: bool = True,
        tensor_pixels_keys: Keys | None = None,
        del_keys: bool = True,
    ) -> None:
        self.stack_images = stack_images
        keys = key_list("pixels" if in_keys is None else in_keys, "in_keys")
        if out_keys is None:
            out_keys = [vector_key] if stack_images else [f"{vector_key}_{i}" for i in range(len(keys))]
        super().__init__(keys, out_keys)
        self.n_features, self.del_keys = n_features, del_keys
        self.tensor_pixels_keys = key_list(tensor_pixels_keys, "tensor_pixels_keys")
        n_kept = len(self.tensor_pixels_keys)
        if n_kept not in (0, len(self.in_keys)):
            raise ValueError(errors.unequal_keys(self, "in_keys", len(self.in_keys), "tensor_pixels_keys", n_kept))
        self.network = network
        self._scale = scale
        self._to_image = (ToTensorImage(shape_tolerant=True),)  # in a tuple, so that it is not a submodule

    def _pair_up(self) -> None:
        if not self.stack_images:
            return super()._pair_up()
        if len(self.out_keys) != 1:
            raise ValueError(
                f"{type(self).__name__} with stack_images=True puts the vectors of all images into one entry, and got "
                f"{len(self.out_keys)} out_keys. Fix: one out_key, or stack_images=False."
            )

    def _apply_transform(self, value: torch.Tensor) -> torch.Tensor:
        images: torch.Tensor = self._to_image[0]._apply_transform(value)
        if images.ndim < 3 or images.shape[-3] != 3:
            raise ValueError(
                f"{type(self).__name__} takes RGB images, (..., H, W, 3) or (..., 3, H, W), and got shape "
                f"{tuple(value.shape)} of dtype {value.dtype}. Fix: in_keys=[...] names the images."
            )
        lead = images.shape[:-3]
        images = self._scale(images.reshape(-1, *images.shape[-3:]))
        mean, std = (images.new_tensor(numbers).reshape(3, 1, 1) for numbers in (_MEAN, _STD))
        return self.network((images - mean) / std).reshape(*lead, self.n_features)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        values = [self._read(next_tensordict, key) for key in self.in_keys]
        if any(value is None for value in values):
            return next_tensordict
        vectors = [self._apply_transform(value) for value in values]
        if self.stack_images:
            vectors = [torch.cat(vectors, -1)]
        if self.del_keys:
            for key in self.in_keys:
                next_tensordict.del_(key)
        kept = zip(self.tensor_pixels_keys, values if self.tensor_pixels_keys else (), strict=True)
        for key, value in [*kept, *zip(self.out_keys, vectors, strict=True)]:
            next_tensordict.set(key, value)
        return next_tensordict

    def _new_keys(self) -> list[NestedKey]:
        gone = self.in_keys if self.del_keys else []
        return [key for key in (*self.out_keys, *self.tensor_pixels_keys) if key not in gone]

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Replace the images by vectors; see :class:`Transform`."""
        self._need_composite(observation_spec)
        specs = [observation_spec.get(key) for key in self.in_keys]
        if any(spec is None for spec in specs):
            return observation_spec
        vectors: list[TensorSpec] = [self._vector_spec(spec) for spec in specs]
        if self.stack_images:
            vectors = [self._vector_spec(specs[0], len(specs))]
        if self.del_keys:
            for key in self.in_keys:
                observation_spec.pop(key)
        kept = zip(self.tensor_pixels_keys, specs if self.tensor_pixels_keys else (), strict=True)
        for key, spec in [*kept, *zip(self.out_keys, vectors, strict=True)]:
            observation_spec.set(key, spec)
        return observation_spec

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """Return the spec of the rewards unchanged; see :class:`Transform`."""
        return reward_spec

    def transform_done_spec(self, done_spec: Composite) -> Composite:
        """Return the spec of the end signals unchanged; see :class:`Transform`."""
        return done_spec

    def _vector_spec(self, image: TensorSpec, count: int = 1) -> TensorSpec:
        shape = (*image.shape[:-3], count * self.n_features)
        return Unbounded(shape=shape, dtype=torch.float32, device=image.device)

    @property
    def _weights(self) -> str:
        return "random" if self.network.is_random else "published"


def square(transform: str, size: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the function that scales images ``[N, 3, H, W]`` to squares of ``size`` pixels, for R3M and VIP."""
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ValueError(f"{transform} takes size as a positive integer of pixels and got {size!r}.")
    return partial(resized, w=size, h=size, interpolation="bilinear")


def legal_model(transform: str, name: Any, models: Mapping[str, Any]) -> Any:
    """Look up a model by name; raise ``NotImplementedError`` if there is none of this name."""
    if not isinstance(name, str) or name not in models:
        legal = ", ".join(map(repr, models))
        raise NotImplementedError(f"{transform} has no model {name!r}. Legal: {legal}.")
    return models[name]


__all__ = ["PixelEmbedding", "legal_model", "square"]

"""PixelEmbedding: the base of transforms that put the output of a published network in place of images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data import Composite, TensorSpec, Unbounded
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.transforms import faults
from rlnb.envs.transforms.images import ImageTransform, ToTensorImage
from rlnb.envs.transforms.networks import Checkpoint, LazyNetwork
from rlnb.envs.transforms.resize import resized
from rlnb.envs.transforms.transform import Keys, key_list

# The mean and standard deviation of each channel over ImageNet, which these networks were trained with.
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class PixelEmbedding(ImageTransform):
    """What R3M, VIP and VC-1 have in common: images are scaled, normalised, and turned into vectors.

    Args:
        network: turns images into vectors.
        n_features: the size of a vector.
        in_keys: the images, ``[..., H, W, 3]`` or ``[..., 3, H, W]``.
        out_keys: of the vectors.
        stack_images: put the vectors of all images into one entry, one after the other.
        tensor_pixels_keys: where the images are kept, as they came. None for nowhere.
        del_keys: whether the images are removed.
    """

    def __init__(
        self,
        network: LazyNetwork,
        n_features: int,
        in_keys: Keys | None,
        out_keys: list[NestedKey],
        stack_images: bool = True,
        tensor_pixels_keys: Keys | None = None,
        del_keys: bool = True,
    ) -> None:
        self.stack_images = stack_images
        super().__init__(in_keys, out_keys)
        self.n_features, self.del_keys = n_features, del_keys
        self.tensor_pixels_keys = key_list(tensor_pixels_keys, "tensor_pixels_keys")
        n_kept = len(self.tensor_pixels_keys)
        if n_kept not in (0, len(self.in_keys)):
            raise ValueError(faults.unequal_keys(self, "in_keys", len(self.in_keys), "tensor_pixels_keys", n_kept))
        self.network = network
        self._to_image = (ToTensorImage(shape_tolerant=True),)  # in a tuple, it is no submodule

    def _pair_up(self) -> None:
        """One out_key takes all images, or each has one."""
        if not self.stack_images:
            return super()._pair_up()
        if len(self.out_keys) != 1:
            raise ValueError(
                f"{type(self).__name__} with stack_images=True puts the vectors of all images into one entry, and got "
                f"{len(self.out_keys)} out_keys. Fix: one out_key, or stack_images=False."
            )

    # Data ---------------------------------------------------------------------------------------------------------

    def _scaled(self, images: torch.Tensor) -> torch.Tensor:
        """Bring images ``[N, 3, H, W]``, between 0 and 1, to the size that the network takes."""
        raise NotImplementedError

    def _apply_transform(self, value: torch.Tensor) -> torch.Tensor:
        images: torch.Tensor = self._to_image[0]._apply_transform(value)
        if images.ndim < 3 or images.shape[-3] != 3:
            raise ValueError(
                f"{type(self).__name__} takes RGB images, (..., H, W, 3) or (..., 3, H, W), and got shape "
                f"{tuple(value.shape)} of dtype {value.dtype}. Fix: in_keys=[...] names the images."
            )
        lead = images.shape[:-3]
        images = self._scaled(images.reshape(-1, *images.shape[-3:]))
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

    # Specs --------------------------------------------------------------------------------------------------------

    def _new_keys(self) -> list[NestedKey]:
        gone = self.in_keys if self.del_keys else []
        return [key for key in (*self.out_keys, *self.tensor_pixels_keys) if key not in gone]

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Put the vectors in place of the images; see :class:`Transform`."""
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

    def _vector_spec(self, image: TensorSpec, count: int = 1) -> TensorSpec:
        shape = (*image.shape[:-3], count * self.n_features)
        return Unbounded(shape=shape, dtype=torch.float32, device=image.device)


class ResNetEmbedding(PixelEmbedding):
    """What R3M and VIP have in common: the network is a ResNet, and images are scaled to a square.

    Args:
        model_name: the network.
        models: for each legal ``model_name`` what makes the network, the size of its vector, and its weights.
        name: of a vector, of which the default ``out_keys`` are made.
        in_keys: the images.
        out_keys: of the vectors.
        size: the rows and columns that images are scaled to.
        stack_images: put the vectors of all images into one entry.
        download: fetch the published weights.
        download_path: a file of weights, or the folder in which they are kept.
        tensor_pixels_keys: where the images are kept, as they came.
        requires_grad: whether gradients flow through the network.
    """

    def __init__(
        self,
        model_name: str,
        models: Mapping[str, tuple[Callable[[], torch.nn.Module], int, Checkpoint]],
        name: str,
        in_keys: Keys | None,
        out_keys: Keys | None,
        size: int,
        stack_images: bool,
        download: bool,
        download_path: str | Path | None,
        tensor_pixels_keys: Keys | None,
        requires_grad: bool = False,
    ) -> None:
        make, n_features, checkpoint = legal_model(type(self).__name__, model_name, models)
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"{type(self).__name__} takes size as a positive integer of pixels and got {size!r}.")
        found = key_list("pixels" if in_keys is None else in_keys, "in_keys")
        names: list[NestedKey] = [name] if stack_images else [f"{name}_{i}" for i in range(len(found))]
        super().__init__(
            LazyNetwork(make, checkpoint, download, download_path, requires_grad),
            n_features,
            found,
            names if out_keys is None else key_list(out_keys, "out_keys"),
            stack_images,
            tensor_pixels_keys,
        )
        self.model_name, self.size = model_name, size

    def _scaled(self, images: torch.Tensor) -> torch.Tensor:
        return resized(images, self.size, self.size, "bilinear")

    def __repr__(self) -> str:
        weights = "random" if self.network.is_random else "published"
        return (
            f"{type(self).__name__}(model_name={self.model_name!r}, in_keys={self.in_keys}, out_keys={self.out_keys}, "
            f"size={self.size}, weights={weights})"
        )


def legal_model(transform: str, name: Any, models: Mapping[str, Any]) -> Any:
    """Look a model up by its name.

    Args:
        transform: the name of the transform, for the error.
        name: of the model.
        models: what is known, by name.

    Returns:
        What is known of it.

    Raises:
        NotImplementedError: if there is no model of this name.
    """
    if not isinstance(name, str) or name not in models:
        legal = ", ".join(map(repr, models))
        raise NotImplementedError(f"{transform} knows no model {name!r}. Legal: {legal}.")
    return models[name]


__all__ = ["PixelEmbedding", "ResNetEmbedding", "legal_model"]

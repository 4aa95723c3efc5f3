"""Image embeddings of published networks: ``R3MTransform``, ``VIPTransform``, ``VC1Transform``, and VIP's rewards."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.transforms import errors
from rlnb.envs.transforms.frames import FrameMemory
from rlnb.envs.transforms.images import ToTensorImage, center_cropped, resized
from rlnb.envs.transforms.pretrained import (
    RESNET_FEATURES,
    VITS,
    Checkpoint,
    LazyNetwork,
    make_resnet,
    make_vit,
    require_package,
)  # fmt: skip
from rlnb.envs.transforms.transform import Keys, Transform, key_list

# Mean and standard deviation of each channel over ImageNet, which these networks were trained with.
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class PixelEmbedding(Transform):
    """Base class of transforms that scale images, normalize them, and replace them by the vectors of a network.

    Args:
        model_name: the model, for ``repr``.
        network: maps images ``[N, 3, H, W]`` to vectors ``[N, n_features]``.
        n_features: size of a vector.
        size: rows and columns that images are scaled to, unless a subclass overrides ``_scale``.
        vector_key: base name of the default ``out_keys``; a number is added without ``stack_images``.
        del_keys: whether to remove the images.
    """

    def __init__(
        self,
        model_name: str,
        network: LazyNetwork,
        n_features: int,
        in_keys: Keys | None,
        out_keys: Keys | None,
        size: int | None = None,
        *,
        vector_key: str = "",
        stack_images: bool = True,
        tensor_pixels_keys: Keys | None = None,
        del_keys: bool = True,
    ) -> None:
        square = type(self)._scale is PixelEmbedding._scale
        if square and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
            raise ValueError(f"{type(self).__name__} takes size as a positive integer of pixels and got {size!r}.")
        self.stack_images = stack_images
        keys = key_list("pixels" if in_keys is None else in_keys, "in_keys")
        if out_keys is None:
            out_keys = [vector_key] if stack_images else [f"{vector_key}_{i}" for i in range(len(keys))]
        super().__init__(keys, out_keys)
        self.model_name, self.size, self.n_features, self.del_keys = model_name, size, n_features, del_keys
        self.tensor_pixels_keys = key_list(tensor_pixels_keys, "tensor_pixels_keys")
        n_kept = len(self.tensor_pixels_keys)
        if n_kept not in (0, len(self.in_keys)):
            raise ValueError(errors.unequal_keys(self, "in_keys", len(self.in_keys), "tensor_pixels_keys", n_kept))
        self.network = network
        self._to_image = (ToTensorImage(shape_tolerant=True),)  # in a tuple, so that it is not a submodule

    def _pair_up(self) -> None:
        if not self.stack_images:
            return super()._pair_up()
        if len(self.out_keys) != 1:
            raise ValueError(
                f"{type(self).__name__} with stack_images=True puts the vectors of all images into one entry, and got "
                f"{len(self.out_keys)} out_keys. Fix: one out_key, or stack_images=False."
            )

    def _scale(self, images: torch.Tensor) -> torch.Tensor:
        """Bring images ``[N, 3, H, W]``, between 0 and 1, to the size that the network takes."""
        assert self.size is not None
        return resized(images, self.size, self.size, "bilinear")

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
        return self._replace(next_tensordict, values, vectors, next_tensordict.del_)

    def _replace(self, where: Any, images: list[Any], vectors: list[Any], remove: Callable[[NestedKey], Any]) -> Any:
        """Write the vectors in place of the images, in data or specs."""
        if self.del_keys:
            for key in self.in_keys:
                remove(key)
        kept = zip(self.tensor_pixels_keys, images if self.tensor_pixels_keys else (), strict=True)
        for key, value in [*kept, *zip(self.out_keys, vectors, strict=True)]:
            where.set(key, value)
        return where

    def _new_keys(self) -> list[NestedKey]:
        gone = self.in_keys if self.del_keys else []
        return [key for key in (*self.out_keys, *self.tensor_pixels_keys) if key not in gone]

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Replace the images by vectors; see :class:`Transform`."""
        self._need_composite(observation_spec)
        specs: list[Any] = [observation_spec.get(key) for key in self.in_keys]
        if any(spec is None for spec in specs):
            return observation_spec
        vectors = [self._vector_spec(spec) for spec in specs]
        if self.stack_images:
            vectors = [self._vector_spec(specs[0], len(specs))]
        changed: Composite = self._replace(observation_spec, specs, vectors, observation_spec.pop)
        return changed

    def _forward_specs(self, composite: Composite) -> Composite:
        return composite  # rewards and end signals

    def _vector_spec(self, image: TensorSpec, count: int = 1) -> TensorSpec:
        shape = (*image.shape[:-3], count * self.n_features)
        return Unbounded(shape=shape, dtype=torch.float32, device=image.device)

    def __repr__(self) -> str:
        size = "" if self.size is None else f"size={self.size}, "
        return (
            f"{type(self).__name__}(model_name={self.model_name!r}, in_keys={self.in_keys}, out_keys={self.out_keys}, "
            f"{size}weights={'random' if self.network.is_random else 'published'})"
        )


def _legal_model(transform: str, name: Any, models: Mapping[str, Any]) -> Any:
    """Look up a model by name; raise ``NotImplementedError`` if there is none of this name."""
    if not isinstance(name, str) or name not in models:
        legal = ", ".join(map(repr, models))
        raise NotImplementedError(f"{transform} has no model {name!r}. Legal: {legal}.")
    return models[name]


_OWN = {"resnet18": "r3m_18.pt", "resnet34": "r3m_34.pt", "resnet50": "r3m_50.pt"}
_OWN_URL = "https://pytorch.s3.amazonaws.com/models/rl/r3m/"
# ImageNet classifiers of the same architectures, by torchvision's names for them.
_IMAGENET = {
    "IMAGENET1K_V1": {
        "resnet18": "resnet18-f37072fd.pth",
        "resnet34": "resnet34-b627a593.pth",
        "resnet50": "resnet50-0676ba61.pth",
    },
    "IMAGENET1K_V2": {"resnet50": "resnet50-11ad3fa6.pth"},
}
_IMAGENET_URL = "https://download.pytorch.org/models/"


class R3MTransform(PixelEmbedding):
    """Replaces images by embeddings of R3M (Nair et al. 2022, https://arxiv.org/abs/2203.12601).

    Requires the extra ``rlnb[pretrained]``. The network is made and its weights are loaded at the first image. It is
    frozen: it computes no gradients (unless ``requires_grad``) and keeps its batch statistics.

    Args:
        model_name: "resnet18", "resnet34" or "resnet50", with 512, 512 and 2048 features.
        in_keys: the images, of shape ``[..., H, W, 3]`` or ``[..., 3, H, W]``. They are removed. Default: "pixels".
        out_keys: the embeddings, of shape ``[..., features]``. Default: "r3m_vec", or "r3m_vec_0", "r3m_vec_1" and so
            on without ``stack_images``.
        size: rows and columns that images are scaled to.
        stack_images: whether to concatenate the embeddings of all ``in_keys`` in one entry.
        download: ``True`` downloads the weights of R3M, once; "IMAGENET1K_V1" (or "IMAGENET1K_V2" for "resnet50")
            those that torchvision publishes for the same network. ``False``, without ``download_path``: random weights,
            always the same.
        download_path: a file of weights, or the folder for downloaded weights. Default: the cache of torch.hub.
        tensor_pixels_keys: entries that keep the original images. Default: they are not kept.
        requires_grad: whether the network computes gradients.

    Raises:
        ImportError: If torchvision is not installed.
        NotImplementedError: If the model is unknown.
        ValueError: If the keys do not pair up, or the weights are unknown.

    Example:
        >>> import torch  # doctest: +SKIP
        >>> from tensordict import TensorDict  # doctest: +SKIP
        >>> r3m = R3MTransform("resnet18", in_keys=["pixels"], size=64)  # doctest: +SKIP
        >>> images = torch.zeros(2, 30, 40, 3, dtype=torch.uint8)  # doctest: +SKIP
        >>> r3m(TensorDict({"pixels": images}, [2]))["r3m_vec"].shape  # doctest: +SKIP
        torch.Size([2, 512])
    """

    def __init__(
        self,
        model_name: str,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        size: int = 244,
        stack_images: bool = True,
        download: bool | str | Any = False,
        download_path: str | Path | None = None,
        tensor_pixels_keys: Keys | None = None,
        requires_grad: bool = False,
    ) -> None:
        n_features = _legal_model("R3MTransform", model_name, RESNET_FEATURES)
        require_package("torchvision.models", "R3MTransform")
        make, checkpoint = partial(make_resnet, model_name), _r3m_checkpoint(model_name, download)
        super().__init__(
            model_name,
            LazyNetwork(make, checkpoint, bool(download), download_path, requires_grad),
            n_features,
            in_keys,
            out_keys,
            size,
            vector_key="r3m_vec",
            stack_images=stack_images,
            tensor_pixels_keys=tensor_pixels_keys,
        )


def _r3m_checkpoint(model_name: str, download: Any) -> Checkpoint:
    if isinstance(download, bool):
        name, url = _OWN[model_name], _OWN_URL
    else:
        name, url = _IMAGENET.get(getattr(download, "name", download), {}).get(model_name, ""), _IMAGENET_URL
        if not name:
            legal = ", ".join(f"{weights!r}" for weights, files in _IMAGENET.items() if model_name in files)
            raise ValueError(
                f"R3MTransform has no weights {download!r} for {model_name}. Legal for download: True (those of R3M), "
                f"{legal} (those of torchvision), False."
            )
    return Checkpoint(
        name,
        url + name,
        wrappers=("r3m", "state_dict", "model"),
        prefixes=("module.", "convnet."),
        ignored=("fc.", "lang_enc.", "lang_rew."),
    )


# The models of VIP and the number of their features.
_VIP_MODELS = {"resnet50": 1024}
_VIP_WEIGHTS = Checkpoint(
    "vip_50.pt",
    "https://pytorch.s3.amazonaws.com/models/rl/vip/model.pt",
    wrappers=("vip", "state_dict", "model"),
    prefixes=("module.", "convnet."),
)
_IMAGE, _GOAL = "goal_image", "goal_embedding"


class VIPTransform(PixelEmbedding):
    """Replaces images by embeddings of VIP (Ma et al. 2023, https://arxiv.org/abs/2210.00030).

    The distance between two embeddings measures how many steps lie between the images. Requires the extra
    ``rlnb[pretrained]``. The network is frozen, and made at the first image, as that of :class:`R3MTransform`.

    Args:
        model_name: "resnet50", with 1024 features. Other arguments are as for :class:`R3MTransform`.
        out_keys: the embeddings, of shape ``[..., 1024]``. Default: "vip_vec", or "vip_vec_0", "vip_vec_1" and so on
            without ``stack_images``.
        download: whether to download the weights of VIP, once. ``False``, without ``download_path``: random weights,
            always the same.

    Raises:
        ImportError: If torchvision is not installed.
        NotImplementedError: If the model is unknown.

    Example:
        >>> from tensordict import TensorDict  # doctest: +SKIP
        >>> vip = VIPTransform("resnet50", size=64)  # doctest: +SKIP
        >>> vip(TensorDict({"pixels": torch.zeros(30, 40, 3, dtype=torch.uint8)}))["vip_vec"].shape  # doctest: +SKIP
        torch.Size([1024])
    """

    def __init__(
        self,
        model_name: str,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        size: int = 244,
        stack_images: bool = True,
        download: bool = False,
        download_path: str | Path | None = None,
        tensor_pixels_keys: Keys | None = None,
    ) -> None:
        name = type(self).__name__
        n_features = _legal_model(name, model_name, _VIP_MODELS)
        require_package("torchvision.models", name)
        if not isinstance(download, bool):
            raise ValueError(f"{name} has no weights {download!r}. Legal for download: True (those of VIP), False.")
        make = partial(make_resnet, model_name, n_features)
        super().__init__(
            model_name,
            LazyNetwork(make, _VIP_WEIGHTS, download, download_path),
            n_features,
            in_keys,
            out_keys,
            size,
            vector_key="vip_vec",
            stack_images=stack_images,
            tensor_pixels_keys=tensor_pixels_keys,
        )


class VIPRewardTransform(VIPTransform):
    """Rewards each step by how much closer it comes to a goal image, measured between embeddings of VIP.

    A reset reads the goal from "goal_image", an image like those of the env. Its embedding is in the data as
    "goal_embedding". A reset without "goal_image" keeps the goal of the previous episode.

    Args:
        model_name: as for :class:`VIPTransform`, like all others.
        in_keys: the image. Default: "pixels".
        out_keys: its embedding. Default: "vip_vec", or "vip_vec_0" without ``stack_images``.
        size: rows and columns that the image is scaled to.
        stack_images: only affects the default of ``out_keys``, since there is one image.
        download: whether to download the weights of VIP.
        download_path: a file of weights, or the folder for downloaded weights.
        tensor_pixels_keys: the entry that keeps the original image.

    Raises:
        ImportError: If torchvision is not installed.
        NotImplementedError: If the model is unknown.
        ValueError: If there is more than one image.

    Example:
        >>> from tensordict import TensorDict  # doctest: +SKIP
        >>> from rlnb.envs import GymEnv, TransformedEnv  # doctest: +SKIP
        >>> base_env = GymEnv("CartPole-v1", from_pixels=True)  # doctest: +SKIP
        >>> env = TransformedEnv(base_env, VIPRewardTransform("resnet50", size=32))  # doctest: +SKIP
        >>> goal = base_env.reset()["pixels"]  # doctest: +SKIP
        >>> td = env.rand_step(env.reset(TensorDict({"goal_image": goal})))  # doctest: +SKIP
        >>> td["goal_embedding"].shape, td["next", "reward"].shape  # doctest: +SKIP
        (torch.Size([1024]), torch.Size([1]))
    """

    _env_only = "compares each step with the goal of a reset"
    _reward_key: NestedKey = "reward"

    def _pair_up(self) -> None:
        super()._pair_up()
        if len(self.in_keys) != 1:
            raise ValueError(
                f"VIPRewardTransform compares one image with the goal, and got in_keys={self.in_keys}. "
                "Fix: VIPRewardTransform(..., in_keys=['pixels'])."
            )

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        image = tensordict.get(_IMAGE, None)
        if image is None:
            image = self._carried.get(tensordict, _IMAGE)
        if image is None:
            found = sorted(map(str, tensordict.keys(True, True)))
            raise KeyError(
                f"VIPRewardTransform needs the goal of the first episode, {_IMAGE!r}, and the reset got {found}. "
                f"Fix: env.reset(TensorDict({{{_IMAGE!r}: image}}, env.batch_size)), an image like those of the env."
            )
        tensordict_reset = super()._reset(tensordict, tensordict_reset)
        self._carried.restart(tensordict, tensordict_reset, _IMAGE, image)
        self._carried.restart(tensordict, tensordict_reset, _GOAL, self._apply_transform(image))
        self._remember(tensordict_reset)
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        next_tensordict = super()._step(tensordict, next_tensordict)
        before, goal = self._memory.get(tensordict, self.out_keys[0]), self._carried.get(tensordict, _GOAL)
        if before is None or goal is None:
            raise errors.missing_key(self, _GOAL, tensordict, False)
        vector = next_tensordict.get(self.out_keys[0])
        closer = (before[0] - goal).norm(dim=-1, keepdim=True) - (vector - goal).norm(dim=-1, keepdim=True)
        next_tensordict.set(self._reward_key, closer)
        self._carried.put(next_tensordict, _GOAL, goal)
        self._remember(next_tensordict)
        return next_tensordict

    def _remember(self, data: TensorDictBase) -> None:
        vector = data.get(self.out_keys[0])
        # A view: the memory refers to its key weakly, and its value must not keep the key alive.
        self._memory.put(self.out_keys[0], vector, (vector[...],))

    def _forget(self) -> None:
        super()._forget()
        self._memory = FrameMemory()

    def _learn_output(self, output_spec: Composite) -> None:
        keys = output_spec["full_reward_spec"].keys(True, True)
        if len(keys) != 1:
            raise ValueError(f"VIPRewardTransform replaces the only reward of an env, and this env has {list(keys)}.")
        self._reward_key = keys[0]

    def _new_keys(self) -> list[NestedKey]:
        return [*super()._new_keys(), _GOAL]

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Replace the image by its embedding, and add that of the goal; see :class:`Transform`."""
        image = observation_spec.get(self.in_keys[0])
        observation_spec = super().transform_observation_spec(observation_spec)
        return observation_spec if image is None else observation_spec.set(_GOAL, self._vector_spec(image))

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """Replace the reward; see :class:`Transform`."""
        spec = reward_spec[self._reward_key]
        shape = (*reward_spec.shape, 1)
        return reward_spec.set(self._reward_key, Unbounded(shape=shape, dtype=torch.float32, device=spec.device))

    def transform_state_spec(self, state_spec: Composite) -> Composite:
        """Add the goal image, which a reset reads; see :class:`Transform`."""
        parent = self.parent
        image = None if parent is None else parent.observation_spec.get(self.in_keys[0])
        return state_spec if image is None else state_spec.set(_IMAGE, image.clone())


_VC1_URL = "https://dl.fbaipublicfiles.com/eai-vc/"
_RESIZED, _CROPPED = 256, 224


def _vc1_checkpoint(name: str, published: bool) -> Checkpoint:
    # The network was trained as an autoencoder; only its encoder is used.
    return Checkpoint(name, _VC1_URL + name if published else None, ignored=("mask_token", "decoder", "head."))


_LARGE, _BASE = ("large", _vc1_checkpoint("vc1_vitl.pth", True)), ("base", _vc1_checkpoint("vc1_vitb.pth", True))
_VC1_MODELS = {
    "default": ("tiny", _vc1_checkpoint("vc1_default.pth", False)),
    "small": ("small", _vc1_checkpoint("vc1_vits.pth", False)),
    "base": _BASE,
    "large": _LARGE,
    "vc1_vitb": _BASE,
    "vc1_vitl": _LARGE,
}


class VC1Transform(PixelEmbedding):
    """Replaces images by embeddings of VC-1 (Majumdar et al. 2023, https://arxiv.org/abs/2303.18240).

    Requires the extra ``rlnb[pretrained]``, or the package ``vc_models``. Images are scaled so that the shorter side
    has 256 pixels, and the center of 224 by 224 is cropped. The network is made and its weights are loaded at the first
    image. It is frozen and computes no gradients.

    Args:
        in_keys: the images, of shape ``[..., H, W, 3]`` or ``[..., 3, H, W]``.
        out_keys: the embeddings, one for each image, of shape ``[..., features]``.
        model_name: "base" or "large" (also "vc1_vitb", "vc1_vitl"), with 768 and 1024 features; "small", with 384, for
            weights of your own; or "default", a tiny network with 64 features, to try things out.
        del_keys: whether to remove the images.
        download: whether to download the weights of VC-1, once. Default: if the package ``vc_models``, from which
            TorchRL takes them, is installed and ``download_path`` is not given.
        download_path: a file of weights, or the folder for downloaded weights. Default: the cache of torch.hub.

    Raises:
        ImportError: If timm is not installed; or without ``download``, ``download_path`` and the package ``vc_models``.
        NotImplementedError: If the model is unknown.

    Example:
        >>> import tempfile  # doctest: +SKIP
        >>> from tensordict import TensorDict  # doctest: +SKIP
        >>> from rlnb.envs.transforms.pretrained import make_vit  # doctest: +SKIP
        >>> file = tempfile.mkdtemp() + "/untrained.pth"  # doctest: +SKIP
        >>> torch.save(make_vit("tiny").state_dict(), file)  # doctest: +SKIP
        >>> vc1 = VC1Transform(["pixels"], ["vc1_vec"], download_path=file)  # doctest: +SKIP
        >>> images = torch.zeros(30, 40, 3, dtype=torch.uint8)  # doctest: +SKIP
        >>> vc1(TensorDict({"pixels": images}))["vc1_vec"].shape  # doctest: +SKIP
        torch.Size([64])
    """

    def __init__(
        self,
        in_keys: Keys,
        out_keys: Keys,
        model_name: str = "default",
        del_keys: bool = True,
        download: bool = False,
        download_path: str | Path | None = None,
    ) -> None:
        size, checkpoint = _legal_model("VC1Transform", model_name, _VC1_MODELS)
        if not download and download_path is None:
            # Users who installed vc_models expect the published weights.
            download = importlib.util.find_spec("vc_models") is not None
        if not download and download_path is None:
            raise ImportError(
                "VC1Transform takes its weights from the package vc_models, which is not installed. Fix: download=True "
                "downloads them without the package, and download_path='file' reads weights of your own; or install "
                "vc_models from https://github.com/facebookresearch/eai-vc."
            )
        require_package("timm", "VC1Transform")
        super().__init__(
            model_name,
            LazyNetwork(partial(make_vit, size), checkpoint, download, download_path),
            VITS[size][0],
            in_keys,
            key_list(out_keys, "out_keys"),
            stack_images=False,
            del_keys=del_keys,
        )

    def _scale(self, images: torch.Tensor) -> torch.Tensor:
        rows, columns = images.shape[-2:]
        least = min(rows, columns)
        rows, columns = _RESIZED * rows // least, _RESIZED * columns // least
        # Bicubic interpolation overshoots; the network was trained on pixels between 0 and 1.
        return center_cropped(resized(images, rows, columns, "bicubic").clamp(0, 1), _CROPPED, _CROPPED)

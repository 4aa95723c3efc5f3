"""``VIPTransform``, image embeddings of VIP, and ``VIPRewardTransform``, rewards for approaching a goal image."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from tensordict import TensorDictBase

from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.transforms import errors
from rlnb.envs.transforms.embedding import PixelEmbedding, legal_model, square
from rlnb.envs.transforms.frames import FrameMemory
from rlnb.envs.transforms.pretrained import Checkpoint, LazyNetwork, make_resnet, require_package
from rlnb.envs.transforms.transform import Keys

#: The models and the number of their features.
_MODELS = {"resnet50": 1024}
_WEIGHTS = Checkpoint(
    "vip_50.pt",
    "https://pytorch.s3.amazonaws.com/models/rl/vip/model.pt",
    wrappers=("vip", "state_dict", "model"),
    prefixes=("module.", "convnet."),
)
_IMAGE, _GOAL = "goal_image", "goal_embedding"


class VIPTransform(PixelEmbedding):
    """Replaces images by embeddings of VIP (Ma et al. 2023, https://arxiv.org/abs/2210.00030).

    The distance between two embeddings measures how many steps lie between the images. Requires the extra
    ``rlnb[pretrained]``. The network is made and its weights are loaded at the first image. It is frozen: it computes
    no gradients and keeps its batch statistics.

    Args:
        model_name: "resnet50", with 1024 features.
        in_keys: the images, of shape ``[..., H, W, 3]`` or ``[..., 3, H, W]``. They are removed. Default: "pixels".
        out_keys: the embeddings, of shape ``[..., 1024]``. Default: "vip_vec", or "vip_vec_0", "vip_vec_1" and so on
            without ``stack_images``.
        size: rows and columns that images are scaled to.
        stack_images: whether to concatenate the embeddings of all ``in_keys`` in one entry.
        download: whether to download the weights of VIP, once. ``False``, without ``download_path``: random weights,
            always the same.
        download_path: a file of weights, or the folder for downloaded weights. Default: the cache of torch.hub.
        tensor_pixels_keys: entries that keep the original images. Default: they are not kept.

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
        n_features = legal_model(name, model_name, _MODELS)
        require_package("torchvision.models", name)
        if not isinstance(download, bool):
            raise ValueError(f"{name} has no weights {download!r}. Legal for download: True (those of VIP), False.")
        super().__init__(
            LazyNetwork(partial(make_resnet, model_name, n_features), _WEIGHTS, download, download_path),
            n_features,
            square(name, size),
            in_keys,
            out_keys,
            vector_key="vip_vec",
            stack_images=stack_images,
            tensor_pixels_keys=tensor_pixels_keys,
        )
        self.model_name, self.size = model_name, size

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(model_name={self.model_name!r}, in_keys={self.in_keys}, out_keys={self.out_keys}, "
            f"size={self.size}, weights={self._weights})"
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
        super().__init__(model_name, in_keys, out_keys, size, stack_images, download, download_path, tensor_pixels_keys)
        self._reward_key: NestedKey = "reward"
        self._memory = FrameMemory()

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


__all__ = ["VIPRewardTransform", "VIPTransform"]

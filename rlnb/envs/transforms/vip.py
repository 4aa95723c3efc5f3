"""VIPTransform and VIPRewardTransform: images as vectors of VIP, and the way to a goal image as the reward."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from tensordict import TensorDictBase

from rlnb.data import Composite, Unbounded
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.transforms import faults
from rlnb.envs.transforms.embedding import ResNetEmbedding
from rlnb.envs.transforms.frames import FrameMemory
from rlnb.envs.transforms.networks import Checkpoint, resnet
from rlnb.envs.transforms.transform import Keys

_FEATURES = 1024
_WEIGHTS = Checkpoint(
    "vip_50.pt",
    "https://pytorch.s3.amazonaws.com/models/rl/vip/model.pt",
    wrappers=("vip", "state_dict", "model"),
    prefixes=("module.", "convnet."),
)
_MODELS = {"resnet50": (partial(resnet, "resnet50", _FEATURES), _FEATURES, _WEIGHTS)}
_IMAGE, _GOAL = "goal_image", "goal_embedding"


class VIPTransform(ResNetEmbedding):
    """Puts vectors of VIP (Ma et al. 2023, https://arxiv.org/abs/2210.00030) in place of images.

    The distance of two of them tells how far it is from one picture to the other. Nothing is loaded or computed before
    the first image comes. The network stays as it is: no gradients, no batch statistics.

    Args:
        model_name: "resnet50", whose vectors have 1024 entries.
        in_keys: the images, of shape ``[..., H, W, 3]`` or ``[..., 3, H, W]``. They are removed. Default: "pixels".
        out_keys: of the vectors. Default: "vip_vec", or "vip_vec_0", "vip_vec_1" and so on without ``stack_images``.
        size: the rows and columns that images are scaled to.
        stack_images: put the vectors of all ``in_keys`` into one entry, one after the other.
        download: fetch the weights of VIP, once. False, without ``download_path``: random weights, always the same.
        download_path: a file of weights, or the folder in which fetched weights are kept. Default: that of torch.hub.
        tensor_pixels_keys: where the images are kept, as they came. Default: nowhere.

    Raises:
        NotImplementedError: if there is no such model.
        ValueError: if the keys do not pair up.

    Example:
        >>> from tensordict import TensorDict
        >>> vip = VIPTransform("resnet50", size=64)
        >>> vip(TensorDict({"pixels": torch.zeros(30, 40, 3, dtype=torch.uint8)}))["vip_vec"].shape
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
        if not isinstance(download, bool):
            raise ValueError(
                f"{type(self).__name__} knows no weights {download!r}. Legal for download: True (those of VIP), False."
            )
        super().__init__(
            model_name, _MODELS, "vip_vec", in_keys, out_keys, size, stack_images, download, download_path,
            tensor_pixels_keys,
        )  # fmt: skip


class VIPRewardTransform(VIPTransform):
    """Rewards steps towards a goal image: by how much nearer its vector of VIP has come.

    A reset takes the goal as "goal_image", an image like those of the env. Its vector is in the data as
    "goal_embedding". Without "goal_image", a reset keeps the goal of the episode before.

    Args:
        model_name: as for :class:`VIPTransform`, like all others.
        in_keys: the image. Default: "pixels".
        out_keys: of its vector. Default: "vip_vec", or "vip_vec_0" without ``stack_images``.
        size: the rows and columns that images are scaled to.
        stack_images: whether images share an entry; there is one.
        download: fetch the weights of VIP.
        download_path: a file of weights, or the folder in which they are kept.
        tensor_pixels_keys: where the image is kept, as it came.

    Raises:
        NotImplementedError: if there is no such model.
        ValueError: if there is more than one image.

    Example:
        >>> from tensordict import TensorDict
        >>> from rlnb.envs import GymEnv, TransformedEnv
        >>> base_env = GymEnv("CartPole-v1", from_pixels=True)
        >>> env = TransformedEnv(base_env, VIPRewardTransform("resnet50", size=32))
        >>> goal = base_env.reset()["pixels"]
        >>> td = env.rand_step(env.reset(TensorDict({"goal_image": goal})))
        >>> td["goal_embedding"].shape, td["next", "reward"].shape
        (torch.Size([1024]), torch.Size([1]))
    """

    _reward_key: NestedKey = "reward"

    def _pair_up(self) -> None:
        super()._pair_up()
        if len(self.in_keys) != 1:
            raise ValueError(
                f"VIPRewardTransform compares one image with the goal, and got in_keys={self.in_keys}. "
                "Fix: VIPRewardTransform(..., in_keys=['pixels'])."
            )
        self._memory = FrameMemory()  # made here, so that the arguments stay those of VIPTransform

    # In an env ----------------------------------------------------------------------------------------------------

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        image = tensordict.get(_IMAGE, None)
        if image is None:
            image = self._carried.get(tensordict, _IMAGE)
        if image is None:
            found = sorted(map(str, tensordict.keys(True, True)))
            raise KeyError(
                f"VIPRewardTransform needs the goal of the first episode, {_IMAGE!r}, and the reset was given {found}. "
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
            raise faults.missing_key(self, _GOAL, tensordict, False)
        vector = next_tensordict.get(self.out_keys[0])
        nearer = (before[0] - goal).norm(dim=-1, keepdim=True) - (vector - goal).norm(dim=-1, keepdim=True)
        next_tensordict.set(self._reward_key, nearer)
        self._carried.put(next_tensordict, _GOAL, goal)
        self._remember(next_tensordict)
        return next_tensordict

    def _remember(self, data: TensorDictBase) -> None:
        vector = data.get(self.out_keys[0])
        # A view, for what is remembered must not keep alive what it is remembered by.
        self._memory.put(self.out_keys[0], vector, (vector[...],))

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Refuse: plain data has no goal.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(faults.needs_env(self, "compares each step with the goal of a reset"))

    def _forget(self) -> None:
        super()._forget()
        self._memory = FrameMemory()

    # Specs --------------------------------------------------------------------------------------------------------

    def _learn_output(self, output_spec: Composite) -> None:
        keys = output_spec["full_reward_spec"].keys(True, True)
        if len(keys) != 1:
            raise ValueError(f"VIPRewardTransform makes the one reward of an env, and this env has {list(keys)}.")
        self._reward_key = keys[0]

    def _new_keys(self) -> list[NestedKey]:
        return [*super()._new_keys(), _GOAL]

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Put the vector in place of the image, and add that of the goal; see :class:`Transform`."""
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
        below = self.parent
        image = None if below is None else below.observation_spec.get(self.in_keys[0])
        return state_spec if image is None else state_spec.set(_IMAGE, image.clone())


__all__ = ["VIPRewardTransform", "VIPTransform"]

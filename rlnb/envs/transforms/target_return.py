"""TargetReturn: the return that is still to be earned."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rlnb.data import Composite, TensorSpec, Unbounded
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.envs.transforms import faults
from rlnb.envs.transforms.transform import Keys, Transform, key_list

_MODES = ("reduce", "constant")


class TargetReturn(Transform):
    """Tells a policy which return it should earn from here on.

    Args:
        target_return: at the start of an episode.
        mode: ``"reduce"`` (the default): less the rewards since then; ``"constant"``: the same all along.
        in_keys: the rewards. Default: all of the env.
        out_keys: of the returns. Default: "target_return", at the level of the reward.
        reset_key: of the mask that says which envs are reset. Default: the nearest one above each entry.

    Raises:
        ValueError: for an unknown mode, or if the keys do not pair up.

    Example:
        >>> from rlnb.envs import CartPoleEnv, TransformedEnv
        >>> env = TransformedEnv(CartPoleEnv(), TargetReturn(10.0))
        >>> env.rollout(3)["target_return"].flatten()
        tensor([10.,  9.,  8.])
    """

    def __init__(
        self,
        target_return: float,
        mode: str = "reduce",
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        reset_key: NestedKey | None = None,
    ) -> None:
        if mode not in _MODES:
            raise ValueError(f"There is no mode {mode!r}. The modes are: {', '.join(_MODES)}.")
        super().__init__()
        self.target_return, self.mode = float(target_return), mode
        self.reset_key = None if reset_key is None else key_list([reset_key], "reset_key")[0]
        self._all_rewards, self._named_out = in_keys is None, out_keys is not None
        rewards = key_list("reward" if in_keys is None else in_keys, "in_keys")
        self._use(rewards, list(map(_beside, rewards)) if out_keys is None else key_list(out_keys, "out_keys"))
        self._specs: dict[NestedKey, TensorSpec] = {}
        self._batch_dims = 0

    def _use(self, rewards: list[NestedKey], returns: list[NestedKey]) -> None:
        self.in_keys, self.out_keys = rewards, returns
        self._pair_up()

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            reward = self._read(next_tensordict, in_key)
            if reward is None:
                continue
            left = self._carried.get(tensordict, out_key)
            if left is None:
                left = torch.full_like(reward, self.target_return)
            self._carried.put(next_tensordict, out_key, left - reward if self.mode == "reduce" else left.clone())
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            spec = self._specs.get(in_key)
            shape: tuple[int, ...] = (1,) if spec is None else spec.shape[self._batch_dims :]
            full = (*tensordict_reset.batch_size, *shape)
            dtype = None if spec is None else spec.dtype
            device = tensordict_reset.device if spec is None else spec.device
            fresh = torch.full(full, self.target_return, dtype=dtype, device=device)
            self._carried.restart(tensordict, tensordict_reset, out_key, fresh, self.reset_key)
        return tensordict_reset

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Refuse: where an episode starts, plain data does not say.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(faults.needs_env(self, "counts rewards from a reset on"))

    def _learn_output(self, output_spec: Composite) -> None:
        rewards = output_spec["full_reward_spec"]
        if self._all_rewards:
            keys = list(rewards.keys(True, True))
            self._use(keys, self.out_keys if self._named_out else list(map(_beside, keys)))
        self._batch_dims = output_spec.ndim
        self._specs = {key: rewards[key] for key in self.in_keys if key in rewards}

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Add the returns; see :class:`Transform`."""
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            if in_key in self._specs:
                spec = self._specs[in_key]
                observation_spec.set(out_key, Unbounded(shape=spec.shape, dtype=spec.dtype, device=spec.device))
        return observation_spec

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """Leave the rewards as they are; see :class:`Transform`."""
        return reward_spec

    def __repr__(self) -> str:
        return f"TargetReturn(target_return={self.target_return}, mode={self.mode}, keys={self.in_keys})"


def _beside(key: NestedKey) -> NestedKey:
    return as_key((*as_tuple(key)[:-1], "target_return"))


__all__ = ["TargetReturn"]

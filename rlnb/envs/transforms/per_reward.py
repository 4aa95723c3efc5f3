"""PerReward: the base of transforms that keep a number beside each reward, and carry it from step to step."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rlnb.data import Composite, TensorSpec, Unbounded
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.envs.transforms import faults
from rlnb.envs.transforms.transform import Keys, Transform, key_list


class PerReward(Transform):
    """The part of :class:`RewardSum` and :class:`TargetReturn` that knows the rewards.

    A subclass says in ``_beside`` what the entry beside a reward is called.

    Args:
        in_keys: the rewards. Default: all of the env.
        out_keys: of the entries beside them. Default: those that ``_beside`` names, at the same level.
    """

    def __init__(self, in_keys: Keys | None, out_keys: Keys | None) -> None:
        super().__init__()
        self._all_rewards, self._named_out = in_keys is None, out_keys is not None
        self._specs: dict[NestedKey, TensorSpec] = {}
        self._batch_dims = 0
        self._use(key_list("reward" if in_keys is None else in_keys, "in_keys"), key_list(out_keys, "out_keys"))

    def _beside(self, name: str) -> str:
        """Name the entry beside a reward of this name."""
        raise NotImplementedError

    def _use(self, rewards: list[NestedKey], named: list[NestedKey]) -> None:
        paths = map(as_tuple, rewards)
        found = named if self._named_out else [as_key((*path[:-1], self._beside(path[-1]))) for path in paths]
        if len(rewards) != len(found):
            raise ValueError(faults.unequal_keys(self, "in_keys", len(rewards), "out_keys", len(found)))
        self.in_keys, self.out_keys = rewards, found

    def _pairs(self) -> list[tuple[NestedKey, NestedKey]]:
        """The keys in the data of a step, where there is no "next" in front of them."""
        return [
            (_of_step(in_key), _of_step(out_key)) for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True)
        ]

    def _first(self, in_key: NestedKey, data: TensorDictBase, number: float) -> torch.Tensor:
        """Make what is beside a reward after a reset, for all rows of ``data``."""
        spec = self._specs.get(in_key)
        if spec is None:
            return torch.full((*data.batch_size, 1), number, device=data.device)
        shape = (*data.batch_size, *spec.shape[self._batch_dims :])
        return torch.full(shape, number, dtype=spec.dtype, device=spec.device)

    # Specs --------------------------------------------------------------------------------------------------------

    def _learn_output(self, output_spec: Composite) -> None:
        rewards = output_spec["full_reward_spec"]
        if self._all_rewards:
            self._use(list(rewards.keys(True, True)), self.out_keys)
        self._batch_dims = output_spec.ndim
        self._specs = {key: rewards[key] for key, _ in self._pairs() if key in rewards}

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Add what is beside the rewards; see :class:`Transform`."""
        self._need_composite(observation_spec)
        for in_key, out_key in self._pairs():
            spec = self._specs.get(in_key)
            if spec is not None:
                observation_spec.set(out_key, Unbounded(shape=spec.shape, dtype=spec.dtype, device=spec.device))
        return observation_spec

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """Leave the rewards as they are; see :class:`Transform`."""
        return reward_spec


def _of_step(key: NestedKey) -> NestedKey:
    path = as_tuple(key)
    return as_key(path[1:]) if path[0] == "next" and len(path) > 1 else key


__all__ = ["PerReward"]

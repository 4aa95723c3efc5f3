"""Reward2GoTransform: the return from each step on, worked out as data is stored."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data.ted.keys import DONE, NestedKey, as_key, as_tuple
from rlnb.envs.transforms.transform import Keys, key_list
from rlnb.envs.transforms.when_stored import WhenStored


class Reward2GoTransform(WhenStored):
    """Replaces each reward by the discounted sum of the rewards from that step to the end of its episode.

    It works backwards only: on the data that a buffer is to store, trajectories of shape ``[..., time]``. At the end of
    the data the sum stops.

    Args:
        gamma: the discount.
        in_keys: the rewards. Default: ("next", "reward").
        out_keys: where the returns go. Default: ``in_keys``.
        done_key: what ends an episode, under "next".

    Raises:
        ValueError: if ``gamma`` is no discount, or the keys do not pair up.

    Example:
        >>> from tensordict import TensorDict
        >>> done = torch.tensor([[False], [True], [True]])
        >>> steps = TensorDict({"next": {"reward": torch.ones(3, 1), "done": done}}, [3])
        >>> Reward2GoTransform(gamma=0.5).inv(steps)["next", "reward"].flatten()
        tensor([1.5000, 1.0000, 1.0000])
    """

    _does = "sums"
    _fix = "store whole trajectories, buffer.extend(env.rollout(n))"

    def __init__(
        self,
        gamma: float | torch.Tensor | None = 1.0,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        done_key: NestedKey | None = DONE,
    ) -> None:
        super().__init__([("next", "reward")] if in_keys is None else in_keys, out_keys)
        gamma = 1.0 if gamma is None else float(gamma)
        if not 0 <= gamma <= 1:
            raise ValueError(f"gamma is a discount, from 0 to 1, and is {gamma!r}.")
        self.gamma = gamma
        self.done_key = key_list([DONE if done_key is None else done_key], "done_key")[0]

    def _store(self, tensordict: TensorDictBase) -> TensorDictBase:
        done = self._need(tensordict, as_key(("next", *as_tuple(self.done_key))))
        time = tensordict.ndim - 1
        ends = done.reshape(*tensordict.batch_size, -1).any(-1)
        if not bool(ends.any()):
            raise ValueError(
                f"Reward2GoTransform found no end of an episode: {self.done_key!r} is False in all {ends.shape[-1]} "
                "steps, so no return is known. Fix: store whole episodes, or set_truncated=True in the rollout."
            )
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            reward = self._need(tensordict, in_key)
            tensordict.set(out_key, _returns(reward, ends, self.gamma, time))
        return tensordict


def _returns(reward: torch.Tensor, ends: torch.Tensor, gamma: float, time: int) -> torch.Tensor:
    """Sum from the back, anew at each end."""
    returns = torch.empty_like(reward)
    total: Any = torch.zeros_like(reward.select(time, 0))
    for t in range(reward.shape[time] - 1, -1, -1):
        ended = ends.select(time, t)
        total = total.masked_fill(ended.reshape((*ended.shape, *[1] * (total.ndim - ended.ndim))), 0)
        total = reward.select(time, t) + gamma * total
        returns.select(time, t).copy_(total)
    return returns


__all__ = ["Reward2GoTransform"]

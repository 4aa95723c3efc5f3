"""Transforms that a replay buffer applies when it stores data: ``MultiStepTransform`` and ``Reward2GoTransform``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from tensordict import TensorDictBase

from rlnb.data.postprocs import multi_step
from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import DONE, NestedKey, as_key, as_tuple
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs.transforms import errors
from rlnb.envs.transforms.transform import Keys, Transform, key_list


class WriteTransform(Transform):
    """Base class of transforms that change data when a buffer stores it, and leave samples unchanged.

    A subclass implements ``_store``, which is given trajectories of shape ``[..., time]``. The transform cannot be used
    in an env, because it looks at future steps.
    """

    #: What it does, and the line that stores trajectories, for the error.
    _does: ClassVar[str]
    _fix: ClassVar[str]

    def _store(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Change trajectories in place, and return what the buffer stores."""
        raise NotImplementedError

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict  # samples were transformed when they were stored

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        if not tensordict.ndim:
            raise ValueError(
                f"{type(self).__name__} {self._does} along the last dimension of the data, time, and the data has "
                f"batch size (). Fix: {self._fix}."
            )
        return self._store(tensordict)

    def _learn_output(self, output_spec: Composite) -> None:
        raise ValueError(errors.buffer_only(self, "looks at steps that an env has yet to take"))


class MultiStepTransform(WriteTransform):
    """Computes n-step rewards, as :class:`~rlnb.data.MultiStep` does, across consecutive extensions of a buffer.

    The last n steps are held back until the steps after them arrive, so that extending by T steps stores T steps, or
    T - n the first time. The transform works only as the inverse, on data that a buffer is about to store: consecutive
    steps of shape ``[..., time]``. ``buffer.add(step)`` extends the buffer by one step; while steps are held back it
    stores nothing and returns an empty index.

    Args:
        n_steps: the most rewards to sum.
        gamma: discount factor in [0, 1].
        reward_keys: the rewards, under "next". Default: "reward".
        done_key: the end signal of trajectories, under "next". Default: "done".
        done_keys: several end signals instead: a trajectory ends where any of them is set.
        mask_key: a boolean mask of the steps that are data, if it is not named "mask".

    Raises:
        ValueError: If ``n_steps`` or ``gamma`` is out of range, or both ``done_key`` and ``done_keys`` are given.

    Example:
        >>> from tensordict import TensorDict
        >>> def steps(start):
        ...     after = {"reward": torch.ones(3, 1), "done": torch.zeros(3, 1, dtype=torch.bool)}
        ...     return TensorDict({"t": torch.arange(start, start + 3), "next": after}, [3])
        >>> ahead = MultiStepTransform(n_steps=2, gamma=0.5)
        >>> ahead.inv(steps(0))["t"], ahead.inv(steps(3))["t"]
        (tensor([0]), tensor([1, 2, 3]))
    """

    #: Stored data continues what was stored before, so a buffer adds a time dimension to single steps.
    joins_writes = True
    _does = "looks ahead"
    _fix = "buffer.extend(env.rollout(n)), or buffer.extend(step.unsqueeze(0))"

    def __init__(
        self,
        n_steps: int,
        gamma: float,
        *,
        reward_keys: Keys | None = None,
        done_key: NestedKey | None = None,
        done_keys: Sequence[NestedKey] | None = None,
        mask_key: NestedKey | None = None,
    ) -> None:
        super().__init__()
        if isinstance(n_steps, bool) or not isinstance(n_steps, int) or n_steps < 1:
            raise ValueError(f"n_steps must be a positive integer, got {n_steps!r}.")
        if not 0 <= gamma <= 1:
            raise ValueError(f"gamma must be a discount factor from 0 to 1, got {gamma!r}.")
        if done_key is not None and done_keys is not None:
            raise ValueError("MultiStepTransform takes done_key or done_keys, and got both. Fix: leave done_key out.")
        self.n_steps, self.gamma = n_steps, float(gamma)
        self.reward_keys = key_list("reward" if reward_keys is None else reward_keys, "reward_keys")
        self.done_keys = key_list([done_key or DONE] if done_keys is None else done_keys, "done_keys")
        self.mask_key = None if mask_key is None else key_list([mask_key], "mask_key")[0]
        self._held: TensorDictBase | None = None

    def _forget(self) -> None:
        super()._forget()
        self.__dict__["_held"] = None

    def _store(self, tensordict: TensorDictBase) -> TensorDictBase:
        steps = self._joined(tensordict)
        ends = [as_key(("next", *as_tuple(key))) for key in self.done_keys]
        ahead = multi_step(self._masked(steps), self.gamma, self.n_steps, self.reward_keys, ends)
        self.__dict__["_held"] = steps[..., -self.n_steps :].clone()
        return ahead[..., : max(steps.batch_size[-1] - self.n_steps, 0)]

    @property
    def done_key(self) -> NestedKey:
        """The first of ``done_keys``."""
        return self.done_keys[0]

    def _joined(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Return the steps that were held back, followed by the new ones."""
        held = self._held
        if held is None:
            return tensordict
        had, got = set(leaf_keys(held)), set(leaf_keys(tensordict))
        if held.batch_size[:-1] != tensordict.batch_size[:-1] or had != got:
            what = f"entries {sorted(map(str, had ^ got))} in one and not the other" if had != got else "batch sizes"
            raise ValueError(
                f"MultiStepTransform joins the steps that it held back, of batch size {tuple(held.batch_size)}, to new "
                f"ones, of batch size {tuple(tensordict.batch_size)}, and they differ in their {what}. Fix: extend the "
                "buffer with data of one layout, of shape [*batch, time]."
            )
        joined: TensorDictBase = torch.cat([held, tensordict], -1)  # type: ignore[assignment]  # torch joins TensorDicts
        return joined

    def _masked(self, steps: TensorDictBase) -> TensorDictBase:
        """Copy the mask to the key that ``multi_step`` reads."""
        if self.mask_key is None or self.mask_key == "mask":
            return steps
        return steps.copy().set("mask", self._need(steps, self.mask_key))

    def __repr__(self) -> str:
        return f"MultiStepTransform(n_steps={self.n_steps}, gamma={self.gamma})"


class Reward2GoTransform(WriteTransform):
    """Replaces each reward by the discounted sum of the rewards from that step to the end of its episode.

    It works only as the inverse, on data that a buffer is about to store: trajectories of shape ``[..., time]``. The
    sum stops at the end of the data.

    Args:
        gamma: discount factor in [0, 1].
        in_keys: the rewards. Default: ("next", "reward").
        out_keys: the returns. Default: ``in_keys``.
        done_key: the end signal of episodes, under "next".

    Raises:
        ValueError: If ``gamma`` is out of range, or the keys do not pair up.

    Example:
        >>> from tensordict import TensorDict
        >>> after = {"reward": torch.ones(3, 1), "done": torch.tensor([[False], [True], [True]])}
        >>> Reward2GoTransform(gamma=0.5).inv(TensorDict({"next": after}, [3]))["next", "reward"].flatten()
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
            raise ValueError(f"gamma must be a discount factor from 0 to 1, got {gamma!r}.")
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
    """Return the discounted sums from each step to the end of its episode."""
    returns = torch.empty_like(reward)
    total: Any = torch.zeros_like(reward.select(time, 0))
    for t in range(reward.shape[time] - 1, -1, -1):
        ended = ends.select(time, t)
        total = total.masked_fill(ended.reshape((*ended.shape, *[1] * (total.ndim - ended.ndim))), 0)
        total = reward.select(time, t) + gamma * total
        returns.select(time, t).copy_(total)
    return returns


__all__ = ["MultiStepTransform", "Reward2GoTransform"]

"""MultiStepTransform: n-step rewards, worked out as data is stored."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDictBase

from rlnb.data.postprocs import multi_step
from rlnb.data.ted.keys import DONE, NestedKey, as_key, as_tuple
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs.transforms.transform import Keys, key_list
from rlnb.envs.transforms.when_stored import WhenStored


class MultiStepTransform(WhenStored):
    """Looks n steps ahead, as :class:`~rlnb.data.MultiStep` does, from one extension of a buffer into the next.

    The last n steps that came are held back until those that follow them have come, so an extension of T steps stores
    T steps, but the first T - n. It works backwards only, on the data that a buffer is to store: consecutive steps of
    shape ``[..., time]``. ``buffer.add(step)`` extends the buffer with one step; while steps are held back it stores
    nothing and returns an empty index.

    Args:
        n_steps: how many rewards are summed at the most.
        gamma: the discount.
        reward_keys: the rewards, below "next". Default: "reward".
        done_key: what ends a trajectory, below "next". Default: "done".
        done_keys: several of them in its place: a trajectory ends where one of them is set.
        mask_key: where a mask says which steps are data, if it is not "mask".

    Raises:
        ValueError: if ``n_steps`` or ``gamma`` is out of bounds, or both ``done_key`` and ``done_keys`` are given.

    Example:
        >>> from tensordict import TensorDict
        >>> def steps(start):
        ...     after = {"reward": torch.ones(3, 1), "done": torch.zeros(3, 1, dtype=torch.bool)}
        ...     return TensorDict({"t": torch.arange(start, start + 3), "next": after}, [3])
        >>> ahead = MultiStepTransform(n_steps=2, gamma=0.5)
        >>> ahead.inv(steps(0))["t"], ahead.inv(steps(3))["t"]
        (tensor([0]), tensor([1, 2, 3]))
    """

    #: What is stored goes on from what was stored before, so that a buffer gives it single steps with a time dimension.
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
            raise ValueError(f"n_steps counts steps, from 1 on, and is {n_steps!r}.")
        if not 0 <= gamma <= 1:
            raise ValueError(f"gamma is a discount, from 0 to 1, and is {gamma!r}.")
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
        """The steps that were held back, and those that have come."""
        held = self._held
        if held is None:
            return tensordict
        had, got = set(leaf_keys(held)), set(leaf_keys(tensordict))
        if held.batch_size[:-1] != tensordict.batch_size[:-1] or had != got:
            what = f"entries {sorted(map(str, had ^ got))} in one and not the other" if had != got else "batch sizes"
            raise ValueError(
                f"MultiStepTransform joins what it held back, of batch size {tuple(held.batch_size)}, to what comes, "
                f"of batch size {tuple(tensordict.batch_size)}, and they differ in their {what}. Fix: extend the "
                "buffer with data of one layout, of shape [*batch, time]."
            )
        joined: TensorDictBase = torch.cat([held, tensordict], -1)  # type: ignore[assignment]  # torch joins TensorDicts
        return joined

    def _masked(self, steps: TensorDictBase) -> TensorDictBase:
        """Name the mask as n-step rewards expect it."""
        if self.mask_key is None or self.mask_key == "mask":
            return steps
        return steps.copy().set("mask", self._need(steps, self.mask_key))

    def __repr__(self) -> str:
        return f"MultiStepTransform(n_steps={self.n_steps}, gamma={self.gamma})"


__all__ = ["MultiStepTransform"]

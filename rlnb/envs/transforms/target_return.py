"""TargetReturn: the return that is still to be earned."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rlnb.data.ted.keys import NestedKey
from rlnb.envs.transforms import faults
from rlnb.envs.transforms.per_reward import PerReward
from rlnb.envs.transforms.transform import Keys, key_list

_MODES = ("reduce", "constant")


class TargetReturn(PerReward):
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
        super().__init__(in_keys, out_keys)
        self.target_return, self.mode = float(target_return), mode
        self.reset_key = None if reset_key is None else key_list([reset_key], "reset_key")[0]

    def _beside(self, name: str) -> str:
        return "target_return"

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for in_key, out_key in self._pairs():
            reward = self._read(next_tensordict, in_key)
            if reward is None:
                continue
            left = self._carried.get(tensordict, out_key)
            if left is None:
                left = torch.full_like(reward, self.target_return)
            self._carried.put(next_tensordict, out_key, left - reward if self.mode == "reduce" else left.clone())
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for in_key, out_key in self._pairs():
            fresh = self._first(in_key, tensordict_reset, self.target_return)
            self._carried.restart(tensordict, tensordict_reset, out_key, fresh, self.reset_key)
        return tensordict_reset

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Refuse: where an episode starts, plain data does not say.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(faults.needs_env(self, "counts rewards from a reset on"))

    def __repr__(self) -> str:
        return f"TargetReturn(target_return={self.target_return}, mode={self.mode}, keys={self.in_keys})"


__all__ = ["TargetReturn"]

"""Elementwise reward transforms: ``BinarizeReward``, ``RewardClipping`` and ``RewardScaling``."""

from __future__ import annotations

from typing import Any

import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.binary import Binary
from rlnb.data.specs.composite import Composite
from rlnb.envs.transforms.affine import Affine, Number
from rlnb.envs.transforms.bounds import check_bound_dtype, check_bounds, clipped_spec
from rlnb.envs.transforms.transform import Keys, Transform, key_list


class RewardTransform(Transform):
    """Base class of transforms of rewards: by default, of all rewards of the env, in place."""

    def _use_rewards(self, in_keys: Keys | None, out_keys: Keys | None) -> None:
        """Set the keys: those that are given, or "reward" until the specs of an env name its rewards."""
        self._all_rewards = in_keys is None and out_keys is None
        self.in_keys = key_list("reward" if in_keys is None else in_keys, "in_keys")
        self.out_keys = list(self.in_keys) if out_keys is None else key_list(out_keys, "out_keys")
        self._pair_up()

    def _learn_output(self, output_spec: Composite) -> None:
        if self._all_rewards:
            self.in_keys = list(output_spec["full_reward_spec"].keys(True, True))
            self.out_keys = list(self.in_keys)


class BinarizeReward(RewardTransform):
    """Replaces rewards by 1 if they are positive, otherwise by 0, in their own dtype.

    Args:
        in_keys: the rewards. Default: all rewards of the env; on plain data, "reward".

    Example:
        >>> from tensordict import TensorDict
        >>> BinarizeReward()(TensorDict({"reward": torch.tensor([-2.0, 0.0, 0.5])}))["reward"]
        tensor([0., 0., 1.])
    """

    _elementwise = True

    def __init__(self, in_keys: Keys | None = None, out_keys: Keys | None = None) -> None:
        super().__init__()
        self._use_rewards(in_keys, out_keys)

    def _apply_transform(self, value: torch.Tensor) -> torch.Tensor:
        return (value > 0).to(value.dtype)

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        return Binary(shape=spec.shape, dtype=spec.dtype, device=spec.device)


class RewardClipping(RewardTransform):
    """Clips rewards.

    Args:
        clamp_min: lower bound; ``None`` for no lower bound.
        clamp_max: upper bound; ``None`` for no upper bound.
        in_keys: the rewards. Default: all rewards of the env; on plain data, "reward".

    Raises:
        TypeError: If both bounds are ``None``.
        ValueError: If ``clamp_min`` is not below ``clamp_max``.

    Example:
        >>> from rlnb.envs import PendulumEnv, TransformedEnv
        >>> env = TransformedEnv(PendulumEnv(), RewardClipping(-0.5, 0.0))
        >>> env.reward_spec.space.low, bool((env.rollout(20)["next", "reward"] >= -0.5).all())
        (tensor([-0.5000]), True)
    """

    _elementwise = True

    def __init__(
        self,
        clamp_min: float | None = None,
        clamp_max: float | None = None,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
    ) -> None:
        check_bounds(self, "clamp_min", clamp_min, "clamp_max", clamp_max)
        super().__init__()
        self._use_rewards(in_keys, out_keys)
        self.clamp_min, self.clamp_max = clamp_min, clamp_max

    def _apply_transform(self, value: torch.Tensor) -> torch.Tensor:
        return value.clamp(self.clamp_min, self.clamp_max)

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        assert spec.dtype is not None
        check_bound_dtype(self, spec.dtype, clamp_min=self.clamp_min, clamp_max=self.clamp_max)
        return clipped_spec(spec, self.clamp_min, self.clamp_max)

    def __repr__(self) -> str:
        return f"RewardClipping(clamp_min={self.clamp_min}, clamp_max={self.clamp_max}, keys={self.in_keys})"


class RewardScaling(RewardTransform, Affine):
    """Computes ``reward * scale + loc``, or ``(reward - loc) / scale``.

    Args:
        loc: a number, or a tensor that broadcasts to the rewards.
        scale: a number, or a tensor that broadcasts to the rewards.
        in_keys: the rewards. Default: all rewards of the env; on plain data, "reward".
        standard_normal: whether to compute ``(reward - loc) / scale``.

    Raises:
        TypeError: If ``loc`` or ``scale`` is not a number.
        ValueError: If a scale is 0.

    Example:
        >>> from tensordict import TensorDict
        >>> RewardScaling(loc=1.0, scale=0.5)(TensorDict({"reward": torch.tensor([4.0])}))["reward"]
        tensor([3.])
    """

    _elementwise = True

    def __init__(
        self,
        loc: Number,
        scale: Number,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        standard_normal: bool = False,
    ) -> None:
        for name, value in (("loc", loc), ("scale", scale)):
            if value is None:
                raise TypeError(f"RewardScaling takes a number or a tensor for {name}, and got a NoneType.")
        Affine.__init__(self, loc, scale, standard_normal)
        self._use_rewards(in_keys, out_keys)

    def __repr__(self) -> str:
        return f"RewardScaling(loc={_shown(self.loc)}, scale={_shown(self.scale)}, keys={self.in_keys})"


def _shown(value: torch.Tensor | None) -> Any:
    return None if value is None else value.item() if value.numel() == 1 else tuple(value.shape)


__all__ = ["BinarizeReward", "RewardClipping", "RewardScaling", "RewardTransform"]

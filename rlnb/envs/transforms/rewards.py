"""BinarizeReward, RewardClipping and RewardScaling: rewards of another size."""

from __future__ import annotations

from typing import Any

import torch

from rlnb.data import Binary, Composite, TensorSpec
from rlnb.envs.transforms.affine import Affine, Number
from rlnb.envs.transforms.bounds import clipped, whole
from rlnb.envs.transforms.transform import Keys, Transform, key_list


class OfRewards(Transform):
    """A transform of rewards: without keys, of all rewards of the env, in place.

    Args:
        in_keys: the rewards. Default: all of the env; on plain data, "reward".
        out_keys: where they go. Default: ``in_keys``.
    """

    _elementwise = True

    def _use_rewards(self, in_keys: Keys | None, out_keys: Keys | None) -> None:
        self._all_rewards = in_keys is None and out_keys is None
        self.in_keys = key_list("reward" if in_keys is None else in_keys, "in_keys")
        self.out_keys = list(self.in_keys) if out_keys is None else key_list(out_keys, "out_keys")
        self._pair_up()

    def _learn_output(self, output_spec: Composite) -> None:
        if self._all_rewards:
            self.in_keys = list(output_spec["full_reward_spec"].keys(True, True))
            self.out_keys = list(self.in_keys)


class BinarizeReward(OfRewards):
    """Turns rewards into 1 where they are positive and 0 elsewhere, in their own dtype.

    Args:
        in_keys: the rewards. Default: all of the env; on plain data, "reward".
        out_keys: where they go. Default: ``in_keys``.

    Example:
        >>> from tensordict import TensorDict
        >>> BinarizeReward()(TensorDict({"reward": torch.tensor([-2.0, 0.0, 0.5])}))["reward"]
        tensor([0., 0., 1.])
    """

    def __init__(self, in_keys: Keys | None = None, out_keys: Keys | None = None) -> None:
        super().__init__()
        self._use_rewards(in_keys, out_keys)

    def _apply_transform(self, value: torch.Tensor) -> torch.Tensor:
        return (value > 0).to(value.dtype)

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        return Binary(shape=spec.shape, dtype=spec.dtype, device=spec.device)


class RewardClipping(OfRewards):
    """Clips rewards.

    Args:
        clamp_min: the least reward; None for no such bound.
        clamp_max: the greatest; None for no such bound.
        in_keys: the rewards. Default: all of the env; on plain data, "reward".
        out_keys: where they go. Default: ``in_keys``.

    Raises:
        TypeError: without any bound.
        ValueError: if the least is not below the greatest.

    Example:
        >>> from rlnb.envs import PendulumEnv, TransformedEnv
        >>> env = TransformedEnv(PendulumEnv(), RewardClipping(-0.5, 0.0))
        >>> env.reward_spec.space.low, bool((env.rollout(20)["next", "reward"] >= -0.5).all())
        (tensor([-0.5000]), True)
    """

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
        whole(self.clamp_min, spec.dtype, "clamp_min", self)
        whole(self.clamp_max, spec.dtype, "clamp_max", self)
        return clipped(spec, self.clamp_min, self.clamp_max)

    def __repr__(self) -> str:
        return f"RewardClipping(clamp_min={self.clamp_min}, clamp_max={self.clamp_max}, keys={self.in_keys})"


class RewardScaling(OfRewards, Affine):
    """Computes ``reward * scale + loc``, or ``(reward - loc) / scale``.

    Args:
        loc: a number, or a tensor that broadcasts to the rewards.
        scale: likewise.
        in_keys: the rewards. Default: all of the env; on plain data, "reward".
        out_keys: where they go. Default: ``in_keys``.
        standard_normal: compute ``(reward - loc) / scale``.

    Raises:
        TypeError: if ``loc`` or ``scale`` is no number.
        ValueError: if a scale is 0.

    Example:
        >>> from tensordict import TensorDict
        >>> RewardScaling(loc=1.0, scale=0.5)(TensorDict({"reward": torch.tensor([4.0])}))["reward"]
        tensor([3.])
    """

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
        super().__init__(loc, scale, standard_normal)  # the next class in line is Affine
        self._use_rewards(in_keys, out_keys)

    def __repr__(self) -> str:
        return f"RewardScaling(loc={_shown(self.loc)}, scale={_shown(self.scale)}, keys={self.in_keys})"


def _shown(value: torch.Tensor | None) -> Any:
    return None if value is None else value.item() if value.numel() == 1 else tuple(value.shape)


def check_bounds(transform: Any, low_name: str, low: float | None, high_name: str, high: float | None) -> None:
    """Refuse bounds that are none.

    Args:
        transform: for the errors.
        low_name: what the lower bound is called.
        low: the lower bound; None for none.
        high_name: what the upper bound is called.
        high: the upper bound; None for none.

    Raises:
        TypeError: without any bound, or if one is no number.
        ValueError: if the lower is not below the upper.
    """
    name = type(transform).__name__
    if low is None and high is None:
        raise TypeError(f"{name} needs a bound. Fix: {name}({low_name}=-1.0, {high_name}=1.0), or one of the two.")
    for bound_name, bound in ((low_name, low), (high_name, high)):
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, (int, float))):
            raise TypeError(f"{bound_name} must be a number, and is a {type(bound).__name__}.")
    if low is not None and high is not None and not low < high:
        raise ValueError(f"{low_name} must be below {high_name}, and they are {low} and {high}.")


__all__ = ["BinarizeReward", "OfRewards", "RewardClipping", "RewardScaling", "check_bounds"]

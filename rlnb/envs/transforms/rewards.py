"""Transforms of rewards: binarized, clipped, scaled, or with a penalty on the change of a policy."""

from __future__ import annotations

import copy
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.binary import Binary
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.envs.transforms.clip import check_bound_dtype, check_bounds, clipped_spec
from rlnb.envs.transforms.observation_norm import Affine, Number
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

    _shown = ("clamp_min", "clamp_max", "keys")
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


class KLRewardTransform(RewardTransform):
    """Subtracts from the reward the contribution of a step to the divergence between a policy and a frozen copy of it.

    The contribution is ``log pi(a | s) - log pi_frozen(a | s)``, whose mean over actions is the Kullback-Leibler
    divergence KL(pi || pi_frozen). ``log pi(a | s)`` is read from the data if the policy wrote it
    (``return_log_prob=True``), otherwise computed by the policy.

    Args:
        actor: the policy, a probabilistic TensorDictModule. Its current state is copied.
        coef: coefficient of the divergence.
        in_keys: the rewards. Default: all rewards of the env; on plain data, "reward".
        requires_grad: whether the frozen copy computes gradients.
        log_prob_key: entry to which the policy writes the log-probability of its action.
        action_key: the action.

    Attributes:
        frozen_actor: the copy.

    Raises:
        TypeError: If the policy has no ``get_dist``.

    Example:
        >>> from tensordict import TensorDict
        >>> from tensordict.nn import ProbabilisticTensorDictModule as Probabilistic
        >>> from tensordict.nn import ProbabilisticTensorDictSequential, TensorDictModule
        >>> net = TensorDictModule(torch.nn.Linear(4, 2), ["observation"], ["logits"])
        >>> draw = Probabilistic(["logits"], ["action"], distribution_class=torch.distributions.Categorical)
        >>> actor = ProbabilisticTensorDictSequential(net, draw)
        >>> from rlnb.envs import CartPoleEnv, TransformedEnv
        >>> env = TransformedEnv(CartPoleEnv(categorical_action_encoding=True), KLRewardTransform(actor))
        >>> env.rollout(2, actor)["next", "reward"].flatten()
        tensor([1., 1.])
    """

    _shown = ("coef", "keys")

    actor: Any
    frozen_actor: Any

    def __init__(
        self,
        actor: Any,
        coef: float = 1.0,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        requires_grad: bool = False,
        log_prob_key: NestedKey = "action_log_prob",
        action_key: NestedKey = "action",
    ) -> None:
        if not callable(getattr(actor, "get_dist", None)):
            raise TypeError(
                "KLRewardTransform needs a policy with get_dist, which returns its distribution, and got a "
                f"{type(actor).__name__}. Fix: a ProbabilisticTensorDictSequential."
            )
        super().__init__()
        self._use_rewards(in_keys, out_keys)
        self.coef = float(coef)
        self.frozen_actor = copy.deepcopy(actor).requires_grad_(requires_grad)
        # Not by setattr: the policy's parameters must not become parameters of the transform.
        self.__dict__["actor"] = actor
        self.log_prob_key = key_list([log_prob_key], "log_prob_key")[0]
        self.action_key = key_list([action_key], "action_key")[0]

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        divergence = self._divergence(tensordict)
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            reward = self._need(next_tensordict, in_key)
            next_tensordict.set(out_key, self._correct(reward, divergence))
        return next_tensordict

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict  # a reset has no reward

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Change the rewards, under "next", of steps in the TED format; see :meth:`Transform.forward`."""
        divergence = self._divergence(tensordict)
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            reward = self._need(tensordict, as_key(("next", *as_tuple(in_key))))
            tensordict.set(as_key(("next", *as_tuple(out_key))), self._correct(reward, divergence))
        return tensordict

    def _divergence(self, data: TensorDictBase) -> torch.Tensor:
        """Return the difference of the log-probabilities, of the batch size of the data."""
        action = self._need(data, self.action_key)
        given = data.exclude("next")
        log_prob = data.get(self.log_prob_key, None)
        if log_prob is None:
            with torch.no_grad():
                log_prob = self.actor.get_dist(given.copy()).log_prob(action)
        frozen = self.frozen_actor.get_dist(given.copy()).log_prob(action)
        if frozen.shape != data.batch_size or log_prob.shape != data.batch_size:
            raise ValueError(
                f"The log-probability of {self.action_key!r} must have the batch size of the data, "
                f"{tuple(data.batch_size)}, and has {tuple(log_prob.shape)}, that of the frozen copy "
                f"{tuple(frozen.shape)}. Fix: torch.distributions.Independent(distribution, 1), which sums over the "
                "dimensions of an action."
            )
        return log_prob - frozen

    def _correct(self, reward: torch.Tensor, divergence: torch.Tensor) -> torch.Tensor:
        extra = reward.ndim - divergence.ndim
        return reward - self.coef * divergence.reshape((*divergence.shape, *[1] * extra)).to(reward.dtype)

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        if spec.dtype is None or not spec.dtype.is_floating_point:
            raise TypeError(
                f"KLRewardTransform needs floating-point rewards, and these have dtype {spec.dtype}. Fix: put "
                f"DTypeCastTransform({spec.dtype}, torch.float32, in_keys=['reward']) before it."
            )
        return Unbounded(shape=spec.shape, dtype=spec.dtype, device=spec.device)


__all__ = ["BinarizeReward", "KLRewardTransform", "RewardClipping", "RewardScaling", "RewardTransform"]

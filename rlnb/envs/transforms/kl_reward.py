"""``KLRewardTransform``, a reward penalty on the divergence between a policy and a frozen copy of it."""

from __future__ import annotations

import copy
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.envs.transforms.rewards import RewardTransform
from rlnb.envs.transforms.transform import Keys, key_list


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

    def __repr__(self) -> str:
        return f"KLRewardTransform(coef={self.coef}, keys={self.in_keys})"


__all__ = ["KLRewardTransform"]

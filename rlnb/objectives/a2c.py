"""The loss of advantage actor-critic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensordict import TensorDictBase

from rlnb.data.ted.keys import NestedKey
from rlnb.objectives.actor_critic import ActorCriticLoss, networks_of
from rlnb.objectives.errors import unknown_argument
from rlnb.objectives.keywords import dispatch


class A2CLoss(ActorCriticLoss):
    r"""The policy gradient with advantages.

    .. math::
        L = -\hat{E}_t\left[\log \pi_\theta(a_t | s_t) \hat{A}_t\right]
        + c_1 \, d(V(s_t), \hat{V}_t) - c_2 \, H(\pi_\theta(s_t))

    Mnih et al., Asynchronous Methods for Deep Reinforcement Learning, 2016 (arXiv:1602.01783), section 4 and algorithm
    S3. The terms are "loss_objective", "loss_critic" and "loss_entropy", to be added up, each with its coefficient in
    it; "entropy" is for logs.

    Args:
        actor_network: the policy, with ``get_dist``, such as ``ProbabilisticActor``.
        critic_network: writes the value of a state. None: the critic is not trained here.
        entropy_bonus: whether there is a "loss_entropy".
        samples_mc_entropy: number of samples of an entropy without a formula.
        entropy_coeff: c_2. Default: 0.01. With a composite action also a dictionary of one number for each part, by the
            key of its entropy, such as ``("action", "steering_entropy")``.
        critic_coeff: c_1. None: there is no "loss_critic".
        loss_critic_type: d: ``"l1"``, ``"l2"`` or ``"smooth_l1"``.
        gamma: the discount of the value estimator of the loss.
        separate_losses: whether parameters that policy and critic share learn from the policy's loss alone.
        functional: accepted as in TorchRL.
        actor: an older name of ``actor_network``.
        critic: an older name of ``critic_network``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        clip_value: largest change of a value away from the one in the data that still lowers the loss.

    Raises:
        TypeError: If the policy has no ``get_dist``, or is deterministic.
        KeyError: If the data lacks an entry; the message says which module writes it.
        ValueError: If an argument or a shape does not fit.
        FloatingPointError: If a term is not finite.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from tensordict import TensorDict
        >>> from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule
        >>> actor = ProbabilisticTensorDictSequential(
        ...     TensorDictModule(nn.Linear(3, 2), ["observation"], ["logits"]),
        ...     ProbabilisticTensorDictModule(
        ...         ["logits"], ["action"], distribution_class=torch.distributions.Categorical, return_log_prob=True
        ...     ),
        ... )
        >>> critic = TensorDictModule(nn.Linear(3, 1), ["observation"], ["state_value"])
        >>> data = actor(TensorDict({"observation": torch.ones(5, 3)}, [5]))
        >>> data = data.update({"advantage": torch.ones(5, 1), "value_target": torch.zeros(5, 1)}).detach()
        >>> terms = A2CLoss(actor, critic)(data)
        >>> sorted(terms.keys())
        ['entropy', 'loss_critic', 'loss_entropy', 'loss_objective']
    """

    def __init__(
        self,
        actor_network: Any = None,
        critic_network: Any = None,
        *,
        entropy_bonus: bool = True,
        samples_mc_entropy: int = 1,
        entropy_coeff: float | Mapping[NestedKey, float] | None = None,
        critic_coeff: float | None = 1.0,
        loss_critic_type: str = "smooth_l1",
        gamma: float | None = None,
        separate_losses: bool = False,
        functional: bool = True,
        actor: Any = None,
        critic: Any = None,
        reduction: str | None = None,
        clip_value: float | None = None,
        **unknown: Any,
    ) -> None:
        for name in unknown:
            raise TypeError(unknown_argument(self, name))
        actor_network, critic_network = networks_of(self, actor_network, critic_network, actor, critic)
        super().__init__(
            actor_network,
            critic_network,
            loss_critic_type=loss_critic_type,
            separate_losses=separate_losses,
            clip_value=clip_value,
            gamma=gamma,
            reduction=reduction,
        )
        self.entropy_bonus, self.samples_mc_entropy = entropy_bonus, samples_mc_entropy
        self._coefficient("entropy_coeff", 0.01 if entropy_coeff is None else entropy_coeff)
        self._coefficient("critic_coeff", critic_coeff)

    def _default_out_keys(self) -> list[NestedKey]:
        critic = ["loss_critic"] if self._has_critic() else []
        return ["loss_objective", *critic, *(["entropy", "loss_entropy"] if self.entropy_bonus else [])]

    def _has_critic(self) -> bool:
        return self.critic_network is not None and self.critic_coeff is not None

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the terms of steps ``[*B]``, which need "action", "advantage" and "value_target"."""
        data = self._with_advantage(tensordict)
        log_prob, distribution = self._log_prob(data)
        advantage = self._advantage(data, log_prob).squeeze(-1)
        terms = {"loss_objective": self._reduce(-log_prob * advantage, data)}
        if self.entropy_bonus:
            terms.update(self._entropy_terms(distribution, data))
        if self._has_critic():
            loss, logs = self._critic_terms(data, self.clip_value)
            terms["loss_critic"] = self.critic_coeff * loss
            terms.update(logs)
        return self._terms(terms)

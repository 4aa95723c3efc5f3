"""The loss of REINFORCE."""

from __future__ import annotations

from typing import Any

from tensordict import TensorDictBase

from rlnb.data.ted.keys import NestedKey
from rlnb.objectives.actor_critic import ActorCriticLoss, networks_of
from rlnb.objectives.errors import unknown_argument
from rlnb.objectives.keywords import dispatch


class ReinforceLoss(ActorCriticLoss):
    r"""The policy gradient with returns, or with advantages where the critic is the baseline.

    .. math::
        L = -\hat{E}_t\left[\log \pi_\theta(a_t | s_t) (G_t - b(s_t))\right] + d(V(s_t), G_t)

    Williams, Simple Statistical Gradient-Following Algorithms for Connectionist Reinforcement Learning, 1992, equation
    11; Sutton and Barto, Reinforcement Learning, 2nd edition, section 13.4. The terms are "loss_actor" and, with a
    critic, "loss_value". Without a critic, write the return of each step into the data as "advantage".

    Args:
        actor_network: the policy, with ``get_dist``, such as ``ProbabilisticActor``.
        critic_network: writes the value of a state. None: there is no "loss_value".
        delay_value: whether the value estimator of the loss uses a target network.
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
        >>> data = actor(TensorDict({"observation": torch.ones(5, 3)}, [5])).detach()
        >>> terms = ReinforceLoss(actor)(data.set("advantage", torch.ones(5, 1)))
        >>> terms["loss_actor"].allclose(-data["action_log_prob"].mean())
        True
    """

    def __init__(
        self,
        actor_network: Any = None,
        critic_network: Any = None,
        *,
        delay_value: bool = False,
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
            delay_value=delay_value and critic_network is not None,
        )

    def _default_out_keys(self) -> list[NestedKey]:
        return ["loss_actor", "loss_value"] if self.critic_network is not None else ["loss_actor"]

    def _value_network(self) -> Any:
        return self._target("critic_network") if self.critic_network is not None else None

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the terms of steps ``[*B]``, which need "action" and "advantage", and "value_target" for a critic."""
        data = self._with_advantage(tensordict)
        log_prob, _ = self._log_prob(data)
        advantage = self._advantage(data, log_prob).squeeze(-1)
        terms = {"loss_actor": self._reduce(-log_prob * advantage, data)}
        if self.critic_network is not None:
            terms["loss_value"], logs = self._critic_terms(data, self.clip_value)
            terms.update(logs)
        return self._terms(terms)

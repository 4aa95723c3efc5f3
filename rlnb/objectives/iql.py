"""Implicit Q-learning: the losses for continuous and for discrete actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from tensordict import TensorDictBase

from rlnb.data.ted.keys import NestedKey
from rlnb.objectives.keywords import dispatch
from rlnb.objectives.off_policy import OffPolicyLoss, action_space_of, chosen
from rlnb.objectives.policies import check_action, check_stochastic
from rlnb.objectives.utils import check_distance, distance_loss

Tensor = torch.Tensor

_MAX_WEIGHT = 100.0  # of a step in the policy's loss; the value that the paper's code uses


class IQLLoss(OffPolicyLoss):
    r"""The losses of a policy, and of values that never ask for an action that is not in the data.

    .. math::
        L_{value} = \hat{E}\left[|\tau - 1(u < 0)| u^2\right], \quad u = \min_i Q_{\theta_i'}(s, a) - V_\psi(s); \qquad
        L_{qvalue} = \sum_i \hat{E}\left[d(Q_{\theta_i}(s, a), r + \gamma (1 - terminated) V_\psi(s'))\right]

    .. math::
        L_{actor} = -\hat{E}\left[\min\left(e^{\beta (\min_i Q_{\theta_i'}(s, a) - V_\psi(s))}, 100\right)
        \log \pi_\phi(a | s)\right]

    Kostrikov et al., Offline Reinforcement Learning with Implicit Q-Learning, 2021 (arXiv:2110.06169), equations 5
    to 7. The terms are "loss_actor", "loss_qvalue" and "loss_value", each with gradients for its own network alone, to
    be added up; "entropy", minus the mean log-probability of the actions in the data, is for logs. The square of the
    largest TD error is written into the data as "td_error".

    Args:
        actor_network: the policy, with ``get_dist``, such as ``ProbabilisticActor``.
        qvalue_network: reads the action and writes "state_action_value"; a list gives each of the networks.
        value_network: writes "state_value".
        num_qvalue_nets: how many networks are made of ``qvalue_network``, with parameters of their own.
        loss_function: d: ``"l1"``, ``"l2"`` or ``"smooth_l1"``.
        temperature: :math:`\beta`, at least 0.
        expectile: :math:`\tau`, in (0, 1).
        gamma: the discount; ``make_value_estimator`` is the other way to give it.
        priority_key: use ``set_keys(priority=...)``.
        separate_losses: accepted as in TorchRL.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        deactivate_vmap: accepted as in TorchRL.
        scalar_output_mode: accepted as in TorchRL.

    Raises:
        TypeError: If the policy has no ``get_dist``, or is deterministic.
        KeyError: If the data lacks an entry; the message says which module writes it.
        ValueError: If an argument or a shape does not fit.
        FloatingPointError: If a term is not finite.

    Example:
        >>> from torch import nn
        >>> from tensordict import TensorDict
        >>> from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential
        >>> from tensordict.nn import NormalParamExtractor, TensorDictModule
        >>> from torch.distributions import Independent, Normal
        >>> net = nn.Sequential(nn.Linear(3, 4), NormalParamExtractor())
        >>> def Gaussian(loc, scale):
        ...     return Independent(Normal(loc, scale), 1)
        >>> actor = ProbabilisticTensorDictSequential(
        ...     TensorDictModule(net, ["observation"], ["loc", "scale"]),
        ...     ProbabilisticTensorDictModule(["loc", "scale"], ["action"], distribution_class=Gaussian),
        ... )
        >>> class Q(nn.Linear):
        ...     def forward(self, observation, action):
        ...         return super().forward(torch.cat([observation, action], -1))
        >>> qvalue = TensorDictModule(Q(5, 1), ["observation", "action"], ["state_action_value"])
        >>> value = TensorDictModule(nn.Linear(3, 1), ["observation"], ["state_value"])
        >>> loss = IQLLoss(actor, qvalue, value, expectile=0.7)
        >>> flag = torch.zeros(5, 1, dtype=torch.bool)
        >>> after = {"observation": torch.ones(5, 3), "reward": torch.ones(5, 1), "done": flag, "terminated": flag}
        >>> data = {"observation": torch.ones(5, 3), "action": torch.zeros(5, 2), "next": after}
        >>> terms = loss(TensorDict(data, [5]))
        >>> (terms["loss_actor"] + terms["loss_qvalue"] + terms["loss_value"]).backward()
    """

    @dataclass
    class _AcceptedKeys:
        value: NestedKey = "state_value"
        action: NestedKey = "action"
        log_prob: NestedKey = "_log_prob"
        priority: NestedKey = "td_error"
        state_action_value: NestedKey = "state_action_value"
        reward: NestedKey = "reward"
        done: NestedKey = "done"
        terminated: NestedKey = "terminated"

    default_keys: ClassVar[type] = _AcceptedKeys
    _OUT_KEYS = ("loss_actor", "loss_qvalue", "loss_value", "entropy")
    _networks = ("actor_network", "qvalue_network", "value_network")
    actor_network: Any
    qvalue_network: Any
    value_network: Any

    def __init__(
        self,
        actor_network: Any,
        qvalue_network: Any,
        value_network: Any,
        *,
        num_qvalue_nets: int = 2,
        loss_function: str = "smooth_l1",
        temperature: float = 1.0,
        expectile: float = 0.5,
        gamma: float | None = None,
        priority_key: NestedKey | None = None,
        separate_losses: bool = False,
        reduction: str | None = None,
        deactivate_vmap: bool = False,
        scalar_output_mode: str | None = None,
    ) -> None:
        super().__init__(reduction)
        check_distance(loss_function)
        check_stochastic(self, actor_network)
        if not 0 < expectile < 1:
            raise ValueError(f"expectile must be in (0, 1), and got {expectile}. Fix: expectile=0.7.")
        if not temperature >= 0:
            raise ValueError(f"temperature must be at least 0, and got {temperature}. Fix: temperature=3.0.")
        self._add_network("actor_network", actor_network)
        self._add_network("value_network", value_network)
        self._add_ensemble("qvalue_network", qvalue_network, num_qvalue_nets, delay=True)
        self.loss_function, self.temperature, self.expectile = loss_function, temperature, expectile
        self.num_qvalue_nets, self.delay_qvalue = num_qvalue_nets, True
        if priority_key is not None:
            self.set_keys(priority=priority_key)
        if gamma is not None:
            self.make_value_estimator(gamma=gamma)

    def _weights(self, data: TensorDictBase) -> Tensor | None:
        return None

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the terms of transitions ``[*B]``, and write "td_error" into them."""
        value = self._value(tensordict)
        best = self._chosen(tensordict, "target").min(0).values
        distribution = self._distribution(self.actor_network, tensordict)
        action = self._get(tensordict, "action")
        check_action(self, distribution, action, self.tensor_keys.action)
        log_prob = distribution.log_prob(action)
        difference = best - value
        weight = (self.temperature * difference.detach()).exp().clamp_max(_MAX_WEIGHT)
        share = torch.where(difference > 0, self.expectile, 1 - self.expectile)
        return self._terms(
            {
                "loss_actor": self._reduce(-weight * log_prob, tensordict),
                "loss_qvalue": self._qvalue_loss(tensordict),
                "loss_value": self._reduce(share * difference.square(), tensordict),
                "entropy": -log_prob.detach().mean(),
            }
        )

    def _qvalue_loss(self, data: TensorDictBase) -> Tensor:
        values = self._chosen(data, "")
        with torch.no_grad():
            target = self._returns(data, self._value(self._after(data)))
        self._prioritize(data, (values - target).square().amax(0))
        return self._reduce(distance_loss(values, target.expand_as(values), self.loss_function).sum(0), data)

    def _value(self, data: TensorDictBase) -> Tensor:
        key = self.tensor_keys.value
        found = self._run(self.value_network, data).get(key, None)
        if found is None:
            raise KeyError(
                f"{type(self).__name__} expects the value at {key!r}, but the value network writes "
                f"{self.value_network.out_keys}. Fix: loss.set_keys(value={self.value_network.out_keys[0]!r})."
            )
        return found.squeeze(-1)

    def _chosen(self, data: TensorDictBase, of: str) -> Tensor:
        """Compute the values of the actions in the data, ``[networks, *B]``; no gradient reaches a target."""
        return self._run_ensemble("qvalue_network", data, self.tensor_keys.state_action_value, of=of).squeeze(-1)


class DiscreteIQLLoss(IQLLoss):
    r"""The losses of IQL where the value networks write the values of all actions.

    The equations are those of :class:`IQLLoss`; :math:`Q(s, a)` is the value of the action in the data among those of
    all actions, at "state_action_value".

    Args:
        actor_network: the policy, with ``get_dist``, such as ``ProbabilisticActor``.
        qvalue_network: writes the values of all actions at "state_action_value"; a list gives each of the networks.
        value_network: writes "state_value".
        action_space: ``"categorical"`` for indices, ``"one-hot"``, or a spec.
        kwargs: the other arguments of :class:`IQLLoss`.

    Raises:
        ValueError: If the action space is unknown, or one of the errors of :class:`IQLLoss`.

    Example:
        >>> from torch import nn
        >>> from tensordict import TensorDict
        >>> from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule
        >>> from torch.distributions import Categorical
        >>> actor = ProbabilisticTensorDictSequential(
        ...     TensorDictModule(nn.Linear(3, 2), ["observation"], ["logits"]),
        ...     ProbabilisticTensorDictModule(["logits"], ["action"], distribution_class=Categorical),
        ... )
        >>> qvalue = TensorDictModule(nn.Linear(3, 2), ["observation"], ["state_action_value"])
        >>> value = TensorDictModule(nn.Linear(3, 1), ["observation"], ["state_value"])
        >>> loss = DiscreteIQLLoss(actor, qvalue, value, action_space="categorical")
        >>> flag = torch.zeros(5, 1, dtype=torch.bool)
        >>> after = {"observation": torch.ones(5, 3), "reward": torch.ones(5, 1), "done": flag, "terminated": flag}
        >>> data = {"observation": torch.ones(5, 3), "action": torch.zeros(5, dtype=torch.int64), "next": after}
        >>> sorted(loss(TensorDict(data, [5])).keys())
        ['entropy', 'loss_actor', 'loss_qvalue', 'loss_value']
    """

    def __init__(
        self, actor_network: Any, qvalue_network: Any, value_network: Any, *, action_space: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(actor_network, qvalue_network, value_network, **kwargs)
        self.action_space = action_space_of(self, action_space, actor_network)

    def _chosen(self, data: TensorDictBase, of: str) -> Tensor:
        values = self._run_ensemble("qvalue_network", data, self.tensor_keys.state_action_value, of=of)
        return chosen(values, self._get(data, "action"), self.action_space)

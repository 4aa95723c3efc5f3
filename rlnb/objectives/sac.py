"""Soft actor-critic: the losses for continuous and for discrete actions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from tensordict import TensorDictBase
from torch import nn

from rlnb._tensordict import set_entry, shallow_copy
from rlnb.data.ted.keys import NestedKey
from rlnb.objectives.keywords import dispatch
from rlnb.objectives.off_policy import OffPolicyLoss, action_space_of, chosen
from rlnb.objectives.policies import check_stochastic, written_keys
from rlnb.objectives.utils import check_distance, distance_loss

Tensor = torch.Tensor


class SoftLoss(OffPolicyLoss):
    """Base class of both losses: the temperature alpha, the ensemble of value networks, and their loss."""

    _networks = ("actor_network", "qvalue_network")
    actor_network: Any
    qvalue_network: Any
    log_alpha: Any

    def _set_up(
        self,
        actor_network: Any,
        qvalue_network: Any,
        *,
        num_qvalue_nets: int,
        loss_function: str,
        alpha_init: float,
        min_alpha: float | None,
        max_alpha: float | None,
        fixed_alpha: bool,
        delay_actor: bool,
        delay_qvalue: bool,
    ) -> None:
        check_distance(loss_function)
        check_stochastic(self, actor_network)
        for name, value in (("alpha_init", alpha_init), ("min_alpha", min_alpha), ("max_alpha", max_alpha)):
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive, and got {value}. Fix: {name}=1.0.")
        self._add_network("actor_network", actor_network, delay=delay_actor)
        self._add_ensemble("qvalue_network", qvalue_network, num_qvalue_nets, delay=delay_qvalue)
        self.loss_function, self.num_qvalue_nets, self.fixed_alpha = loss_function, num_qvalue_nets, fixed_alpha
        self.delay_actor, self.delay_qvalue = delay_actor, delay_qvalue
        self.min_log_alpha = None if min_alpha is None else math.log(min_alpha)
        self.max_log_alpha = None if max_alpha is None else math.log(max_alpha)
        self.register_buffer("alpha_init", torch.tensor(float(alpha_init)))
        start = torch.tensor(math.log(alpha_init))
        if fixed_alpha:
            self.register_buffer("log_alpha", start)
        else:
            self.log_alpha = nn.Parameter(start)

    @property
    def alpha(self) -> Tensor:
        """The temperature, without gradient."""
        with torch.no_grad():
            if self.min_log_alpha is not None or self.max_log_alpha is not None:
                self.log_alpha.clamp_(self.min_log_alpha, self.max_log_alpha)
            return self.log_alpha.exp()

    def _alpha_loss(self, log_prob: Tensor, data: TensorDictBase) -> Tensor:
        target: Any = self.target_entropy
        loss = -self.log_alpha * (log_prob.detach() + target)
        return self._reduce(loss, data, self._weights(data))

    def _qvalue_loss(self, values: Tensor, target: Tensor, data: TensorDictBase) -> Tensor:
        """Compute the loss of the values ``[networks, *B]``, and write the TD error into the data."""
        self._prioritize(data, (values - target).abs().amax(0))
        loss = distance_loss(values, target.expand_as(values), self.loss_function).sum(0)
        return self._reduce(loss, data, self._weights(data))


class SACLoss(SoftLoss):
    r"""The losses of a stochastic policy, of the soft values of its actions, and of the temperature.

    .. math::
        y = r + \gamma (1 - terminated) \left(\min_i Q_{\theta_i'}(s', a') - \alpha \log \pi_\phi(a' | s')\right),
        \qquad L_{qvalue} = \sum_i \hat{E}\left[d(Q_{\theta_i}(s, a), y)\right]

    .. math::
        L_{actor} = \hat{E}\left[\alpha \log \pi_\phi(\tilde{a} | s) - \min_i Q_{\theta_i}(s, \tilde{a})\right],
        \qquad L_{alpha} = -\log \alpha \; \hat{E}\left[\log \pi_\phi(\tilde{a} | s) + \bar{H}\right]

    with actions :math:`\tilde{a}, a'` drawn from the policy. Haarnoja et al., Soft Actor-Critic Algorithms and
    Applications, 2018 (arXiv:1812.05905), equations 5, 7, 9 and 18. With a ``value_network``, the first version:
    :math:`y = r + \gamma (1 - terminated) V_{\psi'}(s')`, and a "loss_value" pulls :math:`V_\psi(s)` to
    :math:`\min_i Q_{\theta_i'}(s, \tilde{a}) - \alpha \log \pi_\phi(\tilde{a} | s)` (arXiv:1801.01290,
    equations 5 to 8).

    The terms are "loss_actor", "loss_qvalue" and "loss_alpha", each with gradients for its own parameters alone, to be
    added up; "alpha" and "entropy" are for logs. The largest TD error is written into the data as "td_error".

    Args:
        actor_network: the policy, with ``get_dist``, such as ``ProbabilisticActor``.
        qvalue_network: reads the action and writes "state_action_value"; a list gives each of the networks.
        value_network: writes "state_value", for the first version.
        num_qvalue_nets: how many networks are made of ``qvalue_network``, with parameters of their own.
        loss_function: d: ``"l1"``, ``"l2"`` or ``"smooth_l1"``.
        alpha_init: the first temperature.
        min_alpha: the smallest temperature.
        max_alpha: the largest temperature.
        action_spec: the spec of the action, for the target entropy. Default: that of the policy.
        fixed_alpha: whether the temperature stays as it is.
        target_entropy: :math:`\bar{H}`; ``"auto"`` for minus the number of numbers in an action.
        delay_actor: whether the target is computed with a target policy.
        delay_qvalue: whether the target is computed with target networks.
        delay_value: the same for the ``value_network``.
        gamma: the discount; ``make_value_estimator`` is the other way to give it.
        priority_key: use ``set_keys(priority=...)``.
        separate_losses: accepted as in TorchRL.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        skip_done_states: accepted as in TorchRL; what follows an end never counts.
        deactivate_vmap: accepted as in TorchRL.
        use_prioritized_weights: whether "priority_weight" weighs the terms; ``"auto"`` for where it is in the data.
        scalar_output_mode: accepted as in TorchRL.

    Raises:
        TypeError: If the policy has no ``get_dist``, or is deterministic.
        KeyError: If the data lacks an entry; the message says which module writes it.
        ValueError: If an argument or a shape does not fit.
        FloatingPointError: If a term is not finite.

    Example:
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
        >>> loss = SACLoss(actor, qvalue, target_entropy=-2.0)
        >>> flag = torch.zeros(5, 1, dtype=torch.bool)
        >>> after = {"observation": torch.ones(5, 3), "reward": torch.ones(5, 1), "done": flag, "terminated": flag}
        >>> data = {"observation": torch.ones(5, 3), "action": torch.zeros(5, 2), "next": after}
        >>> terms = loss(TensorDict(data, [5]))
        >>> (terms["loss_actor"] + terms["loss_qvalue"] + terms["loss_alpha"]).backward()
        >>> terms["alpha"]
        tensor(1.)
    """

    @dataclass
    class _AcceptedKeys:
        action: NestedKey = "action"
        value: NestedKey = "state_value"
        state_action_value: NestedKey = "state_action_value"
        log_prob: NestedKey = "action_log_prob"
        priority: NestedKey = "td_error"
        reward: NestedKey = "reward"
        done: NestedKey = "done"
        terminated: NestedKey = "terminated"
        priority_weight: NestedKey = "priority_weight"

    default_keys: ClassVar[type] = _AcceptedKeys
    value_network: Any

    def __init__(
        self,
        actor_network: Any,
        qvalue_network: Any,
        value_network: Any = None,
        *,
        num_qvalue_nets: int = 2,
        loss_function: str = "smooth_l1",
        alpha_init: float = 1.0,
        min_alpha: float | None = None,
        max_alpha: float | None = None,
        action_spec: Any = None,
        fixed_alpha: bool = False,
        target_entropy: str | float = "auto",
        delay_actor: bool = False,
        delay_qvalue: bool = True,
        delay_value: bool = True,
        gamma: float | None = None,
        priority_key: NestedKey | None = None,
        separate_losses: bool = False,
        reduction: str | None = None,
        skip_done_states: bool = False,
        deactivate_vmap: bool = False,
        use_prioritized_weights: bool | str = "auto",
        scalar_output_mode: str | None = None,
    ) -> None:
        super().__init__(reduction)
        self._set_up(
            actor_network,
            qvalue_network,
            num_qvalue_nets=num_qvalue_nets,
            loss_function=loss_function,
            alpha_init=alpha_init,
            min_alpha=min_alpha,
            max_alpha=max_alpha,
            fixed_alpha=fixed_alpha,
            delay_actor=delay_actor,
            delay_qvalue=delay_qvalue,
        )
        keys = written_keys(actor_network, "action", "log_prob")
        self._take_keys({role: key for role, key in keys.items() if not isinstance(key, list)})
        if value_network is None:
            self.register_module("value_network", None)
        else:
            self._add_network("value_network", value_network, delay=delay_value)
        self.use_prioritized_weights = use_prioritized_weights
        if priority_key is not None:
            self.set_keys(priority=priority_key)
        self.register_buffer("target_entropy", torch.tensor(self._goal(target_entropy, action_spec)))
        if gamma is not None:
            self.make_value_estimator(gamma=gamma)

    def _default_out_keys(self) -> list[NestedKey]:
        first: list[NestedKey] = ["loss_actor", "loss_qvalue", "loss_alpha", "alpha", "entropy"]
        return first if self.value_network is None else [*first, "loss_value"]

    def _goal(self, target_entropy: str | float, spec: Any) -> float:
        if target_entropy != "auto":
            return float(target_entropy)
        spec = getattr(self.actor_network, "spec", None) if spec is None else spec
        key = self.tensor_keys.action
        if spec is not None and hasattr(spec, "keys"):
            spec = spec[key] if key in spec.keys(True) else None
        if spec is None:
            raise ValueError(
                "SACLoss cannot tell how many numbers an action has, which target_entropy='auto' needs: the policy has "
                "no spec. Fix: action_spec=env.action_spec, or target_entropy=-n for n numbers."
            )
        return -float(math.prod(spec.shape[len(spec.shape) - 1 :] or (1,)))

    def _estimator_keys(self) -> dict[str, NestedKey]:
        value = self.tensor_keys.value if self._modules.get("value_network") else self.tensor_keys.state_action_value
        return {**super()._estimator_keys(), "value": value}

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the terms of transitions ``[*B]``, and write "td_error" into them."""
        alpha = self.alpha
        action, log_prob, _ = self._draw("actor_network", tensordict)
        acting = set_entry(shallow_copy(tensordict), self.tensor_keys.action, action)
        soft = self._values(acting, "detached").min(0).values
        values = self._values(tensordict, "")
        with torch.no_grad():
            target = self._returns(tensordict, self._next_value(tensordict, alpha))
        weights = self._weights(tensordict)
        terms = {
            "loss_actor": self._reduce(alpha * log_prob - soft, tensordict, weights),
            "loss_qvalue": self._qvalue_loss(values, target, tensordict),
            "loss_alpha": self._alpha_loss(log_prob, tensordict),
        }
        if self.value_network is not None:
            value = self._run(self.value_network, tensordict).get(self.tensor_keys.value).squeeze(-1)
            best = self._values(acting, "target").min(0).values
            goal = (best - alpha * log_prob).detach()
            loss = distance_loss(value, goal, self.loss_function)
            terms["loss_value"] = self._reduce(loss, tensordict, weights)
        return self._terms({**terms, "alpha": alpha, "entropy": -log_prob.detach().mean()})

    def _next_value(self, data: TensorDictBase, alpha: Tensor) -> Tensor:
        """Compute the soft value of the next state, ``[*B]``."""
        after = self._after(data)
        if self.value_network is not None:
            found: Tensor = self._run(self._target("value_network"), after).get(self.tensor_keys.value)
            return found.squeeze(-1)
        action, log_prob, _ = self._draw("target_actor_network", after)
        after = set_entry(shallow_copy(after), self.tensor_keys.action, action)
        return self._values(after, "target").min(0).values - alpha * log_prob

    def _values(self, data: TensorDictBase, of: str) -> Tensor:
        return self._run_ensemble("qvalue_network", data, self.tensor_keys.state_action_value, of=of).squeeze(-1)


class DiscreteSACLoss(SoftLoss):
    r"""The losses of SAC for a finite number of actions, with expectations instead of samples.

    .. math::
        y = r + \gamma (1 - terminated) \sum_{a'} \pi_\phi(a' | s') \left(\min_i Q_{\theta_i'}(s', a')
        - \alpha \log \pi_\phi(a' | s')\right), \qquad
        L_{qvalue} = \sum_i \hat{E}\left[d(Q_{\theta_i}(s, a), y)\right]

    .. math::
        L_{actor} = \hat{E}\left[\sum_a \pi_\phi(a | s) \left(\alpha \log \pi_\phi(a | s)
        - \min_i Q_{\theta_i}(s, a)\right)\right], \qquad
        L_{alpha} = -\log \alpha \; \hat{E}\left[\sum_a \pi_\phi(a | s) \log \pi_\phi(a | s) + \bar{H}\right]

    Christodoulou, Soft Actor-Critic for Discrete Action Settings, 2019 (arXiv:1910.07207), equations 10 to 12. The
    terms are those of :class:`SACLoss`.

    Args:
        actor_network: the policy, whose distribution has ``probs``, such as a categorical one.
        qvalue_network: writes "action_value", the values of all actions; a list gives each of the networks.
        action_space: ``"categorical"`` for indices, ``"one-hot"``, or a spec.
        num_actions: the number of actions, for the target entropy. Default: that of the spec.
        num_qvalue_nets: how many networks are made of ``qvalue_network``, with parameters of their own.
        loss_function: d: ``"l1"``, ``"l2"`` or ``"smooth_l1"``.
        alpha_init: the first temperature.
        min_alpha: the smallest temperature.
        max_alpha: the largest temperature.
        fixed_alpha: whether the temperature stays as it is.
        target_entropy_weight: the share of the largest entropy that ``"auto"`` stands for.
        target_entropy: :math:`\bar{H}`, or ``"auto"``.
        delay_qvalue: whether the target is computed with target networks.
        priority_key: use ``set_keys(priority=...)``.
        separate_losses: accepted as in TorchRL.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        skip_done_states: accepted as in TorchRL; what follows an end never counts.
        deactivate_vmap: accepted as in TorchRL.
        use_prioritized_weights: whether "priority_weight" weighs the terms; ``"auto"`` for where it is in the data.
        scalar_output_mode: accepted as in TorchRL.

    Raises:
        TypeError: If the policy has no ``get_dist``, or is deterministic.
        KeyError: If the data lacks an entry; the message says which module writes it.
        ValueError: If an argument or a shape does not fit.
        FloatingPointError: If a term is not finite.

    Example:
        >>> from tensordict import TensorDict
        >>> from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule
        >>> from torch.distributions import Categorical
        >>> actor = ProbabilisticTensorDictSequential(
        ...     TensorDictModule(nn.Linear(3, 2), ["observation"], ["logits"]),
        ...     ProbabilisticTensorDictModule(["logits"], ["action"], distribution_class=Categorical),
        ... )
        >>> qvalue = TensorDictModule(nn.Linear(3, 2), ["observation"], ["action_value"])
        >>> loss = DiscreteSACLoss(actor, qvalue, action_space="categorical", num_actions=2)
        >>> flag = torch.zeros(5, 1, dtype=torch.bool)
        >>> after = {"observation": torch.ones(5, 3), "reward": torch.ones(5, 1), "done": flag, "terminated": flag}
        >>> data = {"observation": torch.ones(5, 3), "action": torch.zeros(5, dtype=torch.int64), "next": after}
        >>> terms = loss(TensorDict(data, [5]))
        >>> (terms["loss_actor"] + terms["loss_qvalue"] + terms["loss_alpha"]).backward()
    """

    @dataclass
    class _AcceptedKeys:
        action: NestedKey = "action"
        value: NestedKey = "state_value"
        action_value: NestedKey = "action_value"
        priority: NestedKey = "td_error"
        reward: NestedKey = "reward"
        done: NestedKey = "done"
        terminated: NestedKey = "terminated"
        log_prob: NestedKey = "log_prob"
        priority_weight: NestedKey = "priority_weight"

    default_keys: ClassVar[type] = _AcceptedKeys
    _OUT_KEYS = ("loss_actor", "loss_qvalue", "loss_alpha", "alpha", "entropy")

    def __init__(
        self,
        actor_network: Any,
        qvalue_network: Any,
        *,
        action_space: Any = None,
        num_actions: int | None = None,
        num_qvalue_nets: int = 2,
        loss_function: str = "smooth_l1",
        alpha_init: float = 1.0,
        min_alpha: float | None = None,
        max_alpha: float | None = None,
        fixed_alpha: bool = False,
        target_entropy_weight: float = 0.98,
        target_entropy: str | float = "auto",
        delay_qvalue: bool = True,
        priority_key: NestedKey | None = None,
        separate_losses: bool = False,
        reduction: str | None = None,
        skip_done_states: bool = False,
        deactivate_vmap: bool = False,
        use_prioritized_weights: bool | str = "auto",
        scalar_output_mode: str | None = None,
    ) -> None:
        super().__init__(reduction)
        self._set_up(
            actor_network,
            qvalue_network,
            num_qvalue_nets=num_qvalue_nets,
            loss_function=loss_function,
            alpha_init=alpha_init,
            min_alpha=min_alpha,
            max_alpha=max_alpha,
            fixed_alpha=fixed_alpha,
            delay_actor=False,
            delay_qvalue=delay_qvalue,
        )
        self.action_space = action_space_of(self, action_space, actor_network)
        self.use_prioritized_weights = use_prioritized_weights
        if target_entropy == "auto":
            num_actions = (
                getattr(getattr(action_space, "space", None), "n", None) if num_actions is None else num_actions
            )
            if num_actions is None:
                raise ValueError(
                    "DiscreteSACLoss must know the number of actions for target_entropy='auto'. Fix: num_actions=4, or "
                    "action_space=env.action_spec."
                )
            target_entropy = target_entropy_weight * math.log(num_actions)
        self.register_buffer("target_entropy", torch.tensor(float(target_entropy)))
        if priority_key is not None:
            self.set_keys(priority=priority_key)

    def _estimator_keys(self) -> dict[str, NestedKey]:
        return super()._estimator_keys()

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the terms of transitions ``[*B]``, and write "td_error" into them."""
        alpha = self.alpha
        probs, log_probs = self._probs(tensordict)
        best = self._values(tensordict, "detached").min(0).values
        actor = (probs * (alpha * log_probs - best)).sum(-1)
        negative_entropy = (probs * log_probs).sum(-1).detach()
        values = chosen(self._values(tensordict, ""), self._get(tensordict, "action"), self.action_space)
        with torch.no_grad():
            after = self._after(tensordict)
            next_probs, next_log_probs = self._probs(after)
            next_values = self._values(after, "target").min(0).values
            target = self._returns(tensordict, (next_probs * (next_values - alpha * next_log_probs)).sum(-1))
        return self._terms(
            {
                "loss_actor": self._reduce(actor, tensordict, self._weights(tensordict)),
                "loss_qvalue": self._qvalue_loss(values, target, tensordict),
                "loss_alpha": self._alpha_loss(negative_entropy, tensordict),
                "alpha": alpha,
                "entropy": -negative_entropy.mean(),
            }
        )

    def _probs(self, data: TensorDictBase) -> tuple[Tensor, Tensor]:
        """Compute the probabilities of all actions, ``[*B, n]``, and their logarithms, 0 for probability 0."""
        distribution = self._distribution(self.actor_network, data)
        probs: Tensor = distribution.probs
        return probs, torch.where(probs == 0, 0.0, probs.clamp_min(torch.finfo(probs.dtype).tiny).log())

    def _values(self, data: TensorDictBase, of: str) -> Tensor:
        return self._run_ensemble("qvalue_network", data, self.tensor_keys.action_value, of=of)

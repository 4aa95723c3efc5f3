"""The loss of TD3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from tensordict import TensorDictBase

from rlnb._tensordict import set_entry, shallow_copy
from rlnb.data.specs.bounded import Bounded
from rlnb.data.ted.keys import NestedKey
from rlnb.objectives.keywords import dispatch
from rlnb.objectives.off_policy import OffPolicyLoss
from rlnb.objectives.utils import check_distance, distance_loss

Tensor = torch.Tensor


class TD3Loss(OffPolicyLoss):
    r"""The losses of a deterministic policy and of two networks for the values of its actions.

    .. math::
        y = r + \gamma (1 - terminated) \min_i Q_{\theta_i'}\left(s', \mathrm{clip}(\mu_{\phi'}(s') + \epsilon)\right),
        \qquad \epsilon \sim \mathrm{clip}(N(0, \sigma), -c, c)

    .. math::
        L_{qvalue} = \sum_i \hat{E}\left[d(Q_{\theta_i}(s, a), y)\right], \qquad
        L_{actor} = -\hat{E}\left[Q_{\theta_1}(s, \mu_\phi(s))\right]

    Fujimoto et al., Addressing Function Approximation Error in Actor-Critic Methods, 2018 (arXiv:1802.09477), equations
    10 and 14 and algorithm 1. Update the policy less often than the values, as the paper does. The terms are
    "loss_actor" and "loss_qvalue", each with gradients for its own networks alone; the others are for logs. The square
    of the largest TD error is written into the data as "td_error".

    Args:
        actor_network: writes the action.
        qvalue_network: reads the action and writes "state_action_value"; a list gives each of the networks.
        action_spec: a bounded spec, for the bounds of the actions.
        bounds: the lowest and the highest action. Exactly one of the two is needed.
        num_qvalue_nets: how many networks are made of ``qvalue_network``, with parameters of their own.
        policy_noise: :math:`\sigma`, the standard deviation of the noise.
        noise_clip: c.
        loss_function: d: ``"l1"``, ``"l2"`` or ``"smooth_l1"``.
        delay_actor: whether the target is computed with a target policy.
        delay_qvalue: whether the target is computed with target value networks.
        gamma: the discount; ``make_value_estimator`` is the other way to give it.
        priority_key: use ``set_keys(priority=...)``.
        separate_losses: accepted as in TorchRL.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        deactivate_vmap: accepted as in TorchRL.
        use_prioritized_weights: whether "priority_weight" weighs the terms; ``"auto"`` for where it is in the data.

    Raises:
        KeyError: If the data lacks an entry; the message says which module writes it.
        ValueError: If an argument or a shape does not fit.
        FloatingPointError: If a term is not finite.

    Example:
        >>> from torch import nn
        >>> from tensordict import TensorDict
        >>> from tensordict.nn import TensorDictModule
        >>> actor = TensorDictModule(nn.Sequential(nn.Linear(3, 2), nn.Tanh()), ["observation"], ["action"])
        >>> class Q(nn.Linear):
        ...     def forward(self, observation, action):
        ...         return super().forward(torch.cat([observation, action], -1))
        >>> qvalue = TensorDictModule(Q(5, 1), ["observation", "action"], ["state_action_value"])
        >>> loss = TD3Loss(actor, qvalue, bounds=(-1.0, 1.0))
        >>> flag = torch.zeros(5, 1, dtype=torch.bool)
        >>> after = {"observation": torch.ones(5, 3), "reward": torch.ones(5, 1), "done": flag, "terminated": flag}
        >>> data = {"observation": torch.ones(5, 3), "action": torch.zeros(5, 2), "next": after}
        >>> terms = loss(TensorDict(data, [5]))
        >>> (terms["loss_actor"] + terms["loss_qvalue"]).backward()
        >>> terms["pred_value"].shape
        torch.Size([2, 5])
    """

    @dataclass
    class _AcceptedKeys:
        action: NestedKey = "action"
        state_action_value: NestedKey = "state_action_value"
        priority: NestedKey = "td_error"
        reward: NestedKey = "reward"
        done: NestedKey = "done"
        terminated: NestedKey = "terminated"
        priority_weight: NestedKey = "priority_weight"

    default_keys: ClassVar[type] = _AcceptedKeys
    _OUT_KEYS = (
        "loss_actor",
        "loss_qvalue",
        "pred_value",
        "state_action_value_actor",
        "next_state_value",
        "target_value",
    )
    _networks = ("actor_network", "qvalue_network")
    actor_network: Any
    qvalue_network: Any

    def __init__(
        self,
        actor_network: Any,
        qvalue_network: Any,
        *,
        action_spec: Any = None,
        bounds: tuple[Any, Any] | None = None,
        num_qvalue_nets: int = 2,
        policy_noise: float = 0.2,
        noise_clip: float = 0.5,
        loss_function: str = "smooth_l1",
        delay_actor: bool = True,
        delay_qvalue: bool = True,
        gamma: float | None = None,
        priority_key: NestedKey | None = None,
        separate_losses: bool = False,
        reduction: str | None = None,
        deactivate_vmap: bool = False,
        use_prioritized_weights: bool | str = "auto",
    ) -> None:
        super().__init__(reduction)
        check_distance(loss_function)
        if (bounds is None) == (action_spec is None):
            got = "neither" if bounds is None else "both"
            raise ValueError(
                f"TD3Loss needs one of bounds and action_spec, and got {got}. Fix: action_spec=env.action_spec."
            )
        if bounds is None:
            leaf = _leaf(action_spec)
            if not isinstance(leaf, Bounded):
                raise ValueError(
                    f"TD3Loss clips actions to the bounds of action_spec, and got a {type(leaf).__name__}, which has "
                    "none. Fix: bounds=(-1.0, 1.0), or DQNLoss for a choice between actions."
                )
            bounds = (leaf.space.low, leaf.space.high)
        self._add_network("actor_network", actor_network, delay=delay_actor)
        self._add_ensemble("qvalue_network", qvalue_network, num_qvalue_nets, delay=delay_qvalue)
        low, high = (torch.as_tensor(bound).clone() for bound in bounds)
        self.register_buffer("min_action", low)
        self.register_buffer("max_action", high)
        self.loss_function, self.policy_noise, self.noise_clip = loss_function, policy_noise, noise_clip
        self.num_qvalue_nets, self.delay_actor, self.delay_qvalue = num_qvalue_nets, delay_actor, delay_qvalue
        self.use_prioritized_weights = use_prioritized_weights
        if priority_key is not None:
            self.set_keys(priority=priority_key)
        if gamma is not None:
            self.make_value_estimator(gamma=gamma)

    def _estimator_keys(self) -> dict[str, NestedKey]:
        return {**super()._estimator_keys(), "value": self.tensor_keys.state_action_value}

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the terms of transitions ``[*B]``, and write "td_error" into them."""
        loss_actor, logs_actor = self.actor_loss(tensordict)
        loss_qvalue, logs_qvalue = self.value_loss(tensordict)
        return self._terms({"loss_actor": loss_actor, "loss_qvalue": loss_qvalue, **logs_actor, **logs_qvalue})

    def actor_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """Compute the loss of the policy, and numbers for logs; no gradient reaches the value networks."""
        data, action = shallow_copy(tensordict), self.tensor_keys.action
        set_entry(data, action, self._run(self.actor_network, tensordict).get(action))
        values = self._values(data, "detached")
        return self._reduce(-values[0], tensordict, self._weights(tensordict)), {
            "state_action_value_actor": values.detach()
        }

    def value_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """Compute the loss of the value networks, and numbers for logs."""
        values = self._values(tensordict, "")
        with torch.no_grad():
            after = self._after(tensordict)
            action = self._run(self._target("actor_network"), after).get(self.tensor_keys.action)
            noise = (torch.randn_like(action) * self.policy_noise).clamp(-self.noise_clip, self.noise_clip)
            low, high = (bound.to(action.dtype) for bound in (self.min_action, self.max_action))
            after = set_entry(shallow_copy(after), self.tensor_keys.action, (action + noise).clamp(low, high))
            next_value = self._values(after, "target").min(0).values
            target = self._returns(tensordict, next_value)
        self._prioritize(tensordict, (values - target).pow(2).amax(0))
        loss = distance_loss(values, target.expand_as(values), self.loss_function).sum(0)
        logs = {"next_state_value": next_value, "pred_value": values.detach(), "target_value": target}
        return self._reduce(loss, tensordict, self._weights(tensordict)), logs

    def _values(self, data: TensorDictBase, of: str) -> Tensor:
        return self._run_ensemble("qvalue_network", data, self.tensor_keys.state_action_value, of=of).squeeze(-1)


def _leaf(spec: Any) -> Any:
    """The spec of the action in what may be the spec of a whole env."""
    return next(iter(spec.values(True, True))) if hasattr(spec, "values") else spec

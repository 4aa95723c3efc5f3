"""The loss of DDPG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from tensordict import TensorDictBase

from rlnb._tensordict import set_entry, shallow_copy
from rlnb.data.ted.keys import NestedKey
from rlnb.objectives.common import next_key, unique
from rlnb.objectives.keywords import dispatch
from rlnb.objectives.off_policy import OffPolicyLoss
from rlnb.objectives.utils import check_distance, distance_loss, hold_out_net

Tensor = torch.Tensor


class DDPGLoss(OffPolicyLoss):
    r"""The losses of a deterministic policy and of the values of its actions.

    .. math::
        L_{value} = \hat{E}\left[d\left(Q_\theta(s, a), \; r + \gamma (1 - terminated)
        Q_{\theta'}(s', \mu_{\phi'}(s'))\right)\right], \qquad
        L_{actor} = -\hat{E}\left[Q_\theta(s, \mu_\phi(s))\right]

    Lillicrap et al., Continuous Control with Deep Reinforcement Learning, 2016 (arXiv:1509.02971), equations 4 to 6.
    The terms are "loss_actor" and "loss_value", each with gradients for its own network alone; "pred_value",
    "target_value", ``[*B]``, and the largest of them are for logs. The square of the TD error is written into the data
    as "td_error".

    Args:
        actor_network: writes the action.
        value_network: reads the action and writes "state_action_value".
        loss_function: d: ``"l1"``, ``"l2"`` or ``"smooth_l1"``.
        delay_actor: whether the target is computed with a target policy.
        delay_value: whether the target is computed with a target value network.
        gamma: the discount; ``make_value_estimator`` is the other way to give it.
        separate_losses: accepted as in TorchRL.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        use_prioritized_weights: whether "priority_weight" weighs the terms; ``"auto"`` for where it is in the data.

    Raises:
        KeyError: If the data lacks an entry; the message says which module writes it.
        ValueError: If an argument or a shape does not fit.
        FloatingPointError: If a term is not finite.

    Example:
        >>> from torch import nn
        >>> from tensordict import TensorDict
        >>> from tensordict.nn import TensorDictModule
        >>> actor = TensorDictModule(nn.Linear(3, 2), ["observation"], ["action"])
        >>> class Q(nn.Linear):
        ...     def forward(self, observation, action):
        ...         return super().forward(torch.cat([observation, action], -1))
        >>> value = TensorDictModule(Q(5, 1), ["observation", "action"], ["state_action_value"])
        >>> loss = DDPGLoss(actor, value)
        >>> flag = torch.zeros(5, 1, dtype=torch.bool)
        >>> after = {"observation": torch.ones(5, 3), "reward": torch.ones(5, 1), "done": flag, "terminated": flag}
        >>> data = {"observation": torch.ones(5, 3), "action": torch.zeros(5, 2), "next": after}
        >>> terms = loss(TensorDict(data, [5]))
        >>> (terms["loss_actor"] + terms["loss_value"]).backward()
    """

    @dataclass
    class _AcceptedKeys:
        state_action_value: NestedKey = "state_action_value"
        priority: NestedKey = "td_error"
        reward: NestedKey = "reward"
        done: NestedKey = "done"
        terminated: NestedKey = "terminated"
        priority_weight: NestedKey = "priority_weight"

    default_keys: ClassVar[type] = _AcceptedKeys
    _OUT_KEYS = ("loss_actor", "loss_value", "pred_value", "target_value", "pred_value_max", "target_value_max")
    actor_network: Any
    value_network: Any

    def __init__(
        self,
        actor_network: Any,
        value_network: Any,
        *,
        loss_function: str = "l2",
        delay_actor: bool = False,
        delay_value: bool = True,
        gamma: float | None = None,
        separate_losses: bool = False,
        reduction: str | None = None,
        use_prioritized_weights: bool | str = "auto",
    ) -> None:
        super().__init__(reduction)
        check_distance(loss_function)
        self._add_network("actor_network", actor_network, delay=delay_actor)
        self._add_network("value_network", value_network, delay=delay_value)
        self.loss_function, self.delay_actor, self.delay_value = loss_function, delay_actor, delay_value
        self.use_prioritized_weights = use_prioritized_weights
        if gamma is not None:
            self.make_value_estimator(gamma=gamma)

    def _default_in_keys(self) -> list[NestedKey]:
        keys, both = self.tensor_keys, [*self.actor_network.in_keys, *self.value_network.in_keys]
        after = [keys.reward, keys.done, keys.terminated, *both]
        return unique([*both, *map(next_key, after), keys.priority_weight])

    def _estimator_keys(self) -> dict[str, NestedKey]:
        return {**super()._estimator_keys(), "value": self.tensor_keys.state_action_value}

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the terms of transitions ``[*B]``, and write "td_error" into them."""
        loss_value, logs = self.loss_value(tensordict)
        return self._terms({"loss_actor": self.loss_actor(tensordict)[0], "loss_value": loss_value, **logs})

    def loss_actor(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """Compute the loss of the policy; no gradient reaches the value network."""
        data = self._acting(self.actor_network, tensordict)
        with hold_out_net(self.value_network):
            value = self._value(self.value_network, data)
        return self._reduce(-value, tensordict, self._weights(tensordict)), {}

    def loss_value(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """Compute the loss of the value network, and numbers for logs."""
        value = self._value(self.value_network, tensordict)
        with torch.no_grad():
            after = self._acting(self._target("actor_network"), self._after(tensordict))
            target = self._returns(tensordict, self._value(self._target("value_network"), after))
        error = (value - target).detach().square()
        self._prioritize(tensordict, error)
        loss = self._reduce(distance_loss(value, target, self.loss_function), tensordict, self._weights(tensordict))
        value = value.detach()
        logs = {"td_error": error, "pred_value": value, "target_value": target}
        return loss, {**logs, "target_value_max": target.max(), "pred_value_max": value.max()}

    def _acting(self, network: Any, data: TensorDictBase) -> TensorDictBase:
        """Return a shallow copy of the data with what the policy writes."""
        found = self._run(network, data)
        data = shallow_copy(data)
        for key in network.out_keys:
            set_entry(data, key, found.get(key))
        return data

    def _value(self, network: Any, data: TensorDictBase) -> Tensor:
        key = self.tensor_keys.state_action_value
        found = self._run(network, data).get(key, None)
        if found is None:
            raise KeyError(
                f"DDPGLoss expects the value at {key!r}, but the value network writes {network.out_keys}. "
                f"Fix: loss.set_keys(state_action_value={network.out_keys[0]!r})."
            )
        return found.squeeze(-1)

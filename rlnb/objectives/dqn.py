"""The loss of DQN, with a target network, double Q-learning and returns over several steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictModuleBase

from rlnb.data.ted.keys import NestedKey
from rlnb.envs.unwrapped import unwrapped
from rlnb.modules.tensordict_module.q_values import QValueActor, QValueModule
from rlnb.objectives.keywords import dispatch
from rlnb.objectives.off_policy import OffPolicyLoss, action_space_of, chosen
from rlnb.objectives.utils import check_distance

Tensor = torch.Tensor


class DQNLoss(OffPolicyLoss):
    r"""The distance of Q-values and their TD targets.

    .. math::
        L = \hat{E}\left[d\left(Q_\theta(s, a), \; r + \gamma^n (1 - terminated) \max_{a'} Q_{\theta'}(s', a')\right)
        \right]

    With ``double_dqn``, the target is :math:`r + \gamma^n Q_{\theta'}(s', \arg\max_{a'} Q_\theta(s', a'))`. n is
    "steps_to_next_obs" where ``MultiStep`` has written it, and 1 otherwise. Mnih et al., Human-level Control through
    Deep Reinforcement Learning, 2015, equation 2 of the methods; van Hasselt et al., Deep Reinforcement Learning with
    Double Q-learning, 2016 (arXiv:1509.06461), equation 4. The term is "loss"; the square of the TD error is written
    into the data as "td_error", ``[*B, 1]``, for prioritized buffers.

    Args:
        value_network: writes "action_value", the values of all actions, such as ``QValueActor``, or a plain network of
            "observation".
        loss_function: d: ``"l1"``, ``"l2"`` or ``"smooth_l1"``.
        delay_value: whether the target is computed with a target network.
        double_dqn: whether the network itself chooses the next action; needs ``delay_value``.
        gamma: the discount; ``make_value_estimator`` is the other way to give it.
        action_space: ``"categorical"`` for indices, ``"one-hot"``, or a spec. Default: that of the network.
        priority_key: use ``set_keys(priority=...)``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        use_prioritized_weights: whether "priority_weight" weighs the terms; ``"auto"`` for where it is in the data.

    Raises:
        KeyError: If the data lacks an entry; the message says which module writes it.
        ValueError: If an argument or a shape does not fit.
        FloatingPointError: If the term is not finite.

    Example:
        >>> from tensordict import TensorDict
        >>> loss = DQNLoss(torch.nn.Linear(3, 2), action_space="categorical")
        >>> flag = torch.zeros(5, 1, dtype=torch.bool)
        >>> after = {"observation": torch.ones(5, 3), "reward": torch.ones(5, 1), "done": flag, "terminated": flag}
        >>> data = {"observation": torch.ones(5, 3), "action": torch.zeros(5, dtype=torch.int64), "next": after}
        >>> terms = loss(TensorDict(data, [5]))
        >>> terms["loss"].backward()
    """

    @dataclass
    class _AcceptedKeys:
        advantage: NestedKey = "advantage"
        value_target: NestedKey = "value_target"
        value: NestedKey = "chosen_action_value"
        action_value: NestedKey = "action_value"
        action: NestedKey = "action"
        priority: NestedKey = "td_error"
        reward: NestedKey = "reward"
        done: NestedKey = "done"
        terminated: NestedKey = "terminated"
        priority_weight: NestedKey = "priority_weight"

    default_keys: ClassVar[type] = _AcceptedKeys
    _OUT_KEYS = ("loss",)
    _networks = ("value_network",)
    value_network: Any

    def __init__(
        self,
        value_network: Any,
        *,
        loss_function: str | None = "l2",
        delay_value: bool = True,
        double_dqn: bool = False,
        gamma: float | None = None,
        action_space: Any = None,
        priority_key: NestedKey | None = None,
        reduction: str | None = None,
        use_prioritized_weights: bool | str = "auto",
    ) -> None:
        super().__init__(reduction)
        if double_dqn and not delay_value:
            raise ValueError(
                "double_dqn needs a target network, which delay_value=False leaves out. Fix: delay_value=True."
            )
        self.loss_function = "l2" if loss_function is None else loss_function
        check_distance(self.loss_function)
        self.action_space = action_space_of(self, action_space, value_network)
        if not isinstance(value_network, TensorDictModuleBase):
            value_network = TensorDictModule(value_network, ["observation"], ["action_value"])
        self._add_network("value_network", value_network, delay=delay_value)
        self.delay_value, self.double_dqn = delay_value, double_dqn
        self.use_prioritized_weights = use_prioritized_weights
        if priority_key is not None:
            self.set_keys(priority=priority_key)
        if gamma is not None:
            self.make_value_estimator(gamma=gamma)

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute "loss" of transitions ``[*B]``, and write "td_error" into them."""
        values = self._values(self._run(self.value_network, tensordict, make=_values_alone))
        value = chosen(values, self._get(tensordict, "action"), self.action_space, keepdim=True)
        with torch.no_grad():
            target = self._returns(tensordict, self._next_value(tensordict))
            self._prioritize(tensordict, (value - target).square_())
        loss = self._distance(value, target, self.loss_function, tensordict, self._weights(tensordict))
        return self._terms({"loss": loss.squeeze(-1) if self.reduction == "none" else loss})

    def _next_value(self, data: TensorDictBase) -> Tensor:
        """Compute the value of the best next action, ``[*B, 1]``."""
        after, keys = self._after(data), self.tensor_keys
        found = self._run(self._target("value_network"), after, make=_values_alone)
        values = self._values(found)
        if not self.double_dqn:
            best = found.get(keys.value, None)  # it may leave out actions that are not allowed
            return values.max(-1, keepdim=True).values if best is None else best
        own = self._run(self.value_network, after)
        if keys.action in self.value_network.out_keys:
            return chosen(values, own.get(keys.action), self.action_space, keepdim=True)
        return values.gather(-1, self._values(own).argmax(-1, keepdim=True))

    def _values(self, found: Any) -> Tensor:
        values: Tensor | None = found.get(self.tensor_keys.action_value, None)
        if values is None:
            raise KeyError(
                f"DQNLoss expects the values of all actions at {self.tensor_keys.action_value!r}, but the value "
                f"network writes {self.value_network.out_keys}. Fix: loss.set_keys(action_value="
                f"{self.value_network.out_keys[0]!r})."
            )
        return values


def _values_alone(network: Any) -> Any:
    """Unwrap a network without the choice of an action, which takes half as long as a network of two layers.

    A choice among legal actions is left in, since it counts.
    """
    function = unwrapped(network)
    if function is None or type(network) is not QValueActor or len(network) != 2:
        return function
    last = network[-1]
    return unwrapped(network[0]) if type(last) is QValueModule and last.action_mask_key is None else function

"""The loss of QMIX and VDN: a TD error of the mixed value of all agents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictModuleBase

from rlnb.data.ted.keys import NestedKey
from rlnb.objectives.common import next_key, unique
from rlnb.objectives.keywords import dispatch
from rlnb.objectives.off_policy import OffPolicyLoss, action_space_of, chosen
from rlnb.objectives.utils import check_distance

Tensor = torch.Tensor


class QMixerLoss(OffPolicyLoss):
    r"""The distance of the mixed value of all agents and its TD target.

    .. math::
        L = \hat{E}\left[d\left(Q_{tot}(s, a), \; r + \gamma (1 - terminated) \, Q'_{tot}(s', a')\right)\right],
        \quad a'_i = \arg\max_{a} Q'_i(s'_i, a)

    A mixer makes :math:`Q_{tot}` of the values :math:`Q_i` of the agents' actions, and of the state if it reads one.
    The reward is that of the team. Rashid et al., QMIX: Monotonic Value Function Factorisation for Deep Multi-Agent
    Reinforcement Learning, 2018 (arXiv:1803.11485), equation 6; Sunehag et al., Value-Decomposition Networks, 2017
    (arXiv:1706.05296), with a mixer that adds up. The term is "loss"; the square of the TD error is written into the
    data as "td_error", ``[*B, 1]``, for prioritized buffers.

    Args:
        local_value_network: writes ("agents", "action_value"), the values of all actions of each agent,
            ``[*B, n_agents, n]``, or a plain network of ("agents", "observation").
        mixer_network: makes "chosen_action_value", ``[*B, 1]``, of ("agents", "chosen_action_value"),
            ``[*B, n_agents, 1]``, or a plain :class:`~rlnb.modules.QMixer` or :class:`~rlnb.modules.VDNMixer`, which
            reads "state" if it needs one.
        loss_function: d: ``"l1"``, ``"l2"`` or ``"smooth_l1"``.
        delay_value: whether the target is computed with target networks.
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
        >>> from rlnb.modules import VDNMixer
        >>> loss = QMixerLoss(torch.nn.Linear(3, 2), VDNMixer(n_agents=4), action_space="categorical")
        >>> agents, flag = {"observation": torch.ones(5, 4, 3)}, torch.zeros(5, 1, dtype=torch.bool)
        >>> after = {"agents": agents, "reward": torch.ones(5, 1), "done": flag, "terminated": flag}
        >>> action = torch.zeros(5, 4, dtype=torch.int64)
        >>> terms = loss(TensorDict({"agents": {**agents, "action": action}, "next": after}, [5]))
        >>> terms["loss"].backward()
    """

    @dataclass
    class _AcceptedKeys:
        advantage: NestedKey = "advantage"
        value_target: NestedKey = "value_target"
        local_value: NestedKey = ("agents", "chosen_action_value")
        global_value: NestedKey = "chosen_action_value"
        action_value: NestedKey = ("agents", "action_value")
        action: NestedKey = ("agents", "action")
        priority: NestedKey = "td_error"
        reward: NestedKey = "reward"
        done: NestedKey = "done"
        terminated: NestedKey = "terminated"
        priority_weight: NestedKey = "priority_weight"

    default_keys: ClassVar[type] = _AcceptedKeys
    _OUT_KEYS = ("loss",)
    local_value_network: Any
    mixer_network: Any

    def __init__(
        self,
        local_value_network: Any,
        mixer_network: Any,
        *,
        loss_function: str | None = "l2",
        delay_value: bool = True,
        gamma: float | None = None,
        action_space: Any = None,
        priority_key: NestedKey | None = None,
        reduction: str | None = None,
        use_prioritized_weights: bool | str = "auto",
    ) -> None:
        super().__init__(reduction)
        self.loss_function = "l2" if loss_function is None else loss_function
        check_distance(self.loss_function)
        self.action_space = action_space_of(self, action_space, local_value_network)
        keys = self.tensor_keys
        if isinstance(local_value_network, torch.nn.Module) and not isinstance(
            local_value_network, TensorDictModuleBase
        ):
            local_value_network = TensorDictModule(
                local_value_network, [("agents", "observation")], [keys.action_value]
            )
        if isinstance(mixer_network, torch.nn.Module) and not isinstance(mixer_network, TensorDictModuleBase):
            state = ["state"] if getattr(mixer_network, "needs_state", False) else []
            mixer_network = TensorDictModule(mixer_network, [keys.local_value, *state], [keys.global_value])
        self._add_network("local_value_network", local_value_network, delay=delay_value)
        self._add_network("mixer_network", mixer_network, delay=delay_value)
        self.delay_value, self.use_prioritized_weights = delay_value, use_prioritized_weights
        if priority_key is not None:
            self.set_keys(priority=priority_key)
        if gamma is not None:
            self.make_value_estimator(gamma=gamma)

    def _default_in_keys(self) -> list[NestedKey]:
        keys = self.tensor_keys
        states = [*self.local_value_network.in_keys, *self.mixer_network.in_keys]
        own = [key for key in states if key not in (keys.action, keys.local_value)]
        return unique([keys.action, *own, *map(next_key, (keys.reward, keys.done, keys.terminated, *own))])

    def _estimator_keys(self) -> dict[str, NestedKey]:
        return super()._estimator_keys() | {"value": self.tensor_keys.global_value}

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute "loss" of transitions ``[*B]``, and write "td_error" into them."""
        values = self._values(self._run(self.local_value_network, tensordict))
        local = chosen(values, self._get(tensordict, "action"), self.action_space)
        value = self._mixed(self.mixer_network, tensordict, local)
        with torch.no_grad():
            target = self._returns(tensordict, self._next_value(tensordict))
            self._prioritize(tensordict, (value - target).square_().unsqueeze(-1))
        loss = self._distance(value, target, self.loss_function, tensordict, self._weights(tensordict))
        return self._terms({"loss": loss})

    def _next_value(self, data: TensorDictBase) -> Tensor:
        """Compute the mixed value of the best next actions, ``[*B]``."""
        after = self._after(data)
        found = self._run(self._target("local_value_network"), after)
        best = found.get(self.tensor_keys.local_value, None)  # it may leave out actions that are not allowed
        local = self._values(found).max(-1).values if best is None else best.squeeze(-1)
        return self._mixed(self._target("mixer_network"), after, local)

    def _values(self, found: TensorDictBase) -> Tensor:
        values = found.get(self.tensor_keys.action_value, None)
        if values is None:
            raise KeyError(
                f"QMixerLoss expects the values of all actions of each agent at {self.tensor_keys.action_value!r}, but "
                f"the local value network writes {self.local_value_network.out_keys}. "
                f"Fix: loss.set_keys(action_value={self.local_value_network.out_keys[0]!r})."
            )
        return values

    def _mixed(self, mixer: Any, data: TensorDictBase, local: Tensor) -> Tensor:
        """Mix the values of the agents, ``[*B, n_agents]``, to ``[*B]``."""
        found = self._run(mixer, data.copy().set(self.tensor_keys.local_value, local.unsqueeze(-1)))
        value = found.get(self.tensor_keys.global_value, None)
        if value is None:
            raise KeyError(
                f"QMixerLoss expects the mixed value at {self.tensor_keys.global_value!r}, but the mixer writes "
                f"{mixer.out_keys}. Fix: loss.set_keys(global_value={mixer.out_keys[0]!r})."
            )
        return value.squeeze(-1)

"""Common parts of on-policy losses: advantages, log-probabilities, the entropy bonus, and the loss of the critic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import CompositeDistribution
from torch import nn

from rlnb._tensordict import entry, set_entry, shallow_copy
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.unwrapped import unwrapped_dist
from rlnb.objectives.common import LossModule, next_key, unique
from rlnb.objectives.errors import missing_entry
from rlnb.objectives.policies import PolicyKey, as_list, check_action, check_drawn, check_stochastic, written_keys
from rlnb.objectives.utils import ValueEstimators, check_distance, distance_loss
from rlnb.objectives.value.advantages import wrong_value_shape

Tensor = torch.Tensor


class ActorCriticLoss(LossModule):
    """Base class of losses of a stochastic policy that is trained with advantages, and of its critic.

    The advantage and the value target come from the data, where GAE wrote them before, or from the value estimator of
    the loss (see ``make_value_estimator``), which does not write into the data. The keys of the action and of its
    log-probability are those that the policy writes; a composite action has a list of them, one for each part.

    Args:
        actor_network: the policy, with ``get_dist``, such as ``ProbabilisticActor``.
        critic_network: writes the value of a state. None: the critic is not trained here.
        loss_critic_type: distance of value and target: ``"l1"``, ``"l2"`` or ``"smooth_l1"``.
        separate_losses: whether parameters that policy and critic share learn from the policy's loss alone.
        clip_value: largest change of a value away from the one in the data that still lowers the loss.
        gamma: the discount of the value estimator of the loss.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    @dataclass
    class _AcceptedKeys:
        advantage: NestedKey = "advantage"
        value_target: NestedKey = "value_target"
        value: NestedKey = "state_value"
        sample_log_prob: PolicyKey = "action_log_prob"
        action: PolicyKey = "action"
        reward: NestedKey = "reward"
        done: NestedKey = "done"
        terminated: NestedKey = "terminated"

    default_keys: ClassVar[type] = _AcceptedKeys
    default_value_estimator = ValueEstimators.GAE
    actor_network: Any
    critic_network: Any
    entropy_coeff: Any
    samples_mc_entropy: int

    def __init__(
        self,
        actor_network: Any,
        critic_network: Any,
        *,
        loss_critic_type: str,
        separate_losses: bool,
        clip_value: float | None,
        gamma: float | None,
        reduction: str | None,
        delay_value: bool = False,
    ) -> None:
        super().__init__(reduction)
        check_distance(loss_critic_type)
        if isinstance(clip_value, bool):
            raise ValueError(
                f"clip_value must be a number, the largest change of a value that counts, and got {clip_value}. "
                "Fix: clip_value=0.2, or None for no clipping."
            )
        check_stochastic(self, actor_network)
        self._add_network("actor_network", actor_network)
        self._take_keys(written_keys(actor_network, "action", "sample_log_prob"))
        if critic_network is None:
            self.critic_network = None
        else:
            self._add_network("critic_network", critic_network, delay=delay_value)
        self.loss_critic_type, self.separate_losses, self.clip_value = loss_critic_type, separate_losses, clip_value
        if gamma is not None:
            self.make_value_estimator(gamma=gamma)

    def _default_in_keys(self) -> list[NestedKey]:
        keys, critic = self.tensor_keys, self.critic_network
        states = [*self.actor_network.in_keys, *(critic.in_keys if critic is not None else ())]
        after = [keys.reward, keys.done, keys.terminated, *states]
        return unique([*as_list(keys.action), *states, *map(next_key, after), *self._more_in_keys()])

    def _more_in_keys(self) -> Sequence[NestedKey]:
        return ()

    def _get(self, data: TensorDictBase, role: str, *, after: bool = False) -> Any:
        """Read an entry by the name of its key, or the parts of a composite action as a TensorDict."""
        keys = getattr(self.tensor_keys, role)
        if not isinstance(keys, list):
            return super()._get(data, role, after=after)
        for key in keys:
            if entry(data, key) is None:
                raise KeyError(missing_entry(self, key, role, data))
        return data.select(*keys)

    def _value_network(self) -> Any:
        return self.critic_network

    # Parts of the loss ---------------------------------------------------------------------------------------------

    def _with_advantage(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Return a shallow copy of the data that has an advantage."""
        data, keys = shallow_copy(tensordict), self.tensor_keys
        if entry(data, keys.advantage) is None:
            if self.critic_network is None or data.get(next_key(keys.reward), None) is None:
                raise KeyError(missing_entry(self, keys.advantage, "advantage", data))
            self.value_estimator(data)
        return data

    def _advantage(self, data: TensorDictBase, log_prob: Tensor) -> Tensor:
        """Read the advantage, ``[*B, 1]``."""
        advantage: Tensor = self._get(data, "advantage")
        if advantage.shape == log_prob.shape:
            return advantage.unsqueeze(-1)
        if advantage.shape != (*log_prob.shape, 1):
            raise ValueError(
                f"{type(self).__name__} expects one log-probability for each step: the advantage has shape "
                f"{list(advantage.shape)}, and the log-probability of the actions {list(log_prob.shape)}. A "
                "distribution over several numbers must join them. "
                "Fix: torch.distributions.Independent(Normal(loc, scale), 1), or IndependentNormal."
            )
        return advantage

    def _log_prob(self, data: TensorDictBase) -> tuple[Tensor, Any]:
        """Compute the log-probability of the actions in the data, ``[*B]``, and return the distribution, too.

        What the policy computes on the way stays in ``data`` for a critic that reads it.
        """
        action = self._get(data, "action")
        distribution = self._distribution(data)
        check_drawn(self, self.actor_network, distribution)
        if isinstance(action, Tensor) and not isinstance(distribution, CompositeDistribution):
            check_action(self, distribution, action, self.tensor_keys.action)
            return distribution.log_prob(action), distribution
        found = distribution.log_prob(data)
        if isinstance(found, TensorDictBase):  # one for each part of a composite action
            found = sum(found.values(True, True))
        return found, distribution

    def _distribution(self, data: TensorDictBase) -> Any:
        policy = self.actor_network
        given, function = self._inputs(policy, data), self._unwrapped(policy, unwrapped_dist)
        if function is None:
            return policy.get_dist(data)
        found = dict(given)
        distribution = function(found)
        for key, value in found.items():
            if value is not given.get(key):
                set_entry(data, key, value)
        return distribution

    def _old_log_prob(self, data: TensorDictBase, log_prob: Tensor) -> Tensor:
        """Read the log-probability of the actions at the time when they were chosen, ``[*B]``."""
        found = self._get(data, "sample_log_prob")
        if isinstance(found, TensorDictBase):
            found = sum(found.values(True, True))
        if found.numel() != log_prob.numel():
            raise ValueError(
                f"{type(self).__name__} compares the log-probabilities of one action under two policies, and got the "
                f"shapes {list(found.shape)} in the data and {list(log_prob.shape)} from the policy. "
                "Fix: collect the data with the same kind of distribution."
            )
        found = found.detach() if found.requires_grad else found
        return found if found.shape == log_prob.shape else found.reshape(log_prob.shape)

    def _critic_terms(
        self, data: TensorDictBase, clip: Tensor | float | None = None, *, explained: bool = False
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Compute the distance of values and targets, reduced, and numbers for logs.

        With ``clip``, a value counts as at most that far away from the one in the data (Schulman et al.'s PPO in
        OpenAI's baselines). With ``explained``, "explained_variance" is one of the numbers.
        """
        target = self._get(data, "value_target")
        value = self._value(data)
        if value.shape != target.shape:
            raise ValueError(self._wrong_shape(data, value, target))
        kind, logs = self.loss_critic_type, dict[str, Tensor]()
        if clip is None:
            loss = self._distance(value, target, kind, data)
        else:
            old = self._get(data, "value").detach()
            near = old + (value - old).clamp(-clip, clip)
            loss = self._reduce(torch.max(distance_loss(value, target, kind), distance_loss(near, target, kind)), data)
            logs["value_clip_fraction"] = (near != value).to(value.dtype).mean()
        if explained:
            with torch.no_grad():
                logs["explained_variance"] = 1 - (target - value).var() / target.var().clamp_min(1e-12)
        return loss.squeeze(-1) if self.reduction == "none" else loss, logs

    def _wrong_shape(self, data: TensorDictBase, value: Tensor, target: Tensor) -> str:
        """Text for values and targets of different shapes: values ``[*B, ..., 1]`` are as they should be."""
        if value.ndim <= data.ndim or value.shape[-1] != 1:
            return wrong_value_shape(self, value, target)
        return (
            f"{type(self).__name__} expects value targets of the shape of the critic's values, {list(value.shape)}, "
            f"and got {list(target.shape)} at {self.tensor_keys.value_target!r}. Likely cause: the targets were "
            "squeezed, or computed for other steps. Fix: value_target.unsqueeze(-1), or run GAE on this data."
        )

    def _value(self, data: TensorDictBase) -> Tensor:
        critic, params = self.critic_network, None
        if self.separate_losses:
            shared = {id(value) for value in self.actor_network.parameters()}
            own = TensorDict.from_module(critic)
            params = own.apply(lambda value: value.detach() if id(value) in shared else value)
            data = data.detach()
        found = self._run(critic, data, params=params).get(self.tensor_keys.value, None)
        if found is None:
            raise KeyError(
                f"{type(self).__name__} expects the value at {self.tensor_keys.value!r}, but the critic writes "
                f"{critic.out_keys}. Fix: loss.set_keys(value={critic.out_keys[0]!r})."
            )
        return found

    def _entropy_terms(self, distribution: Any, data: TensorDictBase) -> dict[str, Any]:
        """Compute "loss_entropy", reduced, and for logs "entropy" and those of the parts of a composite action."""
        found, coefficient = self._entropy(distribution, self.samples_mc_entropy), self.entropy_coeff
        logs, entropy = {}, found
        if isinstance(found, TensorDictBase):
            logs["composite_entropy"] = found.detach()
            entropy = sum(found.values(True, True))
        if isinstance(coefficient, dict):
            weighted = sum(coefficient[key] * found[key] for key in self._parts(found, coefficient))
        else:
            weighted = coefficient * entropy
        return {"entropy": entropy.detach().mean(), "loss_entropy": self._reduce(-weighted, data), **logs}

    def _entropy(self, distribution: Any, samples: int) -> Any:
        """Compute the entropy, ``[*B]``, or a TensorDict of those of the parts; from samples if there is no formula."""
        if isinstance(distribution, CompositeDistribution):
            return distribution.entropy(samples)
        try:
            return distribution.entropy()
        except NotImplementedError:
            draw = distribution.rsample if getattr(distribution, "has_rsample", False) else distribution.sample
            return -distribution.log_prob(draw((samples,))).mean(0)

    def _parts(self, entropies: Any, coefficients: dict[NestedKey, float]) -> list[NestedKey]:
        """Return the keys of the entropies, for each of which there must be a coefficient."""
        if not isinstance(entropies, TensorDictBase):
            raise ValueError(
                f"{type(self).__name__} got a dictionary as entropy_coeff, for the parts of a composite action, and "
                "its policy has one entropy. Fix: entropy_coeff=0.01, or for a composite action "
                "set_composite_lp_aggregate(False).set() before the policy is made."
            )
        keys = list(entropies.keys(True, True))
        if set(keys) != set(coefficients):
            raise ValueError(
                f"{type(self).__name__} needs one entropy_coeff for each part of the action, and got "
                f"{_listed(coefficients)} where the parts are {_listed(keys)}. Fix: entropy_coeff={{{keys[0]!r}: 0.01, "
                "...}, or one number for all."
            )
        return keys

    def _coefficient(self, name: str, value: float | Mapping[NestedKey, float] | None) -> None:
        """Register a weight as a buffer, so that it can be scheduled, or keep those of the parts of an action."""
        if isinstance(value, Mapping):
            setattr(self, name, {key: float(number) for key, number in value.items()})
        else:
            self.register_buffer(name, None if value is None else torch.tensor(float(value)))


def _listed(keys: Iterable[NestedKey]) -> str:
    return ", ".join(sorted(map(repr, keys)))


def networks_of(owner: object, actor_network: Any, critic_network: Any, actor: Any, critic: Any) -> tuple[Any, Any]:
    """Choose between the names of the networks and their older ones, ``actor`` and ``critic``."""
    actor_network = actor if actor_network is None else actor_network
    critic_network = critic if critic_network is None else critic_network
    if not isinstance(actor_network, nn.Module):
        name = type(owner).__name__
        raise TypeError(f"{name} needs a policy. Fix: {name}(actor_network=policy, critic_network=critic).")
    return actor_network, critic_network

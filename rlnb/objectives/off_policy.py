"""Common parts of off-policy losses: TD targets, TD errors as priorities, and actions drawn from the policy."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb._tensordict import entry, set_entry
from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.categorical import Categorical, OneHot
from rlnb.data.specs.multi import MultiOneHot
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.unwrapped import unwrapped_dist
from rlnb.objectives.common import LossModule, next_key, unique
from rlnb.objectives.errors import missing_entry, unknown_choice
from rlnb.objectives.policies import check_drawn
from rlnb.objectives.utils import ValueEstimators
from rlnb.objectives.value.advantages import GAE, wrong_value_shape

Tensor = torch.Tensor

_SPACES = ("categorical", "one_hot", "mult_one_hot")


class OffPolicyLoss(LossModule):
    """Base class of losses that learn from transitions of any policy, such as those of a replay buffer.

    Transitions need "action" and, under "next", the reward, the end signals and what the networks read. A
    "priority_weight", which prioritized buffers add, weighs the terms; the TD error is written into the data for
    ``buffer.update_tensordict_priority``.
    """

    default_value_estimator = ValueEstimators.TD0
    _refused_estimators = (GAE,)
    #: Names of the networks whose ``in_keys`` are read.
    _networks: tuple[str, ...] = ()
    use_prioritized_weights: bool | str = "auto"

    def _default_in_keys(self) -> list[NestedKey]:
        keys = self.tensor_keys
        states: list[NestedKey] = []
        for name in self._networks:
            network = getattr(self, name)
            states += list(network.in_keys) if network is not None else []
        own = [key for key in states if key != keys.action]  # the policy makes the next action
        return unique([keys.action, *own, *map(next_key, (keys.reward, keys.done, keys.terminated, *own))])

    def _weights(self, data: TensorDictBase) -> Tensor | None:
        """The weights of a prioritized buffer, where they are in the data."""
        if not self.use_prioritized_weights:
            return None
        found = entry(data, self.tensor_keys.priority_weight)
        if found is None and self.use_prioritized_weights is True:
            raise KeyError(missing_entry(self, self.tensor_keys.priority_weight, "priority_weight", data))
        return found

    def _after(self, data: TensorDictBase) -> TensorDictBase:
        """Return what is under "next", which is not to be written to."""
        found = entry(data, "next")
        if found is None:
            raise KeyError(missing_entry(self, next_key(self.tensor_keys.reward), "reward", data))
        return found

    def _returns(self, data: TensorDictBase, next_value: Tensor) -> Tensor:
        """Compute the target of each step from the value of the next state, both ``[*B]`` or ``[*B, 1]``."""
        reward, shape = self._get(data, "reward", after=True), next_value.shape
        if shape == reward.shape:
            return self.value_estimator.value_estimate(data, next_value=next_value)
        if (*shape, 1) != reward.shape and shape != (*reward.shape, 1):
            raise ValueError(wrong_value_shape(self, next_value, reward))
        next_value = next_value.reshape(reward.shape)
        return self.value_estimator.value_estimate(data, next_value=next_value).reshape(shape)

    def _prioritize(self, data: TensorDictBase, error: Tensor) -> None:
        """Write the TD errors, ``[*B]``, into the data."""
        set_entry(data, self.tensor_keys.priority, error.detach())

    def _draw(self, name: str, data: TensorDictBase) -> tuple[Tensor, Tensor, Any]:
        """Draw actions from a policy, with gradients, and return them, their log-probability and the distribution."""
        network: Any = self._target(name.removeprefix("target_")) if name.startswith("target_") else getattr(self, name)
        distribution = self._distribution(network, data)
        if hasattr(distribution, "rsample_and_log_prob"):  # one pass, exact where an action is at a bound
            return *distribution.rsample_and_log_prob(), distribution
        action = distribution.rsample()
        return action, distribution.log_prob(action), distribution

    def _distribution(self, network: Any, data: TensorDictBase) -> Any:
        """Compute the distribution of a policy's actions."""
        given, function = self._inputs(network, data), self._unwrapped(network, unwrapped_dist)
        found = network.get_dist(data.select(*network.in_keys)) if function is None else function(given)
        check_drawn(self, network, found)
        return found


def action_space_of(owner: object, space: Any, network: Any) -> str:
    """Return the name of an action space: "categorical" for indices, "one_hot" or "mult_one_hot".

    Args:
        owner: the loss, for the text of an error.
        space: the name, a spec, or None to ask the network.
        network: may have an ``action_space`` or a ``spec``.

    Raises:
        ValueError: If it is unknown.

    Example:
        >>> action_space_of(None, OneHot(3), None), action_space_of(None, "one-hot", None)
        ('one_hot', 'one_hot')
    """
    space = getattr(network, "action_space", None) if space is None else space
    if isinstance(space, str):
        name = {"discrete": "categorical"}.get(space, space.replace("-", "_"))
    elif isinstance(space, MultiOneHot):
        name = "mult_one_hot"
    elif isinstance(space, (OneHot, Categorical)):
        name = "one_hot" if isinstance(space, OneHot) else "categorical"
    else:
        raise ValueError(
            f"{type(owner).__name__} must know the action space, and found "
            f"{'none in its network' if space is None else type(space).__name__}. "
            "Fix: action_space='categorical' for indices, 'one-hot', or action_space=env.action_spec."
        )
    if name not in _SPACES:
        raise ValueError(unknown_choice("action_space", space, _SPACES))
    return name


def chosen(values: Tensor, action: Tensor, space: str, keepdim: bool = False) -> Tensor:
    """Return the values ``[*B]`` of actions, given those of all actions, ``[*B, n]``.

    Args:
        values: may have leading dimensions that ``action`` has not.
        action: indices ``[*B]`` or ``[*B, 1]``, or one-hot vectors ``[*B, n]``.
        space: see :func:`action_space_of`.
        keepdim: whether the result keeps its last dimension, ``[*B, 1]``.

    Raises:
        ValueError: If the actions are of another kind, or number.

    Example:
        >>> chosen(torch.tensor([[1.0, 2.0]]), torch.tensor([1]), "categorical")
        tensor([2.])
    """
    if space != "categorical":
        if action.shape != values.shape and action.shape != values.shape[-action.ndim :]:
            raise ValueError(
                f"With action_space={space!r} actions are vectors of {values.shape[-1]} numbers, and got actions of "
                f"shape {list(action.shape)} for values of shape {list(values.shape)}. Likely cause: the env takes "
                "indices, or has another number of actions. Fix: action_space='categorical', or "
                "action_space=env.action_spec."
            )
        return (values * action).sum(-1, keepdim)
    if action.ndim and action.shape[-1] == 1 and action.ndim >= values.ndim:
        action = action.squeeze(-1)
    index = action.unsqueeze(-1)
    if action.shape != values.shape[:-1]:
        if action.shape != values.shape[values.ndim - 1 - action.ndim : -1]:
            raise ValueError(
                f"With action_space='categorical' each action is one index, and got actions of shape "
                f"{list(action.shape)} for values of shape {list(values.shape)}. Likely cause: the env takes one-hot "
                "vectors. Fix: action_space='one-hot', or action_space=env.action_spec."
            )
        index = index.expand(*values.shape[:-1], 1)
    found = values.gather(-1, index.long())
    return found if keepdim else found.squeeze(-1)


def is_spec(value: object) -> bool:
    """Whether a value is a spec.

    Example:
        >>> is_spec(OneHot(3)), is_spec("one-hot")
        (True, False)
    """
    return isinstance(value, TensorSpec)

"""What losses ask of a policy: the entries that it writes, and whether it is stochastic."""

from __future__ import annotations

from typing import Any

import torch
from tensordict.nn import ProbabilisticTensorDictSequential
from tensordict.nn.distributions import Delta

from rlnb.data.ted.keys import NestedKey
from rlnb.modules.tensordict_module.actors import Actor

Tensor = torch.Tensor

PolicyKey = NestedKey | list[NestedKey]
"""The entry that a policy writes, or those of the parts of a composite action."""


def check_stochastic(owner: object, policy: Any) -> None:
    """Check that a policy has log-probabilities, as far as that is known before it runs.

    Args:
        owner: the loss, for the text of an error.
        policy: the policy.

    Raises:
        TypeError: If it has no distribution, or one that is a single action.
    """
    if not hasattr(policy, "get_dist"):
        raise TypeError(
            f"{type(owner).__name__} needs the log-probabilities of a stochastic policy, a module with get_dist, and "
            f"got a {type(policy).__name__}. {_STOCHASTIC}"
        )
    draw = drawing_module(policy)
    kind = Delta if isinstance(draw, Actor) else getattr(draw, "distribution_class", None)
    if isinstance(kind, type) and issubclass(kind, Delta):
        raise TypeError(_deterministic(owner, policy, kind))


def check_drawn(owner: object, policy: Any, distribution: Any) -> None:
    """Check the same of the distribution, which functions as ``distribution_class`` show only here.

    Raises:
        TypeError: If it is a single action.
    """
    if isinstance(distribution, Delta):
        raise TypeError(_deterministic(owner, policy, type(distribution)))


def check_action(owner: object, distribution: Any, action: Tensor, key: PolicyKey) -> None:
    """Check that actions have the shape of those that a policy draws, which broadcasting would hide.

    Args:
        owner: the loss, for the text of an error.
        distribution: the distribution of the policy.
        action: the actions in the data.
        key: their key, for the text of an error.

    Raises:
        ValueError: If they have not.

    Example:
        >>> check_action(None, torch.distributions.Categorical(torch.ones(5, 2)), torch.zeros(5), "action")
    """
    shape = distribution.batch_shape + distribution.event_shape
    if shape and action.shape[-len(shape) :] != shape:
        raise ValueError(
            f"{type(owner).__name__} expects actions of shape {list(shape)}, as its policy draws them, and got "
            f"{list(action.shape)} at {key!r}. Likely cause: the data is that of another policy, or its actions are "
            "one-hot vectors where the policy draws indices, or the other way round. Fix: a policy for the action_spec "
            "of the env that the data is from."
        )


_STOCHASTIC = "Fix: ProbabilisticActor(module, in_keys=[...], distribution_class=..., return_log_prob=True)."


def _deterministic(owner: object, policy: Any, kind: type) -> str:
    return (
        f"{type(owner).__name__} needs the log-probabilities of a stochastic policy, and got a deterministic one: the "
        f"distribution of this {type(policy).__name__} is a {kind.__name__}, which has all probability on one action. "
        f"{_STOCHASTIC}"
    )


def drawing_module(policy: Any) -> Any:
    """Return the part of a policy that draws the action: the last module, unless all modules draw parts of it.

    Example:
        >>> from tensordict.nn import ProbabilisticTensorDictModule
        >>> draw = ProbabilisticTensorDictModule(["loc"], ["action"])
        >>> drawing_module(ProbabilisticTensorDictSequential(draw)) is draw
        True
    """
    while isinstance(policy, ProbabilisticTensorDictSequential) and not policy.return_composite:
        policy = policy[-1]
    return policy


def written_keys(policy: Any, action: str, log_prob: str) -> dict[str, PolicyKey]:
    """Return where a policy writes its action and the log-probability of it, as far as it says so.

    Args:
        policy: the policy.
        action: the name of the first key in the result.
        log_prob: the name of the second one.

    Raises:
        RuntimeError: If the policy was made under another ``set_composite_lp_aggregate``.

    Example:
        >>> from tensordict.nn import ProbabilisticTensorDictModule
        >>> draw = ProbabilisticTensorDictModule(["loc"], [("agents", "action")])
        >>> written_keys(draw, "action", "sample_log_prob")
        {'action': ('agents', 'action'), 'sample_log_prob': ('agents', 'action_log_prob')}
    """
    draw = drawing_module(policy)
    found = {action: getattr(draw, "dist_sample_keys", None), log_prob: getattr(draw, "log_prob_keys", None)}
    return {role: keys[0] if len(keys) == 1 else list(keys) for role, keys in found.items() if keys}


def as_list(keys: PolicyKey) -> list[NestedKey]:
    """Return one key or several as a list.

    Example:
        >>> as_list("action"), as_list(["a", "b"])
        (['action'], ['a', 'b'])
    """
    return keys if isinstance(keys, list) else [keys]

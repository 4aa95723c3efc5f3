"""What losses ask of a policy: the entries that it writes, and whether it is stochastic."""

from __future__ import annotations

from typing import Any

from tensordict.nn import ProbabilisticTensorDictSequential

from rlnb.data.ted.keys import NestedKey

PolicyKey = NestedKey | list[NestedKey]
"""The entry that a policy writes, or those of the parts of a composite action."""


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

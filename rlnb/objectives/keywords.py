"""Calls of losses and value estimators with keywords instead of a TensorDict."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase, is_tensor_collection
from tensordict.nn import dispatch as tensordict_dispatch

from rlnb.data.ted.keys import as_key, as_tuple


def dispatch(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Let a loss be called with the entries of its ``in_keys`` as keywords; it then returns a tuple.

    ``tensordict.nn.dispatch`` takes all leading dimensions that the entries share for the batch size. Here the last
    dimension of the reward and the end signals, ``[*B, 1]``, is never one of them, so that ``[*B]`` is found for
    observations of one feature, too.

    Example:
        >>> from rlnb.objectives import DQNLoss
        >>> flag, one = torch.zeros(5, 1, dtype=torch.bool), torch.ones(5, 1)
        >>> after = {"next_observation": one, "next_reward": one, "next_done": flag, "next_terminated": flag}
        >>> loss = DQNLoss(torch.nn.Linear(1, 2), action_space="categorical", reduction="none")
        >>> loss(observation=one, action=torch.zeros(5, dtype=torch.int64), **after).shape
        torch.Size([5])
    """

    @functools.wraps(forward)
    def batched(self: Any, tensordict: TensorDictBase, **kwargs: Any) -> Any:
        tensordict.batch_size = batch_of(self, tensordict)
        return forward(self, tensordict, **kwargs)

    by_keyword = tensordict_dispatch(auto_batch_size=False)(batched)

    @functools.wraps(forward)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = args[0] if args else kwargs.get("tensordict")
        return (forward if is_tensor_collection(given) else by_keyword)(self, *args, **kwargs)

    return called


def batch_of(owner: Any, data: TensorDictBase) -> torch.Size:
    """Return the batch size of entries: the leading dimensions that all share, without the last one of the reward.

    Args:
        owner: the loss or estimator, whose ``tensor_keys`` name the reward and the end signals.
        data: the entries, without a batch size.
    """
    shapes = [value.shape for value in data.values(True, True)]
    for role in ("reward", "done", "terminated"):
        key = getattr(owner.tensor_keys, role, None)
        found = None if key is None else data.get(as_key(("next", *as_tuple(key))), None)
        if found is not None:
            shapes.append(found.shape[:-1])
    length = 0
    for sizes in zip(*shapes, strict=False):
        if len(set(sizes)) > 1:
            break
        length += 1
    return shapes[0][:length] if shapes else torch.Size()

"""step_mdp: advances a step of TED data, so that the data under "next" becomes the root of the following step."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase, lazy_stack

from rlnb._tensordict import entry, like, raw_entries, shallow_copy
from rlnb.data.ted.keys import NestedKey, as_key, as_keys, split_keys
from rlnb.data.ted.leaves import is_branch

_Paths = tuple[tuple[str, ...], ...]


def step_mdp(
    tensordict: TensorDictBase,
    next_tensordict: TensorDictBase | None = None,
    keep_other: bool = True,
    exclude_reward: bool = True,
    exclude_done: bool = False,
    exclude_action: bool = True,
    reward_keys: NestedKey | list[NestedKey] = "reward",
    done_keys: NestedKey | list[NestedKey] = "done",
    action_keys: NestedKey | list[NestedKey] = "action",
) -> TensorDictBase:
    """Create the root of step t+1 from the data of step t.

    The entries under ``"next"`` move to the root. Rewards and actions belong to step t and are dropped, at the root and
    under ``"next"``. Empty nested TensorDicts are dropped as well.

    Args:
        tensordict: a step, of any batch size, with a ``"next"`` entry.
        next_tensordict: written to and returned, if given.
        keep_other: whether to keep root entries that ``"next"`` lacks, such as hidden states. If False, only the action
            is kept of these, with ``exclude_action=False``.
        exclude_reward: whether to drop the rewards.
        exclude_done: whether to drop the end-of-episode signals.
        exclude_action: whether to drop the actions.
        reward_keys: keys of the rewards.
        done_keys: keys of the end-of-episode signals.
        action_keys: keys of the actions.

    Returns:
        A TensorDict that shares its tensors with ``tensordict``.

    Raises:
        KeyError: If ``tensordict`` has no ``"next"`` entry.

    Example:
        >>> step = TensorDict({
        ...     "observation": torch.tensor([0.0]), "action": torch.tensor([1]),
        ...     "next": {"observation": torch.tensor([0.5]), "reward": torch.tensor([1.0])},
        ... })
        >>> step_mdp(step).to_dict()
        {'observation': tensor([0.5000])}
    """
    out = _next_step(
        _hashable(reward_keys) if exclude_reward else (),
        _hashable(done_keys) if exclude_done else (),
        _hashable(action_keys) if exclude_action else (),
        keep_other,
    )(tensordict)
    if not keep_other and not exclude_action:
        for path in as_keys(action_keys):
            action = entry(tensordict, as_key(path))
            if action is not None and entry(out, as_key(path)) is None:
                out.set(as_key(path), action)
    return out if next_tensordict is None else next_tensordict.update(out)


def _hashable(keys: NestedKey | list[NestedKey]) -> tuple[tuple[str, ...], ...]:
    return ((keys,),) if type(keys) is str else tuple(as_keys(keys))


@functools.lru_cache(maxsize=256)
def _next_step(reward_keys: _Paths, done_keys: _Paths, action_keys: _Paths, keep_other: bool) -> NextStep:
    return NextStep(list(reward_keys), list(action_keys), list(done_keys), keep_other)


class NextStep:
    """:func:`step_mdp` for fixed keys, prepared once: what envs call after every step.

    Rewards and actions are dropped, and the end-of-episode signals in ``done_keys`` as well. ``keep_other`` keeps root
    entries that ``"next"`` lacks.
    """

    def __init__(
        self,
        reward_keys: NestedKey | Iterable[NestedKey],
        action_keys: NestedKey | Iterable[NestedKey],
        done_keys: NestedKey | Iterable[NestedKey] = (),
        keep_other: bool = True,
    ) -> None:
        dropped = [*as_keys(reward_keys), *as_keys(done_keys), *as_keys(action_keys)]
        self.plan = _Plan(dropped, [*dropped, ("next",)])
        self.keep_other = keep_other

    def __call__(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Create the root of the following step, which shares its tensors with ``tensordict``."""
        if isinstance(tensordict, LazyStackedTensorDict):
            return lazy_stack([self(row) for row in tensordict.tensordicts], tensordict.stack_dim)
        after = entry(tensordict, "next")
        if after is None:
            raise KeyError(
                f"step_mdp needs an entry 'next' and found only {sorted(map(str, tensordict.keys()))}. "
                "'next' is written by env.step(tensordict): call it first, "
                "or, if this is already the output of step_mdp, use it as it is."
            )
        return _merge(after, tensordict if self.keep_other else tensordict.empty(), self.plan)


class _Plan:
    """The entries to drop at one level and, by name, at the nested levels."""

    def __init__(self, dropped: Iterable[tuple[str, ...]], never_kept: Iterable[tuple[str, ...]]) -> None:
        self.dropped, dropped_below = split_keys(dropped)
        self.never_kept, never_below = split_keys(never_kept)
        names = dropped_below.keys() | never_below.keys()
        self.below = {name: _Plan(dropped_below.get(name, ()), never_below.get(name, ())) for name in names}


_ALL = _Plan((), ())


def _merge(new: TensorDictBase, other: TensorDictBase, plan: _Plan) -> TensorDictBase:
    """Merge the entries of ``new`` with those that only ``other`` has, without those that the plan drops."""
    if type(new) is not TensorDict and isinstance(new, LazyStackedTensorDict):
        pairs = zip(new.tensordicts, other.unbind(new.stack_dim), strict=True)
        return lazy_stack([_merge(a, b, plan) for a, b in pairs], new.stack_dim)
    entries: dict[str, Any] = {}
    kept = raw_entries(other)
    for name, value in raw_entries(new).items():
        if name in plan.dropped:
            continue
        if type(value) is not torch.Tensor and is_branch(value):
            below = kept.get(name)
            value = _merge(value, below if is_branch(below) else value.empty(), plan.below.get(name, _ALL))
            if _is_empty(value):
                continue
        entries[name] = value
    for name, value in kept.items():
        if name in entries or name in plan.never_kept:
            continue
        if type(value) is not torch.Tensor and is_branch(value):
            # Copied, because a policy that writes to it must not change the previous step.
            value = _without(value, plan.below.get(name, _ALL))
            if _is_empty(value):
                continue
        entries[name] = value
    return like(entries, other)


def _is_empty(data: TensorDictBase) -> bool:
    if type(data) is not TensorDict:
        return data.is_empty()
    return all(is_branch(value) and _is_empty(value) for value in raw_entries(data).values())


def _without(data: TensorDictBase, plan: _Plan) -> TensorDictBase:
    """Copy a TensorDict, but not its tensors, without the entries that the plan drops."""
    copied = shallow_copy(data)
    for name in plan.never_kept & set(copied.keys()):
        copied.del_(name)
    for name, below in plan.below.items():
        value = copied.get(name, None)
        if is_branch(value):
            left = _without(value, below)
            if _is_empty(left):
                copied.del_(name)
            else:
                copied.set(name, left)
    return copied

"""One step of the Markov decision process: the data under "next" becomes the root of the step that follows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase, lazy_stack

from rlnb.data.ted.keys import NestedKey, as_key, as_keys
from rlnb.data.ted.leaves import is_branch, leaf_keys

_Path = tuple[str, ...]


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
    """Make the root of step t+1 from the data of step t.

    What stands under ``"next"`` moves to the root; the reward and the action belong to step t and stay behind.

    Args:
        tensordict: a step, of any batch size, with a ``"next"`` entry.
        next_tensordict: written to and returned, if given.
        keep_other: keep root entries that ``"next"`` does not have (hidden states, parameters). If False, only the
            action is kept of them, and that only with ``exclude_action=False``.
        exclude_reward: leave the reward behind.
        exclude_done: leave the end-of-episode signals behind.
        exclude_action: leave the action behind.
        reward_keys: what the rewards are called.
        done_keys: what the end-of-episode signals are called.
        action_keys: what the actions are called.

    Returns:
        A TensorDict that shares its tensors with ``tensordict``.

    Raises:
        KeyError: if ``tensordict`` has no ``"next"`` entry.

    Example:
        >>> import torch
        >>> step = TensorDict({
        ...     "observation": torch.tensor([0.0]), "action": torch.tensor([1]),
        ...     "next": {"observation": torch.tensor([0.5]), "reward": torch.tensor([1.0])},
        ... })
        >>> step_mdp(step).to_dict()
        {'observation': tensor([0.5000])}
    """
    if isinstance(tensordict, LazyStackedTensorDict):
        rows = [
            step_mdp(
                row, None, keep_other, exclude_reward, exclude_done, exclude_action, reward_keys, done_keys, action_keys
            )
            for row in tensordict.tensordicts
        ]
        stacked = lazy_stack(rows, tensordict.stack_dim)
        return stacked if next_tensordict is None else next_tensordict.update(stacked)
    next_entry = tensordict.get("next", None)
    if next_entry is None:
        raise KeyError(_no_next(tensordict))
    dropped: set[_Path] = set()
    if exclude_reward:
        dropped.update(as_keys(reward_keys))
    if exclude_done:
        dropped.update(as_keys(done_keys))
    never_kept = dropped | {("next",)}
    if exclude_action:
        never_kept.update(as_keys(action_keys))
    if keep_other:
        out = _merge(next_entry, tensordict, dropped, never_kept)
    else:
        kept = (
            [] if exclude_action else [key for key in map(as_key, as_keys(action_keys)) if key in leaf_keys(tensordict)]
        )
        out = _merge(next_entry, tensordict.select(*kept) if kept else None, dropped, never_kept)
    return out if next_tensordict is None else next_tensordict.update(out)


def _merge(
    new: TensorDictBase, other: TensorDictBase | None, dropped: Iterable[_Path], never_kept: Iterable[_Path]
) -> TensorDictBase:
    """Entries of ``new`` without ``dropped``, then those of ``other`` that are neither there nor in ``never_kept``."""
    dropped_here, dropped_below = _split(dropped)
    never_here, never_below = _split(never_kept)
    entries: dict[str, Any] = {}
    for name, value in new.items():
        if name in dropped_here:
            continue
        if is_branch(value):
            below = other.get(name, None) if other is not None else None
            value = _merge(
                value,
                below if is_branch(below) else None,
                dropped_below.get(name, ()),
                never_below.get(name, ()),
            )
        entries[name] = value
    if other is not None:
        for name, value in other.items():
            if name in entries or name in never_here:
                continue
            if name in never_below and is_branch(value):
                value = _merge(value, None, never_below[name], ())
                if value.is_empty():
                    continue
            entries[name] = value
    source = new if other is None else other
    names = source.names
    named = any(name is not None for name in names)
    return TensorDict(entries, source.batch_size, device=source.device, names=names if named else None)


def _split(paths: Iterable[_Path]) -> tuple[set[str], dict[str, list[_Path]]]:
    """Divide paths into names at this level and, by first name, what remains of the longer ones."""
    here: set[str] = set()
    below: dict[str, list[_Path]] = {}
    for path in paths:
        if len(path) == 1:
            here.add(path[0])
        else:
            below.setdefault(path[0], []).append(path[1:])
    return here, below


def _no_next(tensordict: TensorDictBase) -> str:
    keys = sorted(map(str, tensordict.keys()))
    return (
        f"step_mdp needs an entry 'next' and found only {keys}. "
        "'next' is written by env.step(tensordict): call it first, "
        "or, if this is already the output of step_mdp, use it as it is."
    )

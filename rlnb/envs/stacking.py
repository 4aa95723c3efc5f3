"""Stacking steps along time, leaf by leaf, which is much faster than stacking TensorDicts and keeps gradients."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase, lazy_stack

from rlnb._tensordict import entry, named, raw_entries_of_each
from rlnb.data.ted.keys import NestedKey
from rlnb.data.ted.leaves import is_branch


def stack_steps(steps: list[TensorDictBase], dim: int, names: list[Any] | None = None) -> TensorDict:
    """Stack the entries that all steps have along a new dimension ``dim``. ``names`` are those of all dimensions.

    Example:
        >>> steps = [TensorDict({"observation": torch.tensor([float(t)])}) for t in range(3)]
        >>> stack_steps(steps, 0)["observation"].tolist()
        [[0.0], [1.0], [2.0]]
    """
    entries: dict[str, Any] = {}
    stored = raw_entries_of_each(steps)
    for name in steps[0].keys():  # noqa: SIM118 - iterating a TensorDict iterates its rows
        if stored is None:
            values = [_read(step, name, t) for t, step in enumerate(steps)]
        else:
            values = [step.get(name) for step in stored]
        first = values[0]
        if any(value is None for value in values):
            continue
        if is_branch(first):
            entries[name] = stack_steps(values, dim)
        elif isinstance(first, torch.Tensor):
            entries[name] = stack_leaf(name, values, dim)
        else:
            entries[name] = lazy_stack(values, dim)
    batch = list(steps[0].batch_size)
    batch.insert(dim, len(steps))
    stacked = TensorDict(entries, batch, device=steps[0].device)
    return stacked if names is None else named(stacked, names)


def _read(step: TensorDictBase, name: str, t: int) -> Any:
    """Read an entry. None if it is missing."""
    try:
        return entry(step, name)
    except RuntimeError:
        if not isinstance(step, LazyStackedTensorDict):
            raise
        shapes = [tuple(row.get(name).shape) for row in step.tensordicts]
        odd = next((i for i, shape in enumerate(shapes) if shape != shapes[0]), None)
        if odd is None:
            raise
        raise RuntimeError(
            f"The entry {name!r} has, at step {t}, shape {shapes[0]} in env 0 and {shapes[odd]} in env {odd}, so the "
            "envs do not fit into one tensor. Fix: rollout(..., return_contiguous=False)."
        ) from None


def stack_leaf(key: NestedKey, values: list[torch.Tensor], dim: int) -> torch.Tensor:
    """Stack one entry of all steps, or raise RuntimeError that names the step at which its shape changes."""
    try:
        return torch.stack(values, dim)
    except RuntimeError as error:
        odd = next((t for t, value in enumerate(values) if value.shape != values[0].shape), None)
        if odd is None:
            raise
        raise RuntimeError(
            f"The entry {key!r} has shape {tuple(values[0].shape)} at step 0 and {tuple(values[odd].shape)} at step "
            f"{odd}, so the steps do not fit into one tensor. Fix: rollout(..., return_contiguous=False)."
        ) from error

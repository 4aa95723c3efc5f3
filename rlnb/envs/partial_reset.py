"""Partial resets: a "_reset" mask says which envs start anew, and all others keep their data to the bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase

from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.data.ted.leaves import leaf_keys

if TYPE_CHECKING:
    from rlnb.envs.specs import EnvSpecs

Masks = dict[tuple[str, ...], torch.Tensor]


def reset_masks(env: EnvSpecs, tensordict: TensorDictBase) -> Masks:
    """Collect the "_reset" masks of an input.

    Args:
        env: whose end signals say at which levels a mask may stand.
        tensordict: the input of a reset.

    Returns:
        The masks by level; a mask at the root overrides those below it. Empty if everything is to be reset.

    Raises:
        ValueError: if a mask stands at a level without end signals, or has not their shape.
    """
    masks: Masks = {}
    legal = {as_tuple(key)[:-1]: group for key, group in zip(env.reset_keys, env.done_keys_groups, strict=True)}
    for key in _reset_entries(tensordict):
        level, mask = key[:-1], tensordict.get(as_key(key))
        if level not in legal:
            raise ValueError(
                f"The entry {as_key(key)!r} has no 'done' beside it, so there is nothing that it could reset. "
                f"This env can be reset at: {env.reset_keys}."
            )
        spec = env.full_done_spec[legal[level][0]]
        shape = (*tensordict.batch_size, *spec.shape[env.batch_dims :])
        if mask.dtype != torch.bool or tuple(mask.shape) != shape:
            raise ValueError(
                f"The mask {as_key(key)!r} must have the shape and dtype of 'done', {shape} and torch.bool, "
                f"and has {tuple(mask.shape)} and {mask.dtype}."
            )
        masks[level] = mask
    return {(): masks[()]} if () in masks else masks


def masked_update(previous: TensorDictBase, fresh: TensorDictBase, masks: Masks) -> TensorDictBase:
    """Write the data of a reset into its input, where the masks say so.

    Args:
        previous: the input of the reset; written to.
        fresh: what the env's reset returned.
        masks: as from :func:`reset_masks`; empty for a full reset.

    Returns:
        ``previous``, without its "_reset" entries.
    """
    merged = {key: _merge(key, fresh.get(key), previous.get(key, None), masks) for key in leaf_keys(fresh)}
    for path in _reset_entries(previous):
        previous.del_(as_key(path))
    for key, value in merged.items():
        previous.set(key, value)
    return previous


def _merge(key: NestedKey, new: Any, old: Any, masks: Masks) -> Any:
    mask = _mask_of(as_tuple(key), masks)
    if mask is None or old is None or bool(mask.all()):
        return new
    if not isinstance(new, torch.Tensor):
        raise TypeError(
            f"The entry {key!r} is no tensor, so it cannot be reset for some envs of the batch and not for others. "
            "Reset the whole batch, or encode the entry as a tensor."
        )
    return torch.where(_fit(mask, new), new, old)


def _mask_of(path: tuple[str, ...], masks: Masks) -> torch.Tensor | None:
    """The mask of the nearest level above an entry."""
    for depth in range(len(path) - 1, -1, -1):
        if path[:depth] in masks:
            return masks[path[:depth]]
    return None


def _fit(mask: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    """Give a mask of shape ``[*batch, 1]`` as many dimensions as the data has."""
    while mask.ndim > data.ndim and mask.shape[-1] == 1:
        mask = mask.squeeze(-1)
    while mask.ndim < data.ndim:
        mask = mask.unsqueeze(-1) if mask.ndim == 0 or mask.shape[-1] != 1 else mask.unsqueeze(-2)
    return mask


def _reset_entries(tensordict: TensorDictBase) -> list[tuple[str, ...]]:
    """The places of all "_reset" entries of an input; what stands under "next" belongs to the step before."""
    paths = map(as_tuple, leaf_keys(tensordict))
    return [path for path in paths if path[-1] == "_reset" and path[0] != "next"]

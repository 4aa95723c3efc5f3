"""Partial resets: a "_reset" mask says which envs start anew, and all others keep their data to the bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase, lazy_stack

from rlnb.data.ted.keys import as_key, as_tuple
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
        The masks by level. Empty if everything is to be reset.

    Raises:
        ValueError: if a mask stands at a level without end signals, or has not their shape.
    """
    masks: Masks = {}
    legal = {as_tuple(key)[:-1]: group for key, group in zip(env.reset_keys, env.done_keys_groups, strict=True)}
    for key in map(as_tuple, leaf_keys(tensordict)):
        if key[-1] != "_reset" or key[0] == "next":  # what stands under "next" belongs to the step before
            continue
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
    return masks


def deciding(masks: Masks) -> Masks:
    """Leave out the masks that one at the root overrides.

    Args:
        masks: by level.

    Returns:
        The mask at the root alone, if there is one, else all of them.
    """
    return {(): masks[()]} if () in masks else masks


def masked_update(previous: TensorDictBase, fresh: TensorDictBase, masks: Masks, batch_dims: int) -> TensorDictBase:
    """Write the data of a reset into its input, where the masks say so.

    Args:
        previous: the input of the reset; written to.
        fresh: what the env's reset returned.
        masks: all "_reset" entries of the input, by level; empty for a full reset.
        batch_dims: the number of the env's batch dimensions.

    Returns:
        ``previous``, without its "_reset" entries.
    """
    partial = {level: mask for level, mask in deciding(masks).items() if not bool(mask.all())}
    merged = {}
    for key in leaf_keys(fresh):
        new, mask = fresh.get(key), None
        if partial:
            mask = _mask_of(as_tuple(key), deciding(masks), partial)
        old = None if mask is None else previous.get(key, None)
        merged[key] = new if mask is None or old is None else _choose(_fit(mask, new.shape, batch_dims), new, old)
    for level in masks:
        previous.del_(as_key((*level, "_reset")))
    for key, value in merged.items():
        previous.set(key, value)
    return previous


def _choose(mask: torch.Tensor, new: Any, old: Any) -> Any:
    """Take new data where the mask is True; non-tensor data goes row by row."""
    if isinstance(new, torch.Tensor):
        return torch.where(mask.reshape((*mask.shape, *[1] * (new.ndim - mask.ndim))), new, old)
    if not mask.ndim:
        return new if bool(mask) else old
    return lazy_stack([_choose(mask[i], new[i], old[i]) for i in range(len(mask))])


def _mask_of(path: tuple[str, ...], masks: Masks, partial: Masks) -> torch.Tensor | None:
    """The mask of the nearest level above an entry; None if it leaves nothing as it was."""
    for depth in range(len(path) - 1, -1, -1):
        if path[:depth] in masks:
            return partial.get(path[:depth])
    return None


def _fit(mask: torch.Tensor, shape: torch.Size, batch_dims: int) -> torch.Tensor:
    """Give a mask the leading dimensions of the data that it belongs to.

    End signals may have dimensions of their own behind those of the batch. Where the data has them too, it is chosen
    along them; else an env is reset if any of its signals says so.
    """
    while mask.ndim > batch_dims and mask.shape[-1] == 1:
        mask = mask.squeeze(-1)
    if mask.shape != shape[: mask.ndim]:
        mask = mask.flatten(batch_dims).any(-1)
    return mask

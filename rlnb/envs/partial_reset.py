"""Partial resets: a "_reset" mask marks the envs that start a new episode, and all others keep their data."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase, lazy_stack

from rlnb._tensordict import entry, merge_entries, raw_entries
from rlnb.data.ted.keys import as_key, as_tuple
from rlnb.data.ted.leaves import is_branch

if TYPE_CHECKING:
    from rlnb.envs.base import EnvBase

Masks = dict[tuple[str, ...], torch.Tensor]
"""The "_reset" masks of an input by level: () for the root, ("agents",) for ("agents", "_reset")."""

#: From this many numbers per row on, copying the rows that are reset is faster than selecting number by number.
_WIDE = 16


def reset_masks(env: EnvBase, tensordict: TensorDictBase) -> Masks:
    """Collect the "_reset" masks of an input by level. The result is empty if everything is to be reset."""
    masks: Masks = {}
    legal = {as_tuple(key)[:-1]: group for key, group in zip(env.reset_keys, env.done_keys_groups, strict=True)}
    for key in map(as_tuple, tensordict.keys(True, True)):
        if key[-1] != "_reset" or key[0] == "next":  # entries under "next" belong to the step before
            continue
        level, mask = key[:-1], tensordict.get(as_key(key))
        if level not in legal:
            raise ValueError(
                f"The entry {as_key(key)!r} has no 'done' beside it, so there is nothing to reset. "
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


def reset_to_state(env: EnvBase, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
    """Reset a stateless env, whose observations are its state, to the state that a TensorDict holds."""
    state = env.state_keys
    if env.batch_locked or not set(env.observation_keys).issubset(state):
        raise NotImplementedError(
            f"{type(env).__name__} cannot be reset to a given state (set_state=True): only a stateless env "
            "whose observations are its state can. Fix: leave set_state out."
        )
    missing = [key for key in state if tensordict is None or tensordict.get(key, None) is None]
    if tensordict is None or missing:
        raise KeyError(f"reset(td, set_state=True) reads the state {state} from td, which lacks {missing}.")
    given = tensordict.select(*state).clone()
    return env.reset(tensordict, **kwargs).update(given)


def end_masks(env: EnvBase, data: TensorDictBase) -> Masks:
    """Read the "done" of every level of a step's data: the masks of the reset that must follow."""
    found = {level: entry(data, key) for level, key in env._done_levels()}
    return {level: done for level, done in found.items() if done is not None}


def ended_masks(env: EnvBase, data: TensorDictBase) -> Masks:
    """Find which envs must be reset, by level; empty if none is done. A "done" at the root overrides those below it."""
    masks: Masks = {}
    for level, key in env._done_levels():
        done = entry(data, key)
        if done is None:
            continue
        if done.dtype is not torch.bool:
            done = done.bool()
        if level == ():  # the root comes first
            return masks if env._clear_signal.check(done) else {(): done}
        masks[level] = done
    return masks if any(bool(mask.any()) for mask in masks.values()) else {}


def deciding(masks: Masks) -> Masks:
    """Drop masks that a mask at the root overrides."""
    return {(): masks[()]} if () in masks else masks


def merge_reset(previous: TensorDictBase, fresh: TensorDictBase, masks: Masks, batch_dims: int) -> dict[str, Any]:
    """Merge the data of a reset into that of its input where a mask is True; without masks, everywhere.

    Returns the entries of ``fresh`` by name, in nested dictionaries.
    """
    fitted = {level: FittedMask(mask, batch_dims) for level, mask in deciding(masks).items()}
    return _merge(raw_entries(previous), raw_entries(fresh), (), fitted.get(()), fitted)


def overwrite(previous: TensorDictBase, fresh: TensorDictBase, masks: Masks, batch_dims: int) -> None:
    """Write the data of a reset over that of its input, ``previous``, where the masks are True; without masks, all."""
    if not batch_dims or not (is_ragged(previous) or is_ragged(fresh)):
        merge_entries(previous, merge_reset(previous, fresh, masks, batch_dims))
        return
    for row, new, own in zip(previous.unbind(0), fresh.unbind(0), masks_by_row(masks, len(previous)), strict=True):
        overwrite(row, new, own, batch_dims - 1)


def blank_missing(env: EnvBase, fresh: TensorDictBase, previous: TensorDictBase) -> None:
    """Write zeros for observations that a reset did not return, so that those of the last episode do not stay."""
    for key in env.observation_keys:
        before = previous.get(key, None)
        if isinstance(before, torch.Tensor) and fresh.get(key, None) is None:
            fresh.set(key, torch.zeros_like(before))


def merge_ragged(env: EnvBase, previous: TensorDictBase, fresh: TensorDictBase, masks: Masks) -> TensorDictBase:
    """Merge the data of a reset into its input row by row, for envs whose data differs in shape."""
    previous.exclude(*env.reset_keys, inplace=True)
    if not is_ragged(previous):
        previous = lazy_stack([row.copy() for row in previous.unbind(0)], 0)
    overwrite(previous, fresh, masks, env.ndim)
    return previous


def is_ragged(data: TensorDictBase | None) -> bool:
    """Whether data is a lazy stack of rows, which may differ in shape."""
    return type(data) is not TensorDict and isinstance(data, LazyStackedTensorDict) and data.stack_dim == 0


def masks_by_row(masks: Masks, n: int) -> list[Masks]:
    """Split masks with a first dimension of n into the masks of each row."""
    return [{level: mask[i] for level, mask in masks.items()} for i in range(n)]


def _merge(
    previous: Mapping[str, Any],
    fresh: Mapping[str, Any],
    level: tuple[str, ...],
    mask: FittedMask | None,
    masks: dict[tuple[str, ...], FittedMask],
) -> dict[str, Any]:
    """Merge one level, under the mask of the nearest level above it that has one."""
    merged: dict[str, Any] = {}
    for name, new in fresh.items():
        old = previous.get(name)
        if type(new) is torch.Tensor and type(old) is torch.Tensor and mask is not None and new.shape == old.shape:
            merged[name] = mask.merge(new, old)
        elif is_branch(new):
            below = (*level, name)
            old_entries = raw_entries(old) if is_branch(old) else {}
            merged[name] = _merge(old_entries, raw_entries(new), below, masks.get(below, mask), masks)
        else:
            merged[name] = new if mask is None or old is None else mask.choose(new, old)
    return merged


class FittedMask:
    """A "_reset" mask, of the shape of "done", fitted to data of different shapes.

    End signals may have more dimensions behind those of the batch. Data that has them too is selected along them;
    otherwise an env is reset if any of its signals is True.
    """

    def __init__(self, mask: torch.Tensor, batch_dims: int) -> None:
        self.given, self.batch_dims = mask, batch_dims
        # The mask by the number of dimensions of the data; not for a mask with more dimensions than the batch.
        self.known = {mask.ndim: mask} if mask.shape[batch_dims:].numel() == 1 else {}
        self.has_rows = batch_dims == 1 and bool(self.known)

    @functools.cached_property
    def mask(self) -> torch.Tensor:
        """The mask without trailing dimensions of size 1."""
        mask = self.given
        while mask.ndim > self.batch_dims and mask.shape[-1] == 1:
            mask = mask.squeeze(-1)
        return mask

    @functools.cached_property
    def marked(self) -> torch.Tensor:
        """Indices of the rows that are reset."""
        return self.mask.nonzero().squeeze(-1)

    def rows(self, shape: torch.Size) -> torch.Tensor:
        """The mask with as many leading dimensions as data of this shape has."""
        if self.mask.shape == shape[: self.mask.ndim]:
            return self.mask
        return self.mask.flatten(self.batch_dims).any(-1)

    def spread(self, data: torch.Tensor) -> torch.Tensor:
        """The mask with as many dimensions as the data."""
        spread = self.known.get(data.ndim)
        if spread is None:
            spread = self.rows(data.shape)
            spread = spread.reshape((*spread.shape, *[1] * (data.ndim - spread.ndim)))
            if self.mask.ndim == self.batch_dims:
                self.known[data.ndim] = spread
        return spread

    def merge(self, new: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
        """Select between tensors of the same shape."""
        if new.device != self.given.device:  # the data of the env is on several devices
            return FittedMask(self.given.to(new.device), self.batch_dims).merge(new, old)
        if old is self.given and new.dtype is torch.bool:  # an end signal, and the mask made from it
            return new & old
        if self.has_rows and new.stride(0) >= _WIDE and new.dtype is old.dtype:
            return old.index_copy(0, self.marked, new.index_select(0, self.marked))  # usually few rows are reset
        mask = self.known.get(new.ndim)
        return torch.where(self.spread(new) if mask is None else mask, new, old)

    def choose(self, new: Any, old: Any) -> Any:
        """Select between data of different shapes, or that is not in tensors."""
        if bool(self.mask.all()):
            return new
        if not bool(self.mask.any()):
            return old
        if isinstance(new, torch.Tensor):
            return torch.where(self.spread(new), new, old)
        return _choose(self.rows(new.shape), new, old)


def _choose(mask: torch.Tensor, new: Any, old: Any) -> Any:
    """Select row by row."""
    if not mask.ndim:
        return new if bool(mask) else old
    return lazy_stack([_choose(mask[i], new[i], old[i]) for i in range(len(mask))])

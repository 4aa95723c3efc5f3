"""Partial steps: a "_step" mask says which envs of a batch take the step, and all others keep their data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from tensordict import TensorDictBase

from rlnb._tensordict import merge_entries
from rlnb.data.specs.composite import Composite
from rlnb.envs.end_signals import complete_done
from rlnb.envs.partial_reset import merge_reset

if TYPE_CHECKING:
    from rlnb.envs.base import EnvBase


def partial_step(env: EnvBase, tensordict: TensorDictBase, partial: torch.Tensor) -> TensorDictBase:
    """Step the envs that a mask marks; the others keep their observations and end signals, and their reward is 0.

    Args:
        env: the env.
        tensordict: the input of the step.
        partial: the mask, bool of shape ``[*batch]``; dimensions of size 1 behind it are ignored.

    Returns:
        The results of the step.

    Raises:
        ValueError: If the mask has another shape or dtype.
    """
    batch = tensordict.batch_size
    if partial.dtype is not torch.bool or partial.numel() != batch.numel():
        raise ValueError(
            f"The entry '_step' marks the envs that take the step: expected shape {tuple(batch)} and dtype "
            f"torch.bool, got {tuple(partial.shape)} and {partial.dtype}."
        )
    mask = partial.reshape(batch)
    if bool(mask.all()):
        return env._step(tensordict)
    kept = _kept_data(env, tensordict)
    if not bool(mask.any()):
        return kept
    stepped = env._step_marked(tensordict, mask)
    env._fit_data(stepped, "step")
    complete_done(env, stepped)
    merge_entries(kept, merge_reset(kept, stepped, {(): mask}, len(batch)))
    return kept


def _kept_data(env: EnvBase, tensordict: TensorDictBase) -> TensorDictBase:
    """The results of a step that no env takes: observations and end signals of its input, and rewards of zero."""
    lead = tensordict.batch_size[: tensordict.ndim - env.ndim]
    data = Composite(shape=env.batch_size, device=env.device).zero(lead)
    for spec in (env.observation_spec, env.full_done_spec, env.full_reward_spec):
        data.update(spec.zero(lead))
    return data.update(tensordict.select(*env.observation_keys, *env.done_keys, strict=False).clone())

"""End-of-episode signals: done is the union of terminated and truncated, at every level, whichever the env gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase

from rlnb.data.ted.keys import DONE, TERMINATED, TRUNCATED, as_key, as_tuple
from rlnb.envs import faults

if TYPE_CHECKING:
    from rlnb.envs.guards import EnvGuards
    from rlnb.envs.specs import EnvSpecs


def override(env: EnvSpecs, data: TensorDictBase, given: TensorDictBase) -> None:
    """Let entries that stood under "next" before the step prevail over what the step computed.

    Args:
        env: the env.
        data: the output of the step; written to. Where an end signal is overridden, the others of its level are
            dropped, to be derived from it.
        given: what prevails.
    """
    for group in env.done_keys_groups:
        if any(given.get(key, None) is not None for key in group):
            for key in group:
                if given.get(key, None) is None and data.get(key, None) is not None:
                    data.del_(key)
    data.update(given)


def complete_done(env: EnvGuards, data: TensorDictBase, at_reset: bool = False) -> None:
    """Write the end signals that the env did not give, so that ``done == terminated | truncated`` holds.

    A lone "done" is read as "terminated", unless "truncated" explains it. A level that has no signal at all is not
    done: a reset may leave them out, and a step warns of it once.

    Args:
        env: whose specs say which signals there are.
        data: the output of a reset or step; written to.
        at_reset: whether a reset gave it.
    """
    for group in env.done_keys_groups:
        level = as_tuple(group[0])[:-1]
        keys = {as_tuple(key)[-1]: key for key in group}
        found = {name: data.get(as_key((*level, name)), None) for name in (DONE, TERMINATED, TRUNCATED)}
        if all(found[name] is not None for name in keys):
            continue
        done, terminated, truncated = map(_as_bool, found.values())
        if done is None and terminated is None and truncated is None:
            if not at_reset:
                env._warn_once(f"no end {level}", faults.no_end(env, group))
            spec = env.full_done_spec[keys[DONE]]
            shape = (*data.batch_size, *spec.shape[env.batch_dims :])
            done = torch.zeros(shape, dtype=torch.bool, device=data.device or env.device)
        if terminated is None:
            ended = done if done is not None else torch.zeros_like(truncated)
            terminated = ended if truncated is None else ended & ~truncated
        if truncated is None:
            truncated = torch.zeros_like(terminated) if done is None else done & ~terminated
        if done is None:
            done = terminated | truncated
        for name, value in ((DONE, done), (TERMINATED, terminated), (TRUNCATED, truncated)):
            if name in keys and found[name] is None:
                # Each signal has its own memory: writing to one in place must not change another.
                data.set(keys[name], value.to(env.full_done_spec[keys[name]].dtype, copy=True))


def _as_bool(signal: Any) -> Any:
    """Read numbers as truth values; that they are of the wrong dtype is for the check of the first step to say."""
    return signal if signal is None or signal.dtype is torch.bool else signal != 0

"""Row functions of a single Gymnasium env: observations are written straight into the rows of a TED block."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rlnb.data.ted.block import TEDBlock
from rlnb.data.ted.keys import DONE, END_KEYS, TERMINATED, TRUNCATED, NestedKey
from rlnb.envs.gym_like import reward_array

if TYPE_CHECKING:
    from rlnb.envs.libs.gym.wrapper import GymWrapper


def row_functions(env: GymWrapper, block: TEDBlock) -> tuple[Callable[[int, Any], bool], Callable[[int], None]]:
    """Make the functions that step and reset an env and write the results into rows.

    Args:
        env: the env, whose ``_fills_rows`` is True.
        block: the rows.

    Returns:
        ``step(t, action) -> done``, which writes "next" row t, and ``reset(t)``, which writes root row t.
    """
    env_step, env_reset = env._advance, env._env.reset
    reward_rows = block.next[env.reward_key].reshape(-1)
    terminated_rows, truncated_rows, done_rows = (block.next[k][:, 0] for k in (TERMINATED, TRUNCATED, DONE))
    write_next, write_root = _writer(env, block.next), _writer(env, block.root)

    def step(t: int, action: Any) -> bool:
        observation, reward, terminated, truncated, _ = env_step(action)
        if "step" in env._unchecked:
            _check_first_step(env, observation, reward)
        write_next(t, observation)
        reward_rows[t] = reward if type(reward) is float else reward_array(reward, 1).reshape(())
        if terminated or truncated:
            terminated_rows[t], truncated_rows[t], done_rows[t] = terminated, truncated, True
            return True
        return False

    def reset(t: int) -> None:
        write_root(t, env_reset()[0])

    return step, reset


def _writer(env: GymWrapper, rows: dict[NestedKey, np.ndarray]) -> Callable[[int, Any], None]:
    """Make the function that writes an observation into row t of these arrays."""
    leaves = [(leaf.writer(), rows[leaf.key]) for leaf in env._leaves]
    if env.from_pixels:
        render = env._env.render
        leaves.append((lambda frames, t, _: frames.__setitem__(t, render()), rows["pixels"]))
    if len(leaves) == 1:
        write, only = leaves[0]
        return lambda t, observation: write(only, t, observation)

    def write_all(t: int, observation: Any) -> None:
        for write, array in leaves:
            write(array, t, observation)

    return write_all


def _check_first_step(env: GymWrapper, observation: Any, reward: Any) -> None:
    entries = env.read_obs(observation)
    entries.update({key: torch.zeros(1, dtype=torch.bool) for key in END_KEYS})
    entries[env.reward_key] = env.read_reward(reward)
    env._check_data(env._assemble(entries, {}), "step")

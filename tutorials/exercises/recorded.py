"""Rollouts that exercises ask about, and words for the steps in them."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rlnb.envs import GymEnv

TIME_LIMIT = 40
_SEED = 5  # one episode is terminated, then two are truncated, and the last one is not finished


def cart_pole(max_episode_steps: int = TIME_LIMIT) -> GymEnv:
    """Make a cart pole whose actions are 0 and 1 and whose episodes are truncated early."""
    env = GymEnv("CartPole-v1", categorical_action_encoding=True, max_episode_steps=max_episode_steps)
    env.allow_done_after_reset = True  # a loop that steps beyond the end is to run, and its data to be looked at
    return env


def several_episodes(steps: int = 140) -> TensorDictBase:
    """Record several episodes in a row; the rewards are 1, 2, 3 ..., so that no two sums of them are alike.

    Args:
        steps: how many in all.

    Returns:
        A TED of shape ``[steps]``.
    """
    env = cart_pole()
    env.set_seed(_SEED)
    td = env.rollout(steps, _lean, break_when_any_done=False)
    td["next", "reward"] = torch.arange(1.0, steps + 1).unsqueeze(-1)
    return td


def _lean(observation: torch.Tensor) -> int:
    return int(observation[2] > 0)


def where(flags: torch.Tensor) -> list[int]:
    """List the steps at which a flag of shape ``[T]`` or ``[T, 1]`` is set."""
    steps: list[int] = flags.reshape(-1).nonzero().reshape(-1).tolist()
    return steps


def some(steps: list[int], most: int = 6) -> str:
    """Name the first of some steps in words.

    Example:
        >>> some([3, 4, 9], most=2)
        '3, 4 and 1 more'
    """
    return ", ".join(map(str, steps[:most])) + (f" and {len(steps) - most} more" if len(steps) > most else "")

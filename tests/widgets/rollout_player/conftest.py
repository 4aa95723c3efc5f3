"""Rollouts made by plain Gymnasium loops, and small handmade ones."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from tensordict import TensorDict


def gym_rollout(env_id: str, steps: int, seed: int = 0, limit: int | None = None, action: Any = None) -> TensorDict:
    """Play `steps` steps, reset where an episode ends, and store them as TED."""
    env = gym.make(env_id, max_episode_steps=limit)
    rng = np.random.default_rng(seed)
    observation, _ = env.reset(seed=seed)
    columns: dict[str, list[Any]] = {name: [] for name in ("observation", "action", "after", "reward", "ends")}
    for t in range(steps):
        if action is not None:
            act = action(t)
        elif hasattr(env.action_space, "n"):
            act = int(rng.integers(env.action_space.n))
        else:
            act = rng.uniform(env.action_space.low, env.action_space.high).astype(np.float32)
        after, reward, terminated, truncated, _ = env.step(act)
        row = (observation, act, after, [float(reward)], [bool(terminated), bool(truncated)])
        for column, value in zip(columns.values(), row, strict=True):
            column.append(np.asarray(value))
        observation = after
        if terminated or truncated:
            observation, _ = env.reset()
    made = {name: torch.from_numpy(np.stack(column)) for name, column in columns.items()}
    terminated, truncated = made["ends"].unsqueeze(-1).unbind(1)
    ends = {"done": terminated | truncated, "terminated": terminated, "truncated": truncated}
    following = {"observation": made["after"], "reward": made["reward"].float(), **ends}
    before = {name: torch.zeros_like(flag) for name, flag in ends.items()}
    root = {"observation": made["observation"], "action": made["action"]}
    return TensorDict({**root, **before, "next": following}, [steps])


@pytest.fixture(scope="session")
def rollout():
    return gym_rollout


@pytest.fixture(scope="session")
def cartpole():
    return gym_rollout("CartPole-v1", 120)


@pytest.fixture(scope="session")
def batch():
    return torch.stack([gym_rollout("CartPole-v1", 60, seed=s) for s in range(3)])


@pytest.fixture
def tiny():
    """Write a rollout by hand, as in ``tiny(done=[0, 1], reward=[1.0, 2.0], x=[...], next_x=[...])``."""

    def tiny(reward=None, done=None, terminated=None, truncated=None, **entries):
        steps = len(next(v for v in (reward, done, terminated, truncated, *entries.values()) if v is not None))
        flags = {"done": done, "terminated": terminated, "truncated": truncated}
        following = {k: torch.tensor(v, dtype=torch.bool)[:, None] for k, v in flags.items() if v is not None}
        if reward is not None:
            following["reward"] = torch.tensor(reward, dtype=torch.float32)[:, None]
        root = {}
        for name, value in entries.items():
            side = following if name.startswith("next_") else root
            side[name.removeprefix("next_")] = value if isinstance(value, torch.Tensor) else torch.tensor(value)
        return TensorDict({**root, "next": TensorDict(following, [steps])}, [steps])

    return tiny

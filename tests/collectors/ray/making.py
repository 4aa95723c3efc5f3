"""Policies and envs of the tests of collectors on Ray."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import torch
from tensordict.nn import TensorDictModule
from torch import nn

from rlnb.envs import GymEnv, GymWrapper
from tests.collectors.multi.making import wait_for

FAIL, HANG = 1000.0, 2000.0


class Commanded(nn.Module):
    """Acts with its weight, and misbehaves with some weights, so that one actor can be used for many tests."""

    def __init__(self, value: float = 0.0) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.tensor([value]))

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        if self.value == FAIL:
            raise ZeroDivisionError("division by zero")
        if self.value == HANG:
            time.sleep(1000)
        return self.value.expand(*observation.shape[:-1], 1)


def commanded(value: float = 0.0) -> TensorDictModule:
    return TensorDictModule(Commanded(value), ["observation"], ["action"])


@contextlib.contextmanager
def shut(collector: Any) -> Iterator[Any]:
    """Shut a collector, or a buffer, down at the end of the block."""
    try:
        yield collector
    finally:
        collector.shutdown()


def kill(collector: Any, i: int) -> None:
    """Kill an actor, and wait until its process has ended: Ray does not wait, and a batch may still come of it."""
    import ray

    place = collector.places()[i]
    ray.kill(collector.remote_collectors[i])
    wait_for(lambda: not os.path.exists(f"/proc/{place['pid']}"))


class Pixels(gymnasium.Env):
    """Four pictures of 84 x 84 bytes, as of an Atari game."""

    observation_space = gymnasium.spaces.Box(0, 255, (4, 84, 84), np.uint8)
    action_space = gymnasium.spaces.Discrete(6)

    def reset(self, *, seed=None, options=None):
        return np.zeros((4, 84, 84), np.uint8), {}

    def step(self, action):
        return np.zeros((4, 84, 84), np.uint8), 0.0, False, False, {}


PICTURES = "pictures, 4 x 84 x 84"
ENVS = {
    "CartPole-v1": lambda: GymEnv("CartPole-v1"),
    "Pendulum-v1": lambda: GymEnv("Pendulum-v1"),
    PICTURES: lambda: GymWrapper(Pixels()),
}
POLICIES = {
    "4-64-64-2": nn.Sequential(nn.Linear(4, 64), nn.Linear(64, 64), nn.Linear(64, 2)),
    "a million weights": nn.Sequential(nn.Linear(4, 1000), nn.Linear(1000, 1000), nn.Linear(1000, 2)),
}

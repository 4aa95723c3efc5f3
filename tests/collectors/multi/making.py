"""Envs and policies of the tests of collectors on several processes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from tensordict.nn import TensorDictModule
from torch import nn

from rlnb.collectors import MultiCollector
from rlnb.envs import CartPoleEnv, GymEnv, SerialEnv, SpreadEnv, StepCounter, TransformedEnv

IDS = ("collector", "traj_ids")


def counted() -> TransformedEnv:
    """A pendulum that counts its steps; episodes do not end by themselves for a long time."""
    return TransformedEnv(GymEnv("Pendulum-v1"), StepCounter())


def pole() -> TransformedEnv:
    return TransformedEnv(GymEnv("CartPole-v1"), StepCounter())


def linear() -> TensorDictModule:
    return TensorDictModule(nn.Linear(3, 1), ["observation"], ["action"])


class Constant(nn.Module):
    """Acts with its weight, whatever it sees."""

    def __init__(self, value: float = 0.0) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.tensor([value]))

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        return self.value.expand(*observation.shape[:-1], 1)


def constant(value: float = 0.0) -> TensorDictModule:
    return TensorDictModule(Constant(value), ["observation"], ["action"])


class Noisy(nn.Module):
    """Draws its action with torch's generator."""

    def forward(self, observation: torch.Tensor, *others: Any) -> torch.Tensor:
        drawn = torch.randint(2, observation.shape[:-1])
        return nn.functional.one_hot(drawn, 2)


ENVS = {
    "rows": (lambda: GymEnv("CartPole-v1"), Noisy),
    "transformed": (pole, Noisy),
    "serial": (lambda: SerialEnv(2, lambda: GymEnv("CartPole-v1")), Noisy),
    "torch batch": (lambda: CartPoleEnv(batch_size=[2], max_steps=9), None),
    "agents": (lambda: SpreadEnv(2, 3, agent_done=True, max_steps=7, batch_size=[2]), None),
}


@contextlib.contextmanager
def shut(collector: MultiCollector) -> Iterator[Any]:
    """Shut a collector down at the end of the block."""
    try:
        yield collector
    finally:
        collector.shutdown()


def wait_for(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until a condition holds, and fail if it does not in time."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"it did not happen within {seconds:g} s"
        time.sleep(0.005)

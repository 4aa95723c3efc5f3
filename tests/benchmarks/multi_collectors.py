"""Times collectors on several processes of one library; prints JSON of the best seconds of each case.

The cases are the frames of CartPole with a small network, a learner that takes 20 ms a batch beside an env whose step
sleeps 1 ms, an update of a million weights, and the start of four workers to their first batch.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from tensordict.nn import TensorDictModule
from torch import nn

NAME = sys.argv[1] if __name__ == "__main__" else "rlnb"
FRAMES, BATCHES = 400, 5
SLEEPING, LEARNING, STEPS, UPDATES = 0.001, 0.02, 20, 20


class Network(nn.Module):
    """A network of two layers that acts greedily."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, width), nn.Linear(width, 2))

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        """Return the action, one-hot."""
        return nn.functional.one_hot(self.layers(observation).argmax(-1), 2)


def policy(width: int = 64) -> TensorDictModule:
    """Make a policy."""
    return TensorDictModule(Network(width), ["observation"], ["action"])


def pole(name: str) -> Any:
    """Make CartPole."""
    return importlib.import_module(f"{name}.envs").GymEnv("CartPole-v1")


def sleeping(name: str) -> Any:
    """Make CartPole whose step sleeps."""
    import gymnasium

    class Sleeping(gymnasium.Wrapper):
        def step(self, action: Any) -> Any:
            time.sleep(SLEEPING)
            return self.env.step(action)

    return importlib.import_module(f"{name}.envs").GymWrapper(Sleeping(gymnasium.make("CartPole-v1")))


class Make:
    """Makes an env of a library; a class, because not every library can send a lambda to a process."""

    def __init__(self, make: Callable[[str], Any], name: str) -> None:
        self.make, self.name = make, name

    def __call__(self) -> Any:
        """Make the env."""
        return self.make(self.name)


@contextlib.contextmanager
def open_collector(kind: Any, make: Any, **options: Any) -> Iterator[Any]:
    """Make a collector, and shut it down at the end."""
    collector = kind(make, options.pop("policy", None) or policy(), **options)
    try:
        yield collector
    finally:
        collector.shutdown()


def frames(kind: Any, make: Any, rounds: int) -> float:
    """Seconds a frame."""
    best = float("inf")
    with open_collector(kind, make, frames_per_batch=FRAMES, total_frames=-1) as collector:
        batches = iter(collector)
        next(batches), next(batches)
        for _ in range(rounds * BATCHES):
            start = time.perf_counter()
            next(batches)
            best = min(best, (time.perf_counter() - start) / FRAMES)
    return best


def learning(kind: Any, make: Any, steps: int) -> float:
    """Seconds a batch, with a learner."""
    with open_collector(kind, [make] * 2, frames_per_batch=steps, total_frames=-1) as collector:
        batches = iter(collector)
        for _ in range(4):
            next(batches)
        start, count = time.perf_counter(), 25
        for _ in range(count):
            next(batches)
            time.sleep(LEARNING)
        return (time.perf_counter() - start) / count


def update(kind: Any, make: Any) -> float:
    """Seconds of an update of a million weights, after which a batch is collected."""
    best = float("inf")
    large = policy(1000)
    with open_collector(kind, [make] * 2, policy=large, frames_per_batch=20, total_frames=-1) as collector:
        batches = iter(collector)
        for _ in range(UPDATES):
            next(batches)
            start = time.perf_counter()
            collector.update_policy_weights_(large)
            best = min(best, time.perf_counter() - start)
    return best


def starting(kind: Any, make: Any, **options: Any) -> float:
    """Seconds from the call of the constructor to the first batch of four workers."""
    start = time.perf_counter()
    with open_collector(kind, [make] * 4, frames_per_batch=80, total_frames=-1, **options) as collector:
        next(iter(collector))
        return time.perf_counter() - start


def main(name: str, rounds: int) -> None:
    """Print the best time of each case."""
    torch.set_num_threads(1)
    collectors, envs = (importlib.import_module(f"{name}.{part}") for part in ("collectors", "envs"))
    sync, asynchronous = collectors.MultiSyncCollector, collectors.MultiAsyncCollector
    make, slow = Make(pole, name), Make(sleeping, name)
    found = {"start of four workers": starting(sync, make)}
    found["MultiSync(2)"] = frames(sync, [make] * 2, rounds)
    found["update of 1,008,002 weights"] = update(sync, make)
    if name == "rlnb":  # these are not compared with others, whose workers take long to start
        found["start of four workers, forkserver"] = starting(sync, make, mp_start_method="forkserver")
        found["Collector of ParallelEnv(2)"] = frames(collectors.Collector, lambda: envs.ParallelEnv(2, make), rounds)
        found["one Collector"] = frames(collectors.Collector, make, rounds)
        found["learning, synchronous"] = learning(sync, slow, 2 * STEPS)
        found["learning, asynchronous"] = learning(asynchronous, slow, 2 * STEPS)
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(NAME, int(sys.argv[2]))

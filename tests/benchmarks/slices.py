"""Times slices of trajectories of one library; prints JSON of the best seconds of each case."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

CAPACITY, BATCH, SLICE, BLOCK, EPISODE = 1_000_000, 256, 32, 1000, 200
Cases = dict[str, tuple[Callable[[], object], int]]


def ted(first: int, n: int) -> Any:
    """TED data of ten leaves, in episodes of 200 steps."""
    import torch
    from tensordict import TensorDict

    step = torch.arange(first, first + n)
    done = (step % EPISODE == EPISODE - 1)[:, None]

    def flags() -> Any:
        return torch.zeros(n, 1, dtype=torch.bool)

    below = {"observation": torch.randn(n, 4), "reward": torch.randn(n, 1)}
    below |= {"done": done, "terminated": done.clone(), "truncated": flags()}
    root = {"observation": torch.randn(n, 4), "action": torch.randn(n, 2), "done": flags(), "terminated": flags()}
    return TensorDict({**root, "episode": step // EPISODE, "next": TensorDict(below, [n])}, [n])


def filled(data: Any, sampler: Any) -> Any:
    """A full buffer."""
    rb = data.TensorDictReplayBuffer(storage=data.LazyTensorStorage(CAPACITY), sampler=sampler, batch_size=BATCH)
    for first in range(0, CAPACITY, 100_000):
        rb.extend(ted(first, 100_000))
    return rb


def cases_of(name: str) -> Cases:
    """The cases: each way to tell trajectories apart, kept and not, and sampling in turn with writing."""
    import torch

    torch.set_num_threads(1)
    data = importlib.import_module(f"{name}.data")
    buffers = importlib.import_module(f"{name}.data.replay_buffers")
    block = ted(CAPACITY, BLOCK)
    cases: Cases = {}
    rb = filled(data, buffers.SliceSampler(slice_len=SLICE, end_key=("next", "done")))
    asked: dict[str, dict[str, Any]] = {
        "by end_key": {"end_key": ("next", "done")},
        "by traj_key": {"traj_key": "episode"},
        "by end_key, cached": {"end_key": ("next", "done"), "cache_values": True},
    }

    def turn(sampler: Any) -> None:
        rb.set_sampler(sampler)
        rb.sample()

    def write(sampler: Any) -> None:
        rb.set_sampler(sampler)
        rb.extend(block)
        rb.sample()

    for case, arguments in asked.items():
        sampler = buffers.SliceSampler(slice_len=SLICE, **arguments)
        cases[case] = (lambda sampler=sampler: turn(sampler), 20)
    sampler = buffers.SliceSampler(slice_len=SLICE, end_key=("next", "done"))
    cases["extend(1000), by end_key"] = (lambda: write(sampler), 20)
    without = buffers.SliceSamplerWithoutReplacement(slice_len=SLICE, end_key=("next", "done"))
    cases["without replacement"] = (lambda: turn(without), 20)
    if name == "rlnb":
        prioritized = buffers.PrioritizedSliceSampler(CAPACITY, 0.6, 0.4, slice_len=SLICE, end_key=("next", "done"))
        cases["prioritized"] = (lambda: turn(prioritized), 20)
    return cases


def main(name: str, rounds: int) -> None:
    """Print the best time of each case in seconds a call.

    Args:
        name: "rlnb" or "torchrl".
        rounds: how often each case is tried.
    """
    cases = cases_of(name)
    best = {key: float("inf") for key in cases}
    for call, _ in cases.values():
        call()
    for _ in range(rounds):
        for key, (call, calls) in cases.items():
            start = time.process_time()
            for _ in range(calls):
                call()
            best[key] = min(best[key], (time.process_time() - start) / calls)
    print(json.dumps(best))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

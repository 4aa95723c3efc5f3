"""Times the frames that one library's collector collects from CartPole; prints JSON of the best seconds a frame."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

FRAMES_PER_BATCH, BATCHES = 200, 5
FRAMES = FRAMES_PER_BATCH * BATCHES


def loops(name: str) -> dict[str, Callable[[], object]]:
    """Random steps of one env and of four, handed out or written into a buffer."""
    collectors, data, envs = (importlib.import_module(f"{name}.{part}") for part in ("collectors", "data", "envs"))

    def one() -> Any:
        return envs.GymEnv("CartPole-v1")

    def collect(make: Callable[[], Any], **kwargs: Any) -> Callable[[], object]:
        env = make()
        policy = collectors.RandomPolicy(env.full_action_spec[env.action_key])
        collector = collectors.Collector(
            lambda: env, policy, frames_per_batch=FRAMES_PER_BATCH, total_frames=-1, **kwargs
        )
        batches = iter(collector)
        return lambda: [next(batches) for _ in range(BATCHES)]

    buffer = data.TensorDictReplayBuffer(storage=data.LazyTensorStorage(10_000))
    return {
        "batches handed out": collect(one),
        "into a buffer": collect(one, replay_buffer=buffer),
        "SerialEnv(4)": collect(lambda: envs.SerialEnv(4, one)),
    }


def main(name: str, rounds: int) -> None:
    """Print the best time of each case, in seconds a frame."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    cases = loops(name)
    best = dict.fromkeys(cases, float("inf"))
    for loop in cases.values():
        loop()
    for _ in range(rounds):
        for key, loop in cases.items():
            start = time.perf_counter()
            loop()
            best[key] = min(best[key], (time.perf_counter() - start) / FRAMES)
    print(json.dumps(best), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

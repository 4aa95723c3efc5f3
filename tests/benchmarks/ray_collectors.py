"""Times collectors on Ray, on this machine; prints JSON of the best seconds of each case.

The cases are those of ``multi_collectors.py``: the frames of CartPole with a small network, in small and large batches,
an update of a million weights, and the start of four actors; and beside them the passage of a batch of pictures.
"""

from __future__ import annotations

import json
import sys
import time

import multi_collectors as multi  # in this folder
import ray
import torch
from tensordict import TensorDict

from rlnb._ray import pack, unpack
from rlnb.collectors import RayCollector

LARGE = 10 * multi.FRAMES
PICTURES, SHAPE = 200, (4, 84, 84)
FREE = {"num_cpus": 0}  # a machine with fewer cores starts four actors, too


class OnRay:
    """A collector with two actors, in the place of one with two processes."""

    def __new__(cls, make, policy, **options) -> RayCollector:
        """Make the collector."""
        return RayCollector(make, policy, sync=True, remote_configs=FREE, **options)


def large(make: multi.Make, rounds: int) -> float:
    """Seconds a frame, in batches of ten times as many."""
    best = float("inf")
    with multi.open_collector(OnRay, [make] * 2, frames_per_batch=LARGE, total_frames=-1) as collector:
        batches = iter(collector)
        next(batches)
        for _ in range(rounds):
            start = time.perf_counter()
            next(batches)
            best = min(best, (time.perf_counter() - start) / LARGE)
    return best


def passage(rounds: int) -> float:
    """Seconds of a batch of pictures from one process to another, through the object store."""

    @ray.remote(num_cpus=0)
    class Source:
        def batch(self):
            return pack(TensorDict({"pixels": torch.zeros(PICTURES, *SHAPE, dtype=torch.uint8)}, [PICTURES]))

    best, source = float("inf"), Source.remote()
    for _ in range(1 + 3 * rounds):
        start = time.perf_counter()
        unpack(ray.get(source.batch.remote()))
        best = min(best, time.perf_counter() - start)
    return best


def main(rounds: int) -> None:
    """Print the best time of each case."""
    torch.set_num_threads(1)
    make = multi.Make(multi.pole, "rlnb")
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="error")
    found = {"RayCollector: start of four actors": multi.starting(OnRay, make)}
    found["RayCollector(2)"] = multi.frames(OnRay, [make] * 2, rounds)
    found[f"RayCollector(2), {LARGE:,} frames a batch"] = large(make, rounds)
    found["RayCollector(2): update of 1,008,002 weights"] = multi.update(OnRay, make)
    found[f"Ray: {PICTURES} steps of {SHAPE[0]} x {SHAPE[1]} x {SHAPE[2]} bytes"] = passage(rounds)
    ray.shutdown()
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[2]))

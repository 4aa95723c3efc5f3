"""Times one library's Composite specs; runs under any interpreter that has that library, and prints JSON."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable

CALLS = 300


def cases(package: str) -> dict[str, Callable[[], object]]:
    """What a spec of eight leaves on three levels does all day."""
    import torch

    data = importlib.import_module(f"{package}.data")
    torch.manual_seed(0)
    spec = data.Composite(
        observation=data.Composite(
            position=data.Bounded(-1, 1, (3,)), velocity=data.Unbounded(3), mode=data.Categorical(4)
        ),
        agent=data.Composite(
            action=data.OneHot(5), sub=data.Composite(gears=data.MultiCategorical([2, 3]), lights=data.Binary(4))
        ),
        reward=data.Unbounded(1),
        done=data.Categorical(2, (1,), dtype=torch.bool),
    )
    value = spec.rand()
    assert spec.is_in(value)
    return {
        "rand": spec.rand,
        "is_in": lambda: spec.is_in(value),
        "project": lambda: spec.project(value),
        "zero": spec.zero,
    }


def main(name: str, rounds: int) -> None:
    """Print the best time of each case, in seconds a call."""
    import torch

    torch.set_num_threads(1)
    calls = cases(name)
    best = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        call()
    for _ in range(rounds):
        for key, call in calls.items():
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            best[key] = min(best[key], (time.perf_counter() - start) / CALLS)
    print(json.dumps(best))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

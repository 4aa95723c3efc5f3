"""Times replay buffers of one library; prints JSON of the best seconds of each case."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

CAPACITY, LARGE, BATCH, BLOCK, LISTED, IMAGES = 200_000, 1_000_000, 256, 1000, 10_000, 10_000
UPDATES = 200  # in a row: so many that putting them off until something is drawn would gain nothing
Cases = dict[str, tuple[Callable[[], object], int]]


def ted(n: int) -> Any:
    """TED data of nine leaves."""
    import torch
    from tensordict import TensorDict

    observation = torch.randn(n, 4)

    def flags() -> Any:
        return torch.zeros(n, 1, dtype=torch.bool)

    below = {"observation": observation.clone(), "reward": torch.randn(n, 1)}
    below |= {"done": flags(), "terminated": flags(), "truncated": flags()}
    root = {"observation": observation, "action": torch.randn(n, 2), "done": flags(), "terminated": flags()}
    return TensorDict({**root, "next": TensorDict(below, [n])}, [n])


def filled(data: Any, storage: Any, capacity: int, kind: str = "TensorDictReplayBuffer", **kwargs: Any) -> Any:
    """A buffer filled with TED data, in blocks."""
    rb = getattr(data, kind)(storage=storage, batch_size=BATCH, **kwargs)
    for _ in range(capacity // BLOCK):
        rb.extend(ted(BLOCK))
    return rb


def contiguous(data: Any) -> Cases:
    """Writing and sampling steps, in memory and in files."""
    block = ted(BLOCK)
    step = block[0].clone()
    cases: Cases = {}
    storages = {"LazyTensorStorage": data.LazyTensorStorage(CAPACITY)}
    storages["LazyMemmapStorage"] = data.LazyMemmapStorage(CAPACITY)
    for name, storage in storages.items():
        rb = filled(data, storage, CAPACITY)
        cases[f"{name}: sample"] = (rb.sample, 100)
        cases[f"{name}: add"] = (lambda rb=rb: rb.add(step), 100)
        cases[f"{name}: extend"] = (lambda rb=rb: rb.extend(block), 20)
    rb = filled(data, data.LazyTensorStorage(CAPACITY), CAPACITY, sampler=data.SamplerWithoutReplacement())
    cases["without replacement: sample"] = (rb.sample, 100)
    listed = filled(data, data.ListStorage(LISTED), LISTED)
    cases["ListStorage: sample"] = (listed.sample, 2)
    added = data.TensorDictReplayBuffer(storage=data.ListStorage(LISTED), batch_size=BATCH)
    for item in ted(LISTED).unbind(0):
        added.add(item.clone())
    cases["ListStorage, added one by one: sample"] = (added.sample, 2)
    return cases


def images(data: Any) -> Cases:
    """Sampling frames of 84 x 84 bytes, beside a gather of torch."""
    import torch

    frames = torch.randint(0, 255, (IMAGES, 84, 84), dtype=torch.uint8)
    rb = data.ReplayBuffer(storage=data.LazyTensorStorage(IMAGES), batch_size=BATCH)
    rb.extend(frames)

    def gather() -> object:
        return frames.index_select(0, torch.randint(0, IMAGES, (BATCH,)))

    return {"frames: sample": (rb.sample, 50), "frames: torch gather": (gather, 50)}


def prioritized(data: Any) -> Cases:
    """A million priorities: sampling, updating, and the two in turn."""
    import torch

    storage = data.LazyTensorStorage(LARGE)
    rb = filled(data, storage, LARGE, "TensorDictPrioritizedReplayBuffer", alpha=0.6, beta=0.4)
    rb.update_priority(torch.arange(LARGE), torch.rand(LARGE) + 0.1)
    index, priority = rb.sample()["index"], torch.rand(BATCH)

    def turn() -> None:
        rb.update_priority(rb.sample()["index"], priority)

    return {
        "prioritized: sample": (rb.sample, 50),
        "prioritized: update": (lambda: rb.update_priority(index, priority), UPDATES),
        "prioritized: sample, update": (turn, 50),
    }


def cpprb() -> Cases:
    """The same of cpprb, whose sample is a dictionary of arrays."""
    import numpy as np
    from cpprb import PrioritizedReplayBuffer

    flag = {"dtype": np.bool_}
    names = {"observation": {"shape": 4}, "action": {"shape": 2}, "done": flag, "terminated": flag}
    names |= {"next_observation": {"shape": 4}, "reward": {}, "next_done": flag, "next_terminated": flag}
    names |= {"truncated": flag}
    rb = PrioritizedReplayBuffer(LARGE, names, alpha=0.6)
    steps = {
        name: np.zeros((LARGE, leaf.get("shape", 1)), leaf.get("dtype", np.float32)) for name, leaf in names.items()
    }
    rb.add(**steps, priorities=np.random.rand(LARGE) + 0.1)
    index, priority = rb.sample(BATCH, beta=0.4)["indexes"], np.random.rand(BATCH)

    def turn() -> None:
        rb.update_priorities(rb.sample(BATCH, beta=0.4)["indexes"], priority)

    return {
        "prioritized: sample": (lambda: rb.sample(BATCH, beta=0.4), 50),
        "prioritized: update": (lambda: rb.update_priorities(index, priority), UPDATES),
        "prioritized: sample, update": (turn, 50),
    }


def cases_of(name: str) -> Cases:
    """The cases that a library has."""
    if name == "cpprb":
        return cpprb()
    import torch

    torch.set_num_threads(1)
    data = importlib.import_module(f"{name}.data")
    cases = {**contiguous(data), **images(data)}
    try:
        cases |= prioritized(data)
    except RuntimeError as error:  # a wheel whose compiled extension does not load has no trees
        print(f"{name}: no prioritized sampling ({error})", file=sys.stderr)
    return cases


def main(name: str, rounds: int) -> None:
    """Print the best time of each case in seconds a call.

    Args:
        name: "rlnb", "torchrl" or "cpprb".
        rounds: how often each case is tried.
    """
    cases = cases_of(name)
    best = {key: float("inf") for key in cases}
    for call, _ in cases.values():
        call()
    # The cases take turns, so that a busy moment of the machine hits all of them.
    for _ in range(rounds):
        for key, (call, calls) in cases.items():
            start = time.process_time()  # each works in one thread; what else the machine does counts less so
            for _ in range(calls):
                call()
            best[key] = min(best[key], (time.process_time() - start) / calls)
    print(json.dumps(best))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

"""Times checkpoints of replay buffers of one library; prints JSON of the best seconds of each case, and their bytes."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEPS, FRAMES, OBSERVATION, TRAJECTORY = 500_000, 20_000, 64, 200


def flags(n: int) -> Any:
    """End signals that are never set."""
    import torch

    return torch.zeros(n, 1, dtype=torch.bool)


def ted(n: int, shape: tuple[int, ...], dtype: Any) -> Any:
    """TED data of nine leaves, in trajectories of one length."""
    import torch
    from tensordict import TensorDict

    observation = torch.rand(n + 1, *shape).mul_(200).to(dtype)
    done = flags(n)
    done[TRAJECTORY - 1 :: TRAJECTORY] = True
    after = observation[1:].clone()
    after[done[:, 0]] += 1
    below = {"observation": after, "reward": torch.rand(n, 1), "done": done}
    below |= {"terminated": done.clone(), "truncated": flags(n)}
    root = {"observation": observation[:-1].clone(), "action": torch.rand(n, 2), "done": flags(n)}
    return TensorDict({**root, "terminated": flags(n), "next": TensorDict(below, [n])}, [n])


def sync(folder: Path) -> None:
    """Wait until files are on the disk, where a library did not."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())


def cases_of(data: Any, where: Path, syncs: bool) -> dict[str, Callable[[], dict[str, float]]]:
    """What is measured: each case saves a buffer, to the disk, loads it into a new one, and again into that.

    Args:
        data: the module ``data`` of a library.
        where: a folder to write to.
        syncs: whether what ``dumps`` of the library wrote is on the disk when it returns.
    """
    import torch

    steps, small = ted(STEPS, (4,), torch.float32), ted(STEPS // 10, (OBSERVATION,), torch.float32)
    frames = ted(FRAMES, (84, 84), torch.uint8).select("observation", "action", ("next", "reward"), ("next", "done"))
    storages = {"LazyTensorStorage": data.LazyTensorStorage, "LazyMemmapStorage": data.LazyMemmapStorage}
    cases: dict[str, Callable[[], dict[str, float]]] = {}

    def case(name: str, content: Any, storage: Any, checkpointer: Any = None) -> None:
        def make() -> Any:
            made = storage(len(content))
            if checkpointer is not None:
                made.checkpointer = checkpointer()
            return data.ReplayBuffer(storage=made)

        def measure() -> dict[str, float]:
            rb, other, folder = make(), make(), where / "checkpoint"
            rb.extend(content)
            shutil.rmtree(folder, ignore_errors=True)
            found = {}
            calls = {
                "dumps": lambda: rb.dumps(folder),
                "sync": lambda: sync(folder),
                "loads": lambda: other.loads(folder),
                "loads again": lambda: other.loads(folder),
            }
            if syncs:
                del calls["sync"]
            for part, call in calls.items():
                start, begun = time.perf_counter(), time.process_time()
                call()
                found[f"{name}: {part}, CPU"] = time.process_time() - begun
                found[f"{name}: {part}"] = time.perf_counter() - start
            files = (path for path in folder.rglob("*") if path.is_file())
            found[f"{name}: bytes"] = float(sum(path.stat().st_size for path in files))
            return found

        cases[name] = measure

    for name, storage in storages.items():
        case(f"{name}, steps", steps, storage)
        case(f"{name}, frames", frames, storage)
    case("plain, 64 numbers", small, data.LazyTensorStorage)
    case("flat, 64 numbers", small, data.LazyTensorStorage, data.FlatStorageCheckpointer)
    case("nested, 64 numbers", small, data.LazyTensorStorage, data.NestedStorageCheckpointer)
    case("h5, 64 numbers", small, data.LazyTensorStorage, data.H5StorageCheckpointer)
    return cases


def main(name: str, rounds: int) -> None:
    """Print the best time of each case in seconds a call, and its bytes.

    Args:
        name: "rlnb" or "torchrl".
        rounds: how often each case is tried.
    """
    import torch

    torch.set_num_threads(1)
    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as where:
        cases = cases_of(importlib.import_module(f"{name}.data"), Path(where), syncs=name == "rlnb")
        # The cases take turns, so that a busy moment of the machine hits all of them.
        for _ in range(rounds):
            for key, measure in list(cases.items()):
                try:
                    found = measure()
                except Exception as error:  # a peer that fails at one case is measured at the others
                    print(f"{name}: {key} failed: {str(error).splitlines()[:1]}", file=sys.stderr)
                    del cases[key]
                    continue
                best |= {part: min(value, best.get(part, value)) for part, value in found.items()}
    print(json.dumps(best))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

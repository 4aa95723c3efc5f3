"""Times step_mdp and the flat form of TED data in one library; prints JSON of the best seconds of each case."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

STEPS, WIDTH, EPISODE, CALLS = 1_000_000, 64, 200, 300


def rollout() -> Any:
    """A million steps of observation-heavy TED data, in episodes of 200 steps."""
    import torch
    from tensordict import TensorDict

    torch.manual_seed(0)
    ends = torch.zeros(STEPS, 1, dtype=torch.bool)
    ends[EPISODE - 1 :: EPISODE] = True
    root = torch.randn(STEPS, WIDTH)
    after = torch.cat([root[1:], torch.randn(1, WIDTH)])
    after[EPISODE - 1 :: EPISODE] += 1
    none = torch.zeros_like(ends)
    below = {"observation": after, "reward": torch.randn(STEPS, 1)}
    below |= {"done": ends, "terminated": ends.clone(), "truncated": none}
    signals = {name: none.clone() for name in ("done", "terminated", "truncated")}
    entries = {"observation": root, "action": torch.randn(STEPS, 2), **signals}
    return TensorDict({**entries, "next": TensorDict(below, [STEPS])}, [STEPS])


def ten_keys() -> Any:
    """One step of ten entries, four of them below "next"."""
    import torch
    from tensordict import TensorDict

    flag = torch.zeros(1, dtype=torch.bool)
    below = {"observation": torch.rand(4), "reward": torch.rand(1), "done": flag, "terminated": flag.clone()}
    root = {name: torch.rand(4) for name in ("observation", "hidden", "log_prob", "value")}
    return TensorDict({**root, "action": torch.rand(2), "done": flag.clone(), "next": TensorDict(below)})


def small(package: str) -> dict[str, Callable[[], object]]:
    """What is called once a step."""
    step_mdp, step = importlib.import_module(f"{package}.envs.utils").step_mdp, ten_keys()
    return {"step_mdp": lambda: step_mdp(step)}


def large(package: str, data: Any) -> dict[str, Callable[[], object]]:
    """What is called once a buffer; "copy" is the measure."""
    module = importlib.import_module(f"{package}.data")

    def there() -> Any:
        hook = module.TED2Flat()
        hook.is_full, hook.shift = False, 0
        return hook(data)

    flat = there()
    cases = {"copy": data.clone, "TED2Flat": there, "Flat2TED": lambda: module.Flat2TED()(flat)}
    cases["TED2Flat, Flat2TED"] = lambda: module.Flat2TED()(there())
    if package == "rlnb":
        cases["check_ted"] = lambda: module.check_ted(data)
        assert bool((module.Flat2TED()(flat) == data).all()) and module.check_ted(data).ok
    return cases


def share(package: str, data: Any) -> float:
    """The bytes of the flat form, as a share of those of the TED data."""
    import torch

    hook = importlib.import_module(f"{package}.data").TED2Flat()
    hook.is_full, hook.shift = False, 0

    def size(entries: Any) -> int:
        return sum(
            value.numel() * value.element_size() for value in entries.values(True, True) if torch.is_tensor(value)
        )

    return size(hook(data)) / size(data)


def main(name: str, rounds: int, threads: int) -> None:
    """Print the best time of each case in seconds a call, and "flat bytes / TED bytes".

    Args:
        name: "rlnb" or "torchrl".
        rounds: how often each case is tried.
        threads: of torch; 0 for its default.
    """
    import torch

    if threads:
        torch.set_num_threads(threads)
    data = rollout()
    best = {}
    for cases, calls in ((small(name), CALLS), (large(name, data), 1)):
        for key, call in cases.items():
            call()
            best[key] = float("inf")
        # The cases take turns, so that a busy moment of the machine hits all of them.
        for _ in range(rounds):
            for key, call in cases.items():
                start = time.perf_counter()
                for _ in range(calls):
                    call()
                best[key] = min(best[key], (time.perf_counter() - start) / calls)
    print(json.dumps({**best, "flat bytes / TED bytes": share(name, data)}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1)

"""Times batched envs of one library; prints JSON, in seconds a step of all envs, and in seconds for starts and ends."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

STEPS = 1000
PICTURE_STEPS = 300
#: A library that takes milliseconds a step is given fewer of them, so that the whole takes a minute and not ten.
SHORTER = {"torchrl": 10}


class Pictures(gymnasium.Env):
    """Gives an 84 x 84 picture a step, and takes no time for it."""

    observation_space = gymnasium.spaces.Box(0, 255, (84, 84, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self) -> None:
        self.pictures = np.random.default_rng(0).integers(0, 256, (8, 84, 84, 3), dtype=np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.t = 0
        return self.pictures[0], {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.t += 1
        return self.pictures[self.t % 8], 1.0, self.t % 100 == 0, False, {}


Cases = dict[str, Callable[[], Any]]


def gymnasium_cases() -> tuple[Cases, Callable[[int], Any], list[Any]]:
    """Gymnasium's vector envs: what is timed, how envs are started, and which are open."""
    from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

    def stepping(env: Any, steps: int) -> Callable[[], None]:
        env.reset(seed=0)

        def run() -> None:
            for _ in range(steps):
                env.step(env.action_space.sample())

        return run

    def cart_pole() -> Any:
        return gymnasium.make("CartPole-v1", disable_env_checker=True)

    serial = SyncVectorEnv([cart_pole] * 4)
    two, eight, shown = (
        AsyncVectorEnv(made, shared_memory=True) for made in ([cart_pole] * 2, [cart_pole] * 8, [Pictures] * 4)
    )
    cases = {
        "serial 4": stepping(serial, STEPS),
        "parallel 2": stepping(two, STEPS),
        "parallel 8": stepping(eight, STEPS),
        "pictures 4": stepping(shown, PICTURE_STEPS),
    }
    return cases, lambda n: AsyncVectorEnv([cart_pole] * n, shared_memory=True), [serial, two, eight, shown]


def rlnb_or_torchrl_cases(package: str) -> tuple[Cases, Callable[[int], Any], list[Any]]:
    """The batched envs of rlnb or TorchRL, as above: random rollouts, and a loop of single steps."""
    envs = importlib.import_module(f"{package}.envs")
    fewer = SHORTER.get(package, 1)

    def cart_pole() -> Any:
        return envs.GymEnv("CartPole-v1")

    def pictures() -> Any:
        return envs.GymWrapper(Pictures())

    def stepping(env: Any) -> Callable[[], None]:
        def run() -> None:
            td = env.reset()
            for _ in range(STEPS // fewer):
                _, td = env.step_and_maybe_reset(env.rand_action(td))

        return run

    def rollout(env: Any, steps: int = STEPS) -> Callable[[], Any]:
        env.set_seed(0)
        return lambda: env.rollout(steps // fewer, break_when_any_done=False)

    serial, two, eight = envs.SerialEnv(4, cart_pole), envs.ParallelEnv(2, cart_pole), envs.ParallelEnv(8, cart_pole)
    opened = [serial, two, eight, envs.ParallelEnv(4, pictures)]
    cases = {
        "serial 4": rollout(serial),
        "parallel 2": rollout(two),
        "parallel 8": rollout(eight),
        "pictures 4": rollout(opened[-1], PICTURE_STEPS),
        "serial 4, by step": stepping(serial),
        "parallel 2, by step": stepping(two),
        "parallel 8, by step": stepping(eight),
    }
    if package == "rlnb":
        opened.append(envs.ParallelEnv(8, cart_pole, num_processes=2))
        cases["parallel 8 on 2 processes"] = rollout(opened[-1])
    return cases, lambda n: envs.ParallelEnv(n, cart_pole), opened


def life(make: Callable[[int], Any], times: dict[str, float]) -> None:
    """Time starting four envs up to the first reset, and closing them, twice."""
    for name in ("first start", "second start"):
        start = time.perf_counter()
        env = make(4)
        env.reset()
        times[name] = time.perf_counter() - start
        start = time.perf_counter()
        env.close()
        times["close"] = min(times.get("close", float("inf")), time.perf_counter() - start)


def main(name: str, rounds: int) -> None:
    """Print the best time of each case."""
    import torch

    torch.set_num_threads(1)
    times: dict[str, float] = {}
    library = gymnasium_cases if name == "gymnasium" else lambda: rlnb_or_torchrl_cases(name)
    if name != "gymnasium":  # before anything else has started
        envs = importlib.import_module(f"{name}.envs")
        life(lambda n: envs.ParallelEnv(n, lambda: envs.GymEnv("CartPole-v1")), times)
    cases, make, opened = library()
    if name == "gymnasium":
        life(make, times)
    best = dict.fromkeys(cases, float("inf"))
    for case in cases.values():
        case()
    for _ in range(rounds):
        for key, case in cases.items():
            start = time.perf_counter()
            case()
            steps = (PICTURE_STEPS if key.startswith("pictures") else STEPS) // SHORTER.get(name, 1)
            best[key] = min(best[key], (time.perf_counter() - start) / steps)
    for env in opened:  # TorchRL waits at the end for workers that nobody has told to end
        env.close()
    print(json.dumps({**times, **best}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

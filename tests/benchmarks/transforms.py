"""Times rollouts of transformed envs under one library, on one thread; prints JSON, in seconds a step."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

STEPS = 1000


def numbers(envs: Any) -> Any:
    """CartPole with a step counter, the return, and normalized observations."""
    return envs.TransformedEnv(
        envs.GymEnv("CartPole-v1"),
        envs.Compose(
            envs.StepCounter(200),
            envs.RewardSum(),
            envs.ObservationNorm(loc=0.0, scale=1.0, in_keys=["observation"]),
            envs.DoubleToFloat(),
        ),
    )


def pixels(envs: Any) -> Any:
    """The usual chain of pixels, on the frames of CartPole, 400 by 600."""
    return envs.TransformedEnv(
        envs.GymEnv("CartPole-v1", from_pixels=True, pixels_only=True),
        envs.Compose(envs.ToTensorImage(), envs.GrayScale(), envs.Resize(84), envs.CatFrames(4, dim=-3)),
    )


def frames(envs: Any) -> Any:
    """What draws these frames, under either library."""
    import gymnasium

    env = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    env.reset()
    return env


def drawing(env: Any, steps: int) -> Callable[[], object]:
    """As many frames as a rollout of so many steps."""
    return lambda: [env.render() for _ in range(steps)]


def rollout(env: Any, steps: int) -> Callable[[], object]:
    """Random steps, with resets."""
    return lambda: env.rollout(steps, break_when_any_done=False)


def stepping(env: Any, steps: int) -> Callable[[], object]:
    """The same steps one by one."""

    def loop() -> None:
        td = env.reset()
        for _ in range(steps):
            _, td = env.step_and_maybe_reset(env.rand_action(td))

    return loop


#: What is timed: makes an env, how it is stepped, and how many steps.
CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any, int], Callable[[], object]], int]] = {
    "numbers, rollout": (numbers, rollout, STEPS),
    "numbers, step_and_maybe_reset": (numbers, stepping, STEPS),
    "pixels, rollout": (pixels, rollout, 100),
    "pixels, drawing alone": (frames, drawing, 100),
}


def find_torchvision() -> bool:
    """Import what torchrl resizes with, also where its own operators, of which resizing needs none, do not load.

    They do not in a build for GPUs beside a torch without them; then torchvision fails as it describes them to torch.
    """
    import torch

    register = torch.library.register_fake
    torch.library.register_fake = lambda *args, **kwargs: lambda function: function
    try:
        importlib.import_module("torchvision")
    except ImportError:
        return False
    finally:
        torch.library.register_fake = register
    return True


def main(name: str, rounds: int) -> None:
    """Print the best time of each case, in seconds a step."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    cases = dict(CASES)
    if name == "torchrl" and not find_torchvision():
        print("torchrl, pixels: not measured, for it resizes with torchvision.", file=sys.stderr)
        del cases["pixels, rollout"]
    envs = importlib.import_module(f"{name}.envs")
    loops = {key: (step(make(envs), steps), steps) for key, (make, step, steps) in cases.items()}
    best = dict.fromkeys(loops, float("inf"))
    for loop, _ in loops.values():
        loop()
    for _ in range(rounds):
        for key, (loop, steps) in loops.items():
            start = time.perf_counter()
            loop()
            best[key] = min(best[key], (time.perf_counter() - start) / steps)
    print(json.dumps(best))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

"""Times one library's CartPole rollouts; runs under any interpreter that has that library, and prints JSON."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable

STEPS = 1000


def bare_gymnasium() -> dict[str, Callable[[], object]]:
    """Gymnasium's own loop: sample, step, and reset at the end of an episode."""
    import gymnasium

    env = gymnasium.make("CartPole-v1")

    def loop() -> None:
        env.reset()
        for _ in range(STEPS):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()

    return {"random": loop}


def rollouts(package: str) -> dict[str, Callable[[], object]]:
    """The same steps as a rollout, with random actions and with a small network."""
    import torch
    from tensordict.nn import TensorDictModule

    envs = importlib.import_module(f"{package}.envs")
    env = envs.GymEnv("CartPole-v1", categorical_action_encoding=True)
    torch.manual_seed(0)

    class Greedy(torch.nn.Module):
        def forward(self, scores: torch.Tensor) -> torch.Tensor:
            return scores.argmax(-1)

    net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2), Greedy())
    policy = TensorDictModule(net, ["observation"], ["action"])

    def with_policy() -> object:
        with torch.no_grad():
            return env.rollout(STEPS, policy, break_when_any_done=False)

    return {"random": lambda: env.rollout(STEPS, break_when_any_done=False), "network": with_policy}


def main(name: str, rounds: int) -> None:
    """Print the best time of each loop, in seconds a step."""
    import torch

    torch.set_num_threads(1)
    loops = bare_gymnasium() if name == "gymnasium" else rollouts(name)
    best = dict.fromkeys(loops, float("inf"))
    for loop in loops.values():
        loop()
    for _ in range(rounds):
        for key, loop in loops.items():
            start = time.perf_counter()
            loop()
            best[key] = min(best[key], (time.perf_counter() - start) / STEPS)
    print(json.dumps(best))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

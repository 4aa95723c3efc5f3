"""Times one library's CartPole rollouts; runs under any interpreter that has that library, and prints JSON."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium

STEPS = 1000


def bare_gymnasium() -> dict[str, Callable[[], object]]:
    """Gymnasium's own loop: sample, step, and reset at the end of an episode."""

    def loop(env: Any) -> None:
        env.reset()
        for _ in range(STEPS):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()

    def with_network(env: Any, network: Any) -> None:
        import torch

        with torch.no_grad():
            observation, _ = env.reset()
            for _ in range(STEPS):
                action = network(torch.as_tensor(observation)).item()
                observation, _, terminated, truncated, _ = env.step(action)
                if terminated or truncated:
                    observation, _ = env.reset()

    plain, nested, network = gymnasium.make("CartPole-v1"), cart_and_pole(), small_network()
    return {
        "random": lambda: loop(plain),
        "network": lambda: with_network(plain, network),
        "random, nested": lambda: loop(nested),
    }


def small_network() -> Any:
    """A network 4-64-2 that returns the better action; it takes the parts of an observation, too."""
    import torch

    class Greedy(torch.nn.Module):
        def forward(self, scores: torch.Tensor) -> torch.Tensor:
            return scores.argmax(-1)

    class Joined(torch.nn.Sequential):
        def forward(self, *observations: torch.Tensor) -> torch.Tensor:
            return super().forward(observations[0] if len(observations) == 1 else torch.cat(observations, -1))

    torch.manual_seed(0)
    return Joined(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2), Greedy())


def cart_and_pole() -> gymnasium.Env:
    """CartPole with the observation {"time": ..., "sensors": {"cart": [2], "pole": [2]}}."""
    box = gymnasium.spaces.Box(-float("inf"), float("inf"), (2,))
    sensors = gymnasium.spaces.Dict({"cart": box, "pole": box})
    space = gymnasium.spaces.Dict({"time": gymnasium.spaces.Discrete(501), "sensors": sensors})

    class Sensors(gymnasium.ObservationWrapper):
        def observation(self, observation: Any) -> dict[str, Any]:
            return {"time": 0, "sensors": {"cart": observation[:2], "pole": observation[2:]}}

    env = Sensors(gymnasium.make("CartPole-v1"))
    env.observation_space = space
    return env


def rollouts(package: str) -> dict[str, Callable[[], object]]:
    """The same steps as a rollout, with random actions and with a small network."""
    import torch
    from tensordict.nn import TensorDictModule

    envs = importlib.import_module(f"{package}.envs")
    env = envs.GymEnv("CartPole-v1", categorical_action_encoding=True)
    net = small_network()
    policy = TensorDictModule(net, ["observation"], ["action"])
    nested = envs.GymWrapper(cart_and_pole(), categorical_action_encoding=True)
    both = TensorDictModule(net, [("sensors", "cart"), ("sensors", "pole")], ["action"])

    def with_policy(env: Any, policy: Any) -> object:
        with torch.no_grad():
            return env.rollout(STEPS, policy, break_when_any_done=False)

    return {
        "random": lambda: env.rollout(STEPS, break_when_any_done=False),
        "network": lambda: with_policy(env, policy),
        "random, nested": lambda: nested.rollout(STEPS, break_when_any_done=False),
        "network, nested": lambda: with_policy(nested, both),
    }


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

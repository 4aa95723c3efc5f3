"""Times 1,024 CartPoles in torch under one library's EnvBase, on one thread; prints JSON.

The numbers are seconds of CPU for a step of all copies.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict

COPIES, STEPS = 1024, 50  # short, since the minimum is taken: it is that of a time without others on the processor
LIMIT = torch.tensor([2.4, math.inf, math.radians(12), math.inf])


def fresh() -> torch.Tensor:
    """Draw first states."""
    return torch.rand(COPIES, 4) * 0.1 - 0.05


def move(state: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """Let 0.02 s pass."""
    _, x_dot, theta, theta_dot = state.unbind(-1)
    cos, sin = theta.cos(), theta.sin()
    push = (action.float() * 20 - 10 + 0.05 * theta_dot.square() * sin) / 1.1
    theta_acc = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 / 1.1 * cos.square()))
    x_acc = push - 0.05 / 1.1 * theta_acc * cos
    return torch.add(state, torch.stack((x_dot, x_acc, theta_dot, theta_acc), -1), alpha=0.02)


def fell(state: torch.Tensor) -> torch.Tensor:
    """Tell which episodes are terminated, ``[COPIES, 1]``."""
    return (state.abs() > LIMIT).any(-1, keepdim=True)


def physics(actions: list[torch.Tensor] | None) -> None:
    """Take the steps, and reset what fell, on bare tensors: what no framework can save.

    Args:
        actions: of each step. None: they are drawn, as in a rollout.
    """
    state, time_left = fresh(), torch.full((COPIES, 1), 500)
    for t in range(STEPS):
        action = actions[t] if actions is not None else torch.randint(2, (COPIES,))
        state, time_left = move(state, action), time_left - 1
        torch.ones(COPIES, 1)
        terminated, truncated = fell(state), time_left <= 0
        done = terminated | truncated
        if done.any():
            state, time_left = torch.where(done, fresh(), state), time_left.masked_fill(done, 500)


def same_physics(package: str) -> Any:
    """Put the same physics under a library's EnvBase: the text is the same for each of them."""
    base = importlib.import_module(f"{package}.envs").EnvBase
    data = importlib.import_module(f"{package}.data")

    class Poles(base):  # type: ignore[misc, valid-type]
        """As many poles as there are copies."""

        def __init__(self) -> None:
            super().__init__(batch_size=torch.Size([COPIES]))
            self.observation_spec = data.Composite(observation=data.Unbounded((COPIES, 4)), shape=(COPIES,))
            self.action_spec = data.Categorical(2, shape=(COPIES,))
            self.reward_spec = data.Unbounded((COPIES, 1))
            end = data.Categorical(2, shape=(COPIES, 1), dtype=torch.bool)
            ends = {key: end.clone() for key in ("done", "terminated", "truncated")}
            self.done_spec = data.Composite(ends, shape=(COPIES,))

        def _reset(self, tensordict: Any = None, **kwargs: Any) -> TensorDict:
            mask = None if tensordict is None else tensordict.get("_reset", None)
            if mask is None:
                self.state, self.time_left = fresh(), torch.full((COPIES, 1), 500)
            else:
                self.state = torch.where(mask, fresh(), self.state)
                self.time_left = self.time_left.masked_fill(mask, 500)
            ends = {key: torch.zeros(COPIES, 1, dtype=torch.bool) for key in ("done", "terminated", "truncated")}
            return TensorDict({"observation": self.state, **ends}, [COPIES])

        def _step(self, tensordict: Any) -> TensorDict:
            self.state, self.time_left = move(self.state, tensordict.get("action")), self.time_left - 1
            terminated, truncated = fell(self.state), self.time_left <= 0
            ends = {"done": terminated | truncated, "terminated": terminated, "truncated": truncated}
            return TensorDict({"observation": self.state, "reward": torch.ones(COPIES, 1), **ends}, [COPIES])

        def _set_seed(self, seed: int | None) -> None:
            pass

    return Poles()


def stepping(env: Any, actions: list[torch.Tensor]) -> None:
    """Take the steps one by one."""
    after = env.reset()
    for action in actions:
        _, after = env.step_and_maybe_reset(after.set("action", action))


def own_methods(env: Any, actions: list[torch.Tensor]) -> None:
    """Call the env's own ``_step`` and ``_reset`` alone, with no library around them."""
    observation = env._reset().get("observation")
    for action in actions:
        after = env._step(TensorDict({"observation": observation, "action": action}, [COPIES]))
        if after.get("done").any():
            after = env._reset(TensorDict({"_reset": after.get("done")}, [COPIES]))
        observation = after.get("observation")


def main(name: str, rounds: int) -> None:
    """Print the best time of each case, in seconds of CPU a step of all copies."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    actions = list(torch.randint(2, (STEPS, COPIES)))
    env = same_physics(name)
    cases: dict[str, Callable[[], object]] = {
        "physics": lambda: physics(actions),
        "physics, actions drawn": lambda: physics(None),
        "own methods": lambda: own_methods(env, actions),
        "step_and_maybe_reset": lambda: stepping(env, actions),
        "rollout": lambda: env.rollout(STEPS, break_when_any_done=False),
    }
    if name == "rlnb":
        from rlnb.envs import CartPoleEnv

        own = CartPoleEnv(batch_size=[COPIES], seed=0, categorical_action_encoding=True)
        cases["CartPoleEnv.step_and_maybe_reset"] = lambda: stepping(own, actions)
        cases["CartPoleEnv.rollout"] = lambda: own.rollout(STEPS, break_when_any_done=False)
    best = dict.fromkeys(cases, float("inf"))
    for case in cases.values():
        case()
    for _ in range(rounds):
        for key, case in cases.items():
            start = time.process_time()
            case()
            best[key] = min(best[key], (time.process_time() - start) / STEPS)
    print(json.dumps(best))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

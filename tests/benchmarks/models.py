"""Times imagined rollouts of one library's DreamerEnv and the bare modules, on one thread; prints JSON, in seconds."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule

STATES, STEPS = 1024, 15
SIZES = {"Dreamer's sizes": (200, 30, 200), "small": (32, 8, 32)}  # belief, state, hidden


class Imagination:
    """A world model and an actor, bare and under a library's env."""

    def __init__(self, package: str, belief: int, state: int, hidden: int) -> None:
        m, data, envs = (importlib.import_module(f"{package}.{name}") for name in ("modules", "data", "envs"))
        spec = data.Bounded(-1, 1, (1,))
        self.prior = m.RSSMPrior(spec, hidden_dim=hidden, rnn_hidden_dim=belief, state_dim=state, action_dim=1)
        self.reward = m.MLP(belief + state, 1, depth=2, num_cells=hidden, activation_class=torch.nn.ELU)
        self.actor = m.DreamerActor(1, depth=2, num_cells=hidden)
        latent = ["state", "belief"]
        world_model = m.WorldModelWrapper(
            TensorDictModule(self.prior, in_keys=[*latent, "action"], out_keys=["_", "_", *latent]),
            TensorDictModule(self.reward, in_keys=latent, out_keys=["reward"]),
        )
        self.policy = TensorDictModule(lambda s, b: self.actor(s, b)[0].tanh(), in_keys=latent, out_keys=["action"])
        dreamer = importlib.import_module(f"{package}.envs.model_based.dreamer")
        self.env = dreamer.DreamerEnv(world_model, prior_shape=(state,), belief_shape=(belief,))
        primer = envs.TensorDictPrimer(
            random=False, default_value=0.0, state=data.Unbounded((state,)), belief=data.Unbounded((belief,))
        )
        self.env.set_specs_from_env(envs.TransformedEnv(envs.GymEnv("Pendulum-v1"), primer))
        first = {"state": torch.randn(STATES, state), "belief": torch.randn(STATES, belief)}
        self.start = TensorDict(first, [STATES])
        self.bare()  # lazy layers get their sizes
        self.parameters = [*self.actor.parameters(), *world_model.parameters()]

    def bare(self) -> torch.Tensor:
        """Call the modules in a plain loop, and keep what a rollout keeps."""
        state, belief, kept = self.start["state"], self.start["belief"], []
        for _ in range(STEPS):
            action = self.actor(state, belief)[0].tanh()
            before = state, belief
            _, _, state, belief = self.prior(state, belief, action)
            kept.append((*before, action, state, belief, self.reward(torch.cat([state, belief], -1))))
        return torch.stack([step[-1] for step in kept], 1)

    def imagined(self) -> torch.Tensor:
        """Let the env roll out."""
        found: Any = self.env.rollout(STEPS, self.policy, tensordict=self.start.clone(False))
        reward: torch.Tensor = found["next", "reward"]
        return reward

    def without_gradients(self, rewards: Callable[[], torch.Tensor]) -> None:
        """Compute the rewards alone."""
        with torch.no_grad():
            rewards()

    def with_gradients(self, rewards: Callable[[], torch.Tensor]) -> None:
        """Compute the rewards and the gradients of their sum."""
        torch.autograd.grad(rewards().sum(), self.parameters)


def main(name: str, rounds: int) -> None:
    """Print the best time of each case, in seconds of CPU for all states and steps."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    cases: dict[str, Callable[[], None]] = {}
    for size, dims in SIZES.items():
        made = Imagination(name, *dims)
        for how, run in (("forward", made.without_gradients), ("forward, backward", made.with_gradients)):
            cases[f"{size}, {how}: bare modules"] = lambda run=run, made=made: run(made.bare)
            cases[f"{size}, {how}: rollout"] = lambda run=run, made=made: run(made.imagined)
    best = dict.fromkeys(cases, float("inf"))
    for case in cases.values():
        case()
    for _ in range(rounds):
        for key, case in cases.items():
            start = time.process_time()
            case()
            best[key] = min(best[key], time.process_time() - start)
    print(json.dumps(best))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

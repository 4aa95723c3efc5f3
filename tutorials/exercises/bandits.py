"""The 10-armed testbed of lesson 3: many bandits at once, and curves of their rewards and regret."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from rlnb.envs import BanditEnv, step_mdp

from .curves import Curves

#: Estimates [runs, arms], pulls [runs, arms] and the number of the step, from 1, to the arms [runs].
Choose = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]

RUNS, STEPS, ARMS = 500, 500, 10
BEST = 1.54  # the mean of the best of ten draws from N(0, 1)


def play(choose: Choose, steps: int = STEPS) -> tuple[torch.Tensor, torch.Tensor]:
    """Let a rule play `RUNS` bandits, and average over them.

    Args:
        choose: the rule.
        steps: how many pulls.

    Returns:
        The average reward of each step and the average regret up to it, of shape ``[steps]``.
    """
    env = BanditEnv(n_arms=ARMS, batch_size=[RUNS], max_steps=steps, seed=0, categorical_action_encoding=True)
    td = env.reset()
    q = env.means
    assert q is not None
    total = torch.zeros(RUNS, ARMS)
    rewards, losses = [], []
    for t in range(1, steps + 1):
        pulls = td["observation"]
        action = choose(total / pulls.clamp(min=1), pulls, t)
        td["action"] = action
        reward = env.step(td)["next", "reward"]
        total.scatter_add_(-1, action.unsqueeze(-1), reward)
        rewards.append(reward.mean())
        losses.append((q.amax(-1) - q.gather(-1, action.unsqueeze(-1)).squeeze(-1)).mean())
        td = step_mdp(td)
    return torch.stack(rewards), torch.stack(losses).cumsum(0)


def greedy(values: torch.Tensor, pulls: torch.Tensor, t: int) -> torch.Tensor:
    """Take the arm with the largest estimate."""
    return values.argmax(-1)


def epsilon_greedy(epsilon: float) -> Choose:
    """Make the rule that takes a random arm with probability epsilon, and the greedy one otherwise."""

    def choose(values: torch.Tensor, pulls: torch.Tensor, t: int) -> torch.Tensor:
        explores = torch.rand(len(values)) < epsilon
        return torch.where(explores, torch.randint(values.shape[-1], (len(values),)), values.argmax(-1))

    return choose


def compare(rules: Mapping[str, Choose]) -> tuple[Curves, dict[str, float]]:
    """Draw rewards and regret of some rules, and return the regret of each after the last step."""
    found = {}
    for name, choose in rules.items():
        torch.manual_seed(0)
        found[name] = play(choose)
    panels: dict[str, Any] = {
        "average reward": {name: reward for name, (reward, _) in found.items()},
        "regret": {name: regret for name, (_, regret) in found.items()},
    }
    picture = Curves(panels, levels={"average reward": (BEST, "best arm")})
    return picture, {name: regret[-1].item() for name, (_, regret) in found.items()}

"""Small DQN agents that train side by side, with parts that can be turned off, for the curves of lesson 7."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from tensordict import TensorDictBase
from torch.nn.functional import smooth_l1_loss

from rlnb.collectors import Collector
from rlnb.envs import CartPoleEnv

GAMMA = 0.9
_POLES, _STEPS, _UPDATES, _BATCH, _HIDDEN = 8, 8, 8, 128, 64

#: Rewards and ends ``[..., batch]``, Q-values of the network and of the target network ``[..., batch, actions]``, and
#: gamma, to the targets ``[..., batch]``.
Target = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, float], torch.Tensor]
#: Q-values ``[..., batch, actions]``, actions and targets ``[..., batch]``, to a number.
Loss = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def q_target(
    reward: torch.Tensor, terminated: torch.Tensor, own: torch.Tensor, lagging: torch.Tensor, gamma: float
) -> torch.Tensor:
    """Compute the targets of Q-learning, from the target network alone."""
    return reward + gamma * ~terminated * lagging.max(-1).values


def double_target(
    reward: torch.Tensor, terminated: torch.Tensor, own: torch.Tensor, lagging: torch.Tensor, gamma: float
) -> torch.Tensor:
    """Compute the targets of double Q-learning: the network chooses, and the target network values the choice."""
    return reward + gamma * ~terminated * lagging.gather(-1, own.argmax(-1, keepdim=True)).squeeze(-1)


def td_loss(values: torch.Tensor, action: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Compute the mean distance of the values of the actions that were taken and their targets."""
    return smooth_l1_loss(values.gather(-1, action.unsqueeze(-1)).squeeze(-1), target)


class _Networks:
    """Q-networks of two hidden layers for some agents, each layer one tensor ``[agents, in, out]``."""

    def __init__(self, agents: int) -> None:
        self.weights = []
        for wide, out in ((4, _HIDDEN), (_HIDDEN, _HIDDEN), (_HIDDEN, 2)):
            for shape in ((agents, wide, out), (agents, 1, out)):
                self.weights.append(((2 * torch.rand(shape) - 1) * wide**-0.5).requires_grad_())
        self.scale = torch.tensor([1.0, 1.0, 10.0, 1.0])

    def __call__(self, observation: torch.Tensor, weights: list[torch.Tensor] | None = None) -> torch.Tensor:
        weights = weights or self.weights
        x = observation * self.scale
        for layer in (0, 2, 4):
            x = torch.baddbmm(weights[layer + 1], x, weights[layer])
            x = x if layer == 4 else x.relu()
        return x

    def copy(self) -> list[torch.Tensor]:
        return [weight.detach().clone() for weight in self.weights]


@dataclass
class Run:
    """What some agents did: over stretches of frames, the mean return of their episodes and their mean Q-value."""

    every: int
    returns: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


def train(
    target: Target = double_target,
    loss: Loss = td_loss,
    *,
    replay: bool = True,
    interval: int = 50,
    agents: int = 3,
    frames: int = 8192,
    seed: int = 0,
    every: int = 512,
    report: Callable[[int, float], None] | None = None,
) -> Run:
    """Train agents on CartPole, all in the same tensors.

    Args:
        target: gives the targets.
        loss: compares Q-values with targets.
        replay: whether to learn from all steps so far; otherwise from the last 128 only.
        interval: updates from one copy of the target network to the next; 1 for none.
        agents: how many agents, which differ in their random numbers.
        frames: steps of each agent.
        seed: seed of all of them.
        every: frames of a stretch of the curves.
        report: called after each stretch with the frames so far and the mean return.

    Returns:
        The curves, means over the agents.
    """
    torch.manual_seed(seed)
    rows = agents * _POLES
    envs = CartPoleEnv(batch_size=[rows], categorical_action_encoding=True, seed=seed)
    nets, epsilon = _Networks(agents), 1.0
    lagging, optimizer = nets.copy(), torch.optim.Adam(nets.weights, lr=0.002)

    def policy(observation: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            greedy = nets(observation.reshape(agents, _POLES, 4)).argmax(-1).flatten()
        return torch.where(torch.rand(rows) < epsilon, torch.randint(2, (rows,)), greedy)

    run, memory, count = Run(every), _Memory(agents), 0
    age, ended, level = torch.zeros(rows), [0.0, 0], 0.0
    for batch in Collector(envs, policy, frames_per_batch=rows * _STEPS, total_frames=frames * agents):
        memory.add(batch)
        epsilon = max(0.05, 1 - 0.95 * memory.size / 5000)
        for done in batch["next", "done"].squeeze(-1).unbind(-1):
            age += 1
            ended = [ended[0] + age[done].sum().item(), ended[1] + int(done.sum())]
            age[done] = 0
        for _ in range(_UPDATES if memory.size >= 1024 else 0):
            seen, action, reward, after, terminated = memory.sample(memory.size if replay else _BATCH)
            with torch.no_grad():
                goal = target(reward, terminated, nets(after), nets(after, lagging), GAMMA)
            values = nets(seen)
            optimizer.zero_grad()
            loss(values, action, goal).backward()
            optimizer.step()
            count, level = count + 1, values.detach().mean().item()
            if count % interval == 0:
                lagging = nets.copy()
        if memory.size % every == 0:
            run.returns.append(ended[0] / max(ended[1], 1))
            run.values.append(level)
            ended = [0.0, 0]
            if report:
                report(memory.size, run.returns[-1])
    return run


class _Memory:
    """The steps of some agents: observation, action, reward, next observation and whether it terminated."""

    def __init__(self, agents: int) -> None:
        self.agents, self.size = agents, 0
        self._parts: list[torch.Tensor] = []

    def add(self, batch: TensorDictBase) -> None:
        count = _POLES * _STEPS
        keys = ("observation", "action", ("next", "reward"), ("next", "observation"), ("next", "terminated"))
        fresh = [batch[key] for key in keys]
        fresh[2], fresh[4] = fresh[2].squeeze(-1), fresh[4].squeeze(-1)
        fresh = [part.reshape(self.agents, count, *part.shape[2:]) for part in fresh]
        self._parts = [torch.cat(pair, 1) for pair in zip(self._parts, fresh, strict=True)] if self._parts else fresh
        self.size += count

    def sample(self, recent: int) -> list[torch.Tensor]:
        rows = torch.randint(self.size - min(recent, self.size), self.size, (self.agents, _BATCH))
        agents = torch.arange(self.agents).unsqueeze(-1)
        return [part[agents, rows] for part in self._parts]

"""Walks of a careful walker on the cliff, and learners that see nothing else: for the checks of lesson 35."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.functional import one_hot

from .cliff import ACTIONS, START, STATES, steps_of_cliff

#: Best return of a walk from the start to the goal, and the most steps of a walk.
BEST, LIMIT = -13.0, 100
_BATCH, _LR, _TAU, _LOST = 128, 0.005, 0.05, 0.7


@dataclass(frozen=True)
class Walks:
    """Steps of many walks in a row, each ``[N]``: state, action, reward, next state, whether the goal was reached."""

    state: torch.Tensor
    action: torch.Tensor
    reward: torch.Tensor
    after: torch.Tensor
    over: torch.Tensor
    returns: list[float]

    def sample(self) -> list[torch.Tensor]:
        """Draw a batch of steps: states, actions, rewards, next states and ends."""
        rows = torch.randint(len(self.state), (_BATCH,))
        return [column[rows] for column in (self.state, self.action, self.reward, self.after, self.over)]


def careful_walks(walks: int = 60, seed: int = 0) -> Walks:
    """Let a careful walker walk: most of the time in a random direction, and never into the cliff.

    Args:
        walks: how many; each ends at the goal, or after 100 steps.
        seed: of the random directions.

    Returns:
        The steps.

    Example:
        >>> walks = careful_walks()
        >>> float(walks.reward.min()), -100 < sum(walks.returns) / 60 < -50
        (-1.0, True)
    """
    world, draw = steps_of_cliff(), random.Random(seed)
    rows: list[tuple[int, int, float, int, bool]] = []
    returns = []
    for _ in range(walks):
        s, steps = START, 0
        while steps < LIMIT:
            row, column = divmod(s, 12)
            habit = 2 if column == 11 else 0 if row else 1
            known = [a for a in range(ACTIONS) if world[s][a][1] > -100]
            a = draw.choice(known) if draw.random() < _LOST else habit
            s_, R, over = world[s][a]
            rows.append((s, a, float(R), s_, over))
            s, steps = s_, steps + 1
            if over:
                break
        returns.append(-float(steps))
    state, action, reward, after, arrived = (torch.tensor(column) for column in zip(*rows, strict=True))
    return Walks(state, action, reward, after, arrived, returns)


def walk(act: Callable[[int], int]) -> float:
    """Walk from the start, at most 100 steps, and return the return.

    Args:
        act: gives an action to a state.
    """
    world, s, total = steps_of_cliff(), START, 0.0
    for _ in range(LIMIT):
        s, R, over = world[s][act(s)]
        total += R
        if over:
            break
    return total


class Cell(nn.Module):
    """Turns the number of a cell into 48 inputs, one of which is 1."""

    def forward(self, cell: torch.Tensor) -> torch.Tensor:
        """Return inputs of shape ``[..., 48]``."""
        return one_hot(cell, STATES).float()


def cell_network(outputs: int, hidden: int = 64) -> nn.Sequential:
    """Make a network that reads the number of a cell.

    Args:
        outputs: how many numbers it gives.
        hidden: width of its hidden layer.
    """
    return nn.Sequential(Cell(), nn.Linear(STATES, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


def penalty(Q: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """Compute the penalty of conservative Q-learning, which is small where the actions of the data have high values.

    Kumar et al., Conservative Q-Learning for Offline Reinforcement Learning, 2020 (arXiv:2006.04779), equation 4.

    Args:
        Q: values of all actions, ``[steps, actions]``.
        action: the actions that were taken, ``[steps]``.

    Returns:
        One number: the mean over the steps.
    """
    taken = Q.gather(-1, action.unsqueeze(-1)).squeeze(-1)
    return (Q.logsumexp(-1) - taken).mean()


@dataclass
class Learned:
    """What a learner promised and did while it learned, every 100 updates, and what it did at the end."""

    promises: list[float] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)


def clone(loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], walks: Walks, updates: int = 600) -> float:
    """Learn to imitate, and return the mean return of 100 walks with actions drawn from the clone.

    Args:
        loss: logits ``[steps, actions]`` and actions ``[steps]``, to a number.
        walks: what to imitate.
        updates: how many batches to learn from.
    """
    torch.manual_seed(0)
    net = cell_network(ACTIONS)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(updates):
        state, action, *_ = walks.sample()
        _step(optimizer, loss(net(state), action))
    chances = net(torch.arange(STATES)).detach().softmax(-1).tolist()
    draw = random.Random(0)
    return sum(walk(lambda s: draw.choices(range(ACTIONS), chances[s])[0]) for _ in range(100)) / 100


def q_learning(
    walks: Walks,
    extra: Callable[[torch.Tensor, torch.Tensor], Any] | None = None,
    alpha: float = 0.2,
    updates: int = 1000,
) -> Learned:
    """Learn Q from steps of others, with a target network.

    Args:
        walks: the steps.
        extra: a penalty: Q-values ``[steps, actions]`` and actions ``[steps]``, to a number. Default: none.
        alpha: the weight of the penalty.
        updates: how many batches to learn from.

    Returns:
        Every 100 updates, the largest value at the start, and the return of the greedy walk.
    """
    torch.manual_seed(0)
    net, lagging = cell_network(ACTIONS), cell_network(ACTIONS)
    lagging.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), lr=_LR)
    found = Learned()
    for update in range(1, updates + 1):
        state, action, reward, after, over = walks.sample()
        with torch.no_grad():
            target = reward + lagging(after).amax(-1) * ~over
        Q = net(state)
        error = (Q.gather(-1, action.unsqueeze(-1)).squeeze(-1) - target).square().mean()
        _step(optimizer, error if extra is None else error + alpha * extra(Q, action))
        _follow(lagging, net)
        if update % 100 == 0:
            values = net(torch.arange(STATES)).detach()
            found.promises.append(float(values[START].max()))
            found.returns.append(walk(values.argmax(-1).tolist().__getitem__))
    return found


def implicit(
    expectile_loss: Callable[[torch.Tensor, float], torch.Tensor], walks: Walks, tau: float, updates: int = 1000
) -> Learned:
    """Learn values by implicit Q-learning.

    Args:
        expectile_loss: errors ``[steps]`` and tau, to a number.
        walks: the steps.
        tau: the expectile.
        updates: how many batches to learn from.

    Returns:
        Every 100 updates, the value of the start; there are no returns.
    """
    torch.manual_seed(0)
    q, value, lagging = cell_network(ACTIONS), cell_network(1), cell_network(ACTIONS)
    lagging.load_state_dict(q.state_dict())
    optimizer = torch.optim.Adam([*q.parameters(), *value.parameters()], lr=_LR)
    found = Learned()
    for update in range(1, updates + 1):
        state, action, reward, after, over = walks.sample()
        with torch.no_grad():
            target = reward + value(after).squeeze(-1) * ~over
            judged = lagging(state).gather(-1, action.unsqueeze(-1)).squeeze(-1)
        error = (q(state).gather(-1, action.unsqueeze(-1)).squeeze(-1) - target).square().mean()
        _step(optimizer, error + expectile_loss(judged - value(state).squeeze(-1), tau))
        _follow(lagging, q)
        if update % 100 == 0:
            found.promises.append(float(value(torch.tensor(START)).detach()))
    return found


def _step(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def _follow(lagging: nn.Module, net: nn.Module) -> None:
    with torch.no_grad():
        for old, new in zip(lagging.parameters(), net.parameters(), strict=True):
            old.lerp_(new, _TAU)

"""CliffWalking as a table, and learning on it: many runs of what lesson 6 does once in the environment."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import torch

from .value_map import ValueMaps

#: The start and the goal are at the ends of the cliff.
CLIFF = ("." * 12, "." * 12, "." * 12, "S" + "C" * 10 + "G")
STATES, ACTIONS, START = 48, 4, 36  # up, right, down, left
#: Values Q [states, actions], s, a, R, s_, a_, over, alpha and gamma; changes Q[s, a].
Update = Callable[..., Any]


def sarsa(Q: Any, s: Any, a: Any, R: float, s_: Any, a_: Any, over: bool, alpha: float, gamma: float) -> None:
    """Update one value by SARSA."""
    target = R + gamma * Q[s_, a_] * (not over)
    Q[s, a] += alpha * (target - Q[s, a])


def steps_of_cliff() -> list[list[tuple[int, float, bool]]]:
    """List the next state, the reward and whether the episode is over, by state and action."""
    table = gymnasium.make("CliffWalking-v1").unwrapped.P  # type: ignore[attr-defined]
    return [[tuple(table[s][a][0][1:]) for a in range(ACTIONS)] for s in range(STATES)]


def learn(
    update: Update, episodes: int = 200, epsilon: float = 0.1, alpha: float = 0.5, seed: int = 0, gamma: float = 1.0
) -> tuple[torch.Tensor, list[float]]:
    """Learn from episodes of an epsilon-greedy agent.

    Args:
        update: changes Q after each step.
        episodes: how many; each is cut after 1000 steps.
        epsilon: the probability of a random action.
        alpha: the step size.
        seed: of the random actions.
        gamma: the discount.

    Returns:
        The action values, ``[48, 4]``, and the return of each episode.
    """
    world, draw = steps_of_cliff(), random.Random(seed)
    Q, returns = torch.zeros(STATES, ACTIONS), []

    def act(s: int) -> int:
        if draw.random() < epsilon:
            return draw.randrange(ACTIONS)
        return int(Q[s].argmax())

    for _ in range(episodes):
        s, total = START, 0.0
        a = act(s)
        for _ in range(1000):
            s_, R, over = world[s][a]
            a_ = act(s_)
            update(Q, s, a, float(R), s_, a_, over, alpha, gamma)
            s, a, total = s_, a_, total + R
            if over:
                break
        returns.append(total)
    return Q, returns


def greedy_path(Q: torch.Tensor) -> list[int]:
    """Follow the greedy actions from the start: the cells, at most 100 of them."""
    world, cells = steps_of_cliff(), [START]
    while len(cells) < 100:
        s, _, over = world[cells[-1]][int(Q[cells[-1]].argmax())]
        cells.append(s)
        if over:
            break
    return cells


def cliff_map(tables: Mapping[str, torch.Tensor]) -> ValueMaps:
    """Draw the value of the best action in each cell, with an arrow for that action.

    Args:
        tables: by title, action values of shape ``[48, 4]``. A cell none of whose actions has a value has no arrow.

    Returns:
        The picture.
    """
    # The actions of Gymnasium's cliff are up, right, down, left, and those of a grid world left, down, right, up.
    arrows = {
        title: [[ACTIONS - 1 - int(row.argmax())] if bool(row.any()) else [] for row in Q]
        for title, Q in tables.items()
    }
    return ValueMaps(CLIFF, {title: Q.amax(-1).tolist() for title, Q in tables.items()}, arrows)

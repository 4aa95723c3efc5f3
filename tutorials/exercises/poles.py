"""Many cart-poles at once in a few tensor operations, for checks that train with the learner's function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from rlnb.envs.custom.cart_pole import START, THETA_LIMIT, X_LIMIT, move


class Steps(NamedTuple):
    """Steps of N cart-poles: observations are ``[T, N, 4]``, all else is ``[T, N]``."""

    observation: torch.Tensor
    action: torch.Tensor
    log_prob: torch.Tensor
    reward: torch.Tensor
    next_observation: torch.Tensor
    terminated: torch.Tensor
    done: torch.Tensor


class Poles:
    """Cart-poles that start again when an episode ends.

    Args:
        copies: how many.
        limit: steps after which an episode is truncated.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> poles = Poles(8)
        >>> steps = poles.play(torch.nn.Linear(4, 2), 50)
        >>> steps.observation.shape, bool(steps.terminated.any()), len(poles.returns) == int(steps.done.sum())
        (torch.Size([50, 8, 4]), True, True)
    """

    def __init__(self, copies: int, limit: int = 200) -> None:
        self.copies, self.limit = copies, limit
        self.returns: list[float] = []  #: returns of the episodes that have ended, in order
        self._state = self._start(copies)
        self._age = torch.zeros(copies, dtype=torch.long)

    def play(self, actor: Callable[[torch.Tensor], torch.Tensor], steps: int) -> Steps:
        """Take steps with actions drawn from the logits of an actor, and go on where the last call ended.

        Args:
            actor: gives logits ``[N, 2]`` to observations ``[N, 4]``.
            steps: how many for each cart-pole.

        Returns:
            The steps, without gradients.
        """
        rows: list[tuple[torch.Tensor, ...]] = []
        with torch.no_grad():
            for _ in range(steps):
                before = self._state
                logits = actor(before).log_softmax(-1)
                action = (torch.rand(self.copies) < logits[:, 1].exp()).long()
                after = move(before, action)
                self._age += 1
                over = (after[:, 0].abs() > X_LIMIT) | (after[:, 2].abs() > THETA_LIMIT)
                done = over | (self._age >= self.limit)
                log_prob = logits.gather(-1, action.unsqueeze(-1)).squeeze(-1)
                rows.append((before, action, log_prob, torch.ones(self.copies), after, over, done))
                self._state = after
                if bool(done.any()):
                    self.returns += self._age[done].float().tolist()
                    self._state = torch.where(done.unsqueeze(-1), self._start(self.copies), after)
                    self._age[done] = 0
        return Steps(*(torch.stack(column) for column in zip(*rows, strict=True)))

    def episodes(self, actor: Callable[[torch.Tensor], torch.Tensor]) -> tuple[Steps, torch.Tensor]:
        """Play one episode each from its start.

        Args:
            actor: gives logits ``[N, 2]`` to observations ``[N, 4]``.

        Returns:
            The steps, and which of them belong to the episodes, ``[T, N]``.
        """
        self.put(self._start(self.copies))
        steps = self.play(actor, self.limit)
        return steps, (steps.done.cumsum(0) - steps.done.long()) == 0

    def put(self, state: torch.Tensor) -> None:
        """Put the cart-poles into states.

        Args:
            state: x, its speed, the angle and its speed, ``[N, 4]``.
        """
        self._state, self._age = state, torch.zeros(self.copies, dtype=torch.long)

    def _start(self, copies: int) -> torch.Tensor:
        return torch.empty(copies, 4).uniform_(-START, START)


def log_prob_of(actor: Callable[[torch.Tensor], torch.Tensor], steps: Any, mask: Any = ...) -> torch.Tensor:
    """Compute the log-probabilities of the actions of steps, with gradients.

    Args:
        actor: gives logits to observations.
        steps: the steps, or a part of them.
        mask: which of them.

    Returns:
        A number for each step.
    """
    logits = actor(steps.observation[mask]).log_softmax(-1)
    return logits.gather(-1, steps.action[mask].unsqueeze(-1)).squeeze(-1)


def network(outputs: int, hidden: int = 32) -> nn.Sequential:
    """Make a small network for cart-pole.

    Args:
        outputs: how many numbers it gives.
        hidden: width of its hidden layer.

    Returns:
        The network, with parameters drawn from the global generator.
    """
    return nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, outputs))


def returns_to_go(reward: torch.Tensor, done: torch.Tensor, gamma: float) -> torch.Tensor:
    """Sum the discounted rewards from each step to the end of its episode, or of the data.

    Args:
        reward: ``[T, N]``.
        done: whether an episode ends with the step, ``[T, N]``.
        gamma: the discount.

    Returns:
        ``[T, N]``.

    Example:
        >>> returns_to_go(torch.ones(3, 1), torch.tensor([[False], [True], [False]]), 0.5).flatten().tolist()
        [1.5, 1.0, 1.0]
    """
    found, G = [], torch.zeros_like(reward[0])
    for r, end in zip(reward.flip(0), done.flip(0), strict=True):
        G = r + gamma * G * ~end
        found.append(G)
    return torch.stack(found[::-1])

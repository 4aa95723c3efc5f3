"""Soft actor-critic on the pendulum in a few tensor operations, for checks that train with the learner's function."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from rlnb.modules import NormalParamExtractor, TanhNormal

STEPS, TORQUE = 200, 2.0  # of an episode; newton metres at most
GAMMA, SCALE = 0.98, 0.1  # the discount, and what rewards are multiplied by for the critics
_COPIES, _BATCH, _WIDTH, _RATE, _TAU, _WARM = 16, 128, 48, 4e-3, 0.05, 50
#: Called with reward, terminated, q1, q2, log_prob, alpha and gamma; gives the target.
SoftTarget = Callable[..., Any]


def swing(th: torch.Tensor, thdot: torch.Tensor, torque: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Take a step with pendulums, as `rlnb.envs.PendulumEnv` does.

    Args:
        th: angles, ``[N]``; 0 is upright.
        thdot: angular velocities, ``[N]``.
        torque: ``[N]``.

    Returns:
        The next angles and velocities, and the rewards.
    """
    reward = -(th**2 + 0.1 * thdot**2 + 0.001 * torque**2)
    thdot = (thdot + 0.05 * (15 * th.sin() + 3 * torque)).clamp(-8, 8)
    return (th + 0.05 * thdot + math.pi) % (2 * math.pi) - math.pi, thdot, reward


class Critics(nn.Module):
    """Two networks of state and torque, which run as one."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [4, _WIDTH, _WIDTH, 1]
        pairs = list(pairwise(sizes))
        self.weights = nn.ParameterList([(2 * torch.rand(2, i, o) - 1) / i**0.5 for i, o in pairs])
        self.biases = nn.ParameterList([(2 * torch.rand(2, 1, o) - 1) / i**0.5 for i, o in pairs])

    def forward(self, state: torch.Tensor, torque: torch.Tensor) -> torch.Tensor:
        """Return the values of both, ``[2, N]``."""
        x = torch.cat([state, torque / TORQUE], -1).expand(2, -1, -1)
        for place, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x if place == 0 else x.relu(), weight)
        return x.squeeze(-1)


def learn(soft_target: SoftTarget, updates: int = 650, every: int = 50) -> list[float]:
    """Train a policy that swings the pendulum up.

    Args:
        soft_target: what the critics learn towards.
        updates: how many steps of the optimizer; 16 pendulums take a step before each.
        every: updates from one test to the next.

    Returns:
        The mean return of ten episodes, in each test.
    """
    policy = nn.Sequential(
        nn.Linear(3, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, 2),
        NormalParamExtractor(),
    )  # fmt: skip
    critics, targets = Critics(), Critics().requires_grad_(False)
    targets.load_state_dict(critics.state_dict())
    log_alpha = torch.tensor(math.log(0.2), requires_grad=True)
    optimizer = torch.optim.Adam([*policy.parameters(), *critics.parameters(), log_alpha], lr=_RATE)
    replay, (th, thdot) = _Replay(updates), _starts(_COPIES)
    found: list[float] = []
    for t in range(_WARM + updates):
        if t % STEPS == 0:
            th, thdot = _starts(_COPIES)
        state = _state(th, thdot)
        with torch.no_grad():
            torque = _draw(policy, state)[0]
        th, thdot, reward = swing(th, thdot, torque.squeeze(-1))
        replay.add(state, torque, SCALE * reward.unsqueeze(-1), _state(th, thdot))
        if t < _WARM:
            continue
        _update(policy, critics, targets, log_alpha, optimizer, replay.sample(), soft_target)
        if (t - _WARM + 1) % every == 0:
            found.append(_mean_return(policy))
    return found


def _update(
    policy: nn.Module,
    critics: Critics,
    targets: Critics,
    log_alpha: torch.Tensor,
    optimizer: torch.optim.Optimizer,
    batch: tuple[torch.Tensor, ...],
    soft_target: SoftTarget,
) -> None:
    state, torque, reward, after = batch
    alpha = log_alpha.detach().exp()
    with torch.no_grad():
        following, log_prob = _draw(policy, after)
        q1, q2 = targets(after, following)
        never = torch.zeros(len(state), dtype=torch.bool)
        target = soft_target(reward.squeeze(-1), never, q1, q2, log_prob, alpha, GAMMA)
    loss = nn.functional.smooth_l1_loss(critics(state, torque), target.expand(2, -1), reduction="none").sum(0).mean()
    drawn, log_prob = _draw(policy, state)
    critics.requires_grad_(False)
    loss = loss + (alpha * log_prob - critics(state, drawn).min(0).values).mean()
    critics.requires_grad_(True)
    loss = loss - log_alpha * (log_prob.detach().mean() - 1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        torch._foreach_lerp_(list(targets.parameters()), list(critics.parameters()), _TAU)


class _Replay:
    """The steps so far."""

    def __init__(self, updates: int) -> None:
        self._rows, self._count = torch.empty((_WARM + updates) * _COPIES, 8), 0

    def add(self, *columns: torch.Tensor) -> None:
        rows = torch.cat(columns, -1)
        self._rows[self._count : self._count + len(rows)] = rows
        self._count += len(rows)

    def sample(self) -> tuple[torch.Tensor, ...]:
        return self._rows[torch.randint(self._count, (_BATCH,))].split([3, 1, 1, 3], -1)


def _state(th: torch.Tensor, thdot: torch.Tensor) -> torch.Tensor:
    return torch.stack([th.cos(), th.sin(), thdot / 8], -1)


def _starts(count: int, generator: torch.Generator | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    draw = 2 * torch.rand(2, count, generator=generator) - 1
    return draw[0] * math.pi, draw[1]


def _draw(policy: nn.Module, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    loc, scale = policy(state)
    drawn: tuple[torch.Tensor, torch.Tensor] = TanhNormal(loc, scale, low=-TORQUE, high=TORQUE).rsample_and_log_prob()
    return drawn


def _mean_return(policy: nn.Module, episodes: int = 10) -> float:
    th, thdot = _starts(episodes, torch.Generator().manual_seed(5))
    total = torch.zeros(episodes)
    with torch.no_grad():
        for _ in range(STEPS):
            loc = policy(_state(th, thdot))[0].squeeze(-1)
            th, thdot, reward = swing(th, thdot, TORQUE * loc.tanh())
            total += reward
    return total.mean().item()

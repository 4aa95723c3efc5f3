"""One state with two hills of value, and squashed Gaussians that climb them: policies in small, for checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from rlnb.modules import TanhNormal

#: The torque is between minus and plus this.
LIMIT = 2.0
_POLICY_RATE, _ALPHA_RATE, _DRAWS = 0.1, 0.03, 64  # learning rates of Adam, and draws of a policy in each step
#: Losses of policies that were handed `(log_prob, q1, q2, alpha)`.
PolicyLoss = Callable[..., Any]


def hills(torque: torch.Tensor) -> torch.Tensor:
    """Return the values of torques: a wide hill on the left, and a narrow one on the right that is higher.

    Example:
        >>> hills(torch.tensor([-0.6, 1.2])).tolist()
        [0.7..., 1.0...]
    """
    wide, narrow = ((torque + 0.6) / 0.9) ** 2, ((torque - 1.2) / 0.35) ** 2
    return 0.75 * (-wide).exp() + (-narrow).exp()


def torques(count: int = 149) -> torch.Tensor:
    """Return torques from one end to the other, for pictures."""
    return torch.linspace(-LIMIT, LIMIT, count)


class Climbers:
    """Policies for the one state, each a squashed Gaussian with its own location and scale.

    Args:
        count: how many.

    Attributes:
        parameters: location and logarithm of the scale, ``[2, count]``.
    """

    def __init__(self, count: int) -> None:
        self.parameters = torch.tensor([[0.0], [-0.5]]).repeat(1, count).requires_grad_()
        self._optimizer = torch.optim.Adam([self.parameters], lr=_POLICY_RATE)

    def draw(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw torques, and say how likely they were: both ``[draws, count]``, with gradients."""
        loc, log_scale = self.parameters
        dist = TanhNormal(loc.unsqueeze(-1), log_scale.exp().unsqueeze(-1), low=-LIMIT, high=LIMIT)
        torque, log_prob = dist.rsample_and_log_prob([_DRAWS])
        return torque.squeeze(-1), log_prob

    def improve(self, loss: torch.Tensor) -> None:
        """Take one step of Adam."""
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()

    def densities(self) -> torch.Tensor:
        """Return the density of each policy at `torques`, ``[count, points]``."""
        with torch.no_grad():
            loc, scale = self.parameters[0], self.parameters[1].exp()
            dist = TanhNormal(loc[:, None, None], scale[:, None, None], low=-LIMIT, high=LIMIT)
            inside = torques().clamp(-0.999 * LIMIT, 0.999 * LIMIT)
            return dist.log_prob(inside[None, :, None].expand(len(loc), -1, 1)).exp()


def climb(policy_loss: PolicyLoss, alphas: Sequence[float], steps: int = 150) -> tuple[torch.Tensor, torch.Tensor]:
    """Improve a policy for each temperature, with two critics that both know the hills.

    Args:
        policy_loss: called with log-probabilities, both values, and alpha.
        alphas: the temperatures.
        steps: how many steps of Adam.

    Returns:
        The mean value of the torques at each step, ``[alphas, steps]``, and the densities in the end.
    """
    climbers, means = Climbers(len(alphas)), []
    for _ in range(steps):
        torque, log_prob = climbers.draw()
        values = hills(torque)
        losses = [policy_loss(log_prob[:, k], values[:, k], values[:, k] + 0.0, a) for k, a in enumerate(alphas)]
        climbers.improve(torch.stack(losses).sum())
        means.append(values.detach().mean(0))
    return torch.stack(means, -1), climbers.densities()


def settle(
    alpha_loss: Callable[..., Any], starts: Sequence[float], target_entropy: float, steps: int = 250
) -> tuple[torch.Tensor, torch.Tensor]:
    """Improve a policy for each first temperature, and the temperature as well.

    Args:
        alpha_loss: called with the logarithm of alpha, log-probabilities, and the target entropy.
        starts: the first temperatures.
        target_entropy: the entropy to reach.
        steps: how many steps.

    Returns:
        The temperatures and the entropies at each step, ``[starts, steps]`` each.
    """
    climbers = Climbers(len(starts))
    logs = [torch.tensor(math.log(start), requires_grad=True) for start in starts]
    optimizer = torch.optim.Adam(logs, lr=_ALPHA_RATE)
    alphas, entropies = [], []
    for _ in range(steps):
        torque, log_prob = climbers.draw()
        alpha = torch.stack([log.detach().exp() for log in logs])
        alphas.append(alpha)
        entropies.append(-log_prob.detach().mean(0))
        optimizer.zero_grad()
        losses = [alpha_loss(log, log_prob[:, k].detach(), target_entropy) for k, log in enumerate(logs)]
        torch.stack(losses).sum().backward()
        optimizer.step()
        climbers.improve((alpha * log_prob - hills(torque)).mean(0).sum())
    return torch.stack(alphas, -1), torch.stack(entropies, -1)

"""PPO as a box that need not be opened yet: a policy, and the losses that a batch of its data gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from rlnb_widgets import TrainingMonitor
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torch import nn
from torch.distributions import Categorical

from rlnb.collectors import Collector
from rlnb.envs import CartPoleEnv
from rlnb.modules import ProbabilisticActor, ValueOperator
from rlnb.objectives import ClipPPOLoss
from rlnb.objectives.value import GAE


class PPO(nn.Module):
    """Proximal policy optimization for environments with four observed numbers and two actions.

    Args:
        epochs: how often each batch is used.
        minibatch: how many of its steps a loss is computed from.

    Attributes:
        policy: chooses the actions.

    Example:
        >>> from rlnb.envs import CartPoleEnv
        >>> envs = CartPoleEnv(batch_size=[2], categorical_action_encoding=True, seed=0)
        >>> ppo = PPO(epochs=3, minibatch=4)
        >>> batch = envs.rollout(4, ppo.policy, break_when_any_done=False)
        >>> [loss.shape for loss in ppo.losses(batch)] == 6 * [torch.Size([])]
        True
    """

    def __init__(self, epochs: int = 4, minibatch: int = 256) -> None:
        super().__init__()
        self.epochs, self.minibatch = epochs, minibatch
        logits = TensorDictModule(_network(2), ["observation"], ["logits"])
        self.policy = ProbabilisticActor(
            logits, in_keys=["logits"], distribution_class=Categorical, return_log_prob=True
        )
        critic = ValueOperator(_network(1))
        self._advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
        self._loss = ClipPPOLoss(
            self.policy, critic, entropy_coeff=0.01, critic_coeff=0.5, loss_critic_type="l2", normalize_advantage=True
        )

    def losses(self, batch: TensorDictBase) -> Iterator[torch.Tensor]:
        """Yield loss after loss, each a number; take a step of the optimizer for each.

        Args:
            batch: steps of the policy, of shape ``[envs, time]``.

        Yields:
            The losses, of shape ``[]``.
        """
        with torch.no_grad():
            self._advantage(batch)
        steps = batch.reshape(-1)
        for _ in range(self.epochs):
            for rows in torch.randperm(len(steps)).split(self.minibatch):
                terms = self._loss(steps[rows])
                yield terms["loss_objective"] + terms["loss_critic"] + terms["loss_entropy"]


def _network(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


def learn_with(improve: Callable[[Any, torch.Tensor], Any], batches: int = 20) -> tuple[list[float], list[float]]:
    """Train on CartPole with somebody's step of the optimizer.

    Args:
        improve: called with the optimizer and each loss.
        batches: how many batches of 1024 steps.

    Returns:
        The frames at which episodes ended, and their returns.
    """
    torch.manual_seed(0)
    envs = CartPoleEnv(batch_size=[32], categorical_action_encoding=True, seed=0)
    ppo = PPO()
    optimizer = torch.optim.Adam(ppo.parameters(), lr=3e-3)
    collector = Collector(envs, ppo.policy, frames_per_batch=1024, total_frames=1024 * batches)
    monitor = TrainingMonitor()
    for batch in monitor.watch(collector):
        for loss in ppo.losses(batch):
            improve(optimizer, loss)
    frames, returns = monitor["return"]
    return frames.tolist(), returns.tolist()

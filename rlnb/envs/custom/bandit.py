"""Multi-armed bandits with Gaussian or Bernoulli rewards, batched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.envs.custom.tensor_env import TensorEnv

Rewards = Literal["gaussian", "bernoulli"]


class BanditEnv(TensorEnv):
    """A stationary k-armed bandit: pulling arm a gives a random reward whose mean q*(a) stays the same.

    The observation is how often each arm was pulled in the episode, ``[*batch_size, k]``. Episodes never terminate;
    they are truncated after ``max_steps``. Without ``means``, a reset makes a new bandit: the means of Gaussian arms
    are drawn from N(0, 1), as in the 10-armed testbed (a batch of 2,000), those of Bernoulli arms from U(0, 1).

    Source: R. S. Sutton and A. G. Barto, "Reinforcement Learning: An Introduction", second edition, 2018,
    sections 2.1 and 2.3.

    Args:
        means: the mean reward of each arm, ``[k]`` or ``[*batch_size, k]``: probabilities for Bernoulli arms.
            ``None`` (the default): drawn at each reset.
        n_arms: k, if no means are given.
        rewards: "gaussian" (the mean plus noise) or "bernoulli" (1 with the mean as its probability, else 0).
        std: the standard deviation of Gaussian rewards.
        batch_size, device, seed, max_steps, categorical_action_encoding: see
            :class:`~rlnb.envs.custom.tensor_env.TensorEnv`.

    Raises:
        ValueError: If the means do not fit the batch size or are not probabilities, or another argument has an
            illegal value.

    Example:
        >>> env = BanditEnv([0.2, 0.8], rewards="bernoulli", seed=0, categorical_action_encoding=True)
        >>> rollout = env.rollout(1000, lambda pulls: torch.tensor(1))
        >>> rollout["next", "observation"][-1].tolist(), 0.75 < rollout["next", "reward"].mean() < 0.85
        ([0, 1000], tensor(True))
    """

    def __init__(
        self,
        means: torch.Tensor | Sequence[float] | None = None,
        *,
        n_arms: int = 10,
        rewards: Rewards = "gaussian",
        std: float = 1.0,
        batch_size: Sequence[int] | None = None,
        device: torch.device | str | int | None = None,
        seed: int | None = None,
        max_steps: int | None = 1000,
        categorical_action_encoding: bool = False,
    ) -> None:
        if rewards not in get_args(Rewards):
            raise ValueError(f"rewards must be one of {', '.join(map(repr, get_args(Rewards)))} and is {rewards!r}.")
        given = None if means is None else _read_means(means, torch.Size(batch_size or ()), rewards)
        n_arms = n_arms if given is None else given.shape[-1]
        if n_arms < 1:
            raise ValueError(f"A bandit needs at least one arm, and n_arms is {n_arms!r}.")
        if not std >= 0:
            raise ValueError(f"std must be a standard deviation of 0 or more and is {std!r}.")
        super().__init__(n_arms, batch_size, device, seed, max_steps, categorical_action_encoding)
        self.rewards, self.std = rewards, std
        self._means = given if given is None else given.to(self.device)
        shape = (*self.batch_size, n_arms)
        pulls: TensorSpec = Unbounded(shape=shape, dtype=torch.int64, device=self.device)
        if max_steps is not None:
            pulls = Bounded(0, max_steps, shape=shape, dtype=torch.int64, device=self.device)
        self.observation_spec = Composite({"observation": pulls}, shape=self.batch_size)
        if rewards == "bernoulli":
            self.reward_spec = Bounded(0.0, 1.0, shape=(*self.batch_size, 1), device=self.device)

    @property
    def means(self) -> torch.Tensor | None:
        """The mean reward of each arm in the current episode, ``[*batch_size, k]``; None before the first reset."""
        return None if self._state is None else self._state[..., 0, :].clone()

    def _initial_state(self) -> torch.Tensor:
        """Stack the means (row 0) and pulls (row 1, whole numbers) of the arms: ``[*batch_size, 2, k]``."""
        state = torch.zeros((*self.batch_size, 2, self.n_actions), device=self.device)
        means = state[..., 0, :]
        if self._means is not None:
            means.copy_(self._means)
        elif self.rewards == "gaussian":
            means.normal_(generator=self.generator)
        else:
            means.uniform_(generator=self.generator)
        return state

    def _observe(self, state: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"observation": state[..., 1, :].to(torch.int64)}

    def _transition(self, state: torch.Tensor, action: torch.Tensor) -> tuple[torch.Tensor, ...]:
        arm = action.unsqueeze(-1)
        mean = state[..., 0, :].gather(-1, arm).squeeze(-1)
        noise = torch.empty(self.batch_size, device=self.device)
        if self.rewards == "gaussian":
            reward = noise.normal_(generator=self.generator).mul_(self.std).add_(mean)
        else:
            reward = (noise.uniform_(generator=self.generator) < mean).to(torch.float32)
        state = state.clone()
        state[..., 1, :].scatter_add_(-1, arm, torch.ones(arm.shape, device=self.device))
        return state, reward, torch.zeros(self.batch_size, dtype=torch.bool, device=self.device)


def _read_means(means: Any, batch_size: torch.Size, rewards: str) -> torch.Tensor:
    values = torch.as_tensor(means, dtype=torch.float32)
    if values.ndim == 0 or values.shape[:-1] not in (torch.Size(), batch_size):
        raise ValueError(
            f"means must have shape [k] or [*batch_size, k], with the batch size {tuple(batch_size)}, and has "
            f"{tuple(values.shape)}."
        )
    if not bool(torch.isfinite(values).all()):
        raise ValueError("means must be finite numbers.")
    if rewards == "bernoulli" and not bool(((values >= 0) & (values <= 1)).all()):
        worst = round(values.flatten()[(values - 0.5).abs().argmax()].item(), 6)
        raise ValueError(f"The means of Bernoulli arms are probabilities, from 0 to 1, and one is {worst}.")
    return values.clone()

"""Mountain car, batched: underpowered cars in a valley."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.composite import Composite
from rlnb.envs.custom.tensor_env import TensorEnv

MIN_POSITION, MAX_POSITION = -1.2, 0.6
MAX_SPEED = 0.07  # per step
GOAL_POSITION = 0.5
FORCE, GRAVITY = 0.001, 0.0025
START = (-0.6, -0.4)  # the first position is uniform between them, the first velocity 0


class MountainCarEnv(TensorEnv):
    """A car in a valley, to be driven up the right hill by pushing left (0), not at all (1) or right (2).

    The observation is (position, velocity). The reward is -1 for each step. An episode is terminated at position 0.5
    with no velocity to the left, and truncated after ``max_steps``. Physics, rewards and ends are those of Gymnasium's
    MountainCar-v0.

    Source: A. W. Moore, "Efficient memory-based learning for robot control", PhD thesis, University of Cambridge,
    1990; in this form R. S. Sutton and A. G. Barto, "Reinforcement Learning: An Introduction", second edition, 2018,
    example 10.1.

    Args:
        batch_size, device, seed, max_steps, categorical_action_encoding: see
            :class:`~rlnb.envs.custom.tensor_env.TensorEnv`.
        dtype: dtype of the state between steps. ``torch.float64`` gives Gymnasium's trajectories; ``torch.float32``
            (the default) is faster. Observations are float32 either way.

    Example:
        >>> env = MountainCarEnv(batch_size=[3], seed=0)
        >>> env.rollout(300)["next", "truncated"][:, -1].flatten().tolist()
        [True, True, True]
    """

    def __init__(
        self,
        *,
        batch_size: Sequence[int] | None = None,
        device: torch.device | str | int | None = None,
        seed: int | None = None,
        max_steps: int | None = 200,
        categorical_action_encoding: bool = False,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(3, batch_size, device, seed, max_steps, categorical_action_encoding)
        self.dtype = dtype
        shape = (*self.batch_size, 2)
        low = torch.tensor([MIN_POSITION, -MAX_SPEED], device=self.device).expand(shape)
        high = torch.tensor([MAX_POSITION, MAX_SPEED], device=self.device).expand(shape)
        observation = Bounded(low, high, shape=shape, dtype=torch.float32, device=self.device)
        self.observation_spec = Composite({"observation": observation}, shape=self.batch_size)

    def _initial_state(self) -> torch.Tensor:
        state = torch.zeros((*self.batch_size, 2), dtype=self.dtype, device=self.device)
        state[..., 0].uniform_(*START, generator=self.generator)
        return state

    def _transition(self, state: torch.Tensor, action: torch.Tensor) -> tuple[torch.Tensor, ...]:
        state = drive(state, action)
        position, velocity = state.unbind(-1)
        reward = torch.full(self.batch_size, -1.0, device=self.device)
        return state, reward, (position >= GOAL_POSITION) & (velocity >= 0)


def drive(state: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """Advance the state (position, velocity), ``[..., 2]``, by one time step. The car stops at the left wall.

    The action 0 pushes left, 1 not at all, 2 right, ``[...]``.

    Example:
        >>> drive(torch.tensor([-1.2, -0.05]), torch.tensor(0))
        tensor([-1.2000,  0.0000])
    """
    position, velocity = state.unbind(-1)
    push = action.to(state.dtype).sub_(1).mul_(FORCE)
    velocity = (velocity + push.sub_((3 * position).cos_().mul_(GRAVITY))).clamp_(-MAX_SPEED, MAX_SPEED)
    position = (position + velocity).clamp_(MIN_POSITION, MAX_POSITION)
    velocity.masked_fill_((position == MIN_POSITION) & (velocity < 0), 0.0)
    return torch.stack((position, velocity), -1)

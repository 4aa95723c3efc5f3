"""Cart-pole, batched: thousands of poles on carts in one process."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.composite import Composite
from rlnb.envs.custom.tensor_env import TensorEnv

GRAVITY = 9.8  # m / s^2
CART_MASS, POLE_MASS = 1.0, 0.1  # kg
HALF_LENGTH = 0.5  # m, from the hinge to the centre of the pole
FORCE = 10.0  # N
TAU = 0.02  # s, between two states
X_LIMIT, THETA_LIMIT = 2.4, math.radians(12)  # m, rad
START = 0.05  # each component of the first state is uniform within +-START

_TOTAL_MASS = CART_MASS + POLE_MASS
_POLE_MOMENT = POLE_MASS * HALF_LENGTH


class CartPoleEnv(TensorEnv):
    """A pole on a cart, to be kept upright by pushing the cart left (0) or right (1), in any number of copies.

    The observation is (x, x_dot, theta, theta_dot) in m, m/s, rad and rad/s. The reward is 1 for each step, the one
    that ends the episode included. An episode is terminated when the cart is more than 2.4 m from the centre or the
    pole more than 12 degrees from upright, and truncated after ``max_steps``. Physics, rewards and ends are those of
    Gymnasium's CartPole-v1.

    Source: A. G. Barto, R. S. Sutton and C. W. Anderson, "Neuronlike adaptive elements that can solve difficult
    learning control problems", IEEE Transactions on Systems, Man, and Cybernetics 13(5), 1983, pages 834-846. The
    equations of motion are those without friction.

    Args:
        batch_size, device, seed, max_steps, categorical_action_encoding: see
            :class:`~rlnb.envs.custom.tensor_env.TensorEnv`.
        dtype: dtype of the state between steps. ``torch.float64`` gives Gymnasium's trajectories; ``torch.float32``
            (the default) is faster. Observations are float32 either way.

    Example:
        >>> env = CartPoleEnv(batch_size=[1024], seed=0)
        >>> rollout = env.rollout(100, break_when_any_done=False)
        >>> rollout.batch_size, bool(rollout["next", "done"].any())
        (torch.Size([1024, 100]), True)
        >>> env.reset(state=torch.zeros(1024, 4))["observation"].abs().max()
        tensor(0.)
    """

    def __init__(
        self,
        *,
        batch_size: Sequence[int] | None = None,
        device: torch.device | str | int | None = None,
        seed: int | None = None,
        max_steps: int | None = 500,
        categorical_action_encoding: bool = False,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(2, batch_size, device, seed, max_steps, categorical_action_encoding)
        self.dtype = dtype
        shape = (*self.batch_size, 4)
        high = torch.tensor([2 * X_LIMIT, math.inf, 2 * THETA_LIMIT, math.inf], device=self.device).expand(shape)
        observation = Bounded(-high, high, shape=shape, dtype=torch.float32, device=self.device)
        self.observation_spec = Composite({"observation": observation}, shape=self.batch_size)

    def _initial_state(self) -> torch.Tensor:
        state = torch.empty((*self.batch_size, 4), dtype=self.dtype, device=self.device)
        return state.uniform_(-START, START, generator=self.generator)

    def _transition(self, state: torch.Tensor, action: torch.Tensor) -> tuple[torch.Tensor, ...]:
        state = move(state, action)
        x, _, theta, _ = state.unbind(-1)
        reward = (~self._over).to(torch.float32)
        return state, reward, (x.abs() > X_LIMIT) | (theta.abs() > THETA_LIMIT)


def move(state: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """Advance the state (x, x_dot, theta, theta_dot), ``[..., 4]``, by ``TAU`` seconds with Euler's method.

    The action 0 pushes left, 1 pushes right, ``[...]``.

    Example:
        >>> move(torch.zeros(4), torch.tensor(1))[1]
        tensor(0.1951)
    """
    if state.dtype is torch.float64:
        return _move_exactly(state, action)
    _, x_dot, theta, theta_dot = state.unbind(-1)
    force = action.to(state.dtype).mul_(2 * FORCE).sub_(FORCE)
    cos, sin = theta.cos(), theta.sin()
    push = theta_dot.square().mul_(sin).mul_(_POLE_MOMENT).add_(force).div_(_TOTAL_MASS)
    inertia = cos.square().mul_(-POLE_MASS / _TOTAL_MASS).add_(4 / 3).mul_(HALF_LENGTH)
    theta_acc = sin.mul_(GRAVITY).sub_(cos * push).div_(inertia)
    x_acc = push.sub_(cos.mul_(theta_acc).mul_(_POLE_MOMENT / _TOTAL_MASS))
    return torch.add(state, torch.stack((x_dot, x_acc, theta_dot, theta_acc), -1), alpha=TAU)


def _move_exactly(state: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """Same as :func:`move` in the order of Gymnasium's operations, so that the rounding is the same, bit for bit."""
    _, x_dot, theta, theta_dot = state.unbind(-1)
    force = (action.to(state.dtype) * 2 - 1) * FORCE
    cos, sin = theta.cos(), theta.sin()
    if state.device.type == "cpu" and not state.requires_grad:  # torch rounds some of them differently
        cos, sin = torch.from_numpy(np.cos(theta.numpy())), torch.from_numpy(np.sin(theta.numpy()))
    push = (force + _POLE_MOMENT * theta_dot.square() * sin) / _TOTAL_MASS
    inertia = HALF_LENGTH * (4 / 3 - POLE_MASS * cos.square() / _TOTAL_MASS)
    theta_acc = (GRAVITY * sin - cos * push) / inertia
    x_acc = push - _POLE_MOMENT * theta_acc * cos / _TOTAL_MASS
    return state + TAU * torch.stack((x_dot, x_acc, theta_dot, theta_acc), -1)

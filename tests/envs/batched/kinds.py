"""One env of each kind that a batch may hold. Workers import this module, so its imports are kept to a minimum."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium
import numpy as np
import torch
from tensordict import TensorDict

from rlnb.data import Composite, Unbounded
from rlnb.envs import (
    ActionMask,
    CartPoleEnv,
    ConnectFourEnv,
    EnvBase,
    GridWorldEnv,
    GymEnv,
    GymWrapper,
    ParallelEnv,
    PendulumEnv,
    SerialEnv,
    SpreadEnv,
    StepCounter,
    TicTacToeEnv,
    Transform,
    TransformedEnv,
)


class Rooms(gymnasium.Env):
    """A Gymnasium env with a Dict observation, of numbers and of indices."""

    observation_space = gymnasium.spaces.Dict(
        {"place": gymnasium.spaces.Box(-1, 1, (2,)), "room": gymnasium.spaces.Discrete(4)}
    )
    action_space = gymnasium.spaces.MultiDiscrete([2, 3])

    def _see(self):
        return {"place": self.np_random.uniform(-1, 1, 2).astype(np.float32), "room": int(self.np_random.integers(4))}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._see(), {}

    def step(self, action):
        self.t += 1
        return self._see(), float(np.sum(action)), self.t == 5, self.t == 7, {}


class Counter(EnvBase):
    """Counts its steps, in steps of its own size; can be told to misbehave at one of them."""

    def __init__(self, size=1, length=5, at=2, misbehave=None, at_reset=None):
        super().__init__()
        self.size, self.length, self.at, self.misbehave, self.at_reset = size, length, at, misbehave, at_reset
        self.observation_spec = Composite(count=Unbounded((1,)))
        self.action_spec = Unbounded((1,))
        self.colour, self.resets, self.options = "red", 0, []

    def _reset(self, tensordict=None, **kwargs):
        self.options.append(kwargs)
        self.t, self.resets = 0, self.resets + 1
        if self.at_reset is not None:
            self.at_reset(self)
        return TensorDict({"count": torch.zeros(1)})

    def _step(self, tensordict):
        self.t += 1
        if self.misbehave is not None and self.t == self.at:
            wrong = self.misbehave(self)
            if wrong is not None:
                return wrong
        count = torch.full((1,), float(self.t * self.size))
        return TensorDict({"count": count, "reward": count.clone(), "done": torch.tensor([self.t >= self.length])})

    def _set_seed(self, seed):
        self.seeded = seed

    def _cannot(self):
        return (i for i in range(3))

    def add(self, a, b=0):
        return self.size + a + b


class Tally(Transform):
    """Counts in a buffer how many observations it has seen."""

    def __init__(self):
        super().__init__(in_keys=["observation"], out_keys=["observation"])
        self.register_buffer("seen", torch.zeros(1))

    def _apply_transform(self, obs):
        self.seen += 1
        return obs


KINDS: dict[str, Callable[[], EnvBase]] = {
    "one-hot": lambda: GymEnv("CartPole-v1"),
    "indices": lambda: GymEnv("FrozenLake-v1", categorical_action_encoding=True),
    "continuous": lambda: GymEnv("Pendulum-v1", max_episode_steps=9),
    "dict": lambda: GymWrapper(Rooms()),
    "pixels": lambda: GymEnv("CartPole-v1", from_pixels=True, pixels_only=False),
    "on a device": lambda: GymEnv("CartPole-v1", device="cpu"),
    "torch": CartPoleEnv,
    "torch batch": lambda: CartPoleEnv(batch_size=[2], max_steps=9),
    "masked": lambda: GridWorldEnv(action_mask=True, max_steps=12),
    "stateless": PendulumEnv,
    "agents": lambda: SpreadEnv(2, 3, agent_done=True, max_steps=9),
    "game": TicTacToeEnv,
    "larger game": ConnectFourEnv,
    "transformed": lambda: TransformedEnv(GymEnv("CartPole-v1"), StepCounter(max_steps=7)),
    "vector": lambda: GymEnv("CartPole-v1", num_envs=2),
    "serial": lambda: SerialEnv(2, lambda: GymEnv("CartPole-v1")),
    "parallel": lambda: ParallelEnv(2, lambda: GymEnv("CartPole-v1"), mp_start_method="fork"),
    "legal": lambda: TransformedEnv(GridWorldEnv(["S.#", "#.G"], action_mask=True, max_steps=9), ActionMask()),
    "transformed serial": lambda: TransformedEnv(SerialEnv(2, CartPoleEnv), StepCounter(max_steps=6)),
}

"""Environments that misbehave in one way each."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium
import numpy as np
import pytest
import torch
from tensordict import TensorDict

from rlnb.data import Categorical, Composite, Unbounded
from rlnb.envs import EnvBase


class Counter(EnvBase):
    """Counts its steps and ends after ``length`` of them; any part can be replaced by a function."""

    def __init__(self, batch_size=(), length=3, reset=None, step=None, **kwargs):
        super().__init__(batch_size=batch_size, **kwargs)
        batch = tuple(batch_size)
        self.observation_spec = Composite({"observation": Unbounded(shape=(*batch, 1))}, shape=batch)
        self.action_spec = Categorical(2, shape=batch)
        self.length = length
        self.resets = 0
        self.reset_function = reset
        self.step_function = step

    def _reset(self, tensordict=None, **kwargs):
        self.resets += 1
        if self.reset_function is not None:
            return self.reset_function(self)
        return TensorDict({"observation": torch.zeros(*self.batch_size, 1)}, self.batch_size)

    def _step(self, tensordict):
        if self.step_function is not None:
            return self.step_function(self, tensordict)
        observation = tensordict["observation"] + 1
        data = {"observation": observation, "reward": observation * 2, "done": observation >= self.length}
        return TensorDict(data, tensordict.batch_size)

    def _set_seed(self, seed):
        self.seed = seed


@pytest.fixture
def counter() -> Callable[..., Counter]:
    return Counter


class Scripted(gymnasium.Env):
    """A Gymnasium env whose every answer is given."""

    def __init__(self, observation_space, action_space=None, observe=None, length=5, reward=1.0):
        self.observation_space = observation_space
        self.action_space = action_space or gymnasium.spaces.Discrete(2)
        self.observe = observe or (lambda t: observation_space.sample())
        self.length, self.reward, self.actions = length, reward, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.t = 0
        return self.observe(0), {}

    def step(self, action):
        self.actions.append(action)
        self.t += 1
        return self.observe(self.t), self.reward, self.t >= self.length, False, {}


@pytest.fixture
def scripted() -> Callable[..., Scripted]:
    return Scripted


@pytest.fixture
def box() -> gymnasium.spaces.Box:
    return gymnasium.spaces.Box(-1, 1, (3,), np.float32)

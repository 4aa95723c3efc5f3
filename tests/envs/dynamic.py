"""Envs whose observations change in size: the documented ones, and some that specs cannot describe."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlnb.data import Binary, Bounded, Composite, Unbounded
from rlnb.envs import EnvBase


class EnvWithDynamicSpec(EnvBase):
    """The documentation's: at time t the observation has shape (3, start + t, 2) and is full of t."""

    def __init__(self, max_count=5, start=1):
        super().__init__(batch_size=())
        self.observation_spec = Composite(observation=Unbounded(shape=(3, -1, 2)))
        self.action_spec = Bounded(low=-1, high=1, shape=(2,))
        self.full_done_spec = Composite(
            done=Binary(1, shape=(1,), dtype=torch.bool),
            terminated=Binary(1, shape=(1,), dtype=torch.bool),
            truncated=Binary(1, shape=(1,), dtype=torch.bool),
        )
        self.reward_spec = Unbounded((1,), dtype=torch.float)
        self.count = 0
        self.max_count = max_count
        self.start = start

    def _observe(self):
        shape = (3, self.start + self.count, 2)
        return TensorDict({"observation": torch.full(shape, self.count, dtype=torch.float)})

    def _reset(self, tensordict=None):
        self.count = 0
        return self._observe().update(self.full_done_spec.zero())

    def _step(self, tensordict):
        self.count += 1
        done = self.full_done_spec.zero() | (self.count >= self.max_count)
        return self._observe().update(done).update(self.full_reward_spec.zero())

    def _set_seed(self, seed):
        self.manual_seed = seed


class Goes(EnvWithDynamicSpec):
    """The observation is missing at step 2."""

    def _step(self, tensordict):
        result = super()._step(tensordict)
        return result.exclude("observation") if self.count == 2 else result


class Comes(EnvWithDynamicSpec):
    """There is one entry more at step 2."""

    def _step(self, tensordict):
        result = super()._step(tensordict)
        return result.set("more", torch.zeros(1)) if self.count == 2 else result


class MoreDims(EnvWithDynamicSpec):
    """At step 2 the observation has one dimension more."""

    def _step(self, tensordict):
        result = super()._step(tensordict)
        return result.set("observation", torch.zeros(3, 1, 1, 2)) if self.count == 2 else result


class Undeclared(EnvWithDynamicSpec):
    """The spec says that the size is fixed, and it is not."""

    def __init__(self):
        super().__init__()
        self.observation_spec = Composite(observation=Unbounded(shape=(3, 1, 2)))

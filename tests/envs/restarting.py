"""Envs that reset themselves: the step that ends an episode returns the first observation of the next."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlnb.data import Binary, Bounded, Categorical, Composite, NonTensor, OneHot, Unbounded
from rlnb.envs import EnvBase, GymEnv


class AutoResettingGymEnv(GymEnv):
    """The documentation's, which also counts its resets."""

    resets = 0

    def _step(self, tensordict):
        tensordict = super()._step(tensordict)
        if tensordict["done"].any():
            td_reset = super().reset()
            tensordict.update(td_reset.exclude(*self.done_keys))
        return tensordict

    def _reset(self, tensordict=None):
        self.resets += 1
        if tensordict is not None and "_reset" in tensordict:
            return tensordict.copy()
        return super()._reset(tensordict)


class Restarting(EnvBase):
    """Rows that end after ``lengths`` steps and restart by themselves; every observation tells its episode and time."""

    def __init__(self, lengths, text=False, **kwargs):
        self.lengths = torch.as_tensor(lengths)
        batch = tuple(self.lengths.shape)
        super().__init__(batch_size=batch, **kwargs)
        specs = {
            "place": Bounded(0, 99, shape=(*batch, 2)),
            "whole": Categorical(100, shape=batch),
            "code": OneHot(100, shape=(*batch, 100), dtype=torch.long),
            "byte": Bounded(0, 99, shape=(*batch, 1), dtype=torch.uint8),
            "even": Binary(shape=(*batch, 1), dtype=torch.bool),
            "deep": Composite({"place": Unbounded(shape=(*batch, 2))}, shape=batch),
        }
        if text:
            specs["text"] = NonTensor(shape=batch, example_data="")
        self.observation_spec = Composite(specs, shape=batch)
        self.action_spec = Categorical(2, shape=batch)
        self.reward_spec = Unbounded(shape=(*batch, 1))
        self.episode, self.t = torch.full(batch, -1), torch.zeros(batch, dtype=torch.long)
        self.masks = []

    def _observe(self):
        place = torch.stack([self.episode, self.t], -1).float()
        data = {
            "place": place,
            "whole": self.t.clone(),
            "code": torch.nn.functional.one_hot(self.t, 100),
            "byte": self.t.to(torch.uint8).unsqueeze(-1),
            "even": (self.t % 2 == 0).unsqueeze(-1),
            "deep": TensorDict({"place": place + 1}, self.batch_size),
        }
        if "text" in self.observation_keys:
            data["text"] = self.observation_spec["text"].encode(f"time {int(self.t)}")
        return TensorDict(data, self.batch_size)

    def _restart(self, rows):
        self.episode, self.t = torch.where(rows, self.episode + 1, self.episode), torch.where(rows, 0, self.t)

    def _reset(self, tensordict=None):
        mask = None if tensordict is None else tensordict.get("_reset", None)
        self.masks.append(None if mask is None else mask.squeeze(-1).tolist())
        self._restart(torch.ones_like(self.t, dtype=torch.bool) if mask is None else mask.squeeze(-1))
        return self._observe()

    def _step(self, tensordict):
        self.t = self.t + 1
        done = self.t >= self.lengths
        self._restart(done)
        return self._observe().update({"reward": torch.ones(*self.batch_size, 1), "done": done.unsqueeze(-1)})

    def _set_seed(self, seed):
        self.episode = torch.full(self.batch_size, -1)


class RestartingGroups(EnvBase):
    """Two groups of agents that end, and restart, at different times; there is no end for all of them."""

    def __init__(self):
        super().__init__()
        self.lengths = {"fast": 2, "slow": 3}
        flag = Categorical(2, shape=(1,), dtype=torch.bool)
        self.observation_spec = Composite(
            {"clock": Unbounded(shape=(1,)), **{name: {"place": Unbounded(shape=(1,))} for name in self.lengths}}
        )
        self.action_spec = Composite({name: {"action": Categorical(2)} for name in self.lengths})
        self.reward_spec = Composite({name: {"reward": Unbounded(shape=(1,))} for name in self.lengths})
        self.done_spec = Composite({name: {"done": flag.clone()} for name in self.lengths})
        self.resets = 0

    def _observe(self):
        places = {name: {"place": torch.tensor([float(t)])} for name, t in self.times.items()}
        return TensorDict({"clock": torch.tensor([float(self.clock)]), **places})

    def _reset(self, tensordict=None):
        self.resets += 1
        self.clock, self.times = 0, dict.fromkeys(self.lengths, 0)
        return self._observe()

    def _step(self, tensordict):
        self.clock += 1
        done = {name: self.times[name] + 1 >= length for name, length in self.lengths.items()}
        self.times = {name: 0 if done[name] else t + 1 for name, t in self.times.items()}
        result = self._observe()
        for name in self.lengths:
            result[name].update({"reward": torch.ones(1), "done": torch.tensor([done[name]])})
        return result

    def _set_seed(self, seed):
        pass

"""Envs whose pixels count the steps, so that each frame identifies itself."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlnb.data import Bounded, Categorical, Composite, Unbounded
from rlnb.envs import EnvBase


class Counting(EnvBase):
    """Counts the steps since the reset, up to ``length``, and shows the count in each pixel.

    Args:
        batch_size: envs of a batch; env i ends after ``length + i`` steps.
        shape: shape of an image.
        dtype: dtype of the images.
    """

    def __init__(self, batch_size=(), length=4, shape=(12, 16, 3), dtype=torch.uint8):
        super().__init__(batch_size=batch_size)
        self.image = shape
        batch = self.batch_size
        self.observation_spec = Composite({"pixels": Bounded(0, 255, shape=(*batch, *shape), dtype=dtype)}, shape=batch)
        self.action_spec = Bounded(-1, 1, shape=(*batch, 1))
        self.reward_spec = Unbounded(shape=(*batch, 1))
        flag = Categorical(2, shape=(*batch, 1), dtype=torch.bool)
        self.done_spec = Composite({"done": flag, "terminated": flag.clone()}, shape=batch)
        self.lengths = length + torch.arange(batch.numel()).reshape(batch)
        self.count = torch.zeros(batch, dtype=torch.int64)
        self.episodes = torch.zeros(batch, dtype=torch.int64)

    def _pixels(self):
        value = self.count + 10 * self.episodes
        value = value.reshape(*self.batch_size, *[1] * len(self.image))
        return value.expand(*self.batch_size, *self.image).to(self.observation_spec["pixels"].dtype).contiguous()

    def _ends(self):
        done = (self.count >= self.lengths).unsqueeze(-1)
        return {"done": done, "terminated": done.clone()}

    def _reset(self, tensordict=None, **kwargs):
        mask = None if tensordict is None else tensordict.get("_reset", None)
        mask = torch.ones(self.batch_size, dtype=torch.bool) if mask is None else mask.reshape(self.batch_size)
        self.count = torch.where(mask, 0, self.count)
        self.episodes = self.episodes + mask
        pixels = self._pixels()
        pixels[~mask] = 255  # what a transform sees of the other rows means nothing
        return TensorDict({"pixels": pixels, **self._ends()}, self.batch_size)

    def _step(self, tensordict):
        self.count = self.count + 1
        reward = self.count.to(torch.float32).unsqueeze(-1)
        return TensorDict({"pixels": self._pixels(), "reward": reward, **self._ends()}, self.batch_size)

    def _set_seed(self, seed):
        self.episodes = torch.zeros_like(self.episodes)

    def render(self, factor=1):
        """Return the images of all envs, as numpy does."""
        return (self._pixels() * factor).numpy()

"""``TimeMaxPool``, the elementwise maximum of the last observations."""

from __future__ import annotations

from functools import reduce

import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.transforms.frames import Frames, FrameTransform
from rlnb.envs.transforms.transform import Keys


class TimeMaxPool(FrameTransform):
    """Takes the elementwise maximum of the last ``T`` observations of the episode.

    Atari games draw some sprites on every other frame only; the maximum over two frames shows them all.

    On a rollout, time is the batch dimension named "time", or the last one.

    Args:
        in_keys: the observations. Default: "observation".
        T: the number of observations.
        reset_key: the mask that selects the rows to reset. Default: the nearest one at or above each entry.

    Raises:
        ValueError: If ``T`` is not positive.

    Example:
        >>> from tensordict import TensorDict
        >>> rollout = {"observation": torch.tensor([[3], [1], [2]]), "next": {"done": torch.zeros(3, 1).bool()}}
        >>> TimeMaxPool(T=2)(TensorDict(rollout, [3]))["observation"].flatten().tolist()
        [3, 3, 2]
    """

    _default_keys = ("observation",)

    def __init__(
        self,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        T: int = 1,
        reset_key: NestedKey | None = None,
    ) -> None:
        if isinstance(T, bool) or not isinstance(T, int) or T < 1:
            raise ValueError(f"TimeMaxPool takes T, the number of observations, as a positive integer and got {T!r}.")
        super().__init__(T, in_keys, out_keys, reset_key, None)
        self.T = T

    def _join(self, frames: Frames) -> torch.Tensor:
        return reduce(torch.maximum, frames) if len(frames) > 1 else frames[0].clone()

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        if spec._event_dims:  # the maximum of encoded choices is not an encoding
            return Unbounded(shape=spec.shape, dtype=spec.dtype, device=spec.device)
        return spec

    def __repr__(self) -> str:
        return f"TimeMaxPool(T={self.T}, keys={self.in_keys})"


__all__ = ["TimeMaxPool"]

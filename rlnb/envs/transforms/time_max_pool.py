"""TimeMaxPool: the greatest of the last observations, entry by entry."""

from __future__ import annotations

from functools import reduce

import torch

from rlnb.data import TensorSpec, Unbounded
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.transforms.frame_transform import FrameTransform
from rlnb.envs.transforms.frames import Frames
from rlnb.envs.transforms.transform import Keys


class TimeMaxPool(FrameTransform):
    """Takes, entry by entry, the greatest of the last ``T`` observations of the episode.

    Atari games draw some sprites on every other frame only; over two frames, each is there.

    As a module it does so along the last batch dimension of a rollout, or the one named "time".

    Args:
        in_keys: the observations. Default: "observation".
        out_keys: where the results go. Default: ``in_keys``.
        T: the number of observations.
        reset_key: of the mask that says which rows a reset starts anew. Default: the nearest one above each entry.

    Raises:
        ValueError: if ``T`` is not positive.

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
        if spec._event_dims:  # the greatest of several encoded choices encodes none
            return Unbounded(shape=spec.shape, dtype=spec.dtype, device=spec.device)
        return spec

    def __repr__(self) -> str:
        return f"TimeMaxPool(T={self.T}, keys={self.in_keys})"


__all__ = ["TimeMaxPool"]

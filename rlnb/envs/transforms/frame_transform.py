"""FrameTransform: the base of transforms that make something of the last few frames, in an env and on a rollout."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.envs.transforms.carried import choose_rows, find_mask
from rlnb.envs.transforms.frames import FrameMemory, Frames, ages, lookback, per_row, time_dim
from rlnb.envs.transforms.observation import ObservationTransform
from rlnb.envs.transforms.transform import Keys, key_list


class FrameTransform(ObservationTransform):
    """The part of :class:`CatFrames` and :class:`TimeMaxPool` that finds the frames.

    A subclass writes ``_join``. After a reset, the frames before the first one are what ``_before`` makes of it.

    Args:
        n: the number of frames.
        in_keys: the entries.
        out_keys: where the results go.
        reset_key: of the mask that says which rows a reset starts anew. Default: the nearest one above each entry.
        done_key: of the end signal that tells episodes apart in a rollout. Default: the nearest one above each entry.
    """

    def __init__(
        self,
        n: int,
        in_keys: Keys | None,
        out_keys: Keys | None,
        reset_key: NestedKey | None,
        done_key: NestedKey | None,
    ) -> None:
        super().__init__(in_keys, out_keys)
        self._n = n
        self.reset_key = None if reset_key is None else key_list([reset_key], "reset_key")[0]
        self.done_key = None if done_key is None else key_list([done_key], "done_key")[0]
        self._memory = FrameMemory()

    def _join(self, frames: Frames) -> torch.Tensor:
        """Make a new tensor of the frames, oldest first."""
        raise NotImplementedError

    def _before(self, frame: torch.Tensor) -> torch.Tensor:
        """Make up the frame before the first one."""
        return frame

    def _assert_frame(self, frame: torch.Tensor, key: NestedKey, batch_dims: int) -> None:
        """Refuse what cannot be joined."""

    # In an env ----------------------------------------------------------------------------------------------------

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            frame = self._read(next_tensordict, in_key)
            if frame is not None:
                frames = self._memory.get(tensordict, out_key)
                frames = self._anew(frame, in_key, tensordict.ndim) if frames is None else (*frames[1:], frame)
                self._write(next_tensordict, out_key, frames)
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        self.__dict__["_at_reset"] = True
        try:
            found = {in_key: self._read(tensordict_reset, in_key) for in_key in self.in_keys}
        finally:
            self.__dict__["_at_reset"] = False
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            if found[in_key] is not None:
                fresh = self._anew(found[in_key], in_key, tensordict_reset.ndim)
                self._write(tensordict_reset, out_key, self._mixed(tensordict, out_key, fresh))
        return tensordict_reset

    def _mixed(self, tensordict: TensorDictBase, out_key: NestedKey, fresh: Frames) -> Frames:
        """Start the rows anew that are reset, and keep the others."""
        mask = find_mask(tensordict, out_key) if self.reset_key is None else tensordict.get(self.reset_key, None)
        old = None if mask is None else self._memory.get(tensordict, out_key)
        if old is None:
            return fresh
        pairs = zip(fresh, old, strict=True)
        return tuple(choose_rows(mask, new, kept, tensordict.ndim) for new, kept in pairs)

    def _anew(self, frame: torch.Tensor, key: NestedKey, batch_dims: int) -> Frames:
        self._assert_frame(frame, key, batch_dims)
        return (*[self._before(frame)] * (self._n - 1), frame)

    def _write(self, data: TensorDictBase, key: NestedKey, frames: Frames) -> None:
        output = self._join(frames)
        self._memory.put(key, output, frames)
        data.set(key, output)

    def _forget(self) -> None:
        super()._forget()
        self._memory = FrameMemory()

    # On a rollout -------------------------------------------------------------------------------------------------

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        values = {key: self._read(next_tensordict, key) for key in self.in_keys}
        found = {}
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            if values[in_key] is not None:
                found[out_key] = self._join(self._frames(next_tensordict, in_key, values[in_key]))
        for key, value in found.items():
            next_tensordict.set(key, value)
        return next_tensordict

    def _frames(self, data: TensorDictBase, key: NestedKey, value: torch.Tensor) -> Frames:
        """Find the frames of every step of a rollout, as an env would have."""
        path = as_tuple(key)
        under_next = path[0] == "next" and len(path) > 1
        own = as_key(path[1:]) if under_next else key
        age = per_row(ages(self, data, own, self.done_key), value, data.ndim)
        self._assert_frame(value, key, data.ndim)
        earlier = data.get(own, None) if under_next else None
        dim = time_dim(self, data)
        if earlier is None:
            return (*self._past(value, age, dim, range(self._n - 1, 0, -1)), value)
        # What a step leads to comes after the frames that it started from, also where the episode ends.
        return (*self._past(earlier, age, dim, range(self._n - 2, -1, -1)), value)

    def _past(self, value: torch.Tensor, age: torch.Tensor, dim: int, steps: range) -> list[torch.Tensor]:
        """Find frames of earlier steps, and those that a reset makes up."""
        return lookback(value, age, dim, steps)


__all__ = ["FrameTransform"]

"""``FrameTransform``, the base class of transforms of the last few frames, in envs and on rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from torch.utils.weak import WeakTensorKeyDictionary

from rlnb.data.ted.keys import DONE, NestedKey, as_key, as_tuple
from rlnb.envs.transforms.carried import choose_rows, find_mask
from rlnb.envs.transforms.errors import missing_key
from rlnb.envs.transforms.observation import ObservationTransform
from rlnb.envs.transforms.transform import Keys, key_list

Frames = tuple[torch.Tensor, ...]


class FrameMemory:
    """The last frames of each entry.

    Frames cannot be recovered from the data alone, because a transform further out may change what was written: frames
    that are normalized after stacking must not come back as previous frames. If the data holds the very tensor that was
    written, the frames of that tensor are returned, so that a step may be repeated from an earlier state; otherwise the
    latest ones.
    """

    def __init__(self) -> None:
        self._last: dict[NestedKey, Frames] = {}
        self._of_output = WeakTensorKeyDictionary()

    def get(self, tensordict: TensorDictBase, key: NestedKey) -> Frames | None:
        """Return the frames up to the previous step, oldest first; ``None`` if there are none yet."""
        value = tensordict.get(key, None)
        found = self._of_output.get(value) if isinstance(value, torch.Tensor) else None
        frames: Frames | None = self._last.get(key) if found is None else found
        if frames is not None and frames[0].shape[: tensordict.ndim] != tensordict.batch_size:
            return None  # a stateless env was given data of another batch size
        return frames

    def put(self, key: NestedKey, output: torch.Tensor, frames: Frames) -> None:
        """Store the frames, oldest first, of the tensor that is written, which nothing else refers to yet."""
        self._last[key] = self._of_output[output] = frames

    def __getstate__(self) -> dict[str, Any]:
        return {"_last": self._last}

    def __setstate__(self, state: dict[str, Any]) -> None:
        FrameMemory.__init__(self)
        self._last.update(state["_last"])


class FrameTransform(ObservationTransform):
    """Base class of :class:`CatFrames` and :class:`TimeMaxPool`, which combine the last ``n`` frames.

    A subclass implements ``_join``. After a reset, the frames before the first one are copies of ``_pad`` of it.
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

    def _pad(self, frame: torch.Tensor) -> torch.Tensor:
        """Return the padding before the first frame of an episode."""
        return frame

    def _assert_frame(self, frame: torch.Tensor, key: NestedKey, batch_dims: int) -> None:
        """Raise ``ValueError`` if frames of this shape cannot be joined."""

    # In an env ----------------------------------------------------------------------------------------------------

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            frame = self._read(next_tensordict, in_key)
            if frame is not None:
                frames = self._memory.get(tensordict, out_key)
                frames = self._padded_start(frame, in_key, tensordict.ndim) if frames is None else (*frames[1:], frame)
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
                fresh = self._padded_start(found[in_key], in_key, tensordict_reset.ndim)
                self._write(tensordict_reset, out_key, self._restarted(tensordict, out_key, fresh))
        return tensordict_reset

    def _restarted(self, tensordict: TensorDictBase, out_key: NestedKey, fresh: Frames) -> Frames:
        """Return fresh frames in the rows that are reset, and the previous ones in the others."""
        mask = find_mask(tensordict, out_key) if self.reset_key is None else tensordict.get(self.reset_key, None)
        old = None if mask is None else self._memory.get(tensordict, out_key)
        if old is None:
            return fresh
        pairs = zip(fresh, old, strict=True)
        return tuple(choose_rows(mask, new, kept, tensordict.ndim) for new, kept in pairs)

    def _padded_start(self, frame: torch.Tensor, key: NestedKey, batch_dims: int) -> Frames:
        """Return the frames at the start of an episode."""
        self._assert_frame(frame, key, batch_dims)
        return (*[self._pad(frame)] * (self._n - 1), frame)

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
        """Return the frames of every step of a rollout, as an env would collect them."""
        path = as_tuple(key)
        under_next = path[0] == "next" and len(path) > 1
        own = as_key(path[1:]) if under_next else key
        age = per_row(ages(self, data, own, self.done_key), value, data.ndim)
        self._assert_frame(value, key, data.ndim)
        earlier = data.get(own, None) if under_next else None
        dim = time_dim(self, data)
        if earlier is None:
            return (*self._past(value, age, dim, range(self._n - 1, 0, -1)), value)
        # The frame under "next" follows those of the root of the same step, even where the episode ends.
        return (*self._past(earlier, age, dim, range(self._n - 2, -1, -1)), value)

    def _past(self, value: torch.Tensor, age: torch.Tensor, dim: int, steps: range) -> list[torch.Tensor]:
        """Return the frames of earlier steps, padded at the start of an episode."""
        return lookback(value, age, dim, steps)


def time_dim(transform: Any, data: TensorDictBase) -> int:
    """Return the index of the time dimension: the one named "time", or the last one.

    Raises:
        ValueError: If there is no batch dimension.
    """
    if not data.ndim:
        name = type(transform).__name__
        raise ValueError(
            f"{name} looks back in time, and this data has no time dimension: its batch size is []. Fix: pass a "
            f"rollout, in which the last batch dimension or the one named 'time' is time, or use {name} in an env: "
            f"TransformedEnv(env, {name}(...))."
        )
    names = list(data.names)
    return names.index("time") if "time" in names else data.ndim - 1


def ages(transform: Any, data: TensorDictBase, key: NestedKey, done_key: NestedKey | None) -> torch.Tensor:
    """Count the steps before each step of a rollout in the same episode, as int64 of the shape of "done".

    ``key`` holds the frames and ``done_key`` their "done", both without "next"; ``None`` stands for the nearest one at
    or above them.

    Raises:
        KeyError: If there is no "done" under "next".
        ValueError: If there is no time dimension.
    """
    path = as_tuple(key)
    levels = [(*path[:depth], DONE) for depth in range(len(path) - 1, -1, -1)]
    keys = [as_key(("next", *level)) for level in (levels if done_key is None else [as_tuple(done_key)])]
    done = next((done for done in (data.get(key, None) for key in keys) if done is not None), None)
    if done is None:
        raise missing_key(transform, keys[-1], data, False)
    dim = time_dim(transform, data)
    if not done.numel():
        return torch.zeros_like(done, dtype=torch.int64)
    step = torch.arange(done.shape[dim], device=done.device)
    step = step.reshape((-1, *[1] * (done.ndim - dim - 1)))
    starts = torch.cat((torch.ones_like(done.narrow(dim, 0, 1)), done.narrow(dim, 0, done.shape[dim] - 1)), dim)
    return step - torch.where(starts, step, 0).cummax(dim).values


def lookback(value: torch.Tensor, age: torch.Tensor, dim: int, steps: Sequence[int]) -> list[torch.Tensor]:
    """Return earlier frames, or the first frame of the episode if it is not long enough.

    ``value`` has shape ``[*batch, ...]``, and ``age``, the number of steps before each one in its episode, the leading
    part of it. ``steps`` are how many steps to go back, for each of the results.
    """
    lead = age.shape
    if not value.numel():
        return [value for _ in steps]
    flat = value.reshape(*lead, -1).movedim(dim, 0)
    length, rows, features = lead[dim], age.numel() // max(lead[dim], 1), flat.shape[-1]
    flat = flat.reshape(length, rows, features)
    age = age.movedim(dim, 0).reshape(length, rows)
    at = torch.arange(length, device=value.device).unsqueeze(-1)
    row = torch.arange(rows, device=value.device)
    shape = (length, *(size for i, size in enumerate(lead) if i != dim), features)
    found = []
    for back in steps:
        earlier = flat[at - age.clamp(max=back), row] if back else flat
        found.append(earlier.reshape(shape).movedim(0, dim).reshape(value.shape))
    return found


def per_row(flags: torch.Tensor, value: torch.Tensor, batch_dims: int) -> torch.Tensor:
    """Reduce flags ``[*batch, ..., 1]`` to the dimensions shared with a value ``[*batch, ...]``, by the minimum."""
    while flags.ndim > batch_dims and flags.shape[-1] == 1:
        flags = flags.squeeze(-1)
    if flags.shape != value.shape[: flags.ndim]:
        flags = flags.flatten(batch_dims).amin(-1)
    return flags


__all__ = ["FrameMemory", "FrameTransform", "Frames", "ages", "lookback", "per_row", "time_dim"]

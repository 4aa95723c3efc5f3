"""Transforms of the last few frames of an observation, in envs and on rollouts: ``CatFrames`` and ``TimeMaxPool``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import dispatch
from torch.utils.weak import WeakTensorKeyDictionary

from rlnb.data.replay_buffers.samplers.slice_sampler import SliceSampler
from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.envs.transforms.compose import Compose
from rlnb.envs.transforms.errors import assert_negative
from rlnb.envs.transforms.keys import ExcludeTransform
from rlnb.envs.transforms.rows import choose_rows, find_mask
from rlnb.envs.transforms.transform import Keys, ObservationTransform, Transform, key_list

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

    def _join(self, frames: Frames) -> torch.Tensor:
        """Make a new tensor of the frames, oldest first."""
        raise NotImplementedError

    def _pad(self, frame: torch.Tensor) -> torch.Tensor:
        """Return the padding before the first frame of an episode."""
        return frame

    def _assert_frame(self, frame: torch.Tensor, key: NestedKey, batch_dims: int) -> None:
        """Raise ``ValueError`` if frames of this shape cannot be joined."""

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
        age = _per_row(self._ages(data, own), value, data.ndim)
        self._assert_frame(value, key, data.ndim)
        earlier = data.get(own, None) if under_next else None
        dim = self._time_dim(data)
        if earlier is None:
            return (*self._past(value, age, dim, range(self._n - 1, 0, -1)), value)
        # The frame under "next" follows those of the root of the same step, even where the episode ends.
        return (*self._past(earlier, age, dim, range(self._n - 2, -1, -1)), value)

    def _time_dim(self, data: TensorDictBase) -> int:
        """Return the index of the time dimension: the one named "time", or the last one."""
        if not data.ndim:
            name = type(self).__name__
            raise ValueError(
                f"{name} looks back in time, and this data has no time dimension: its batch size is []. Fix: pass a "
                f"rollout, in which the last batch dimension or the one named 'time' is time, or use {name} in an env: "
                f"TransformedEnv(env, {name}(...))."
            )
        names = list(data.names)
        return names.index("time") if "time" in names else data.ndim - 1

    def _ages(self, data: TensorDictBase, key: NestedKey, backwards: bool = False) -> torch.Tensor:
        """Count the steps of the episode before each step of a rollout, or after it; int64, of the shape of "done"."""
        if self.done_key is None:
            done = self._nearest_done(data, key)
        else:
            done = self._need(data, as_key(("next", *as_tuple(self.done_key))))
        dim = self._time_dim(data)
        if not done.numel():
            return torch.zeros_like(done, dtype=torch.int64)
        step = torch.arange(done.shape[dim], device=done.device).reshape((-1, *[1] * (done.ndim - dim - 1)))
        # The flags of the step before; backwards in time, an episode starts where it ends.
        ends = done.flip(dim).narrow(dim, 1, len(step) - 1) if backwards else done.narrow(dim, 0, len(step) - 1)
        starts = torch.cat((torch.ones_like(done.narrow(dim, 0, 1)), ends), dim)
        count = step - torch.where(starts, step, 0).cummax(dim).values
        return count.flip(dim) if backwards else count

    def _past(self, value: torch.Tensor, age: torch.Tensor, dim: int, steps: Sequence[int]) -> list[torch.Tensor]:
        """Return earlier frames, or the first frame of the episode if it is not long enough.

        ``value`` has shape ``[*batch, ...]``, and ``age``, the number of steps before each one in its episode, the
        leading part of it. ``steps`` are how many steps to go back, for each of the results.
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


def _per_row(flags: torch.Tensor, value: torch.Tensor, batch_dims: int) -> torch.Tensor:
    """Reduce flags ``[*batch, ..., 1]`` to the dimensions shared with a value ``[*batch, ...]``, by the minimum."""
    while flags.ndim > batch_dims and flags.shape[-1] == 1:
        flags = flags.squeeze(-1)
    if flags.shape != value.shape[: flags.ndim]:
        flags = flags.flatten(batch_dims).amin(-1)
    return flags


_PADDINGS = ("same", "constant", "zeros")


class CatFrames(FrameTransform):
    """Concatenates the last ``N`` frames, so that one observation shows motion.

    In an env, the frames before the first one of an episode are padding, for each row that is reset. On plain data,
    such as a sample of a buffer, time is the batch dimension named "time", or the last one, and ``("next", "done")``
    separates episodes. The result is that of the env if ``in_keys`` and ``out_keys`` name the entries at the root and
    under "next". Frames before the start of the data are padding, too.

    Args:
        N: the number of frames.
        dim: the dimension to concatenate along, counted from the end: -3 for images ``(..., C, H, W)``.
        in_keys: the entries. Default: "pixels".
        padding: "same" repeats the first frame of the episode; "constant" fills with ``padding_value``; "zeros".
        padding_value: the value of "constant".
        as_inverse: whether to concatenate when data is written to a buffer, by :meth:`inv`, and not when it is
            sampled; for buffers only.
        reset_key: the mask that selects the rows to reset. Default: the nearest one at or above each entry.
        done_key: the end signal that separates episodes in plain data. Default: the nearest one at or above each entry.
        future: whether to concatenate each frame with the ``N - 1`` frames after it, padded at the end of the episode
            with its last frame or ``padding_value``; for plain data only.
        mask_key: entry for a boolean mask of shape ``[*batch, N]``, ``True`` for padding; for plain data only.

    Raises:
        ValueError: If ``N`` is not positive, ``dim`` is not negative or ``padding`` is unknown.

    Example:
        >>> from rlnb.envs import CartPoleEnv, Compose, StepCounter, TransformedEnv
        >>> frames = CatFrames(3, dim=-1, in_keys=["step_count"], out_keys=["counts"])
        >>> TransformedEnv(CartPoleEnv(), Compose(StepCounter(), frames)).rollout(3)["next", "counts"]
        tensor([[0, 0, 1],
                [0, 1, 2],
                [1, 2, 3]])
    """

    _shown = ("N", "dim", "keys")
    _default_keys = ("pixels",)

    def __init__(
        self,
        N: int,
        dim: int,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        padding: str = "same",
        padding_value: float = 0,
        as_inverse: bool = False,
        reset_key: NestedKey | None = None,
        done_key: NestedKey | None = None,
        future: bool = False,
        mask_key: NestedKey | None = None,
    ) -> None:
        if isinstance(N, bool) or not isinstance(N, int) or N < 1:
            raise ValueError(f"CatFrames takes N, the number of frames, as a positive integer and got {N!r}.")
        assert_negative(type(self), False, dim=dim)
        if padding not in _PADDINGS:
            legal = ", ".join(map(repr, _PADDINGS))
            raise ValueError(f"CatFrames has no padding {padding!r}. Legal: {legal}.")
        super().__init__(N, in_keys, out_keys, reset_key, done_key)
        self.N, self.dim = N, dim
        self.padding, self.padding_value, self.as_inverse = padding, padding_value, as_inverse
        if padding == "zeros":
            self.padding, self.padding_value = "constant", 0
        self.future = bool(future)
        self.mask_key = None if mask_key is None else key_list([mask_key], "mask_key")[0]
        under_next = [key for key in self.in_keys if not isinstance(key, str) and key[0] == "next"]
        if self.future and under_next:
            raise NotImplementedError(
                f"CatFrames(future=True) cannot look ahead of frames under 'next', and got in_keys={self.in_keys}. "
                f"Fix: leave {under_next[0]!r} out."
            )

    def _join(self, frames: Frames) -> torch.Tensor:
        return torch.cat(frames, self.dim)

    def _pad(self, frame: torch.Tensor) -> torch.Tensor:
        return frame if self.padding == "same" else torch.full_like(frame, self.padding_value)

    def _assert_frame(self, frame: torch.Tensor, key: NestedKey, batch_dims: int) -> None:
        if frame.ndim - batch_dims < -self.dim:
            raise ValueError(
                f"CatFrames concatenates along dimension {self.dim}, and {key!r} has shape {tuple(frame.shape)}, "
                f"whose first {batch_dims} are batch dimensions. Fix: a dim from {batch_dims - frame.ndim} to -1, "
                f"or UnsqueezeTransform(dim={self.dim}, in_keys=[{key!r}]) before it."
            )

    def _past(self, value: torch.Tensor, age: torch.Tensor, dim: int, steps: Sequence[int]) -> list[torch.Tensor]:
        found = super()._past(value, age, dim, steps)
        if self.padding == "constant":
            age = age.reshape((*age.shape, *[1] * (value.ndim - age.ndim)))
            pairs = zip(found, steps, strict=True)
            found = [frames.masked_fill(age < back, self.padding_value) for frames, back in pairs]
        return found

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        next_tensordict = super()._call(next_tensordict)
        if self.mask_key is not None:
            next_tensordict.set(self.mask_key, self._padded(next_tensordict))
        return next_tensordict

    def _padded(self, data: TensorDictBase) -> torch.Tensor:
        """Return which frames of the first of ``in_keys`` are padding, oldest first."""
        age = _per_row(self._ages(data, self.in_keys[0], self.future), torch.empty(data.batch_size), data.ndim)
        steps = range(self.N) if self.future else range(self.N - 1, -1, -1)
        return torch.stack([age < back for back in steps], -1)

    def _frames(self, data: TensorDictBase, key: NestedKey, value: torch.Tensor) -> Frames:
        if not self.future:
            return super()._frames(data, key, value)
        dim = self._time_dim(data)
        self._assert_frame(value, key, data.ndim)
        age = _per_row(self._ages(data, key, backwards=True), value, data.ndim)
        backwards = self._past(value.flip(dim), age.flip(dim), dim, range(1, self.N))
        return (value, *[frame.flip(dim) for frame in backwards])

    def unfolding(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Concatenate the frames of a rollout, along its dimension of time.

        Args:
            tensordict: a rollout in the TED format; written to.

        Returns:
            The TensorDict.
        """
        return self._call(tensordict)

    def make_rb_transform_and_sampler(self, batch_size: int, **sampler_kwargs: Any) -> tuple[Transform, SliceSampler]:
        """Make what a replay buffer needs to store single frames and concatenate them in each sample.

        The sampler draws ``N`` consecutive steps for each item of a batch, and the transform reduces them to the last
        step, whose frames are concatenated, at the root and under "next". Transforms that come before this one in the
        env must come before it in the buffer too, so that it reads the frames in the same form. Results are not stored:
        give the transform distinct ``out_keys``, or the single frames are dropped from what is written.

        Args:
            batch_size: the number of items in a sample. A sample of another size can still be drawn.
            **sampler_kwargs: passed to :class:`~rlnb.data.SliceSampler`, such as ``traj_key``; all but ``slice_len``.

        Raises:
            TypeError: If ``slice_len`` or ``num_slices`` is given.
            ValueError: If ``batch_size`` is not a positive integer.

        Example:
            >>> from tensordict import TensorDict
            >>> from rlnb.data import LazyTensorStorage, ReplayBuffer
            >>> frames = CatFrames(2, dim=-1, in_keys=["position"], out_keys=["positions"])
            >>> transform, sampler = frames.make_rb_transform_and_sampler(batch_size=3)
            >>> rb = ReplayBuffer(storage=LazyTensorStorage(9), sampler=sampler, transform=transform, batch_size=3)
            >>> positions, done = torch.arange(7.0)[:, None], torch.zeros(6, 1, dtype=torch.bool)
            >>> after = TensorDict({"position": positions[1:], "done": done}, [6])
            >>> index = rb.extend(TensorDict({"position": positions[:-1], "next": after}, [6]))
            >>> rb.sample()["positions"].diff().flatten()
            tensor([1., 1., 1.])
        """
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"batch_size must be a positive integer, got {batch_size!r}. Fix: batch_size=32.")
        for name in ("slice_len", "num_slices"):
            if name in sampler_kwargs:
                raise TypeError(f"{name} follows from N={self.N}, and was passed too. Fix: leave {name} out.")
        sampler = SliceSampler(slice_len=self.N, **sampler_kwargs)
        sampler.steps_per_item = self.N
        both = [[*keys, *(("next", *as_tuple(key)) for key in keys)] for keys in (self.in_keys, self.out_keys)]
        frames = CatFrames(
            self.N,
            self.dim,
            in_keys=both[0],
            out_keys=both[1],
            padding=self.padding,
            padding_value=self.padding_value,
            reset_key=self.reset_key,
            done_key=self.done_key,
        )
        windows = partial(_windows, size=self.N)
        return Compose(windows, frames, _last_steps, ExcludeTransform(*both[1], inverse=True)), sampler

    @dispatch(source="in_keys", dest="out_keys")
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Concatenate the frames of a rollout or of a sample of several; see :meth:`Transform.forward`.

        Raises:
            KeyError: If there is no "done" under "next" to separate episodes.
            ValueError: If there is no time dimension, or no dimension ``dim``.
        """
        return tensordict if self.as_inverse else self._call(tensordict)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self._call(tensordict) if self.as_inverse else tensordict

    @property
    def invertible(self) -> bool:
        """Whether :meth:`inv` changes anything."""
        return self.as_inverse

    def _learn_output(self, output_spec: Composite) -> None:
        if self.future or self.mask_key is not None:
            option = "future=True" if self.future else f"mask_key={self.mask_key!r}"
            raise RuntimeError(
                f"CatFrames({option}) needs whole episodes, which an env has not finished yet. Fix: use it on a "
                "rollout or in a buffer, buffer.append_transform(CatFrames(...))."
            )
        if self.as_inverse:
            raise ValueError(
                "CatFrames(as_inverse=True) concatenates data that is written to a buffer, and this is an env. "
                "Fix: TransformedEnv(env, CatFrames(...)) without as_inverse."
            )

    def _forward_specs(self, composite: Composite) -> Composite:
        if isinstance(composite, Composite):
            for key in self.in_keys:
                spec = composite.get(key)
                if spec is not None:
                    self._assert_frame(spec.zero(), key, composite.ndim)
        return super()._forward_specs(composite)

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        blank = spec.zero()
        shape = self._join((blank,) * self.N).shape
        if not isinstance(spec, Bounded):
            return Unbounded(shape=shape, dtype=blank.dtype, device=blank.device)
        low, high = (bound.expand(spec.shape) for bound in (spec.low, spec.high))
        if self.padding == "same" or self.N == 1:
            low, high = self._join((low,) * self.N), self._join((high,) * self.N)
        else:
            pad = self._pad(blank)
            low = self._join((*[low.minimum(pad)] * (self.N - 1), low))
            high = self._join((*[high.maximum(pad)] * (self.N - 1), high))
        return Bounded(low, high, shape=shape, dtype=blank.dtype, device=blank.device)


def _windows(sample: TensorDictBase, size: int) -> TensorDictBase:
    """Reshape a sample of consecutive steps to ``[items, size]``."""
    return sample.reshape(-1, size)


def _last_steps(sample: TensorDictBase) -> TensorDictBase:
    """Return the last step of each row of ``[items, size]``."""
    return sample[:, -1]


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

    _shown = ("T", "keys")
    _default_keys = ("observation",)

    def __init__(
        self, in_keys: Keys | None = None, out_keys: Keys | None = None, T: int = 1, reset_key: NestedKey | None = None
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

"""``CatFrames``, the concatenation of the last frames of an observation."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import dispatch

from rlnb.data.replay_buffers.samplers.slice_sampler import SliceSampler
from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import NestedKey, as_tuple
from rlnb.envs.transforms.compose import Compose
from rlnb.envs.transforms.errors import assert_negative
from rlnb.envs.transforms.frames import Frames, FrameTransform, ages, per_row, time_dim
from rlnb.envs.transforms.select import ExcludeTransform
from rlnb.envs.transforms.transform import Keys, Transform, key_list

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

    # Frames -------------------------------------------------------------------------------------------------------

    def _join(self, frames: Frames) -> torch.Tensor:
        return torch.cat(frames, self.dim)

    def _pad(self, frame: torch.Tensor) -> torch.Tensor:
        return frame if self.padding == "same" else torch.full_like(frame, self.padding_value)

    def _assert_frame(self, frame: torch.Tensor, key: NestedKey, batch_dims: int) -> None:
        if frame.ndim - batch_dims < -self.dim:
            raise ValueError(
                f"CatFrames concatenates along dimension {self.dim}, and {key!r} has shape {tuple(frame.shape)}, of "
                f"which the first {batch_dims} are batch dimensions. Fix: a dim from {batch_dims - frame.ndim} to -1, "
                f"or UnsqueezeTransform(dim={self.dim}, in_keys=[{key!r}]) before it."
            )

    def _past(self, value: torch.Tensor, age: torch.Tensor, dim: int, steps: range) -> list[torch.Tensor]:
        found = super()._past(value, age, dim, steps)
        if self.padding == "constant":
            age = age.reshape((*age.shape, *[1] * (value.ndim - age.ndim)))
            found = [
                frames.masked_fill(age < back, self.padding_value) for frames, back in zip(found, steps, strict=True)
            ]
        return found

    # On a rollout and as the inverse ------------------------------------------------------------------------------

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        next_tensordict = super()._call(next_tensordict)
        if self.mask_key is not None:
            next_tensordict.set(self.mask_key, self._padded(next_tensordict))
        return next_tensordict

    def _padded(self, data: TensorDictBase) -> torch.Tensor:
        """Return which frames of the first of ``in_keys`` are padding, oldest first."""
        age = per_row(self._ages(data, self.in_keys[0]), torch.empty(data.batch_size), data.ndim)
        steps = range(self.N) if self.future else range(self.N - 1, -1, -1)
        return torch.stack([age < back for back in steps], -1)

    def _ages(self, data: TensorDictBase, key: NestedKey) -> torch.Tensor:
        """Count the frames of the episode before each frame; with ``future``, after it."""
        if not self.future:
            return ages(self, data, key, self.done_key)
        dim = time_dim(self, data)
        before = ages(self, data, key, self.done_key)
        if not before.numel():
            return before
        # Backwards in time, an episode starts where the next step is the first of another one.
        first = torch.cat(
            (before.narrow(dim, 1, before.shape[dim] - 1), torch.zeros_like(before.narrow(dim, 0, 1))), dim
        )
        last = torch.arange(before.shape[dim], device=before.device).reshape((-1, *[1] * (before.ndim - dim - 1)))
        end = torch.where(first == 0, last, before.shape[dim]).flip(dim).cummin(dim).values.flip(dim)
        return end - last

    def _frames(self, data: TensorDictBase, key: NestedKey, value: torch.Tensor) -> Frames:
        if not self.future:
            return super()._frames(data, key, value)
        dim = time_dim(self, data)
        self._assert_frame(value, key, data.ndim)
        age = per_row(self._ages(data, key), value, data.ndim)
        backwards = self._past(value.flip(dim), age.flip(dim), dim, range(1, self.N))
        return (value, *[frame.flip(dim) for frame in backwards])

    def unfolding(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Concatenate the frames of a rollout in the TED format, along its dimension of time; see :meth:`forward`."""
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

        Returns:
            The transform and the sampler.

        Raises:
            TypeError: If ``slice_len`` or ``num_slices`` is given.
            ValueError: If ``batch_size`` is not a positive integer.

        Example:
            >>> from tensordict import TensorDict
            >>> from rlnb.data import LazyTensorStorage, ReplayBuffer
            >>> frames = CatFrames(2, dim=-1, in_keys=["position"], out_keys=["positions"])
            >>> transform, sampler = frames.make_rb_transform_and_sampler(batch_size=3)
            >>> rb = ReplayBuffer(
            ...     storage=LazyTensorStorage(9), sampler=sampler, transform=transform, batch_size=3
            ... )
            >>> positions, done = torch.arange(7.0)[:, None], torch.zeros(6, 1, dtype=torch.bool)
            >>> after = TensorDict({"position": positions[1:], "done": done}, [6])
            >>> index = rb.extend(TensorDict({"position": positions[:-1], "next": after}, [6]))
            >>> rb.sample()["positions"].diff()
            tensor([[1.],
                    [1.],
                    [1.]])
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
        return Compose(_Windows(self.N), frames, _LastSteps(), ExcludeTransform(*both[1], inverse=True)), sampler

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

    # Specs --------------------------------------------------------------------------------------------------------

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

    def __repr__(self) -> str:
        return f"CatFrames(N={self.N}, dim={self.dim}, keys={self.in_keys})"


class _Windows(Transform):
    """Reshapes a sample of consecutive steps to ``[items, size]``."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        return tensordict.reshape(-1, self.size)


class _LastSteps(Transform):
    """Keeps the last step of each row of ``[items, size]``."""

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        return tensordict[:, -1]


__all__ = ["CatFrames"]

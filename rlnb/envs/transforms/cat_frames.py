"""CatFrames: the last frames of an observation as one."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from tensordict.nn import dispatch

from rlnb.data import Bounded, Composite, TensorSpec, Unbounded
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.transforms.frame_transform import FrameTransform
from rlnb.envs.transforms.frames import Frames
from rlnb.envs.transforms.shape_faults import assert_negative
from rlnb.envs.transforms.transform import Keys

_PADDINGS = ("same", "constant")


class CatFrames(FrameTransform):
    """Concatenates the last ``N`` frames, so that one observation shows what moves.

    In an env, the frames before the first one of an episode are padding, for each row that is reset. On plain data, as
    a buffer samples it, the last batch dimension or the one named "time" is time, and ``("next", "done")`` tells
    episodes apart; the result is that of the env, if ``in_keys`` and ``out_keys`` name the entries at the root and
    under "next". What is older than the data is padding there too.

    Args:
        N: the number of frames.
        dim: along which they are concatenated, counted from the end: -3 for images ``(..., C, H, W)``.
        in_keys: the entries. Default: "pixels".
        out_keys: where the results go. Default: ``in_keys``.
        padding: "same": the first frame of the episode stands for those before it; or "constant".
        padding_value: of "constant".
        as_inverse: concatenate when data is written to a buffer, by :meth:`inv`, and not when it is sampled. That is
            for buffers alone.
        reset_key: of the mask that says which rows a reset starts anew. Default: the nearest one above each entry.
        done_key: of the end signal that tells episodes apart in plain data. Default: the nearest one above each entry.

    Raises:
        ValueError: if ``N`` is not positive, ``dim`` is not negative or ``padding`` is neither of these.

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
    ) -> None:
        if isinstance(N, bool) or not isinstance(N, int) or N < 1:
            raise ValueError(f"CatFrames takes N, the number of frames, as a positive integer and got {N!r}.")
        assert_negative(type(self), dim=dim)
        if padding not in _PADDINGS:
            legal = ", ".join(map(repr, _PADDINGS))
            raise ValueError(f"CatFrames knows no padding {padding!r}. Legal: {legal}.")
        super().__init__(N, in_keys, out_keys, reset_key, done_key)
        self.N, self.dim = N, dim
        self.padding, self.padding_value, self.as_inverse = padding, padding_value, as_inverse

    # Frames -------------------------------------------------------------------------------------------------------

    def _join(self, frames: Frames) -> torch.Tensor:
        return torch.cat(frames, self.dim)

    def _before(self, frame: torch.Tensor) -> torch.Tensor:
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

    # As the inverse -----------------------------------------------------------------------------------------------

    @dispatch(source="in_keys", dest="out_keys")
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Concatenate the frames of a rollout or of a sample of several; see :meth:`Transform.forward`.

        Raises:
            KeyError: if there is no "done" under "next" to tell episodes apart.
            ValueError: if there is no time dimension, or no dimension ``dim``.
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
        if self.as_inverse:
            raise ValueError(
                "CatFrames(as_inverse=True) concatenates what is written to a buffer, and an env is no buffer. "
                "Fix: TransformedEnv(env, CatFrames(...)) without as_inverse."
            )

    def _forward_specs(self, composite: Composite) -> Composite:
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
            pad = self._before(blank)
            low = self._join((*[low.minimum(pad)] * (self.N - 1), low))
            high = self._join((*[high.maximum(pad)] * (self.N - 1), high))
        return Bounded(low, high, shape=shape, dtype=blank.dtype, device=blank.device)

    def __repr__(self) -> str:
        return f"CatFrames(N={self.N}, dim={self.dim}, keys={self.in_keys})"


__all__ = ["CatFrames"]

"""``VecNorm``, normalization by running mean and standard deviation, which processes may share."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Sequence
from typing import Any, Self

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.data.specs import Composite, TensorSpec, Unbounded
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.envs.transforms import errors
from rlnb.envs.transforms.carried import find_mask
from rlnb.envs.transforms.compose import Compose
from rlnb.envs.transforms.observation_norm import ObservationNorm
from rlnb.envs.transforms.transform import Keys, Transform

_PARTS = ("sum", "ssq", "count")


class VecNorm(Transform):
    """Subtracts the running mean and divides by the running standard deviation.

    The data of each step and each reset updates the statistics before it is normalized; in a batch, all envs that step
    or are reset have the same weight. Past data is discounted by ``decay`` at each step.

    The statistics (sum, sum of squares and count of each entry) are float64 buffers that are only changed in place, so
    clones share them, and processes do if the buffers are in shared memory. Pass such processes a ``lock``, too. Rows
    with NaN or infinite values are left out, with a single ``RuntimeWarning``.

    Args:
        in_keys: entries to normalize. Default: "observation" and "reward".
        shared_td: initial statistics, as from :meth:`build_td_for_shared_vecnorm`; changed in place.
        lock: a lock, such as one of ``torch.multiprocessing``, held while statistics change.
        decay: discount factor of past data per step, in [0, 1].
        eps: the minimum variance to divide by.
        shapes: the shape of one row of each of ``in_keys``, without batch dimensions, if the statistics must exist
            before the first data. Default: read from the specs or the data.
        new_api: ``True``, which means another class in TorchRL, ``VecNormV2``, is not supported.

    Attributes:
        frozen: whether the statistics are frozen.

    Raises:
        NotImplementedError: If ``new_api=True``.
        ValueError: If ``decay`` or ``eps`` is out of range, or the keys do not pair up.
        KeyError: If an entry of ``shared_td`` is missing.

    Example:
        >>> from rlnb.envs import CartPoleEnv, TransformedEnv
        >>> env = TransformedEnv(CartPoleEnv(batch_size=[64], seed=0), VecNorm(in_keys=["observation"]))
        >>> found = env.rollout(200, break_when_any_done=False)["observation"][:, 100:]
        >>> bool(found.mean().abs() < 0.2), bool((found.std() - 1).abs() < 0.2)
        (True, True)
    """

    _shown = ("decay", "eps", "in_keys", "out_keys")
    #: The mean is subtracted, and the result divided by the standard deviation.
    standard_normal = True

    def __init__(
        self,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        shared_td: TensorDictBase | None = None,
        lock: Any = None,
        decay: float = 0.9999,
        eps: float = 1e-4,
        shapes: Sequence[Sequence[int]] | None = None,
        new_api: bool | None = None,
    ) -> None:
        super().__init__(["observation", "reward"] if in_keys is None else in_keys, out_keys)
        if not 0 <= decay <= 1:
            raise ValueError(f"decay must be a discount factor from 0 to 1, got {decay!r}.")
        if not eps > 0:
            raise ValueError(f"eps must be positive, the minimum variance to divide by, got {eps!r}.")
        self.decay, self.eps, self.lock = float(decay), float(eps), lock
        if new_api:
            raise NotImplementedError(
                "VecNorm(new_api=True) would make a VecNormV2, which this library does not have. Fix: leave it out."
            )
        self.frozen = self._warned = False
        self._dtypes: dict[NestedKey, torch.dtype] = {}
        if shapes is not None and len(shapes) != len(self.in_keys):
            raise ValueError(errors.unequal_keys(self, "in_keys", len(self.in_keys), "shapes", len(shapes)))
        if shapes is not None and shared_td is None:
            for key, shape in zip(self.in_keys, shapes, strict=True):
                self._begin(key, torch.Size(shape), torch.get_default_dtype(), None)
        if shared_td is not None:
            for key in self.in_keys:
                for part in _PARTS:
                    self.register_buffer(_buffer(key, part), self._need(shared_td, _stored(key, part)))

    def _statistics(self, key: NestedKey) -> list[torch.Tensor] | None:
        """Return the sum, the sum of squares and the count of an entry; ``None`` if there are none yet."""
        found = [value for part in _PARTS if (value := self._buffers.get(_buffer(key, part))) is not None]
        return found if len(found) == len(_PARTS) else None

    def _begin(self, key: NestedKey, shape: torch.Size, dtype: torch.dtype, device: Any) -> list[torch.Tensor]:
        """Return the statistics of an entry whose features have this shape; zeros if there are none yet."""
        known = self._statistics(key)
        self._dtypes[key] = dtype
        if known is None:
            # Differences of sums lose digits if the mean is far from 0; MPS has no float64.
            precise = torch.float32 if device is not None and torch.device(device).type == "mps" else torch.float64
            with torch.inference_mode(False):  # a tensor made in that mode cannot be changed outside of it
                known = [torch.zeros(size, dtype=precise, device=device) for size in (shape, shape, (1,))]
            for part, value in zip(_PARTS, known, strict=True):
                self.register_buffer(_buffer(key, part), value)
        elif known[0].shape != shape:
            raise ValueError(
                f"VecNorm has statistics of {key!r} for features of shape {tuple(known[0].shape)}, and the entry has "
                f"features of shape {tuple(shape)}. Fix: make a new VecNorm."
            )
        return known

    def _count(self, key: NestedKey, value: torch.Tensor, rows: torch.Tensor) -> None:
        """Update the statistics by ``rows`` of shape ``[n, *features]``."""
        total, squares, count = self._begin(key, rows.shape[1:], value.dtype, value.device)
        rows = rows.to(total.dtype)
        new_total, new_squares = rows.sum(0), rows.square().sum(0)
        if not bool(new_squares.isfinite().all()):
            rows = self._finite_rows(key, rows)
            new_total, new_squares = rows.sum(0), rows.square().sum(0)
        if not len(rows):
            return
        with self.lock or contextlib.nullcontext(), torch.no_grad():
            total.mul_(self.decay).add_(new_total)
            squares.mul_(self.decay).add_(new_squares)
            count.mul_(self.decay).add_(len(rows))

    def _finite_rows(self, key: NestedKey, rows: torch.Tensor) -> torch.Tensor:
        """Leave out the rows with NaN or infinite values, which would ruin the statistics for good."""
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"VecNorm leaves NaN and infinite values of {key!r} out of its statistics. Fix: find where they come "
                "from with FiniteTensorDictCheck() before it.",
                RuntimeWarning,
                stacklevel=2,
            )
        good: torch.Tensor = rows.square().reshape(len(rows), -1).isfinite().all(-1)
        return rows[good]

    def _mean_and_scale(self, key: NestedKey) -> tuple[torch.Tensor, torch.Tensor]:
        known = self._statistics(key)
        if known is None or not bool(known[2] > 0):
            return torch.zeros(()), torch.ones(())
        total, squares, count = known
        mean = total / count
        return mean, (squares / count - mean.square()).clamp_min(self.eps).sqrt()

    @property
    def loc(self) -> TensorDict:
        """The means, by key."""
        return TensorDict({key: self._in_data_dtype(key)[0] for key in self.in_keys})

    @property
    def scale(self) -> TensorDict:
        """The standard deviations, by key."""
        return TensorDict({key: self._in_data_dtype(key)[1] for key in self.in_keys})

    def _in_data_dtype(self, key: NestedKey) -> tuple[torch.Tensor, torch.Tensor]:
        dtype = self._dtypes.get(key, torch.get_default_dtype())
        mean, scale = self._mean_and_scale(key)
        return mean.to(dtype), scale.to(dtype)

    def _normalize(self, data: TensorDictBase, given: TensorDictBase | None = None) -> TensorDictBase:
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            value = self._read(data, in_key)
            if value is None:
                continue
            if type(value) is not torch.Tensor or not value.dtype.is_floating_point:
                raise TypeError(self._not_float(in_key, getattr(value, "dtype", type(value).__name__)))
            if not self.frozen:
                rows = self._rows(data, in_key, value, given)
                if len(rows):
                    self._count(in_key, value, rows)
            mean, scale = self._mean_and_scale(in_key)
            data.set(out_key, ((value - mean) / scale).to(value.dtype))
        return data

    def _rows(
        self, data: TensorDictBase, key: NestedKey, value: torch.Tensor, given: TensorDictBase | None
    ) -> torch.Tensor:
        """Return the rows of an entry that update the statistics: all, or those that are reset."""
        rows = value.detach()
        mask = None if given is None else find_mask(given, key)
        features = value.shape[data.ndim :]
        if mask is None:
            return rows.reshape(-1, *features)
        return rows[mask.reshape(*data.batch_size, -1).any(-1)].reshape(-1, *features)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return self._normalize(next_tensordict)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        self.__dict__["_at_reset"] = True
        try:
            return self._normalize(tensordict_reset, tensordict)
        finally:
            self.__dict__["_at_reset"] = False

    def denorm(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Undo the normalization of ``out_keys`` by the current statistics, in a copy, and write it to ``in_keys``."""
        out = tensordict.copy()
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            mean, scale = self._mean_and_scale(in_key)
            value = self._need(tensordict, out_key)
            out.set(in_key, (value * scale + mean).to(value.dtype))
        return out

    def _not_float(self, key: NestedKey, dtype: Any) -> str:
        return (
            f"VecNorm normalizes floating-point numbers, and {key!r} is of type {dtype}. Fix: cast it first, "
            f"DTypeCastTransform(dtype, torch.float32, in_keys=[{key!r}]), or leave it out of in_keys."
        )

    def freeze(self) -> Self:
        """Stop updating the statistics."""
        self.frozen = True
        return self

    def unfreeze(self) -> Self:
        """Resume updating the statistics."""
        self.frozen = False
        return self

    def frozen_copy(self) -> Self:
        """Make a frozen copy with its own statistics, such as for an env in which policies are evaluated."""
        new = self.clone()
        new._buffers = {name: None if value is None else value.clone() for name, value in self._buffers.items()}
        return new.freeze()

    def to_observation_norm(self) -> Compose | ObservationNorm:
        """Make an :class:`ObservationNorm` with the current statistics; for several ``in_keys``, a Compose of them."""
        made = []
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            mean, scale = self._mean_and_scale(in_key)
            made.append(
                ObservationNorm(mean.clone(), scale.clone(), [in_key], [out_key], standard_normal=True, eps=self.eps)
            )
        return made[0] if len(made) == 1 else Compose(*made)

    @staticmethod
    def build_td_for_shared_vecnorm(
        env: Any, keys: Sequence[NestedKey] | None = None, memmap: bool = False
    ) -> TensorDictBase:
        """Make statistics that the VecNorms of several processes share.

        Args:
            env: an env like those of the processes.
            keys: entries to normalize. Default: "observation" and "reward".
            memmap: whether to store the statistics in files instead of shared memory.

        Raises:
            KeyError: If the env has no such entry.

        Example:
            >>> from rlnb.envs import GymEnv
            >>> shared = VecNorm.build_td_for_shared_vecnorm(GymEnv("Pendulum-v1"), keys=["observation"])
            >>> VecNorm(["observation"], shared_td=shared).loc["observation"], shared["observation_sum"].shape
            (tensor(0.), torch.Size([3]))
        """
        found = TensorDict({})
        fake = env.fake_tensordict().get("next")
        for key in ["observation", "reward"] if keys is None else keys:
            value = fake.get(key, None)
            if value is None:
                raise errors.missing_key(VecNorm(), key, fake, False)
            shape = value.shape[env.batch_dims :]
            for part in _PARTS:
                size = (1,) if part == "count" else shape
                found.set(_stored(key, part), torch.zeros(size, dtype=torch.float64))
        return found.memmap_() if memmap else found.share_memory_()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        for key in self.in_keys:
            for part in _PARTS:
                name = _buffer(key, part)
                if f"{prefix}{name}" in state_dict and name not in self._buffers:
                    self.register_buffer(name, torch.zeros_like(state_dict[f"{prefix}{name}"]))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def _forward_specs(self, composite: Composite) -> Composite:
        if not isinstance(composite, Composite):
            return Unbounded(shape=composite.shape, dtype=composite.dtype, device=composite.device)
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            spec = composite.get(in_key)
            if spec is not None:
                composite.set(out_key, self._changed_spec(in_key, spec, composite.ndim))
        return composite

    def _changed_spec(self, key: NestedKey, spec: TensorSpec, batch_dims: int) -> TensorSpec:
        if spec.dtype is None or not spec.dtype.is_floating_point:
            raise TypeError(self._not_float(key, spec.dtype))
        if -1 not in spec.shape:
            # Before the first data, so that the buffers can be moved to shared memory once the env is made.
            self._begin(key, spec.shape[batch_dims:], spec.dtype, spec.device)
        return Unbounded(shape=spec.shape, dtype=spec.dtype, device=spec.device)


def _stored(key: NestedKey, part: str) -> NestedKey:
    path = as_tuple(key)
    return as_key((*path[:-1], f"{path[-1]}_{part}"))


def _buffer(key: NestedKey, part: str) -> str:
    return "/".join(as_tuple(_stored(key, part))).replace(".", "/")


__all__ = ["VecNorm"]

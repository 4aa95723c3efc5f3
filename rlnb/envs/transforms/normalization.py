"""Transforms that shift and scale numbers: by given, estimated or running statistics."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Sequence
from typing import Any, Self

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.envs.transforms import errors
from rlnb.envs.transforms.clip import mapped_spec
from rlnb.envs.transforms.compose import Compose
from rlnb.envs.transforms.rows import find_mask
from rlnb.envs.transforms.transform import Keys, ObservationTransform, Transform, key_list

Number = float | torch.Tensor


class Affine(Transform):
    """Computes ``value * scale + loc``, or ``(value - loc) / scale``; the inverse undoes it.

    Subclasses document the arguments. ``loc`` and ``scale`` are buffers.

    Raises:
        TypeError: If ``loc`` or ``scale`` is not a number.
        ValueError: If only one of them is given, or a scale is 0.
    """

    loc: torch.Tensor | None
    scale: torch.Tensor | None

    def __init__(
        self,
        loc: Number | None,
        scale: Number | None,
        standard_normal: bool = False,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        in_keys_inv: Keys | None = None,
        out_keys_inv: Keys | None = None,
    ) -> None:
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)
        self.standard_normal = bool(standard_normal)
        if (loc is None) != (scale is None):
            missing = "loc" if loc is None else "scale"
            raise ValueError(f"{type(self).__name__} needs both loc and scale or neither, and {missing} is None.")
        self.register_buffer("loc", None if loc is None else self._tensor("loc", loc))
        self.register_buffer("scale", None if scale is None else self._tensor("scale", scale))
        if self.scale is not None and not bool((self.scale != 0).all()):
            raise ValueError(f"{type(self).__name__} cannot scale by 0, got scale={scale!r}.")

    def _tensor(self, name: str, value: Any) -> torch.Tensor:
        try:
            tensor = torch.as_tensor(value)
        except (TypeError, RuntimeError, ValueError):
            raise TypeError(
                f"{type(self).__name__} takes a number or a tensor for {name}, and got a {type(value).__name__}."
            ) from None
        return tensor if tensor.is_floating_point() else tensor.to(torch.get_default_dtype())

    def _apply_transform(self, value: Any) -> torch.Tensor:
        loc, scale = self._loc_and_scale(value)
        return (value - loc) / scale if self.standard_normal else value * scale + loc

    def _inv_apply_transform(self, value: Any) -> torch.Tensor:
        loc, scale = self._loc_and_scale(value)
        return value * scale + loc if self.standard_normal else (value - loc) / scale

    def _loc_and_scale(self, value: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ``loc`` and ``scale`` in the dtype of a value, after checking that they fit it."""
        loc, scale = self.loc, self.scale
        if loc is None or scale is None:
            raise RuntimeError(
                f"{type(self).__name__} has no loc and scale yet. Fix: env.transform.init_stats(num_iter=1000), which "
                f"estimates them from random steps, or {type(self).__name__}(loc, scale, in_keys=[...])."
            )
        dtype = getattr(value, "dtype", None)
        if type(value) is not torch.Tensor or dtype is None or not dtype.is_floating_point:
            raise TypeError(self._not_float(f"a value of dtype {dtype}" if dtype else f"a {type(value).__name__}"))
        if loc.ndim or scale.ndim:
            self._check_shape(value.shape, loc, scale)
        return (loc, scale) if loc.dtype is scale.dtype is dtype else (loc.to(dtype), scale.to(dtype))

    def _check_shape(self, shape: torch.Size, loc: torch.Tensor, scale: torch.Tensor) -> None:
        try:
            if torch.broadcast_shapes(shape, loc.shape, scale.shape) == shape:
                return
        except RuntimeError:
            pass
        raise ValueError(
            f"{type(self).__name__} has loc of shape {tuple(loc.shape)} and scale of shape {tuple(scale.shape)}, which "
            f"do not broadcast to a value of shape {tuple(shape)}. Fix: give them the shape of the features, such as "
            f"{tuple(shape[-1:])}, or numbers."
        )

    def _not_float(self, got: str) -> str:
        return (
            f"{type(self).__name__} scales floating-point numbers, and got {got}; its keys are {self.in_keys} and "
            f"{self.in_keys_inv}. Fix: cast it first, DTypeCastTransform(dtype, torch.float32, in_keys=[...]), or "
            "leave its key out."
        )

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        if spec.dtype is None or not spec.dtype.is_floating_point:
            raise TypeError(self._not_float(f"a spec of dtype {spec.dtype}"))
        if self.loc is None or self.scale is None:
            return Unbounded(shape=spec.shape, dtype=spec.dtype, device=spec.device)  # bounds are not known yet
        if -1 not in spec.shape:
            self._check_shape(spec.shape, self.loc, self.scale)
        device = self.loc.device
        with torch.no_grad():
            return mapped_spec(spec, lambda bound: self._apply_transform(bound.to(device)).to(bound.device))

    def _inv_apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        # The inverse maps outer values to inner ones, so the outer bounds are the forward results of the inner bounds.
        return self._apply_to_spec(spec)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        # The direction too, so that ObservationNorm(in_keys=[...], **norm.state_dict()) computes the same.
        destination[f"{prefix}standard_normal"] = torch.tensor(self.standard_normal)
        super()._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        # States saved by other versions may lack it.
        self.standard_normal = bool(state_dict.pop(f"{prefix}standard_normal", self.standard_normal))
        for name in ("loc", "scale"):
            stored = state_dict.get(f"{prefix}{name}")
            if stored is not None and getattr(self, name) is None:
                self.register_buffer(name, torch.empty_like(stored))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


class ObservationNorm(ObservationTransform, Affine):
    """Computes ``value * scale + loc``, or ``(value - loc) / scale``, of observations (or any entries).

    ``loc`` and ``scale`` are given, or estimated by :meth:`init_stats` such that the results have mean 0 and standard
    deviation 1. Actions in ``in_keys_inv`` are normalized outside, and denormalized for the env.

    Args:
        loc: a number, or a tensor that broadcasts to the values. ``None`` leaves it to :meth:`init_stats`.
        scale: a number, or a tensor that broadcasts to the values; given if ``loc`` is.
        in_keys: entries to change.
        in_keys_inv: inputs of the env that the inverse changes.
        standard_normal: whether to compute ``(value - loc) / scale``.
        eps: the minimum standard deviation that :meth:`init_stats` divides by. Default: 1e-6.

    Raises:
        ValueError: If there are no keys, only one of ``loc`` and ``scale`` is given, or a scale is 0.
        TypeError: If ``loc`` or ``scale`` is not a number.

    Example:
        >>> from rlnb.envs import GymEnv, TransformedEnv
        >>> env = TransformedEnv(GymEnv("Pendulum-v1"), ObservationNorm(in_keys=["observation"]))
        >>> _ = env.set_seed(0)
        >>> env.transform.init_stats(num_iter=1000)
        >>> env.transform.loc.shape, bool(env.rollout(10)["observation"].abs().max() < 5)
        (torch.Size([3]), True)
    """

    _elementwise = True

    def __init__(
        self,
        loc: Number | None = None,
        scale: Number | None = None,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        in_keys_inv: Keys | None = None,
        out_keys_inv: Keys | None = None,
        standard_normal: bool = False,
        eps: float | None = None,
    ) -> None:
        if in_keys is None and in_keys_inv is None:
            raise ValueError("ObservationNorm has no keys to normalize. Fix: ObservationNorm(in_keys=['observation']).")
        # Not the constructor of ObservationTransform, which only adds default keys: this class has none.
        Affine.__init__(self, loc, scale, standard_normal, in_keys, out_keys, in_keys_inv, out_keys_inv)
        self.eps = 1e-6 if eps is None else float(eps)

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """Change the spec of rewards in ``in_keys``; see :class:`Transform`."""
        return self._forward_specs(reward_spec)

    @property
    def initialized(self) -> bool:
        """Whether ``loc`` and ``scale`` are set."""
        return self.loc is not None

    def init_stats(
        self,
        num_iter: int,
        reduce_dim: int | Sequence[int] = 0,
        cat_dim: int | None = None,
        key: NestedKey | None = None,
        keep_dims: Sequence[int] | None = None,
    ) -> None:
        """Estimate ``loc`` and ``scale`` from random steps of the env with the transforms before this one.

        Args:
            num_iter: number of steps.
            reduce_dim: dimensions of the data, ``[*batch_size, time, ...]``, over which mean and standard deviation are
                taken; negative ones count from the end.
            cat_dim: the one of ``reduce_dim`` along which rollouts are concatenated. Default: ``reduce_dim``, if it is
                a single dimension.
            key: which of several ``in_keys`` to read.
            keep_dims: those of ``reduce_dim`` that are kept, with size 1.

        Raises:
            RuntimeError: If ``loc`` and ``scale`` are set, or the transform is in no env.
            ValueError: If the time dimension or ``cat_dim`` is not in ``reduce_dim``, a dimension is out of range or
                given twice, or ``key`` is missing or not one of ``in_keys``.
            KeyError: If the env does not return the entry.

        Example:
            >>> from rlnb.envs import CartPoleEnv, TransformedEnv
            >>> norm = ObservationNorm(in_keys=["observation"])
            >>> env = TransformedEnv(CartPoleEnv(batch_size=[5]), norm)
            >>> norm.init_stats(10, reduce_dim=(0, 1), cat_dim=1)
            >>> norm.loc.shape
            torch.Size([4])
        """
        if self.initialized:
            raise RuntimeError(
                "This ObservationNorm already has loc and scale, and init_stats would replace them. Fix: make a "
                "new one, ObservationNorm(in_keys=[...]), without loc and scale."
            )
        parent = self.parent
        if parent is None:
            raise RuntimeError(errors.needs_env(self, "takes random steps to estimate loc and scale"))
        key = self._key(key)
        rollout = parent.rollout(num_iter, break_when_any_done=False)
        data = rollout.get(key, None)
        if data is None:
            data = rollout.get(as_key(("next", *as_tuple(key))), None)
        if data is None:
            raise errors.missing_key(self, key, rollout, False)
        dims = _dims(reduce_dim, data.ndim, "reduce_dim")
        kept = () if keep_dims is None else _dims(keep_dims, data.ndim, "keep_dims")
        self._check_dims(dims, reduce_dim, cat_dim, len(parent.batch_size), data.ndim)
        if not set(kept) <= set(dims):
            raise ValueError(f"keep_dims={keep_dims} must be among reduce_dim={reduce_dim}: others are kept anyway.")
        self._set(data.detach(), dims, kept)

    def _check_dims(self, dims: tuple[int, ...], reduce_dim: Any, cat_dim: int | None, time: int, ndim: int) -> None:
        """Raise ``ValueError`` for dimensions with which each step would get a separate mean."""
        several = cat_dim is None and len(dims) > 1
        if several or time not in dims or (cat_dim is not None and _dims(cat_dim, ndim, "cat_dim")[0] not in dims):
            reduced = tuple(range(time + 1))
            raise ValueError(
                f"init_stats got reduce_dim={reduce_dim} and cat_dim={cat_dim} for data of {ndim} dimensions. "
                f"Dimension {time} is time: reduce_dim must contain it, or each step would get its own mean, and "
                f"cat_dim must be one of reduce_dim. Fix: init_stats(num_iter, reduce_dim={reduced}, cat_dim={time})."
            )

    def _key(self, key: NestedKey | None) -> NestedKey:
        if key is None:
            if len(self.in_keys) != 1:
                raise ValueError(f"init_stats reads one entry, and in_keys is {self.in_keys}. Fix: pass key=.")
            return self.in_keys[0]
        (key,) = key_list([key], "key")
        if key not in self.in_keys:
            raise ValueError(f"init_stats got key={key!r}, which is not among in_keys={self.in_keys}.")
        return key

    def _set(self, data: torch.Tensor, dims: tuple[int, ...], kept: tuple[int, ...]) -> None:
        if not data.dtype.is_floating_point:
            raise TypeError(self._not_float(f"a value of dtype {data.dtype}"))
        mean = data.mean(dims, keepdim=True)
        several = mean.numel() < data.numel()
        std = data.std(dims, keepdim=True, correction=int(several)).clamp_min(self.eps)
        gone = [dim for dim in dims if dim not in kept]
        mean, std = mean.squeeze(gone), std.squeeze(gone)
        self.loc, self.scale = (mean, std) if self.standard_normal else (-mean / std, 1 / std)
        holder = self.container
        if holder is not None:
            holder._refresh()

    def __repr__(self) -> str:
        numbers = ""
        if self.loc is not None and self.scale is not None and self.loc.numel() == self.scale.numel() == 1:
            numbers = f"loc={self.loc.item():.4f}, scale={self.scale.item():.4f}, "
        return f"ObservationNorm({numbers}keys={self.in_keys})"


def _dims(given: int | Sequence[int], ndim: int, name: str) -> tuple[int, ...]:
    """Convert dimensions to non-negative ones."""
    dims = (given,) if isinstance(given, int) else tuple(given)
    if any(not -ndim <= dim < ndim for dim in dims):
        raise ValueError(f"init_stats got {name}={given}, and the data has {ndim} dimensions.")
    dims = tuple(dim % ndim for dim in dims)
    if len(set(dims)) < len(dims):
        raise ValueError(f"init_stats got {name}={given}, which has a dimension twice: the data has {ndim} dimensions.")
    return dims


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

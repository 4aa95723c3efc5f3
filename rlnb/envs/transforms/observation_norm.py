"""``ObservationNorm``, which normalizes observations, and ``Affine``, the base of transforms that shift and scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from rlnb.data.specs import Composite, TensorSpec, Unbounded
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.envs.transforms import errors
from rlnb.envs.transforms.clip import mapped_spec
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

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
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


__all__ = ["Affine", "Number", "ObservationNorm"]

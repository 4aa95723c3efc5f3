"""``ObservationNorm``, which normalizes observations by given or estimated statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.envs.transforms import errors
from rlnb.envs.transforms.affine import Affine, Number
from rlnb.envs.transforms.observation import ObservationTransform
from rlnb.envs.transforms.transform import Keys, key_list


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


__all__ = ["ObservationNorm"]

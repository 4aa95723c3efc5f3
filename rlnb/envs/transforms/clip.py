"""``ClipTransform``, which clips entries to bounds, and ``SignTransform``, which replaces them by their signs."""

from __future__ import annotations

from typing import Any

import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.bounded import Bounded
from rlnb.envs.transforms.bounds import check_bound_dtype, check_bounds, clipped_spec, mapped_spec
from rlnb.envs.transforms.transform import Keys, Transform


class ClipTransform(Transform):
    """Clips entries, and inputs of the env before they reach it.

    Args:
        in_keys: entries to clip.
        in_keys_inv: inputs of the env to clip.
        low: lower bound; ``None`` for no lower bound.
        high: upper bound; ``None`` for no upper bound.

    Raises:
        TypeError: If both bounds are ``None``, or one is not a number.
        ValueError: If ``low`` is not below ``high``, or the keys do not pair up.

    Example:
        >>> from tensordict import TensorDict
        >>> clip = ClipTransform(in_keys=["observation"], low=-1, high=1)
        >>> clip(TensorDict({"observation": torch.tensor([-3.0, 0.5])}))["observation"]
        tensor([-1.0000,  0.5000])
    """

    _elementwise = True

    def __init__(
        self,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        in_keys_inv: Keys | None = None,
        out_keys_inv: Keys | None = None,
        *,
        low: float | None = None,
        high: float | None = None,
    ) -> None:
        check_bounds(self, "low", low, "high", high)
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)
        self.low, self.high = low, high

    def _apply_transform(self, value: Any) -> torch.Tensor:
        check_bound_dtype(self, _number_dtype(self, value), low=self.low, high=self.high)
        return value.clamp(self.low, self.high)

    def _inv_apply_transform(self, value: Any) -> torch.Tensor:
        return self._apply_transform(value)

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        check_bound_dtype(self, _number_dtype(self, spec), low=self.low, high=self.high)
        return clipped_spec(spec, self.low, self.high)

    def __repr__(self) -> str:
        return f"ClipTransform(low={self.low}, high={self.high}, keys={self.in_keys})"


class SignTransform(Transform):
    """Replaces entries by their signs, -1, 0 or 1; and inputs of the env before they reach it.

    Args:
        in_keys: entries to replace.
        in_keys_inv: inputs of the env to replace.

    Example:
        >>> from tensordict import TensorDict
        >>> SignTransform(in_keys=["reward"])(TensorDict({"reward": torch.tensor([-3.0, 0.0, 0.5])}))["reward"]
        tensor([-1.,  0.,  1.])
    """

    _elementwise = True

    def _apply_transform(self, value: Any) -> torch.Tensor:
        _number_dtype(self, value)
        return value.sign()

    def _inv_apply_transform(self, value: Any) -> torch.Tensor:
        return self._apply_transform(value)

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        dtype = _number_dtype(self, spec)
        if isinstance(spec, Bounded):
            return mapped_spec(spec, torch.sign)
        return Bounded(-1 if dtype.is_signed else 0, 1, shape=spec.shape, dtype=dtype, device=spec.device)


def _number_dtype(transform: Transform, value: Any) -> torch.dtype:
    """Return the dtype of a tensor or spec of numbers; raise ``TypeError`` for booleans and other data."""
    dtype = getattr(value, "dtype", None)
    if dtype is None or dtype == torch.bool:
        got = f"a value of dtype {dtype}" if dtype else f"a {type(value).__name__}"
        raise TypeError(
            f"{type(transform).__name__} takes numbers, and got {got}; its keys are {transform.in_keys} and "
            f"{transform.in_keys_inv}. Fix: leave its key out."
        )
    return dtype


__all__ = ["ClipTransform", "SignTransform"]

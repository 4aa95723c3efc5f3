"""ClipTransform and SignTransform: entries within bounds, entries as signs."""

from __future__ import annotations

from typing import Any

import torch

from rlnb.data import Bounded, TensorSpec
from rlnb.envs.transforms.bounds import clipped, through, whole
from rlnb.envs.transforms.rewards import check_bounds
from rlnb.envs.transforms.transform import Keys, Transform


class ClipTransform(Transform):
    """Clips entries, and inputs of the env on their way in.

    Args:
        in_keys: what is clipped.
        out_keys: where it goes. Default: ``in_keys``.
        in_keys_inv: the inputs of the env that are clipped.
        out_keys_inv: what they are called outside. Default: ``in_keys_inv``.
        low: the least value; None for no such bound.
        high: the greatest; None for no such bound.

    Raises:
        TypeError: without any bound, or if one is no number.
        ValueError: if ``low`` is not below ``high``, or the keys do not pair up.

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
        dtype = number_type(self, value)
        whole(self.low, dtype, "low", self)
        whole(self.high, dtype, "high", self)
        return value.clamp(self.low, self.high)

    def _inv_apply_transform(self, value: Any) -> torch.Tensor:
        return self._apply_transform(value)

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        dtype = number_type(self, spec)
        whole(self.low, dtype, "low", self)
        whole(self.high, dtype, "high", self)
        return clipped(spec, self.low, self.high)

    def __repr__(self) -> str:
        return f"ClipTransform(low={self.low}, high={self.high}, keys={self.in_keys})"


class SignTransform(Transform):
    """Replaces entries by their signs, -1, 0 or 1; and inputs of the env on their way in.

    Args:
        in_keys: what is replaced.
        out_keys: where it goes. Default: ``in_keys``.
        in_keys_inv: the inputs of the env that are replaced.
        out_keys_inv: what they are called outside. Default: ``in_keys_inv``.

    Raises:
        ValueError: if the keys do not pair up.

    Example:
        >>> from tensordict import TensorDict
        >>> SignTransform(in_keys=["reward"])(TensorDict({"reward": torch.tensor([-3.0, 0.0, 0.5])}))["reward"]
        tensor([-1.,  0.,  1.])
    """

    _elementwise = True

    def _apply_transform(self, value: Any) -> torch.Tensor:
        number_type(self, value)
        return value.sign()

    def _inv_apply_transform(self, value: Any) -> torch.Tensor:
        return self._apply_transform(value)

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        number_type(self, spec)
        if isinstance(spec, Bounded):
            return through(spec, torch.sign)
        assert spec.dtype is not None
        least = -1 if spec.dtype.is_signed else 0
        return Bounded(least, 1, shape=spec.shape, dtype=spec.dtype, device=spec.device)


def number_type(transform: Transform, value: Any) -> torch.dtype:
    """Read the dtype of numbers.

    Args:
        transform: for the error.
        value: a tensor or a spec.

    Returns:
        The dtype.

    Raises:
        TypeError: if there is none, or it is that of truth values.
    """
    dtype = getattr(value, "dtype", None)
    if dtype is None or dtype == torch.bool:
        got = f"a value of dtype {dtype}" if dtype else f"a {type(value).__name__}"
        raise TypeError(
            f"{type(transform).__name__} takes numbers, and got {got}; its keys are {transform.in_keys} and "
            f"{transform.in_keys_inv}. Fix: leave its key out."
        )
    return dtype


__all__ = ["ClipTransform", "SignTransform", "number_type"]

"""Transforms that clip or check numbers, and the bounds and specs of numbers that are clipped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs.transforms.rows import choose_rows, find_mask
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

    _shown = ("low", "high", "keys")
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


def mapped_spec(spec: TensorSpec, function: Callable[[torch.Tensor], torch.Tensor]) -> TensorSpec:
    """Return the spec of ``function(value)`` for a function that is monotone (rising or falling) in each number."""
    if not isinstance(spec, Bounded):
        return Unbounded(shape=spec.shape, dtype=spec.dtype, device=spec.device)
    ends = function(spec.low), function(spec.high)
    return Bounded(torch.minimum(*ends), torch.maximum(*ends), shape=spec.shape, dtype=spec.dtype, device=spec.device)


def clipped_spec(spec: TensorSpec, low: float | None, high: float | None) -> TensorSpec:
    """Return the spec, with bounds, of numbers after clipping; ``None`` is no bound."""
    if isinstance(spec, Bounded):
        return mapped_spec(spec, lambda value: value.clamp(low, high))
    assert spec.dtype is not None
    info: Any = torch.finfo(spec.dtype) if spec.dtype.is_floating_point else torch.iinfo(spec.dtype)
    infinity = torch.inf if spec.dtype.is_floating_point else None
    bottom = low if low is not None else info.min if infinity is None else -infinity
    top = high if high is not None else info.max if infinity is None else infinity
    return Bounded(bottom, top, shape=spec.shape, dtype=spec.dtype, device=spec.device)


def check_bounds(transform: Any, low_name: str, low: float | None, high_name: str, high: float | None) -> None:
    """Check the bounds that a transform clips to.

    Raises:
        TypeError: If both are ``None``, or one is not a number.
        ValueError: If the lower bound is not below the upper bound.
    """
    name = type(transform).__name__
    if low is None and high is None:
        raise TypeError(f"{name} needs a bound. Fix: {name}({low_name}=-1.0, {high_name}=1.0), or one of the two.")
    for bound_name, bound in ((low_name, low), (high_name, high)):
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, (int, float))):
            raise TypeError(f"{bound_name} must be a number, got a {type(bound).__name__}.")
    if low is not None and high is not None and not low < high:
        raise ValueError(f"{low_name} must be below {high_name}, got {low} and {high}.")


def check_bound_dtype(transform: Any, dtype: torch.dtype, **bounds: float | None) -> None:
    """Raise ``TypeError`` if integers would be clipped to bounds (by the name of their argument) that are not."""
    for name, bound in bounds.items():
        if bound is not None and not dtype.is_floating_point and bound != int(bound):
            raise TypeError(
                f"{type(transform).__name__} would clip values of dtype {dtype} to {name}={bound}, which is not an "
                f"integer. Fix: cast them first, DTypeCastTransform({dtype}, torch.float32, in_keys=[...])."
            )


class FiniteTensorDictCheck(Transform):
    """Raises ``ValueError`` on the first NaN or infinite value.

    The error names the entry, the index and, in an env, the number of steps since the reset.

    Example:
        >>> from tensordict import TensorDict
        >>> data = TensorDict({"observation": torch.tensor([1.0, torch.nan])})
        >>> try:
        ...     FiniteTensorDictCheck()(data)
        ... except ValueError as error:
        ...     print(error)
        'observation' is nan at index (1,), where all numbers must be finite. 1 of its 2 numbers is not.
    """

    _shown = ()

    def __init__(self) -> None:
        super().__init__()

    def _forget(self) -> None:
        super()._forget()
        self._steps = torch.zeros((), dtype=torch.int64)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        self._check(next_tensordict, None)
        return next_tensordict

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        self._steps = self._steps + 1
        self._check(next_tensordict, "step")
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        fresh = torch.zeros(tensordict_reset.batch_size, dtype=torch.int64, device=tensordict_reset.device)
        self._steps = choose_rows(find_mask(tensordict, "done"), fresh, self._steps, fresh.ndim)
        self._check(tensordict_reset, "reset")
        return tensordict_reset

    def _check(self, data: TensorDictBase, kind: str | None) -> None:
        for key in leaf_keys(data):
            value = data.get(key)
            if type(value) is torch.Tensor and value.dtype.is_floating_point and not bool(value.isfinite().all()):
                raise ValueError(self._message(key, value, data.ndim, kind))

    def _message(self, key: Any, value: torch.Tensor, batch_dims: int, kind: str | None) -> str:
        bad = ~value.isfinite()
        index = tuple(bad.nonzero()[0].tolist())
        when = ""
        if kind == "reset":
            when = " of a reset"
        elif kind == "step":
            steps = self._steps
            one = steps[index[:batch_dims]] if steps.shape == value.shape[:batch_dims] else steps.max()
            when = f" of step {int(one)} since the reset"
        count = int(bad.sum())
        return (
            f"{key!r}{when} is {value[index].item()} at index {index}, where all numbers must be finite. {count} of "
            f"its {value.numel()} numbers {'is' if count == 1 else 'are'} not."
        )

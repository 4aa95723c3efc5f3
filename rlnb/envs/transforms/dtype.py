"""``DTypeCastTransform`` and ``DoubleToFloat``, which cast entries to another dtype."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import dispatch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import NestedKey
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs.transforms.transform import Keys, Transform


class DTypeCastTransform(Transform):
    """Casts entries from one dtype to another, and inputs of the env back.

    Without any keys, it casts all entries of ``dtype_in`` in the env's specs: observations and rewards forward, actions
    and states in the inverse. On plain data, it casts all such entries forward, and none in the inverse, because the
    data does not show which entries originally had ``dtype_in``.

    Args:
        dtype_in: dtype in the base env.
        dtype_out: dtype after the transform.
        in_keys: entries to cast from ``dtype_in`` to ``dtype_out``.
        in_keys_inv: inputs of the env to cast from ``dtype_out`` to ``dtype_in``.

    Example:
        >>> from tensordict import TensorDict
        >>> cast = DTypeCastTransform(torch.uint8, torch.float32, in_keys=["pixels"])
        >>> cast(TensorDict({"pixels": torch.ones(2, dtype=torch.uint8)}))["pixels"]
        tensor([1., 1.])
    """

    _elementwise = True

    def __init__(
        self,
        dtype_in: torch.dtype,
        dtype_out: torch.dtype,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        in_keys_inv: Keys | None = None,
        out_keys_inv: Keys | None = None,
    ) -> None:
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)
        self.dtype_in, self.dtype_out = dtype_in, dtype_out
        self._all = in_keys is None and in_keys_inv is None

    def _apply_transform(self, value: Any) -> torch.Tensor:
        return self._cast(value, self.dtype_in, self.dtype_out)

    def _inv_apply_transform(self, value: Any) -> torch.Tensor:
        # An env takes actions of any dtype that can be cast to its own.
        if isinstance(value, torch.Tensor) and torch.can_cast(value.dtype, self.dtype_out):
            return value.to(self.dtype_in)
        return self._cast(value, self.dtype_out, self.dtype_in)

    def _cast(self, value: Any, source: torch.dtype, target: torch.dtype) -> torch.Tensor:
        dtype = getattr(value, "dtype", None)
        if dtype is target:
            return value
        if dtype is not source:
            kind = type(getattr(value, "data", value)).__name__
            raise TypeError(self._wrong(f"a value of dtype {dtype}" if dtype else f"a {kind}", source))
        return value.to(target)

    def _wrong(self, got: str, want: torch.dtype) -> str:
        return (
            f"{type(self).__name__} casts between {self.dtype_in} and {self.dtype_out}, and got {got} where it expects "
            f"{want}. Fix: leave its key out of {self.in_keys} and {self.in_keys_inv}, or cast from its dtype: "
            "DTypeCastTransform(dtype_in, dtype_out, in_keys=[...])."
        )

    @dispatch(source="in_keys", dest="out_keys")
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Cast the entries of ``in_keys``, or without keys all of ``dtype_in``; see :meth:`Transform.forward`."""
        if not self._all:
            return super().forward(tensordict)
        for key in leaf_keys(tensordict):
            value = tensordict.get(key)
            if getattr(value, "dtype", None) is self.dtype_in:
                tensordict.set(key, value.to(self.dtype_out))
        return tensordict

    # Specs --------------------------------------------------------------------------------------------------------

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        return self._cast_spec(spec, self.dtype_in, self.dtype_out)

    def _inv_apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        return self._cast_spec(spec, self.dtype_in, self.dtype_out)

    def _cast_spec(self, spec: TensorSpec, source: torch.dtype, target: torch.dtype) -> TensorSpec:
        if spec.dtype not in (source, target):
            raise TypeError(self._wrong(f"a spec of dtype {spec.dtype}", source))
        return spec.to(target)

    def _learn_output(self, output_spec: Composite) -> None:
        if self._all:
            self.in_keys = self._of_dtype(output_spec, "full_observation_spec", "full_reward_spec")
            self.out_keys = list(self.in_keys)

    def _learn_input(self, input_spec: Composite) -> None:
        if self._all:
            self.in_keys_inv = self._of_dtype(input_spec, "full_action_spec", "full_state_spec")
            self.out_keys_inv = list(self.in_keys_inv)

    def _of_dtype(self, specs: Composite, *names: str) -> list[NestedKey]:
        return [
            key for name in names for key in specs[name].keys(True, True) if specs[name][key].dtype is self.dtype_in
        ]

    def __repr__(self) -> str:
        keys = ("in_keys", "out_keys", "in_keys_inv", "out_keys_inv")
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)}' for name in keys)})"


class DoubleToFloat(DTypeCastTransform):
    """Casts float64 to float32, and inputs of the env from float32 to float64; see :class:`DTypeCastTransform`.

    Args:
        in_keys: entries to cast to float32. Without any keys, all float64 entries.
        in_keys_inv: inputs of the env to cast to float64.

    Example:
        >>> from tensordict import TensorDict
        >>> DoubleToFloat()(TensorDict({"observation": torch.ones(2, dtype=torch.float64)}))["observation"]
        tensor([1., 1.])
    """

    _elementwise = True

    def __init__(
        self,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        in_keys_inv: Keys | None = None,
        out_keys_inv: Keys | None = None,
    ) -> None:
        super().__init__(torch.float64, torch.float32, in_keys, out_keys, in_keys_inv, out_keys_inv)


__all__ = ["DTypeCastTransform", "DoubleToFloat"]

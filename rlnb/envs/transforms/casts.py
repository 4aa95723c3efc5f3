"""Transforms that cast data to another dtype, and move it to another device or to page-locked memory."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import dispatch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.normalize import as_device
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

    _shown = ("in_keys", "out_keys", "in_keys_inv", "out_keys_inv")
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

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        if spec.dtype not in (self.dtype_in, self.dtype_out):
            raise TypeError(self._wrong(f"a spec of dtype {spec.dtype}", self.dtype_in))
        return spec.to(self.dtype_out)

    _inv_apply_to_spec = _apply_to_spec

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


class DoubleToFloat(DTypeCastTransform):
    """Casts float64 to float32, and inputs of the env from float32 to float64; see :class:`DTypeCastTransform`.

    Args:
        in_keys: entries to cast to float32. Without any keys, all float64 entries.
        out_keys: where the results go. Default: ``in_keys``.
        in_keys_inv: inputs of the env to cast to float64.
        out_keys_inv: names of these inputs outside. Default: ``in_keys_inv``.

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


Device = torch.device | str | int


class DeviceCastTransform(Transform):
    """Moves data to a device, and the inputs of the env back to its own device.

    Without keys, all data is moved, and the device of the env changes. With keys, only these entries are moved, and the
    device of the env is ``None``, because its data is on two devices.

    Args:
        device: the target device.
        orig_device: device that inputs of the env are moved back to. Default: the device of the env; without an env,
            inputs are not moved.
        in_keys: entries to move. Default: all.
        in_keys_inv: inputs of the env to move back. Default: all, if there are no ``in_keys``.

    Example:
        >>> from rlnb.envs import CartPoleEnv, TransformedEnv
        >>> env = TransformedEnv(CartPoleEnv(), DeviceCastTransform("cpu"))
        >>> env.base_env.device, env.device, env.rollout(2).device
        (None, device(type='cpu'), device(type='cpu'))
    """

    def __init__(
        self,
        device: Device,
        orig_device: Device | None = None,
        *,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        in_keys_inv: Keys | None = None,
        out_keys_inv: Keys | None = None,
    ) -> None:
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)
        self.device = as_device(device)
        self.orig_device = None if orig_device is None else as_device(orig_device)
        self._all = in_keys is None and in_keys_inv is None

    def _apply_transform(self, value: Any) -> Any:
        return value.to(self.device, non_blocking=False)

    def _inv_apply_transform(self, value: Any) -> Any:
        return value if self.orig_device is None else value.to(self.orig_device)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict.to(self.device) if self._all else super()._call(next_tensordict)

    def _reset_env_preprocess(self, tensordict: TensorDictBase) -> TensorDictBase:
        if self._all and self.orig_device is not None:
            return tensordict.to(self.orig_device)
        return super()._reset_env_preprocess(tensordict)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        if not self._all:
            return super()._inv_call(tensordict)
        return tensordict if self.orig_device is None else tensordict.to(self.orig_device)

    @property
    def invertible(self) -> bool:
        """Whether :meth:`inv` changes anything."""
        return self.orig_device is not None if self._all else bool(self.in_keys_inv)

    def _learn_input(self, input_spec: Composite) -> None:
        if self.orig_device is None:
            specs = [spec for group in input_spec.values() for spec in group.values(True, True)]
            self.orig_device = specs[0].device if specs else None

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        return spec.to(self.device)

    _inv_apply_to_spec = _apply_to_spec

    def _forward_specs(self, composite: Composite) -> Composite:
        if self._all:
            return composite.to(self.device)
        return super()._forward_specs(_without_device(composite, self.in_keys))

    def _inverse_specs(self, composite: Composite) -> Composite:
        if self._all:
            return composite.to(self.device)
        return super()._inverse_specs(_without_device(composite, self.in_keys_inv))

    def transform_env_device(self, device: torch.device | None) -> torch.device | None:
        """Return the device of the env's data after the transform."""
        return self.device if self._all or device == self.device else None

    def __repr__(self) -> str:
        return f"DeviceCastTransform(device={self.device}, orig_device={self.orig_device})"


def _without_device(composite: Composite, keys: list[NestedKey]) -> Composite:
    """Clear the device of a Composite if some of its entries move to another one."""
    if not isinstance(composite, Composite):
        return composite
    return composite.clear_device_() if any(key in composite for key in keys) else composite


class PinMemoryTransform(Transform):
    """Copies data to page-locked memory, from which transfers to a GPU are faster; for samples of a buffer.

    Raises:
        RuntimeError: If it is called on a machine without a GPU.

    Example:
        >>> PinMemoryTransform()
        PinMemoryTransform()
    """

    _shown = ()

    def __init__(self) -> None:
        super().__init__()

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        if not torch.cuda.is_available():
            raise RuntimeError(
                "PinMemoryTransform copies data to memory that a GPU reads directly, and torch finds no GPU. "
                "Fix: leave it out on this machine, if torch.cuda.is_available(): buffer.append_transform(...)."
            )
        return next_tensordict.pin_memory()

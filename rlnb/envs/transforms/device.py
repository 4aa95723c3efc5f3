"""``DeviceCastTransform`` and ``PinMemoryTransform``: data on another device, and in page-locked memory."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.transforms.transform import Keys, Transform

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
        self.device = torch.device(device)
        self.orig_device = None if orig_device is None else torch.device(orig_device)
        self._all = in_keys is None and in_keys_inv is None

    # Data ---------------------------------------------------------------------------------------------------------

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

    # Specs --------------------------------------------------------------------------------------------------------

    def _learn_input(self, input_spec: Composite) -> None:
        if self.orig_device is None:
            specs = [input_spec[name][key] for name in input_spec for key in input_spec[name].keys(True, True)]
            self.orig_device = specs[0].device if specs else None

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        return spec.to(self.device)

    _inv_apply_to_spec = _apply_to_spec

    def _forward_specs(self, composite: Composite) -> Composite:
        return (
            composite.to(self.device) if self._all else super()._forward_specs(_without_device(composite, self.in_keys))
        )

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

    def __init__(self) -> None:
        super().__init__()

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        if not torch.cuda.is_available():
            raise RuntimeError(
                "PinMemoryTransform copies data to memory that a GPU reads directly, and torch finds no GPU. "
                "Fix: leave it out on this machine, if torch.cuda.is_available(): buffer.append_transform(...)."
            )
        return next_tensordict.pin_memory()

    def __repr__(self) -> str:
        return "PinMemoryTransform()"


__all__ = ["DeviceCastTransform", "PinMemoryTransform"]

"""NonTensor: data that is no tensor, such as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from tensordict import NonTensorData, NonTensorStack, is_tensor_collection

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.normalize import Device, Shape, as_device, as_size
from rlnb.data.specs.reshape import ReshapableSpec
from rlnb.data.specs.violations import Frame, Violation


class NonTensor(ReshapableSpec):
    """Data that is no tensor. Anything but a tensor or a TensorDict is in it.

    Args:
        shape: the batch size of one value.
        device: the device that the values are marked with, or None.
        dtype: there to match the other specs; data that is no tensor has none.
        example_data: what `rand`, `zero` and `one` give.

    Raises:
        TypeError: a dtype is given.

    Example:
        >>> spec = NonTensor(shape=(), example_data="go left")
        >>> spec.rand().data
        'go left'
    """

    _fields = ("example_data",)

    def __init__(
        self,
        shape: Shape = (1,),
        device: Device = None,
        dtype: torch.dtype | None = None,
        example_data: Any = None,
    ) -> None:
        if dtype is not None:
            raise TypeError(f"NonTensor has no dtype, got {dtype}. Leave it out.")
        self._shape = as_size(shape)
        self._device = None if device is None else as_device(device)
        self._dtype = None
        self.example_data = example_data

    @property
    def domain(self) -> None:
        """None: there is no domain."""
        return None

    @property
    def space(self) -> None:
        """None: there are no bounds."""
        return None

    def rand(self, shape: Shape = ()) -> NonTensorData:
        """Give the example data with batch size ``[*shape, *spec.shape]``.

        Args:
            shape: sizes in front of the spec's shape.
        """
        return NonTensorData(self.example_data, batch_size=self._size(shape), device=self._device)

    def zero(self, shape: Shape = ()) -> NonTensorData:
        """Give the example data, as `rand` does."""
        return self.rand(shape)

    def one(self, shape: Shape = ()) -> NonTensorData:
        """Give the example data, as `rand` does."""
        return self.rand(shape)

    def _accepts(self, value: Any, lead: torch.Size | None) -> bool:
        return not self._violations(value, (), Frame(lead))

    def _violations(self, value: Any, key: tuple[str, ...], frame: Frame) -> list[Violation]:
        if isinstance(value, (NonTensorData, NonTensorStack)):
            expected = frame.expected(self._shape, value.batch_size)
            if value.batch_size == expected:
                return []
            fix = "Wrap the data with NonTensorData(data, batch_size=...)."
            return [Violation(key, "shape", str(list(expected)), str(list(value.batch_size)), fix=fix)]
        if isinstance(value, torch.Tensor) or is_tensor_collection(value):
            fix = "Describe tensors with Unbounded or Bounded, TensorDicts with Composite."
            return [Violation(key, "type", "NonTensorData", type(value).__name__, fix=fix)]
        return []

    def project(self, value: Any) -> Any:
        """Return ``value``.

        Raises:
            ValueError: it is a tensor, or has the wrong batch size.
        """
        if not self._accepts(value, None):
            raise ValueError("NonTensor.project: " + self._complaints(value)[0])
        return value

    def encode(self, value: Any, *, check: bool = True) -> Any:
        """Wrap ``value`` with the spec's batch size, unless it is wrapped already.

        Args:
            value: any data.
            check: whether to raise for a tensor.

        Raises:
            ValueError: it is a tensor, or has the wrong batch size.
        """
        if check and not self._accepts(value, None):
            raise ValueError("NonTensor.encode: " + self._complaints(value)[0])
        if isinstance(value, (NonTensorData, NonTensorStack)):
            return value
        return NonTensorData(value, batch_size=self._shape, device=self._device)

    def to_numpy(self, value: Any, *, check: bool = True) -> Any:
        """Return the data itself (a list where the rows differ).

        Args:
            value: wrapped data.
            check: whether to raise for a tensor.

        Raises:
            ValueError: it is a tensor, or has the wrong batch size.
        """
        if check and not self._accepts(value, None):
            raise ValueError("NonTensor.to_numpy: " + self._complaints(value)[0])
        if isinstance(value, NonTensorStack):
            return value.tolist()
        return value.data if isinstance(value, NonTensorData) else value

    def type_check(self, value: Any, key: Any = None) -> None:
        """Raise if ``value`` is a tensor.

        Args:
            value: the data.
            key: its name, for the error.

        Raises:
            TypeError: it is a tensor.
        """
        if isinstance(value, torch.Tensor):
            name = "value" if key is None else str(key)
            raise TypeError(f"{name}: expected data that is no tensor (NonTensor), got a tensor of {value.dtype}.")

    def to(self, dest: torch.dtype | Device) -> Self:
        """Return the spec with its values marked with another device. A dtype changes nothing."""
        return self if isinstance(dest, torch.dtype) else self._with(_device=as_device(dest))

    def _stack(self, others: Sequence[TensorSpec], dim: int) -> Self:
        same = [other._with(example_data=self.example_data) for other in others if isinstance(other, NonTensor)]
        return super()._stack(same, dim)

    def __repr__(self) -> str:
        return (
            f"NonTensor(\n    shape={self._shape},\n    space=None,\n    device={self._device},\n    dtype=None,\n"
            f"    domain=None,\n    example_data={self.example_data!r})"
        )

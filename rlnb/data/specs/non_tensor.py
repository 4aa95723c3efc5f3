"""NonTensor: spec of data that is not a tensor, such as text."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np
import torch
from tensordict import NonTensorData, NonTensorStack, is_tensor_collection

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.normalize import Device, Shape, as_device, as_size
from rlnb.data.specs.variable import fits_shape, shape_text
from rlnb.data.specs.violations import Frame, Violation


class NonTensor(TensorSpec):
    """Data that is not a tensor: anything but tensors and TensorDicts, unless a Gymnasium space restricts it.

    Args:
        shape: the batch size of one value.
        device: the device attribute of the values, or None.
        dtype: must be None; accepted for compatibility with the other specs.
        example_data: the data that ``zero`` and ``one`` return, and ``rand`` if there is no space.
        batched: whether ``zero``, ``one`` and ``rand`` return one piece of data for each row (``NonTensorStack``)
            instead of one for all rows (``NonTensorData``).
        feature_dims: the number of trailing dims that share one piece of data; the dims before them are stacked. Cannot
            be combined with ``batched``.
        space: a Gymnasium space (``Text``, ``Sequence``, ``Graph``) that contains the data of each row. ``rand``
            samples it row by row, seeded by torch. None allows any data.

    Raises:
        TypeError: If a dtype is given.
        ValueError: If both ``batched`` and ``feature_dims`` are given, or the shape has fewer dims than that.

    Example:
        >>> spec = NonTensor(shape=(), example_data="go left")
        >>> spec.rand().data
        'go left'
        >>> from gymnasium.spaces import Text
        >>> spec = NonTensor(shape=(), space=Text(5, charset="ab"))
        >>> spec.is_in("abba"), spec.is_in("abc"), spec.is_in(spec.rand((2,)))
        (True, False, True)
    """

    _fields = ("example_data", "_space")

    def __init__(
        self,
        shape: Shape = (1,),
        device: Device = None,
        dtype: torch.dtype | None = None,
        example_data: Any = None,
        batched: bool = False,
        feature_dims: int | None = None,
        *,
        space: Any = None,
    ) -> None:
        if dtype is not None:
            raise TypeError(f"NonTensor has no dtype, got {dtype}. Leave it out.")
        self._shape = as_size(shape)
        if feature_dims is not None and (batched or not 0 <= feature_dims <= len(self._shape)):
            raise ValueError(
                f"NonTensor: feature_dims must be 0 to {len(self._shape)}, the number of dims of the shape "
                f"{list(self._shape)}, and cannot be combined with batched, got feature_dims={feature_dims} and "
                f"batched={batched}. Leave one of them out."
            )
        self.feature_dims = 0 if batched else feature_dims
        self._device = None if device is None else as_device(device)
        self._dtype = None
        # A copy, because sampling advances the generator of the space.
        self._space = copy.deepcopy(space)
        self.example_data = self._sampled(0) if space is not None and example_data is None else example_data

    @property
    def domain(self) -> None:
        """None: data that is not a tensor has no domain."""
        return None

    @property
    def space(self) -> Any:
        """The Gymnasium space of the data; None if any data is allowed."""
        return self._space

    def _sampled(self, seed: int) -> Any:
        self._space.seed(seed)
        return self._space.sample()

    def rand(self, shape: Shape | None = ()) -> Any:
        """Sample the space for each row; without a space, return the example data, as ``zero`` does."""
        size = self._size(shape)
        return self.zero(shape) if self._space is None or not size.numel() else self._rows(size)

    def _rows(self, size: torch.Size) -> Any:
        if size:
            return NonTensorStack(*[self._rows(size[1:]) for _ in range(size[0])], stack_dim=0)
        return NonTensorData(self._sampled(int(torch.randint(2**31 - 1, ()))), device=self._device)

    def zero(self, shape: Shape | None = ()) -> Any:
        """Return the example data with batch size ``[*shape, *spec.shape]``."""
        size = self._size(shape)
        stacked = 0 if self.feature_dims is None else len(size) - self.feature_dims
        return self._stacked(size[:stacked], size[stacked:])

    def _stacked(self, rows: torch.Size, size: torch.Size) -> Any:
        if not len(rows) or not rows.numel():
            return NonTensorData(self.example_data, batch_size=(*rows, *size), device=self._device)
        return NonTensorStack(*[self._stacked(rows[1:], size) for _ in range(rows[0])], stack_dim=0)

    @property
    def batched(self) -> bool:
        """Whether values are stacks of one piece of data for each row."""
        return self.feature_dims == 0

    def one(self, shape: Shape | None = ()) -> Any:
        """Return the example data, as ``zero`` does."""
        return self.zero(shape)

    def _accepts(self, value: Any, lead: torch.Size | None) -> bool:
        return not self._violations(value, (), Frame(lead))

    def _violations(self, value: Any, key: tuple[str, ...], frame: Frame) -> list[Violation]:
        if isinstance(value, (NonTensorData, NonTensorStack)):
            expected = frame.expected(self._shape, value.batch_size)
            if not fits_shape(value.batch_size, expected):
                fix = "Wrap the data with NonTensorData(data, batch_size=...)."
                return [Violation(key, "shape", shape_text(expected), shape_text(value.batch_size), fix=fix)]
        elif isinstance(value, torch.Tensor) or is_tensor_collection(value):
            fix = "Describe tensors with Unbounded or Bounded, TensorDicts with Composite."
            return [Violation(key, "type", "NonTensorData", type(value).__name__, fix=fix)]
        if self._space is None:
            return []
        wrong = [(index, data) for index, data in _rows_of(value) if not self._space.contains(data)]
        if not wrong:
            return []
        index, data = wrong[0]
        at = f" at index {index}" if index else ""
        others = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        fix = "Check how the data is created, or describe it with another space."
        return [Violation(key, "domain", repr(self._space), f"{data!r}{at}{others}", index, fix=fix)]

    def project(self, val: Any) -> Any:
        """Return ``val``, which cannot be repaired.

        Raises:
            ValueError: If it is a tensor, has the wrong batch size, or is not in the space.
        """
        self._check(val, "project")
        return val

    def _check(self, value: Any, call: str) -> None:
        if not self._accepts(value, None):
            raise ValueError(f"NonTensor.{call}: " + self._messages(value)[0])

    def encode(self, val: Any, *, check: bool = True, ignore_device: bool = False) -> Any:
        """Wrap ``val`` as ``NonTensorData`` with the spec's batch size, unless it is wrapped already.

        With ``check``, a tensor, a wrong batch size, or data that is not in the space is a ``ValueError``.
        """
        if check:
            self._check(val, "encode")
        if isinstance(val, (NonTensorData, NonTensorStack)):
            return val
        return NonTensorData(val, batch_size=self._size(()), device=self._device)

    def to_numpy(self, val: Any, safe: bool | None = True) -> Any:
        """Return the data itself, as a list for a ``NonTensorStack``; see ``TensorSpec.to_numpy``."""
        if safe:
            self._check(val, "to_numpy")
        if isinstance(val, NonTensorStack):
            return val.tolist()
        return val.data if isinstance(val, NonTensorData) else val

    def type_check(self, value: Any, key: Any = None) -> None:
        """Raise a ``TypeError`` if ``value`` is a tensor; see ``TensorSpec.type_check``."""
        if isinstance(value, torch.Tensor):
            name = "value" if key is None else str(key)
            raise TypeError(f"{name}: expected data that is not a tensor (NonTensor), got a tensor of {value.dtype}.")

    def to(self, dest: torch.dtype | Device) -> Self:
        """Return the spec with another device. A dtype changes nothing."""
        return self if isinstance(dest, torch.dtype) else self._with(_device=as_device(dest))

    def clone(self) -> Self:
        """Return an independent copy."""
        return self._with(_space=copy.deepcopy(self._space))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, NonTensor)
            and (self._shape, self._device) == (other._shape, other._device)
            and self._space == other._space
            and same_data(self.example_data, other.example_data)
        )

    def __hash__(self) -> int:
        return hash((type(self), self._shape, self._device))

    def __repr__(self) -> str:
        return (
            f"NonTensor(\n    shape={self._shape},\n    space={self._space!r},\n    device={self._device},\n"
            f"    dtype=None,\n    domain=None,\n    example_data={self.example_data!r})"
        )


class FixedData(NonTensor):
    """Data that is not a tensor and always the same: a choice of a ``Choice``.

    Example:
        >>> spec = FixedData((), example_data="left")
        >>> spec.is_in("left"), spec.is_in("right"), spec.cardinality()
        (True, False, 1)
    """

    def cardinality(self, use_mask: bool = False) -> int:
        """Return 1."""
        return 1

    def enumerate(self, use_mask: bool = False) -> Any:
        """Return the data with batch size ``[1, *spec.shape]``."""
        return self.zero((1,))

    def _violations(self, value: Any, key: tuple[str, ...], frame: Frame) -> list[Violation]:
        found = super()._violations(value, key, frame)
        data = value.tolist() if isinstance(value, NonTensorStack) else getattr(value, "data", value)
        if found or same_data(data, self.example_data):
            return found
        return [Violation(key, "domain", repr(self.example_data), repr(data))]


def _rows_of(value: Any, index: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Yield the index and the data of each row; data that all rows share is yielded once."""
    if isinstance(value, NonTensorStack):
        for i, part in enumerate(value.unbind(0)):
            yield from _rows_of(part, (*index, i))
    else:
        yield index, value.data if isinstance(value, NonTensorData) else value


def same_data(first: Any, second: Any) -> bool:
    """Return whether two pieces of data are equal, including the arrays in them."""
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return bool(np.array_equal(first, second))
    if type(first) is not type(second):
        return False
    if isinstance(first, (tuple, list)):
        return len(first) == len(second) and all(map(same_data, first, second))
    if isinstance(first, Mapping):
        return first.keys() == second.keys() and all(same_data(first[key], second[key]) for key in first)
    return bool(first == second)

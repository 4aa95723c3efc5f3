"""TensorSpec: the interface that all specs share, and the rules for shapes, dtypes and devices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import torch

from rlnb.data.specs.normalize import Device, Shape, as_size
from rlnb.data.specs.violations import Frame, Violation, violations


class TensorSpec(ABC):
    """What a tensor looks like: its shape, dtype, device, and the values it may take (its domain).

    A spec draws random values (`rand`), makes blank ones (`zero`, `one`), checks (`is_in`), repairs (`project`), and
    converts from and to what Gymnasium speaks (`encode`, `to_numpy`). Specs do not change once built, apart from the
    entries of a `Composite`.

    A value may have any dims in front of the spec's shape: a spec of shape ``[3]`` describes ``[3]``, ``[10, 3]``, ...

    Example:
        >>> from rlnb.data import Bounded
        >>> spec = Bounded(-1, 1, shape=(3,))
        >>> spec.is_in(spec.rand((10,)))
        True
    """

    _shape: torch.Size
    _dtype: torch.dtype | None
    _device: torch.device | None

    @property
    def shape(self) -> torch.Size:
        """The shape of one value."""
        return self._shape

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype of the values; None where there is no single one."""
        return self._dtype

    @property
    def device(self) -> torch.device | None:
        """The device of the values; None where there is no single one."""
        return self._device

    @property
    def ndim(self) -> int:
        """The number of dims of one value."""
        return len(self._shape)

    def ndimension(self) -> int:
        """The number of dims of one value (another name of ``ndim``)."""
        return len(self._shape)

    @property
    @abstractmethod
    def domain(self) -> str | None:
        """``"continuous"``, ``"discrete"``, ``"composite"``, or None for what is no tensor."""

    @property
    @abstractmethod
    def space(self) -> Any:
        """The values one entry may take, as a box; None where there are no bounds to speak of."""

    @abstractmethod
    def rand(self, shape: Shape = ()) -> Any:
        """Draw random values from the domain.

        Under one torch seed, ``rand((T,))`` of a leaf equals ``T`` calls of ``rand()`` stacked (on CPU).

        Args:
            shape: sizes in front of the spec's shape.

        Returns:
            A value of shape ``[*shape, *spec.shape]``.
        """

    def sample(self, shape: Shape = ()) -> Any:
        """Draw random values (another name of `rand`)."""
        return self.rand(shape)

    @abstractmethod
    def zero(self, shape: Shape = ()) -> Any:
        """Make a value filled with zeros. It is a blank to write into and need not lie in the domain."""

    @abstractmethod
    def one(self, shape: Shape = ()) -> Any:
        """Make a value filled with ones. It is a blank to write into and need not lie in the domain."""

    def zeros(self, shape: Shape = ()) -> Any:
        """Make a value filled with zeros (another name of `zero`)."""
        return self.zero(shape)

    def ones(self, shape: Shape = ()) -> Any:
        """Make a value filled with ones (another name of `one`)."""
        return self.one(shape)

    def is_in(self, value: Any) -> bool:
        """Whether ``value`` has the shape (behind any leading dims), dtype, device and domain of the spec."""
        return self._accepts(value, None)

    def contains(self, value: Any) -> bool:
        """Whether ``value`` fits the spec (another name of `is_in`)."""
        return self._accepts(value, None)

    @abstractmethod
    def _accepts(self, value: Any, lead: torch.Size | None) -> bool:
        """Whether ``value`` fits behind exactly the leading sizes ``lead`` (None: any)."""

    @abstractmethod
    def _violations(self, value: Any, key: tuple[str, ...], frame: Frame) -> list[Violation]:
        """List what is wrong with ``value``."""

    def violations(self, value: Any, *, leading: int | None = None, time_dim: bool = False) -> list[Violation]:
        """List everything in which ``value`` does not fit; see `rlnb.data.violations`."""
        return violations(self, value, leading=leading, time_dim=time_dim)

    def assert_is_in(self, value: Any) -> None:
        """Raise unless ``is_in(value)``.

        Raises:
            AssertionError: one line for each thing that does not fit.
        """
        if not self.is_in(value):
            raise AssertionError("\n".join(self._complaints(value)))

    def _complaints(self, value: Any) -> list[str]:
        return [str(violation) for violation in self.violations(value) if violation.kind != "extra"]

    @abstractmethod
    def project(self, value: Any) -> Any:
        """Return the value of the domain nearest to ``value``; ``value`` itself when it is in the domain."""

    @abstractmethod
    def encode(self, value: Any, *, check: bool = True) -> Any:
        """Turn python numbers, lists, numpy arrays or tensors into a value of the spec.

        Args:
            value: what a Gymnasium environment returns, with any leading dims.
            check: whether to raise for a value outside the domain.

        Raises:
            TypeError: it cannot be made a tensor.
            ValueError: the shape or the domain does not fit.
        """

    @abstractmethod
    def to_numpy(self, value: Any, *, check: bool = True) -> Any:
        """Turn a value of the spec into what a Gymnasium environment takes.

        Args:
            value: a value of the spec, with any leading dims.
            check: whether to raise for a value that is not in the spec.

        Raises:
            ValueError: the value is not in the spec.
        """

    @abstractmethod
    def type_check(self, value: Any, key: Any = None) -> None:
        """Raise unless ``value`` has the spec's dtype.

        Args:
            value: the tensor, or a TensorDict for a Composite.
            key: its name, for the error.

        Raises:
            TypeError: the dtype differs.
        """

    @abstractmethod
    def to(self, dest: torch.dtype | Device) -> Self:
        """Return the spec with another dtype or on another device."""

    @abstractmethod
    def clone(self) -> Self:
        """Return an independent copy."""

    @abstractmethod
    def expand(self, *shape: Any) -> Self:
        """Return the spec with leading dims added or stretched, like ``torch.Tensor.expand``."""

    @abstractmethod
    def squeeze(self, dim: int | None = None) -> Self:
        """Return the spec without a dim of size 1, or without all of those."""

    @abstractmethod
    def unsqueeze(self, dim: int) -> Self:
        """Return the spec with a dim of size 1 put in at ``dim``."""

    @abstractmethod
    def __getitem__(self, index: Any) -> Any: ...

    @abstractmethod
    def _stack(self, others: Sequence[TensorSpec], dim: int) -> Self:
        """Stack this spec with ``others``, all of this class."""

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Let ``torch.stack([spec, spec], dim)`` work on specs."""
        if func is not torch.stack:
            return NotImplemented
        return _stack_specs(*args, **(kwargs or {}))

    def _size(self, shape: Shape) -> torch.Size:
        return self._shape if shape == () else torch.Size((*as_size(shape), *self._shape))


def _stack_specs(tensors: Sequence[TensorSpec], dim: int = 0) -> TensorSpec:
    first = tensors[0]
    for i, other in enumerate(tensors):
        if type(other) is not type(first):
            raise ValueError(
                f"torch.stack needs specs of one kind: number 0 is {type(first).__name__}, "
                f"number {i} is {type(other).__name__}."
            )
    return first._stack(tensors[1:], dim)

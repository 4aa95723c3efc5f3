"""TensorSpec: the interface that all specs share, and the rules for shapes, dtypes and devices."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import torch

from rlnb.data.specs.enumeration import combinations
from rlnb.data.specs.normalize import Device, Shape, as_lead
from rlnb.data.specs.shape_methods import ShapeMethods
from rlnb.data.specs.variable import blank_size
from rlnb.data.specs.violations import Frame, Violation, violations


class TensorSpec(ShapeMethods, ABC):
    """What a tensor looks like: its shape, dtype, device, and the values it may take (its domain).

    A spec draws random values (`rand`), makes blank ones (`zero`, `one`), checks (`is_in`), repairs (`project`), and
    converts from and to what Gymnasium speaks (`encode`, `to_numpy`). Specs do not change once built, apart from the
    entries of a `Composite` and the masks of choices (``update_mask``).

    A value may have any dims in front of the spec's shape: a spec of shape ``[3]`` describes ``[3]``, ``[10, 3]``, ...
    A size of -1 in the shape is a dim of variable size: values of any size there fit, and `rand`, `zero` and `one`
    make it 1.

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
    def rand(self, shape: Shape | None = ()) -> Any:
        """Draw random values from the domain.

        Under one torch seed, ``rand((T,))`` of a leaf equals ``T`` calls of ``rand()`` stacked (on CPU).

        Args:
            shape: sizes in front of the spec's shape.

        Returns:
            A value of shape ``[*shape, *spec.shape]``.
        """

    def sample(self, shape: Shape | None = ()) -> Any:
        """Draw random values (another name of `rand`)."""
        return self.rand(shape)

    @abstractmethod
    def zero(self, shape: Shape | None = ()) -> Any:
        """Make a value filled with zeros. It is a blank to write into and need not lie in the domain."""

    @abstractmethod
    def one(self, shape: Shape | None = ()) -> Any:
        """Make a value filled with ones. It is a blank to write into and need not lie in the domain."""

    def zeros(self, shape: Shape | None = ()) -> Any:
        """Make a value filled with zeros (another name of `zero`)."""
        return self.zero(shape)

    def ones(self, shape: Shape | None = ()) -> Any:
        """Make a value filled with ones (another name of `one`)."""
        return self.one(shape)

    def is_in(self, val: Any) -> bool:
        """Whether ``val`` has the shape (behind any leading dims), dtype, device and domain of the spec."""
        return self._accepts(val, None)

    def contains(self, item: Any) -> bool:
        """Whether ``item`` fits the spec (another name of `is_in`)."""
        return self._accepts(item, None)

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

    def adapt(self, value: Any) -> Any:
        """Return ``value`` with the dtype and the shape of the spec where that changes no number.

        Policies and environments often write the right numbers in another dtype, such as the float vectors of
        ``torch.distributions.OneHotCategorical``, or without a last dim of size 1. `is_in` is strict about both;
        ``spec.is_in(spec.adapt(value))`` is not.

        Args:
            value: a tensor; a TensorDict for a Composite.

        Returns:
            A tensor whose numbers equal those of ``value``: cast if the spec's dtype holds them all (between floating
            dtypes they may be rounded), and without extra trailing dims of size 1, or with missing ones. ``value``
            itself if it fits, or if no such change makes it fit. The domain is not checked, and the device stays.

        Example:
            >>> from rlnb.data import OneHot, Unbounded
            >>> OneHot(3).adapt(torch.tensor([0.0, 1.0, 0.0]))
            tensor([False,  True, False])
            >>> OneHot(3).adapt(torch.tensor([0.0, 0.5, 0.0]))  # no boolean equals 0.5
            tensor([0.0000, 0.5000, 0.0000])
            >>> Unbounded(1).adapt(torch.tensor(2.0)).shape
            torch.Size([1])
        """
        return value

    @abstractmethod
    def project(self, val: Any) -> Any:
        """Return the value of the domain nearest to ``val``; ``val`` itself when it is in the domain."""

    def cardinality(self, use_mask: bool = False) -> int | float:
        """Return how many values there are: an int, or infinity. A batch of choices has as many as one of its rows.

        Args:
            use_mask: whether to count only what the masks of choices leave.

        Example:
            >>> from rlnb.data import Bounded, Categorical
            >>> Categorical(3).cardinality(), Categorical(3, shape=(2,)).cardinality()
            (3, 3)
            >>> Bounded(0, 1, shape=(1,)).cardinality()
            inf
        """
        return math.inf

    def enumerate(self, use_mask: bool = False) -> Any:
        """List all values, stacked along a new first dim; the last entry changes fastest.

        Args:
            use_mask: whether to list only what the masks of choices leave.

        Returns:
            A tensor of shape ``[cardinality, *spec.shape]``; a TensorDict of that batch size for a Composite.

        Raises:
            ValueError: there are endlessly many, or too many to list.

        Example:
            >>> from rlnb.data import MultiCategorical
            >>> MultiCategorical([2, 2]).enumerate().tolist()
            [[0, 0], [0, 1], [1, 0], [1, 1]]
        """
        return combinations([self.cardinality(use_mask)], type(self).__name__)

    def index(self, index: Any, tensor_to_index: torch.Tensor) -> torch.Tensor:
        """Take from ``tensor_to_index`` what a value of the spec chooses; only specs of choices can.

        Args:
            index: a value of the spec.
            tensor_to_index: numbers, one for each choice along the last dim.

        Raises:
            TypeError: the spec is none of choices.
        """
        raise TypeError(
            f"{type(self).__name__}.index: its values choose nothing. Specs that do: Categorical, OneHot, "
            "MultiCategorical, MultiOneHot."
        )

    @abstractmethod
    def encode(self, val: Any, *, check: bool = True, ignore_device: bool = False) -> Any:
        """Turn python numbers, lists, numpy arrays or tensors into a value of the spec.

        Args:
            val: what a Gymnasium environment returns, with any leading dims.
            check: whether to raise for a value outside the domain.
            ignore_device: whether to leave the value on the device where it is.

        Raises:
            TypeError: it cannot be made a tensor.
            ValueError: the shape or the domain does not fit.
        """

    @abstractmethod
    def to_numpy(self, val: Any, safe: bool | None = True) -> Any:
        """Turn a value of the spec into what a Gymnasium environment takes.

        Args:
            val: a value of the spec, with any leading dims.
            safe: whether to raise for a value that is not in the spec.

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
        """Stack this spec with ``others``, which are equal to it."""

    def clear_device_(self) -> Self:
        """Return the spec: only a `Composite` can do without a device."""
        return self

    def memoize_encode(self, mode: bool = True) -> None:
        """Do nothing: `encode` needs no cache.

        Args:
            mode: there to match TorchRL.
        """

    def erase_memoize_cache(self) -> None:
        """Do nothing: `encode` has no cache."""

    def cpu(self) -> Self:
        """Return the spec on the CPU."""
        return self.to("cpu")

    def cuda(self, device: Device = "cuda") -> Self:
        """Return the spec on a CUDA device."""
        return self.to(device)

    def _size(self, shape: Shape | None) -> torch.Size:
        own = blank_size(self._shape)
        return own if shape == () else torch.Size((*as_lead(shape), *own))

"""TensorSpec: abstract base class of all specs, with the shape operations that specs share with tensors."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import torch

from rlnb.data.specs.normalize import (
    Device,
    Shape,
    as_device,
    as_dtype,
    as_lead,
    as_size,
    as_sizes,
    leading_dim,
    leading_index,
)
from rlnb.data.specs.sampling import combinations
from rlnb.data.specs.variable import TensorMap, blank_size, map_field, map_rows, map_size, shape_text
from rlnb.data.specs.violations import Frame, Violation, violations


class TensorSpec(ABC):
    """Describes a tensor: its shape, dtype and device, and the values that it may take (its domain).

    A spec draws random values (``rand``), creates blank ones (``zero``, ``one``), checks values (``is_in``), repairs
    them (``project``), and converts them from and to what Gymnasium uses (``encode``, ``to_numpy``). A spec is
    immutable, apart from the entries of a ``Composite``, the masks of choices (``update_mask``), and assignments to its
    attributes.

    A value may have any number of dims in front of the spec's shape: a spec of shape ``[3]`` describes tensors of
    shape ``[3]``, ``[10, 3]`` and so on. A -1 in the shape is a dim of variable size: ``is_in`` accepts any size there,
    and ``rand``, ``zero`` and ``one`` use size 1.

    Shape operations raise an ``IndexError`` for a dim that does not exist, or holds a one-hot encoding.

    Example:
        >>> from rlnb.data import Bounded
        >>> spec = Bounded(-1, 1, shape=(3,))
        >>> spec.is_in(spec.rand((10,)))
        True
    """

    #: Attributes that distinguish specs of one class, besides shape, dtype and device.
    _fields: ClassVar[tuple[str, ...]] = ()
    #: The ``_fields`` that are tensors of the spec's leading shape, so that shape operations apply to them.
    _shaped: ClassVar[tuple[str, ...]] = ()
    #: The ``_fields`` that are tensors with one more dim (a row for each entry), or None.
    _rowed: ClassVar[tuple[str, ...]] = ()
    #: The number of trailing dims that hold one encoded choice. Shape operations must not touch them.
    _event_dims: ClassVar[int] = 0

    _shape: torch.Size
    _dtype: torch.dtype | None
    _device: torch.device | None

    # Shape, dtype and device --------------------------------------------------------------------------------------

    @property
    def shape(self) -> torch.Size:
        """The shape of one value. May be assigned: any shape that ``expand`` or ``reshape`` can reach."""
        return self._shape

    @shape.setter
    def shape(self, shape: Shape) -> None:
        size = as_size(shape)
        if not self._fields and not self._event_dims:  # all entries have the same description
            self._become(self._with(_shape=size))
            return
        try:
            self._become(self.expand(*size))
        except ValueError:
            self._become(self.reshape(*size).clone())

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype of the values; None if they have no single one. May be assigned, which casts the bounds."""
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: torch.dtype) -> None:
        self._become(self.to(dtype).clone())

    @property
    def device(self) -> torch.device | None:
        """The device of the values; None if they have no single one. May be assigned, which moves the bounds."""
        return self._device

    @device.setter
    def device(self, device: Device) -> None:
        self._become(self.to(device).clone())

    @property
    def ndim(self) -> int:
        """The number of dims of one value."""
        return len(self._shape)

    def ndimension(self) -> int:
        """Return the number of dims of one value (alias of ``ndim``)."""
        return len(self._shape)

    @property
    @abstractmethod
    def domain(self) -> str | None:
        """``"continuous"``, ``"discrete"``, ``"composite"``, or None for data that is not a tensor."""

    @property
    @abstractmethod
    def space(self) -> Any:
        """The values that one entry may take, as a box; None if the spec has no bounds."""

    # Values -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def rand(self, shape: Shape | None = ()) -> Any:
        """Draw random values from the domain.

        With the same torch seed, ``rand((T,))`` of a leaf equals ``T`` stacked calls of ``rand()`` (on CPU).

        Args:
            shape: sizes in front of the spec's shape.

        Returns:
            A value of shape ``[*shape, *spec.shape]``.
        """

    def sample(self, shape: Shape | None = ()) -> Any:
        """Draw random values (alias of ``rand``)."""
        return self.rand(shape)

    @abstractmethod
    def zero(self, shape: Shape | None = ()) -> Any:
        """Return a value of shape ``[*shape, *spec.shape]`` filled with zeros.

        It is a blank to write into and may lie outside the domain.
        """

    @abstractmethod
    def one(self, shape: Shape | None = ()) -> Any:
        """Return a value filled with ones; see ``zero``."""

    def zeros(self, shape: Shape | None = ()) -> Any:
        """Return a value filled with zeros (alias of ``zero``)."""
        return self.zero(shape)

    def ones(self, shape: Shape | None = ()) -> Any:
        """Return a value filled with ones (alias of ``one``)."""
        return self.one(shape)

    def _size(self, shape: Shape | None) -> torch.Size:
        """Return the size of a new value: ``shape``, then the spec's shape with size 1 for variable dims."""
        own = blank_size(self._shape)
        return own if shape == () else torch.Size((*as_lead(shape), *own))

    def cardinality(self, use_mask: bool = False) -> int | float:
        """Return the number of distinct values: an int, or infinity. Batch dims of choices do not multiply it.

        Args:
            use_mask: whether to count only the choices that the masks allow.

        Example:
            >>> from rlnb.data import Bounded, Categorical
            >>> Categorical(3).cardinality(), Categorical(3, shape=(2,)).cardinality()
            (3, 3)
            >>> Bounded(0, 1, shape=(1,)).cardinality()
            inf
        """
        return math.inf

    def enumerate(self, use_mask: bool = False) -> Any:
        """List all values, stacked along a new first dim. The last entry changes fastest.

        Args:
            use_mask: whether to list only the choices that the masks allow.

        Returns:
            A tensor of shape ``[cardinality, *spec.shape]``; a TensorDict of that batch size for a Composite.

        Raises:
            ValueError: If there are infinitely many values, or too many to list.

        Example:
            >>> from rlnb.data import MultiCategorical
            >>> MultiCategorical([2, 2]).enumerate().tolist()
            [[0, 0], [0, 1], [1, 0], [1, 1]]
        """
        return combinations([self.cardinality(use_mask)], type(self).__name__)

    # Checks -------------------------------------------------------------------------------------------------------

    def is_in(self, val: Any) -> bool:
        """Return whether a value fits the spec.

        Args:
            val: a tensor, or a TensorDict for a Composite.

        Returns:
            True if it has the spec's shape (after any leading dims), dtype and device, and all of its entries are in
            the domain.
        """
        return self._accepts(val, None)

    def contains(self, item: Any) -> bool:
        """Return whether ``item`` fits the spec (alias of ``is_in``)."""
        return self._accepts(item, None)

    @abstractmethod
    def _accepts(self, value: Any, lead: torch.Size | None) -> bool:
        """Return whether ``value`` fits after exactly the leading sizes ``lead`` (None: any sizes)."""

    @abstractmethod
    def _violations(self, value: Any, key: tuple[str, ...], frame: Frame) -> list[Violation]:
        """List the violations of ``value``, the entry ``key`` of the data."""

    def violations(self, value: Any, *, leading: int | None = None, time_dim: bool = False) -> list[Violation]:
        """List every way in which ``value`` does not fit; see ``rlnb.data.violations``.

        Args:
            value: the value to check.
            leading: number of dims that ``value`` must have in front of the spec's shape. Default: any.
            time_dim: whether ``value`` has a time dim after the spec's batch dims; see ``rlnb.data.violations``.
        """
        return violations(self, value, leading=leading, time_dim=time_dim)

    def assert_is_in(self, value: Any) -> None:
        """Raise unless ``is_in(value)``.

        Raises:
            AssertionError: If ``value`` does not fit. The message has one line for each violation.
        """
        if not self.is_in(value):
            raise AssertionError("\n".join(self._messages(value)))

    def _messages(self, value: Any) -> list[str]:
        return [str(violation) for violation in self.violations(value) if violation.kind != "extra"]

    @abstractmethod
    def type_check(self, value: Any, key: Any = None) -> None:
        """Raise unless a value has the spec's dtype.

        Args:
            value: a tensor of any shape.
            key: its name, for the message.

        Raises:
            TypeError: If the dtype differs.
        """

    @abstractmethod
    def project(self, val: Any) -> Any:
        """Return the value of the domain that is nearest to a value.

        Args:
            val: a value with the spec's shape after any leading dims.

        Returns:
            The nearest value; ``val`` itself if it is in the domain.
        """

    def adapt(self, value: Any) -> Any:
        """Return ``value`` with the spec's dtype and shape, if that changes no number.

        Policies and environments often write the right numbers in another dtype, such as the float vectors of
        ``torch.distributions.OneHotCategorical``, or without a last dim of size 1. ``is_in`` is strict about both;
        ``spec.is_in(spec.adapt(value))`` is not.

        Args:
            value: a tensor, or a TensorDict for a Composite.

        Returns:
            A tensor with the same numbers as ``value``: cast if the spec's dtype can hold all of them (between
            floating dtypes they may be rounded), with trailing dims of size 1 added or removed. ``value`` itself if
            it fits already, or if no such change makes it fit. The domain is not checked and the device is kept.

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

    # Conversion ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def encode(self, val: Any, *, check: bool = True, ignore_device: bool = False) -> Any:
        """Convert Python numbers, lists, NumPy arrays or tensors to a value of the spec.

        Args:
            val: what a Gymnasium environment returns, with any leading dims.
            check: whether to raise for a value outside the domain.
            ignore_device: whether to leave the value on its current device.

        Raises:
            TypeError: If it cannot be converted to a tensor.
            ValueError: If it does not fit the shape or the domain.
        """

    @abstractmethod
    def to_numpy(self, val: Any, safe: bool | None = True) -> Any:
        """Convert a value of the spec to what a Gymnasium environment takes.

        Args:
            val: a value of the spec, with any leading dims.
            safe: whether to raise for a value that is not in the spec.

        Raises:
            ValueError: If the value is not in the spec.
        """

    def index(self, index: Any, tensor_to_index: torch.Tensor) -> torch.Tensor:
        """Select the numbers of ``tensor_to_index`` that ``index`` chooses. Only specs of choices can do this.

        Args:
            index: a value of the spec.
            tensor_to_index: one number for each choice along the last dim.

        Raises:
            TypeError: If the spec does not describe choices.
        """
        raise TypeError(
            f"{type(self).__name__}.index: its values do not choose anything. Specs of choices: Categorical, OneHot, "
            "MultiCategorical, MultiOneHot."
        )

    def memoize_encode(self, mode: bool = True) -> None:  # noqa: B027 - nothing to override
        """Do nothing: ``encode`` needs no cache."""

    def erase_memoize_cache(self) -> None:  # noqa: B027 - nothing to override
        """Do nothing: ``encode`` has no cache."""

    # Copies -------------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:  # noqa: B027 - an optional hook
        """Recompute what is derived from the fields. Called after any of them has changed."""

    def _with(self, **fields: Any) -> Self:
        """Return a shallow copy with some attributes replaced."""
        new = copy.copy(self)
        for name, field in fields.items():
            setattr(new, name, field)
        new._prepare()
        return new

    def _become(self, other: TensorSpec) -> None:
        """Turn this object into ``other``. Assigning to ``shape``, ``dtype`` or ``device`` works this way."""
        self.__class__ = type(other)  # a Bounded of another dtype is of another class
        self.__dict__ = other.__dict__

    def clone(self) -> Self:
        """Return an independent copy."""
        return self._with(**{name: tensor.clone() for name, tensor in self._tensors().items()})

    def _tensors(self) -> dict[str, torch.Tensor]:
        fields = ((name, getattr(self, name)) for name in self._fields)
        return {name: field for name, field in fields if isinstance(field, torch.Tensor)}

    def to(self, dest: torch.dtype | Device) -> Self:
        """Return the spec with another dtype or on another device.

        Args:
            dest: a dtype, or a device. ``None``: torch's default device.

        Example:
            >>> from rlnb.data import Bounded
            >>> Bounded(-1, 1, shape=(3,)).to(torch.float64).dtype
            torch.float64
        """
        if isinstance(dest, torch.dtype):
            return self if dest == self._dtype else self._to_dtype(as_dtype(dest, dest))
        device = as_device(dest)
        if device == self._device:
            return self
        return self._with(_device=device, **{name: tensor.to(device) for name, tensor in self._tensors().items()})

    def _to_dtype(self, dtype: torch.dtype) -> Self:
        return self._with(_dtype=dtype)

    def cpu(self) -> Self:
        """Return the spec on the CPU."""
        return self.to("cpu")

    def cuda(self, device: Device = "cuda") -> Self:
        """Return the spec on a CUDA device."""
        return self.to(device)

    def clear_device_(self) -> Self:
        """Return the spec itself: only a ``Composite`` can have no device."""
        return self

    # Shape operations ---------------------------------------------------------------------------------------------

    def _mapped(self, fn: TensorMap) -> Self:
        """Apply a shape operation, given as a function of a tensor that begins with the spec's leading shape."""
        ndim = self.ndim - self._event_dims
        lead = self._shape[:ndim]
        new = map_size(fn, lead)
        fields = {name: map_field(fn, getattr(self, name), lead, new) for name in self._shaped}
        rows = {name: getattr(self, name) for name in self._rowed}
        fields.update({name: map_rows(fn, field, lead, new) for name, field in rows.items() if field is not None})
        return self._with(_shape=torch.Size((*new, *self._shape[ndim:])), **fields)

    def expand(self, *shape: Any) -> Self:
        """Return the spec with leading dims added or stretched, like ``torch.Tensor.expand``.

        Args:
            *shape: the whole new shape; -1 keeps a dim.

        Raises:
            ValueError: If the spec's shape cannot be expanded to it.

        Example:
            >>> from rlnb.data import OneHot
            >>> OneHot(4).expand(2, 4).shape
            torch.Size([2, 4])
        """
        sizes = as_sizes(shape)
        event = self._shape[self.ndim - self._event_dims :]
        lead, tail = sizes[: len(sizes) - len(event)], sizes[len(sizes) - len(event) :]
        try:
            if any(new not in (-1, old) for new, old in zip(tail, event, strict=True)):
                raise RuntimeError
            return self._mapped(lambda tensor: tensor.expand(lead))
        except (RuntimeError, ValueError):
            raise ValueError(
                f"{type(self).__name__} of shape {shape_text(self._shape)} does not expand to {shape_text(sizes)}: the "
                f"new shape must end with {shape_text(self._shape)}, where only dims of size 1 may change."
            ) from None

    def squeeze(self, dim: int | None = None) -> Self:
        """Return the spec without the dim ``dim`` if its size is 1; without all dims of size 1 if ``dim`` is None."""
        if dim is None:
            new = self
            for at in reversed(range(self.ndim - self._event_dims)):
                new = new._squeezed(at)
            return new
        return self._squeezed(leading_dim(dim, self.ndim, self._event_dims, f"{type(self).__name__}.squeeze"))

    def _squeezed(self, dim: int) -> Self:
        return self._mapped(lambda tensor: tensor.squeeze(dim))

    def unsqueeze(self, dim: int) -> Self:
        """Return the spec with a dim of size 1 inserted at ``dim``."""
        at = leading_dim(dim, self.ndim, self._event_dims, f"{type(self).__name__}.unsqueeze", insert=True)
        return self._unsqueezed(at)

    def _unsqueezed(self, dim: int) -> Self:
        return self._mapped(lambda tensor: tensor.unsqueeze(dim))

    def __getitem__(self, index: Any) -> Any:
        parts = leading_index(index, self.ndim - self._event_dims)
        return self._mapped(lambda tensor: tensor[parts])

    def reshape(self, *shape: Any) -> Self:
        """Return the spec of the same entries in another shape.

        Args:
            *shape: the whole new shape; one size may be -1 and is then inferred. The dim of a one-hot encoding stays
                last.

        Raises:
            ValueError: If the number of entries differs, or the encoding would be split.

        Example:
            >>> from rlnb.data import Bounded, OneHot
            >>> Bounded(0, 1, shape=(2, 6)).reshape(3, -1).shape
            torch.Size([3, 4])
            >>> OneHot(4, shape=(2, 3, 4)).reshape(6, 4).shape
            torch.Size([6, 4])
        """
        sizes, count = as_sizes(shape), len(self._shape) - self._event_dims
        lead, event = sizes[: len(sizes) - self._event_dims], sizes[len(sizes) - self._event_dims :]
        own = self._shape[:count]
        try:
            if event != tuple(self._shape[count:]):
                raise RuntimeError
            if -1 not in own:
                # Inferred here: an entry of a Composite has more dims than its batch size, which makes -1 ambiguous.
                lead = tuple(map_size(lambda tensor: tensor.reshape(lead), own))
            return self._mapped(lambda tensor: tensor.reshape((*lead, *tensor.shape[count:])))
        except RuntimeError:
            ending = f" ending with {list(self._shape[count:])}, the encoding" if self._event_dims else ""
            raise ValueError(
                f"{type(self).__name__} of shape {shape_text(self._shape)} does not reshape to {list(sizes)}: give a "
                f"shape with the same number of entries{ending}."
            ) from None

    def view(self, *shape: Any) -> Self:
        """Return the spec of the same entries in another shape (alias of ``reshape``)."""
        return self.reshape(*shape)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """Return the spec with the dims from ``start_dim`` to ``end_dim`` (inclusive) merged into one.

        Raises:
            ValueError: If ``end_dim`` comes before ``start_dim``, or a variable dim cannot be merged.

        Example:
            >>> from rlnb.data import Unbounded
            >>> Unbounded((2, 3, 4)).flatten(0, 1).shape
            torch.Size([6, 4])
        """
        first, last = self._dims_to_flatten(start_dim, end_dim)
        return self._mapped(lambda tensor: tensor.flatten(first, last))

    def _dims_to_flatten(self, start_dim: int, end_dim: int) -> tuple[int, int]:
        who = f"{type(self).__name__}.flatten"
        first = leading_dim(start_dim, self.ndim, self._event_dims, who)
        last = leading_dim(end_dim, self.ndim, self._event_dims, who)
        if first > last:
            raise ValueError(f"{who}: start_dim {start_dim} comes after end_dim {end_dim}. Swap them.")
        return first, last

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Self:
        """Return the spec with the dim ``dim`` split into dims of the given sizes, one of which may be -1.

        Raises:
            ValueError: If the product of the sizes is not the size of the dim.

        Example:
            >>> from rlnb.data import Unbounded
            >>> Unbounded((6, 4)).unflatten(0, (2, 3)).shape
            torch.Size([2, 3, 4])
        """
        who = f"{type(self).__name__}.unflatten"
        at = leading_dim(dim, self.ndim, self._event_dims, who)
        try:
            return self._mapped(lambda tensor: tensor.unflatten(at, tuple(sizes)))
        except RuntimeError:
            raise ValueError(
                f"{who}: dim {dim} of the shape {shape_text(self._shape)} cannot be split into {list(sizes)}: "
                "the product of the sizes must be the size of the dim."
            ) from None

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """Return the specs along the dim ``dim``, like ``torch.Tensor.unbind``.

        Raises:
            ValueError: If the dim is of variable size.

        Example:
            >>> from rlnb.data import Bounded
            >>> [int(spec.high) for spec in Bounded([0, 0], [1, 5]).unbind()]
            [1, 5]
        """
        at = leading_dim(dim, self.ndim, self._event_dims, f"{type(self).__name__}.unbind")
        if self._shape[at] == -1:
            raise ValueError(f"{type(self).__name__}.unbind: dim {dim} is of variable size: {shape_text(self._shape)}.")
        return tuple(self[(*[slice(None)] * at, i)] for i in range(self._shape[at]))

    def make_neg_dim(self, dim: int) -> Self:
        """Make the dim ``dim`` one of variable size (-1), in place, and return the spec itself.

        Raises:
            ValueError: If the bounds, choices or masks differ along the dim.

        Example:
            >>> from rlnb.data import Unbounded
            >>> Unbounded((2, 3)).make_neg_dim(0).shape
            torch.Size([-1, 3])
        """
        at = leading_dim(dim, self.ndim, self._event_dims, f"{type(self).__name__}.make_neg_dim")
        self._become(self._with_variable(at))
        return self

    def _with_variable(self, dim: int) -> Self:
        """Return a copy in which the dim ``dim`` is of variable size."""
        row = self[(*[slice(None)] * dim, slice(0, 1))]
        if row.expand(*self._shape) != self:
            raise ValueError(
                f"{type(self).__name__}.make_neg_dim: the spec differs along dim {dim}, so that it does not define the "
                "values of another size. Choose a dim along which all entries are the same."
            )
        new: Self = row._with(_shape=torch.Size((*self._shape[:dim], -1, *self._shape[dim + 1 :])))
        return new

    def _stack(self, others: Sequence[TensorSpec], dim: int) -> Self:
        """Stack this spec with ``others``, which are equal to it."""
        at = leading_dim(dim, self.ndim, self._event_dims, "torch.stack", insert=True)
        new = self.unsqueeze(at)
        return new.expand(*new.shape[:at], len(others) + 1, *new.shape[at + 1 :])

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Make ``torch.stack``, ``torch.squeeze``, ``torch.unsqueeze`` and ``torch.index_select`` work on specs."""
        handler = _TORCH_FUNCTIONS.get(func)
        return NotImplemented if handler is None else handler(*args, **(kwargs or {}))

    # Equality -----------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return False
        assert isinstance(other, TensorSpec)
        if (self._shape, self._dtype, self._device) != (other._shape, other._dtype, other._device):
            return False
        return all(_same(getattr(self, name), getattr(other, name)) for name in self._fields)

    def __hash__(self) -> int:
        return hash((type(self), self._shape, self._dtype, self._device, self._hash_key()))

    def _hash_key(self) -> Any:
        """Return fields that distinguish specs of the class and never change, so not the mask."""
        return None


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor):
        return isinstance(second, torch.Tensor) and torch.equal(first, second)
    return bool(first == second)


def _stack_specs(tensors: Sequence[TensorSpec], dim: int = 0) -> TensorSpec:
    # Imported here, because stacks are subclasses of the class above.
    from rlnb.data.specs.stacked_composite import stack_specs

    return stack_specs(tensors, dim)


def _index_select(input: TensorSpec, dim: int, index: torch.Tensor) -> TensorSpec:
    at = leading_dim(dim, input.ndim, input._event_dims, "torch.index_select")
    selected: TensorSpec = input[(*[slice(None)] * at, index)]
    return selected


_TORCH_FUNCTIONS: dict[Any, Callable[..., TensorSpec]] = {
    torch.stack: _stack_specs,
    torch.squeeze: lambda input, dim=None: input.squeeze(dim),
    torch.unsqueeze: lambda input, dim: input.unsqueeze(dim),
    torch.index_select: _index_select,
}

"""Lazy stacks of specs that differ: their base class, and Stacked for stacks of tensors."""

from __future__ import annotations

import itertools
import math
import operator
import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from tensordict import NonTensorData, NonTensorStack

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.normalize import Device, Shape, as_lead, as_sizes, leading_dim, leading_index
from rlnb.data.specs.sampling import combinations
from rlnb.data.specs.variable import TensorMap, shape_text
from rlnb.data.specs.violations import Frame, Violation


class LazyStack(TensorSpec):
    """Base class of ``Stacked`` and ``StackedComposite``: members along a dim; operations apply to each of them."""

    _fields = ("_members", "_stack_dim")
    _members: tuple[Any, ...]
    _stack_dim: int

    def _set_members(self, specs: Sequence[TensorSpec], dim: int) -> None:
        name = type(self).__name__
        if not specs:
            raise ValueError(f"{name} needs at least one spec, got none.")
        shapes = [spec.shape for spec in specs]
        self._stack_dim = leading_dim(dim, len(shapes[0]), specs[0]._event_dims, name, insert=True)
        merged = [sizes[0] if len(set(sizes)) == 1 else -1 for sizes in zip(*shapes, strict=True)]
        merged.insert(self._stack_dim, len(specs))
        self._shape = torch.Size(merged)
        self._members = tuple(specs)

    @property
    def specs(self) -> tuple[Any, ...]:
        """The members."""
        return self._members

    @property
    def stack_dim(self) -> int:
        """The position of the stack's dim in the shape."""
        return self._stack_dim

    @property
    def dim(self) -> int:
        """The position of the stack's dim in the shape (alias of ``stack_dim``)."""
        return self._stack_dim

    def __len__(self) -> int:
        """Return the size of the first dim, as for a tensor."""
        return self._shape[0]

    @property
    def device(self) -> torch.device | None:
        """The device of the values; None if the members differ. May be assigned, which moves the members."""
        devices = {spec.device for spec in self._members}
        return devices.pop() if len(devices) == 1 else None

    @device.setter
    def device(self, device: Device) -> None:
        self._become(self.to(device))

    def _restacked(self, members: Sequence[TensorSpec], dim: int) -> Self:
        """Return a stack of the same class with other members."""
        return type(self)(*members, dim=dim)  # type: ignore[call-arg]  # the subclasses take members

    def _join(self, values: list[Any], lead: int) -> Any:
        """Join the members' values, which have ``lead`` leading dims, to one value."""
        raise NotImplementedError

    def _parts(self, value: Any, at: int) -> Sequence[Any] | None:
        """Split a value along its dim ``at`` into the members' values; None if it does not have one for each."""
        raise NotImplementedError

    def _parts_and_lead(self, value: Any) -> tuple[Sequence[Any] | None, int]:
        """Split a value into the members' values, as ``_parts`` does, and return the number of its leading dims too."""
        raise NotImplementedError

    def _members_of(self, value: Any, call: str) -> tuple[Sequence[Any], int]:
        """Split a value as ``_parts_and_lead`` does; raise in the name of ``call`` if it cannot be split."""
        parts, lead = self._parts_and_lead(value)
        if parts is None:
            raise ValueError(f"{type(self).__name__}.{call}: " + self._messages(value)[0])
        return parts, lead

    # Values -------------------------------------------------------------------------------------------------------

    def rand(self, shape: Shape | None = ()) -> Any:
        """Draw random values of each member; see ``TensorSpec.rand``."""
        return self._join([spec.rand(shape) for spec in self._members], len(as_lead(shape)))

    def zero(self, shape: Shape | None = ()) -> Any:
        """Return a value filled with zeros for each member; see ``TensorSpec.zero``."""
        return self._join([spec.zero(shape) for spec in self._members], len(as_lead(shape)))

    def one(self, shape: Shape | None = ()) -> Any:
        """Return a value filled with ones for each member; see ``TensorSpec.one``."""
        return self._join([spec.one(shape) for spec in self._members], len(as_lead(shape)))

    def cardinality(self, use_mask: bool = False) -> int | float:
        """Return the number of distinct values: the product over the members; see ``TensorSpec.cardinality``."""
        return math.prod(spec.cardinality(use_mask) for spec in self._members)

    def enumerate(self, use_mask: bool = False) -> Any:
        """List all values, the last member changing fastest; see ``TensorSpec.enumerate``."""
        counts = [spec.cardinality(use_mask) for spec in self._members]
        chosen = combinations(counts, f"a {type(self).__name__}")
        return self._join([spec.enumerate(use_mask)[chosen[:, i]] for i, spec in enumerate(self._members)], 1)

    def _member_violations(self, parts: Sequence[Any], key: tuple[str, ...], frame: Frame) -> list[Violation]:
        inner = frame.of_member(self._stack_dim)
        pairs = enumerate(zip(self._members, parts, strict=True))
        return [found.in_member(i) for i, (spec, part) in pairs for found in spec._violations(part, key, inner)]

    def to_numpy(self, val: Any, safe: bool | None = True) -> tuple[Any, ...]:
        """Convert a value to a tuple with one value for each member; see ``TensorSpec.to_numpy``."""
        if safe and not self.is_in(val):
            raise ValueError(f"{type(self).__name__}.to_numpy: " + self._messages(val)[0])
        parts, _ = self._members_of(val, "to_numpy")
        return tuple(spec.to_numpy(part, safe=False) for spec, part in zip(self._members, parts, strict=True))

    def _encoded(self, value: Any, **options: Any) -> list[Any]:
        """Encode a list with one value for each member; ``options`` go to ``TensorSpec.encode``."""
        try:
            values = list(value)
        except TypeError:
            values = []
        if len(values) != len(self._members):
            kind = f"{len(values)} in a {type(value).__name__}" if values else f"a {type(value).__name__}"
            raise ValueError(
                f"{type(self).__name__}.encode: expected a list of {len(self._members)} values, one for each member, "
                f"got {kind}."
            )
        return [spec.encode(part, **options) for spec, part in zip(self._members, values, strict=True)]

    # Copies and dims ----------------------------------------------------------------------------------------------

    def to(self, dest: torch.dtype | Device) -> Self:
        """Return the spec with its members in another dtype or on another device."""
        return self._restacked([spec.to(dest) for spec in self._members], self._stack_dim)

    def clone(self) -> Self:
        """Return an independent copy."""
        return self._restacked([spec.clone() for spec in self._members], self._stack_dim)

    def expand(self, *shape: Any) -> Self:
        """Return the spec with leading dims added or stretched; see ``TensorSpec.expand``.

        A -1 keeps a dim, and is needed for dims in which the members differ.
        """
        sizes = as_sizes(shape)
        at = len(sizes) - self.ndim + self._stack_dim
        count = len(self._members)
        try:
            if len(sizes) < self.ndim or (count != 1 and sizes[at] not in (-1, count)):
                raise ValueError
            rest = (*sizes[:at], *sizes[at + 1 :])
            members = [spec.expand(*rest) for spec in self._members]
        except ValueError:
            raise ValueError(
                f"{type(self).__name__} of shape {shape_text(self._shape)} does not expand to {list(sizes)}: the new "
                f"shape must end with {shape_text(self._shape)}, where only dims of size 1 may change, and -1 keeps a "
                "dim."
            ) from None
        if count == 1 and sizes[at] not in (-1, 1):
            members = [members[0].clone() for _ in range(sizes[at])]
        return self._restacked(members, at)

    def _squeezed(self, dim: int) -> Any:
        if self._shape[dim] != 1:
            return self
        if dim == self._stack_dim:
            return self._members[0]
        before = dim < self._stack_dim
        members = [spec.squeeze(dim if before else dim - 1) for spec in self._members]
        return self._restacked(members, self._stack_dim - before)

    def _unsqueezed(self, dim: int) -> Self:
        before = dim <= self._stack_dim
        members = [spec.unsqueeze(dim if before else dim - 1) for spec in self._members]
        return self._restacked(members, self._stack_dim + before)

    def _with_variable(self, dim: int) -> Self:
        if dim == self._stack_dim:
            raise ValueError(
                f"{type(self).__name__}.make_neg_dim: the members are stacked along dim {dim}, so that its size is "
                "their number. Choose another dim."
            )
        return self._restacked(
            [m._with_variable(dim - (dim > self._stack_dim)) for m in self._members], self._stack_dim
        )

    def _mapped(self, fn: TensorMap) -> Self:
        raise NotImplementedError(
            f"a {type(self).__name__} cannot be reshaped together with other entries. Reshape it separately."
        )

    def reshape(self, *shape: Any) -> Any:
        """Return the spec of the same entries in another shape; see ``TensorSpec.reshape``.

        The new shape must end with the dims in which the members differ, as -1. One other size may be -1.

        Example:
            >>> from rlnb.data import Categorical
            >>> stack = torch.stack([Categorical(n) for n in (2, 3, 4, 5)])
            >>> stack.reshape(2, 2)[1, 0].n
            4
        """
        sizes, own = list(as_sizes(shape)), list(self._shape)
        for kept in range(self._stack_dim + 1, len(own) - self._event_dims + 1):
            behind = own[kept:]
            lead = sizes[: len(sizes) - len(behind)]
            count = math.prod(own[:kept])
            if len(sizes) < len(behind) or sizes[len(lead) :] != behind or -1 in own[:kept]:
                continue
            known = math.prod(size for size in lead if size != -1)
            if lead.count(-1) == 1 and known and count % known == 0:
                lead[lead.index(-1)] = count // known
            if -1 not in lead and math.prod(lead) == count > 0:
                return self._rearranged(kept, lead)
        raise ValueError(
            f"a {type(self).__name__} of shape {shape_text(self._shape)} does not reshape to {sizes}: its members "
            "differ. Give a shape with the same number of entries that ends with the dims in which they differ."
        )

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Any:
        """Return the spec with dims merged along which the members are equal; see ``TensorSpec.flatten``."""
        first, last = self._dims_to_flatten(start_dim, end_dim)
        own = list(self._shape)
        if first > self._stack_dim:
            return torch.stack([member.flatten(first - 1, last - 1) for member in self._members], self._stack_dim)
        if -1 in own[: max(last, self._stack_dim) + 1]:
            raise ValueError(
                f"{type(self).__name__}.flatten: the members differ along a dim that would be merged. Unbind the "
                "stack first."
            )
        merged = [*own[:first], math.prod(own[first : last + 1]), *own[last + 1 : self._stack_dim + 1]]
        return self._rearranged(max(last, self._stack_dim) + 1, merged)

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Any:
        """Return the spec with the dim ``dim`` split into dims of the given sizes; see ``TensorSpec.unflatten``."""
        own = list(self._shape)
        at = leading_dim(dim, len(own), self._event_dims, f"{type(self).__name__}.unflatten")
        if at > self._stack_dim:
            return torch.stack([member.unflatten(at - 1, sizes) for member in self._members], self._stack_dim)
        return self.reshape(*own[:at], *sizes, *own[at + 1 :])

    def _rearranged(self, kept: int, lead: Sequence[int]) -> Any:
        """Index each row of the first ``kept`` dims, and stack the rows in the shape ``lead``."""
        rows: list[Any] = [self[index] for index in itertools.product(*map(range, self._shape[:kept]))]
        for size in reversed(lead):
            rows = [torch.stack(rows[i : i + size]) for i in range(0, len(rows), size)]
        return rows[0]

    # Indexing -----------------------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Any:
        return self._indexed(index)

    def _indexed(self, index: Any) -> Any:
        """Index the dims. An integer for the stack's dim gives the member; a slice or list gives a stack again."""
        parts = list(leading_index(index, self.ndim - self._event_dims))
        where = _part_for_dim(parts, self._stack_dim)
        if where is None:
            parts += [slice(None)] * (self._stack_dim + 1 - sum(part is not None for part in parts))
            where = len(parts) - 1
        chosen, rest = parts[where], (*parts[:where], *parts[where + 1 :])
        if isinstance(chosen, (int, np.integer)):
            if not -len(self._members) <= chosen < len(self._members):
                raise IndexError(f"{type(self).__name__}: there is no member {chosen}; there are {len(self._members)}.")
            member = self._members[chosen]
            # The member itself if the rest of the index selects everything, so that a write to a Composite reaches it.
            return member[rest] if any(not isinstance(p, slice) or p != slice(None) for p in rest) else member
        dim = sum(map(_dims_made, parts[:where]))
        if isinstance(chosen, slice) and chosen == slice(None):
            return self._restacked([m[rest] if rest else m for m in self._members], dim)
        picked = _picked(chosen, len(self._members), any(_is_list(part) for part in rest), type(self).__name__)
        return torch.stack([self._members[i][rest] if rest else self._members[i] for i in picked], dim)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LazyStack)
            and type(other) is type(self)
            and self._stack_dim == other._stack_dim
            and self._members == other._members
        )

    def __hash__(self) -> int:
        return hash((type(self), self._stack_dim, self._members))


def _is_list(part: Any) -> bool:
    return not (part is None or isinstance(part, (int, np.integer, slice)))


def _dims_made(part: Any) -> int:
    """Return the number of dims that a part of an index contributes to the result."""
    if not _is_list(part):
        return int(part is None or isinstance(part, slice))
    numbers = torch.as_tensor(part)
    return 1 if numbers.dtype == torch.bool else numbers.ndim


def _part_for_dim(parts: list[Any], dim: int) -> int | None:
    """Return which part of an index applies to the dim ``dim``; None if the index ends before it."""
    seen = 0
    for i, part in enumerate(parts):
        if part is None:
            continue
        if seen == dim:
            return i
        seen += part.ndim if isinstance(part, torch.Tensor) and part.dtype == torch.bool else 1
    return None


def _picked(chosen: Any, count: int, more_lists: bool, name: str) -> list[int]:
    """Return the numbers of the members that a slice, list, tensor or mask selects."""
    index = torch.arange(count)
    picked = index[chosen] if isinstance(chosen, slice) else index[torch.as_tensor(chosen)]
    if picked.ndim != 1 or more_lists:
        raise IndexError(
            f"{name}: select members by a number, a slice or one list of numbers; index other dims separately."
        )
    if not len(picked):
        raise IndexError(f"{name}: the index {chosen!r} selects none of the {count} members.")
    return picked.tolist()


class Stacked(LazyStack):
    """A lazy stack of specs of one class that differ in their domains or sizes. ``torch.stack`` creates it.

    If the members have the same shape, a value is a plain tensor that includes the stack's dim. If their sizes differ,
    the shape has a -1 there, and a value is a nested tensor (``torch.nested``) of the members' values:
    ``value.unbind()[i]`` is a value of member ``i``, including any leading dims, wherever the stack's dim is.

    For Python and NumPy, a value is a tuple with one value for each member: ``to_numpy`` returns it, ``encode`` takes
    it.

    Args:
        *specs: the members, which must have the same class, dtype, device and number of dims.
        dim: the position of the stack's dim in the shape.

    Raises:
        ValueError: If there are no members, or they cannot be stacked.

    Example:
        >>> from rlnb.data import Bounded
        >>> spec = torch.stack([Bounded(0, 1, shape=(3,)), Bounded(-1, 1, shape=(4,))])
        >>> spec.shape, spec[1].shape
        (torch.Size([2, -1]), torch.Size([4]))
        >>> [value.shape for value in spec.rand().unbind()]
        [torch.Size([3]), torch.Size([4])]
    """

    def __init__(self, *specs: TensorSpec, dim: int) -> None:
        for i, spec in enumerate(specs):
            _check_member(spec, specs[0], i)
        self._set_members(specs, dim)
        self._dtype = specs[0].dtype
        shapes = [spec.shape for spec in specs]
        #: Whether the shapes of the members differ, so that only a nested tensor can hold their values.
        self._ragged = any(shape != shapes[0] for shape in shapes)
        if self._ragged and (self._dtype is None or isinstance(specs[0], Stacked)):
            raise ValueError(
                f"torch.stack: the shapes {', '.join(map(shape_text, shapes))} differ, and values of a "
                f"{type(specs[0]).__name__} do not fit in a nested tensor. Stack Composites that hold them instead."
            )

    @property
    def _event_dims(self) -> int:  # type: ignore[override]  # a constant of other specs
        count: int = self._members[0]._event_dims
        return count

    @property
    def domain(self) -> str | None:
        """The domain of the members."""
        domain: str | None = self._members[0].domain
        return domain

    @property
    def space(self) -> tuple[Any, ...]:
        """The spaces of the members."""
        return tuple(spec.space for spec in self._members)

    def _join(self, values: list[Any], lead: int) -> Any:
        if not self._ragged and all(value.shape == values[0].shape for value in values):
            return torch.stack(values, lead + self._stack_dim)
        pairs = zip(values, self._members, strict=True)
        leads = {tuple(value.shape[: value.ndim - spec.ndim]) for value, spec in pairs}
        if len(leads) > 1:
            raise ValueError(f"Stacked: the members' values have different leading dimensions: {sorted(leads)}.")
        with warnings.catch_warnings():
            # torch warns that nested tensors are a prototype, which does not help users of specs.
            warnings.filterwarnings("ignore", message=".*nested tensors")
            return torch.nested.as_nested_tensor(values)

    def _parts(self, value: Any, at: int) -> Sequence[Any] | None:
        count = len(self._members)
        if isinstance(value, torch.Tensor) and value.is_nested:
            return value.unbind() if value.size(0) == count else None
        if self._ragged or not isinstance(value, (torch.Tensor, NonTensorData, NonTensorStack)):
            return None
        shape = value.shape
        return value.unbind(at) if 0 <= at < len(shape) and shape[at] == count else None

    def _lead(self, value: Any, lead: torch.Size | None, timed: bool = False) -> torch.Size:
        """Return ``lead``, or the leading sizes of the value if it is None."""
        if lead is not None:
            return lead
        if isinstance(value, torch.Tensor) and value.is_nested:
            shape, own = value.unbind()[0].shape if value.size(0) else torch.Size(()), self.ndim - 1
        else:
            shape, own = getattr(value, "shape", torch.Size(())), self.ndim
        return torch.Size(shape[: max(len(shape) - own - timed, 0)])

    def _parts_and_lead(self, value: Any) -> tuple[Sequence[Any] | None, int]:
        lead = len(self._lead(value, None))
        return self._parts(value, lead + self._stack_dim), lead

    def _accepts(self, value: Any, lead: torch.Size | None) -> bool:
        lead = self._lead(value, lead)
        parts = self._parts(value, len(lead) + self._stack_dim)
        if parts is None:
            return False
        return all(spec._accepts(part, lead) for spec, part in zip(self._members, parts, strict=True))

    def _violations(self, value: Any, key: tuple[str, ...], frame: Frame) -> list[Violation]:
        timed = frame.time_at is not None
        frame = Frame(self._lead(value, frame.lead, timed), frame.time_at, frame.steps)
        parts = self._parts(value, frame.stack_position(self._stack_dim))
        if parts is not None:
            return self._member_violations(parts, key, frame)
        count = len(self._members)
        if self._ragged:
            text = f"a nested tensor of {count} tensors"
            got = "nested" if isinstance(value, torch.Tensor) and value.is_nested else type(value).__name__
            fix = "Build it from one value for each member: spec.encode([...])."
            return [Violation(key, "type", text, got, fix=fix)]
        if not isinstance(value, torch.Tensor) or value.is_nested:
            got = "a nested tensor" if isinstance(value, torch.Tensor) else type(value).__name__
            fix = "Stack one value for each member: spec.encode([...])."
            return [Violation(key, "type", "torch.Tensor", got, fix=fix)]
        expected = frame.expected(self._shape, value.shape)
        fix = f"Stack one value for each of the {count} members: torch.stack([...], {self._stack_dim})."
        return [Violation(key, "shape", shape_text(expected), shape_text(value.shape), fix=fix)]

    def adapt(self, value: Any) -> Any:
        """Return ``value`` with the members' dtype, if that changes no number; see ``TensorSpec.adapt``."""
        parts, lead = self._parts_and_lead(value)
        if parts is None:
            return value
        adapted = [spec.adapt(part) for spec, part in zip(self._members, parts, strict=True)]
        if all(map(operator.is_, adapted, parts)) or len({part.dtype for part in adapted}) > 1:
            return value
        return self._join(adapted, lead)

    def project(self, val: Any) -> Any:
        """Return ``val`` with each member's part projected, or ``val`` itself if it is in the domain.

        Raises:
            ValueError: If the shape does not fit.
        """
        if self._accepts(val, None):
            return val
        parts, lead = self._members_of(val, "project")
        return self._join([spec.project(part) for spec, part in zip(self._members, parts, strict=True)], lead)

    def encode(self, val: Any, *, check: bool = True, ignore_device: bool = False) -> Any:
        """Convert one value for each member to a value of the spec; see ``TensorSpec.encode``.

        ``val`` is a list, tuple or array of them, whatever the stack's dim is; or a value of the spec.
        """
        if isinstance(val, torch.Tensor) and self._accepts(val, None):
            return val
        values = val.unbind() if isinstance(val, torch.Tensor) and val.is_nested else val
        encoded = self._encoded(values, check=check, ignore_device=ignore_device)
        return self._join(encoded, encoded[0].ndim - self.ndim + 1)

    def type_check(self, value: Any, key: Any = None) -> None:
        """Raise unless ``value`` has the members' dtype; see ``TensorSpec.type_check``."""
        self._members[0].type_check(value, key)

    def __repr__(self) -> str:
        return (
            f"Stacked{type(self._members[0]).__name__}(\n    shape={self._shape}, device={self.device}, "
            f"dtype={self._dtype}, domain={self.domain})"
        )


def _check_member(spec: Any, first: Any, number: int) -> None:
    if not isinstance(spec, TensorSpec) or spec.domain == "composite":
        raise TypeError(f"Stacked needs leaf specs, and number {number} is a {type(spec).__name__}.")
    for what, mine, other in (
        ("kind", type(spec).__name__, type(first).__name__),
        ("dtype", spec.dtype, first.dtype),
        ("device", spec.device, first.device),
        ("number of dims", spec.ndim, first.ndim),
    ):
        if mine != other:
            raise ValueError(f"torch.stack needs specs of one {what}: number 0 is {other}, number {number} is {mine}.")

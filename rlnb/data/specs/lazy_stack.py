"""LazyStack: base class of stacks of specs that differ, with members that are kept as they are."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.enumeration import combinations
from rlnb.data.specs.normalize import Device, Shape, as_lead, as_sizes, leading_dim, leading_index
from rlnb.data.specs.variable import TensorMap, shape_text
from rlnb.data.specs.violations import Frame, Violation


class LazyStack(TensorSpec):
    """Base class of `Stacked` and `StackedComposite`: members along a dim, to each of which operations apply.

    Args:
        *specs: the members.
        dim: the position of the stack's dim in the shape.
    """

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

    # Values -------------------------------------------------------------------------------------------------------

    def rand(self, shape: Shape | None = ()) -> Any:
        """Draw random values of each member; see `TensorSpec.rand`."""
        return self._join([spec.rand(shape) for spec in self._members], len(as_lead(shape)))

    def zero(self, shape: Shape | None = ()) -> Any:
        """Return a value filled with zeros for each member; see `TensorSpec.zero`."""
        return self._join([spec.zero(shape) for spec in self._members], len(as_lead(shape)))

    def one(self, shape: Shape | None = ()) -> Any:
        """Return a value filled with ones for each member; see `TensorSpec.one`."""
        return self._join([spec.one(shape) for spec in self._members], len(as_lead(shape)))

    def cardinality(self, use_mask: bool = False) -> int | float:
        """Return the number of distinct values: the product over the members; see `TensorSpec.cardinality`."""
        return math.prod(spec.cardinality(use_mask) for spec in self._members)

    def enumerate(self, use_mask: bool = False) -> Any:
        """List all values, the last member changing fastest; see `TensorSpec.enumerate`."""
        counts = [spec.cardinality(use_mask) for spec in self._members]
        chosen = combinations(counts, f"a {type(self).__name__}")
        return self._join([spec.enumerate(use_mask)[chosen[:, i]] for i, spec in enumerate(self._members)], 1)

    def _member_violations(self, parts: Sequence[Any], key: tuple[str, ...], frame: Frame) -> list[Violation]:
        inner = frame.of_member(self._stack_dim)
        pairs = enumerate(zip(self._members, parts, strict=True))
        return [found.in_member(i) for i, (spec, part) in pairs for found in spec._violations(part, key, inner)]

    def _check_fits(self, value: Any, call: str) -> None:
        if not self.is_in(value):
            raise ValueError(f"{type(self).__name__}.{call}: " + self._messages(value)[0])

    def _values_for_members(self, value: Any) -> list[Any]:
        """Return the argument of `encode` as one value for each member."""
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
        return values

    # Copies and dims ----------------------------------------------------------------------------------------------

    def to(self, dest: torch.dtype | Device) -> Self:
        """Return the spec with its members in another dtype or on another device."""
        return self._restacked([spec.to(dest) for spec in self._members], self._stack_dim)

    def clone(self) -> Self:
        """Return an independent copy."""
        return self._restacked([spec.clone() for spec in self._members], self._stack_dim)

    def expand(self, *shape: Any) -> Self:
        """Return the spec with leading dims added or stretched.

        Args:
            *shape: the whole new shape; -1 keeps a dim, and is needed for dims in which the members differ.

        Raises:
            ValueError: If the spec's shape cannot be expanded to it.
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
        """Return the spec of the same entries in another shape.

        Args:
            *shape: the whole new shape, which must end with the dims in which the members differ, as -1. One other
                size may be -1 and is then inferred.

        Raises:
            ValueError: If the number of entries differs, or dims in which the members differ would be split.

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
        """Return the spec with the dims from ``start_dim`` to ``end_dim`` (inclusive) merged into one.

        Raises:
            IndexError: If a dim does not exist or holds the encoding.
            ValueError: If ``end_dim`` comes before ``start_dim``, or the members differ along a dim to merge.
        """
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
        """Return the spec with the dim ``dim`` split into dims of the given sizes, one of which may be -1.

        Raises:
            IndexError: If the dim does not exist or holds the encoding.
            ValueError: If the product of the sizes is not the size of the dim.
        """
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
        if isinstance(chosen, slice) and chosen == slice(None):
            return self._restacked([m[rest] if rest else m for m in self._members], sum(map(_dims_made, parts[:where])))
        picked = _picked(chosen, len(self._members), any(_is_list(part) for part in rest), type(self).__name__)
        dim = sum(map(_dims_made, parts[:where]))
        members = [self._members[i][rest] if rest else self._members[i] for i in picked]
        return torch.stack(members, dim)

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

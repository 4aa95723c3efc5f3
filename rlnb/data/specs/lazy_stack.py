"""LazyStack: several specs side by side that differ, each of them kept as it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.enumeration import combinations
from rlnb.data.specs.normalize import Device, Shape, as_lead, as_sizes, leading_dim, leading_index
from rlnb.data.specs.rearranging import Rearranging
from rlnb.data.specs.variable import shape_text
from rlnb.data.specs.violations import Frame, Violation


class LazyStack(Rearranging, TensorSpec):
    """What `Stacked` and `StackedComposite` share: members along a dim, and what is done to each of them.

    Args:
        *specs: the members.
        dim: where the stack's dim is in the shape.
    """

    _members: tuple[Any, ...]
    _stack_dim: int

    def _set_members(self, specs: Sequence[TensorSpec], dim: int) -> None:
        name = type(self).__name__
        if not specs:
            raise ValueError(f"{name} needs at least one spec, got none.")
        shapes = [spec.shape for spec in specs]
        event = specs[0]._event_dims
        self._stack_dim = leading_dim(dim, len(shapes[0]), event, name, insert=True)
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
        """Where the stack's dim is in the shape."""
        return self._stack_dim

    @property
    def dim(self) -> int:
        """Where the stack's dim is in the shape (another name of ``stack_dim``)."""
        return self._stack_dim

    def __len__(self) -> int:
        """The size of the first dim, as of a tensor."""
        return self._shape[0]

    @property
    def device(self) -> torch.device | None:
        """The device of the values; None where the members differ."""
        devices = {spec.device for spec in self._members}
        return devices.pop() if len(devices) == 1 else None

    def _again(self, members: Sequence[TensorSpec], dim: int) -> Self:
        """Make a stack like this one of other members."""
        return type(self)(*members, dim=dim)  # type: ignore[call-arg]  # the mixin's classes take members

    def _join(self, values: list[Any], lead: int) -> Any:
        """Make one value of the members' values, which have ``lead`` leading dims."""
        raise NotImplementedError

    def _parts(self, value: Any, at: int) -> Sequence[Any] | None:
        """Take a value apart into the members' values; None when it is no value of this many members."""
        raise NotImplementedError

    def rand(self, shape: Shape | None = ()) -> Any:
        """Draw random values of each member.

        Args:
            shape: sizes in front of the spec's shape.
        """
        return self._join([spec.rand(shape) for spec in self._members], len(as_lead(shape)))

    def zero(self, shape: Shape | None = ()) -> Any:
        """Make a value filled with zeros for each member."""
        return self._join([spec.zero(shape) for spec in self._members], len(as_lead(shape)))

    def one(self, shape: Shape | None = ()) -> Any:
        """Make a value filled with ones for each member."""
        return self._join([spec.one(shape) for spec in self._members], len(as_lead(shape)))

    def cardinality(self, use_mask: bool = False) -> int | float:
        """Return how many values there are: the product of the members' numbers."""
        return math.prod(spec.cardinality(use_mask) for spec in self._members)

    def enumerate(self, use_mask: bool = False) -> Any:
        """List all values, stacked along a new first dim; the last member changes fastest.

        Args:
            use_mask: whether to list only what the masks of choices leave.

        Raises:
            ValueError: there are endlessly many, or too many to list.
        """
        counts = [spec.cardinality(use_mask) for spec in self._members]
        chosen = combinations(counts, f"a {type(self).__name__}")
        return self._join([spec.enumerate(use_mask)[chosen[:, i]] for i, spec in enumerate(self._members)], 1)

    def _member_violations(self, parts: Sequence[Any], key: tuple[str, ...], frame: Frame) -> list[Violation]:
        inner = frame.of_member(self._stack_dim)
        found = []
        for i, (spec, part) in enumerate(zip(self._members, parts, strict=True)):
            for fault in spec._violations(part, key, inner):
                found.append(fault.in_member(i))
        return found

    def _check_fits(self, value: Any, call: str) -> None:
        if not self.is_in(value):
            raise ValueError(f"{type(self).__name__}.{call}: " + self._complaints(value)[0])

    def _values_for_members(self, value: Any) -> list[Any]:
        """Read what `encode` is given as one value for each member."""
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

    def to(self, dest: torch.dtype | Device) -> Self:
        """Return the spec with its members in another dtype or on another device."""
        return self._again([spec.to(dest) for spec in self._members], self._stack_dim)

    def clone(self) -> Self:
        """Return an independent copy."""
        return self._again([spec.clone() for spec in self._members], self._stack_dim)

    def expand(self, *shape: Any) -> Self:
        """Return the spec with leading dims added or stretched.

        Args:
            *shape: the whole new shape; -1 keeps a dim, which those of differing sizes need.

        Raises:
            ValueError: the spec's shape does not stretch to it.
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
        return self._again(members, at)

    def squeeze(self, dim: int | None = None) -> Any:
        """Return the spec without the dim ``dim`` if its size is 1, or without all dims of size 1.

        A stack of one member becomes that member when its own dim goes.
        """
        if dim is None:
            new: Any = self
            for at in reversed([i for i, length in enumerate(self._shape) if length == 1]):
                new = new.squeeze(at)
            return new
        at = leading_dim(dim, self.ndim, self._event_dims, f"{type(self).__name__}.squeeze")
        if self._shape[at] != 1:
            return self
        if at == self._stack_dim:
            return self._members[0]
        before = at < self._stack_dim
        members = [spec.squeeze(at if before else at - 1) for spec in self._members]
        return self._again(members, self._stack_dim - before)

    def unsqueeze(self, dim: int) -> Self:
        """Return the spec with a dim of size 1 put in at ``dim``."""
        at = leading_dim(dim, self.ndim, self._event_dims, f"{type(self).__name__}.unsqueeze", insert=True)
        before = at <= self._stack_dim
        members = [spec.unsqueeze(at if before else at - 1) for spec in self._members]
        return self._again(members, self._stack_dim + before)

    def _indexed(self, index: Any) -> Any:
        """Index the dims: a number for the stack's own dim gives the member, more than one a stack again."""
        parts = list(leading_index(index, self.ndim - self._event_dims))
        where = _place(parts, self._stack_dim)
        if where is None:
            parts += [slice(None)] * (self._stack_dim + 1 - sum(part is not None for part in parts))
            where = len(parts) - 1
        chosen, rest = parts[where], (*parts[:where], *parts[where + 1 :])
        if isinstance(chosen, (int, np.integer)):
            if not -len(self._members) <= chosen < len(self._members):
                raise IndexError(f"{type(self).__name__}: there is no member {chosen}; there are {len(self._members)}.")
            member = self._members[chosen]
            # The member itself where the index says no more, so that a write to a Composite reaches it.
            return member[rest] if any(not isinstance(p, slice) or p != slice(None) for p in rest) else member
        if isinstance(chosen, slice) and chosen == slice(None):
            return self._again([m[rest] if rest else m for m in self._members], sum(map(_dims_made, parts[:where])))
        picked = _picked(chosen, len(self._members), any(_is_list(part) for part in rest), type(self).__name__)
        dim = sum(map(_dims_made, parts[:where]))
        members = [self._members[i][rest] if rest else self._members[i] for i in picked]
        return torch.stack(members, dim)

    def __getitem__(self, index: Any) -> Any:
        return self._indexed(index)

    def _stack(self, others: Sequence[TensorSpec], dim: int) -> Self:
        at = leading_dim(dim, self.ndim, self._event_dims, "torch.stack", insert=True)
        wider = self.unsqueeze(at)
        return wider.expand(*wider.shape[:at], len(others) + 1, *wider.shape[at + 1 :])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LazyStack)
            and type(other) is type(self)
            and self._stack_dim == other._stack_dim
            and self._members == other._members
        )


def _is_list(part: Any) -> bool:
    return not (part is None or isinstance(part, (int, np.integer, slice)))


def _dims_made(part: Any) -> int:
    """Return how many dims of the result a part of an index makes."""
    if not _is_list(part):
        return int(part is None or isinstance(part, slice))
    numbers = torch.as_tensor(part)
    return 1 if numbers.dtype == torch.bool else numbers.ndim


def _place(parts: list[Any], dim: int) -> int | None:
    """Return which part of an index is for the dim ``dim``; None when the index ends before it."""
    seen = 0
    for i, part in enumerate(parts):
        if part is None:
            continue
        if seen == dim:
            return i
        seen += part.ndim if isinstance(part, torch.Tensor) and part.dtype == torch.bool else 1
    return None


def _picked(chosen: Any, count: int, more_lists: bool, name: str) -> list[int]:
    """Return the numbers of the members that a slice, list, tensor or mask picks."""
    index = torch.arange(count)
    picked = index[chosen] if isinstance(chosen, slice) else index[torch.as_tensor(chosen)]
    if picked.ndim != 1 or more_lists:
        raise IndexError(f"{name}: pick members by a number, a slice or one list of numbers; index other dims apart.")
    if not len(picked):
        raise IndexError(f"{name}: the index {chosen!r} picks none of the {count} members.")
    return picked.tolist()


__all__ = ["LazyStack"]

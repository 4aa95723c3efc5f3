"""Reshaping of stacks whose members differ: taken apart row by row, and stacked again in the new shape."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch

from rlnb.data.specs.normalize import as_sizes, leading_dim
from rlnb.data.specs.variable import shape_text


class Rearranging:
    """``reshape``, ``view``, ``flatten`` and ``unflatten`` of a lazy stack.

    The dims up to the stack's own are laid out anew; those behind it stay, or are reshaped in each member.
    """

    _shape: torch.Size
    _stack_dim: int
    _members: tuple[Any, ...]
    _event_dims: int

    def reshape(self, *shape: Any) -> Any:
        """Return the spec of the same entries in another shape.

        Args:
            *shape: the whole new shape; it ends with the dims that differ between the members, as -1. One more -1
                stands for what is left.

        Raises:
            ValueError: the number of entries differs, or the dims in which the members differ would be torn apart.

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
                return self._laid_out(kept, lead)
        raise ValueError(
            f"a {type(self).__name__} of shape {shape_text(self._shape)} does not reshape to {sizes}: its members "
            "differ. Give a shape of as many entries, ending with the dims in which they differ."
        )

    def view(self, *shape: Any) -> Any:
        """Another name of :meth:`reshape`: specs hold no memory that could be shared."""
        return self.reshape(*shape)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Any:
        """Return the spec with the dims from ``start_dim`` to ``end_dim``, both included, merged into one.

        Raises:
            IndexError: there is no such dim, or it holds the encoding.
            ValueError: the last dim comes before the first, or the members differ along a dim to be merged with theirs.
        """
        who, own = f"{type(self).__name__}.flatten", list(self._shape)
        first = leading_dim(start_dim, len(own), self._event_dims, who)
        last = leading_dim(end_dim, len(own), self._event_dims, who)
        if first > last:
            raise ValueError(f"{who}: start_dim {start_dim} comes after end_dim {end_dim}. Swap them.")
        if first > self._stack_dim:
            return torch.stack([member.flatten(first - 1, last - 1) for member in self._members], self._stack_dim)
        if -1 in own[: max(last, self._stack_dim) + 1]:
            raise ValueError(f"{who}: the members differ along a dim that would be merged. Take the stack apart first.")
        merged = [*own[:first], math.prod(own[first : last + 1]), *own[last + 1 : self._stack_dim + 1]]
        return self._laid_out(max(last, self._stack_dim) + 1, merged)

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Any:
        """Return the spec with the dim ``dim`` split into dims of these sizes, one of which may be -1.

        Raises:
            IndexError: there is no such dim, or it holds the encoding.
            ValueError: the sizes do not multiply to the dim's.
        """
        own = list(self._shape)
        at = leading_dim(dim, len(own), self._event_dims, f"{type(self).__name__}.unflatten")
        if at > self._stack_dim:
            return torch.stack([member.unflatten(at - 1, sizes) for member in self._members], self._stack_dim)
        return self.reshape(*own[:at], *sizes, *own[at + 1 :])

    def _laid_out(self, kept: int, lead: Sequence[int]) -> Any:
        """Index the first ``kept`` dims one row at a time, and stack the rows in the shape ``lead``."""
        rows: list[Any] = [self[index] for index in itertools.product(*map(range, self._shape[:kept]))]  # type: ignore[index]  # the classes that mix this in can be indexed
        for size in reversed(lead):
            rows = [torch.stack(rows[i : i + size]) for i in range(0, len(rows), size)]
        return rows[0]


__all__ = ["Rearranging"]

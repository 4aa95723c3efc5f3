"""Spaces of specs: intervals (ContinuousBox), choices (CategoricalBox) and lists of choices (BoxList)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


def _tensor_repr(tensor: torch.Tensor) -> str:
    about = f"shape={tensor.shape}, device={tensor.device}, dtype={tensor.dtype}, contiguous={tensor.is_contiguous()}"
    return f"Tensor({about})"


class ContinuousBox:
    """One interval for each entry: ``low <= x <= high``.

    Args:
        low: the lower bounds, of the spec's shape and dtype.
        high: the upper bounds, of the spec's shape and dtype.
        changed: called with ``low=...`` or ``high=...`` when one of them is assigned.

    Example:
        >>> box = ContinuousBox(torch.zeros(2), torch.ones(2))
        >>> box.minimum is box.low
        True
    """

    def __init__(self, low: torch.Tensor, high: torch.Tensor, *, changed: Callable[..., None] | None = None) -> None:
        self._low, self._high, self._changed = low, high, changed

    @property
    def low(self) -> torch.Tensor:
        """The lower bounds. Assigning them changes those of the ``Bounded``: ``spec.space.low = torch.zeros(3)``."""
        return self._low

    @low.setter
    def low(self, low: Any) -> None:
        if self._changed is not None:
            self._changed(low=low)
        self._low = low

    @property
    def high(self) -> torch.Tensor:
        """The upper bounds; see ``low``."""
        return self._high

    @high.setter
    def high(self, high: Any) -> None:
        if self._changed is not None:
            self._changed(high=high)
        self._high = high

    @property
    def minimum(self) -> torch.Tensor:
        """The lower bounds (alias of ``low``)."""
        return self.low

    @property
    def maximum(self) -> torch.Tensor:
        """The upper bounds (alias of ``high``)."""
        return self.high

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, ContinuousBox):
            return NotImplemented
        return torch.equal(self.low, other.low) and torch.equal(self.high, other.high)

    __hash__ = None  # type: ignore[assignment]  # equal by value and mutable: not hashable

    def __reduce__(self) -> tuple[Any, ...]:
        return ContinuousBox, (self.low, self.high)

    def __repr__(self) -> str:
        return f"ContinuousBox(\n    low={_tensor_repr(self.low)},\n    high={_tensor_repr(self.high)})"


@dataclass(frozen=True, repr=False)
class CategoricalBox:
    """One of ``n`` values: ``start, ..., start + n - 1``.

    Args:
        n: the number of values.
        start: the smallest of them.

    Example:
        >>> CategoricalBox(3)
        CategoricalBox(n=3)
    """

    n: int
    start: int = 0

    def __repr__(self) -> str:
        return f"CategoricalBox(n={self.n}, start={self.start})" if self.start else f"CategoricalBox(n={self.n})"


@dataclass(frozen=True)
class BoxList:
    """A list of spaces, nested like the choices.

    Example:
        >>> BoxList.from_nvec(torch.tensor([2, 3]), torch.tensor([0, 0]))
        BoxList(boxes=[CategoricalBox(n=2), CategoricalBox(n=3)])
    """

    boxes: list[CategoricalBox | BoxList]

    @classmethod
    def from_nvec(cls, nvec: torch.Tensor, start: torch.Tensor) -> BoxList:
        """Return the nested list for ``nvec`` choices from ``start`` on: of one shape, with at least one dim."""
        if nvec.ndim > 1:
            return cls([cls.from_nvec(n, s) for n, s in zip(nvec, start, strict=True)])
        return cls([CategoricalBox(n, s) for n, s in zip(nvec.tolist(), start.tolist(), strict=True)])

    def __len__(self) -> int:
        return len(self.boxes)

    def __getitem__(self, index: int) -> CategoricalBox | BoxList:
        return self.boxes[index]

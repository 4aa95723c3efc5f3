"""Pipeline: the transforms of a buffer, applied forward when data is read and inversely when it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import nn


class Pipeline:
    """A sequence of transforms.

    A transform with a method ``inv``, such as a :class:`~rlnb.envs.transforms.Transform`, works in both directions: it
    is applied to data that is read, first to last, and its ``inv`` to data that is written, last to first. A plain
    function applies only to data that is read.

    Attributes:
        changes_reads: whether any transform applies to data that is read.
        changes_writes: whether any transform applies to data that is written.
        joins_writes: whether a transform combines new data with steps that were written before.

    Example:
        >>> pipeline = Pipeline()
        >>> pipeline.insert(0, lambda data: data + 1)
        >>> pipeline.forward(1), pipeline.inv(1)
        (2, 1)
    """

    def __init__(self) -> None:
        self._members: list[tuple[Callable[[Any], Any], bool]] = []
        self._renew()

    def _renew(self) -> None:
        reads = [getattr(member, "inv", None) if inverted else member for member, inverted in self._members]
        writes = [
            member if inverted else getattr(member, "inv", None)
            for member, inverted in reversed(self._members)
            if inverted or getattr(member, "invertible", True)
        ]
        self._reads = [call for call in reads if call is not None]
        self._writes = [call for call in writes if call is not None]
        self.changes_reads, self.changes_writes = bool(self._reads), bool(self._writes)
        parts = [part for member in self for part in (member.modules() if isinstance(member, nn.Module) else (member,))]
        self.joins_writes = any(getattr(part, "joins_writes", False) for part in parts)

    def insert(self, index: int, transform: Callable[[Any], Any], invert: bool = False) -> None:
        """Insert a transform before position ``index``; see :meth:`ReplayBuffer.insert_transform`."""
        if not callable(transform) or isinstance(transform, type):
            raise TypeError(_not_a_transform(transform))
        if not -len(self) <= index <= len(self):
            raise IndexError(
                f"Position {index} is out of range for {len(self)} transforms. "
                f"Fix: a number from {-len(self)} to {len(self)}."
            )
        self._members.insert(index, (transform, invert))
        self._renew()

    def forward(self, data: Any) -> Any:
        """Transform data that was read from the storage."""
        for call in self._reads:
            data = call(data)
        return data

    def inv(self, data: Any) -> Any:
        """Transform data before it is written to the storage."""
        for call in self._writes:
            data = call(data)
        return data

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Callable[[Any], Any]]:
        return (member for member, _ in self._members)

    def __getitem__(self, index: int) -> Callable[[Any], Any]:
        return self._members[index][0]

    def __getstate__(self) -> dict[str, Any]:
        return {"_members": self._members}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._members = state["_members"]
        self._renew()

    def __repr__(self) -> str:
        names = [getattr(member, "__name__", None) or repr(member) for member in self]
        return f"[{', '.join(names)}]"


def _not_a_transform(value: object) -> str:
    name = value.__name__ if isinstance(value, type) else type(value).__name__
    hint = f"an instance, {name}(...)" if isinstance(value, type) else "a Transform or a function of the data"
    hint = "a single one, Compose(*transforms)" if isinstance(value, (list, tuple)) else hint
    got = f"the class {name}" if isinstance(value, type) else name
    return f"A transform must be callable, and got: {got}. Fix: give {hint}."

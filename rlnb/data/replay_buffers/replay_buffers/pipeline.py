"""Pipeline: the transforms of a buffer, forwards when it is read and backwards when it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

from rlnb.data.replay_buffers import faults


class Pipeline:
    """Transforms in a row.

    What has a method ``inv``, such as a :class:`~rlnb.envs.transforms.Transform`, changes data in both directions: it
    is called on what is read, first to last, and its ``inv`` on what is written, last to first. A plain function only
    changes what is read.

    Attributes:
        changes_reads: whether there is anything to do when data is read.
        changes_writes: whether there is anything to do when data is written.
        joins_writes: whether a transform joins what is written to what was written before, along time.

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
        """Put a transform into the row.

        Args:
            index: before which one; ``len(pipeline)`` for the end. Negative numbers count from the end.
            transform: a transform or a function of the data.
            invert: whether it is used the other way round: called on what is written, its ``inv`` on what is read.

        Raises:
            IndexError: if there is no such place.
            TypeError: if it cannot be called.
        """
        if not callable(transform) or isinstance(transform, type):
            raise TypeError(faults.no_transform(transform))
        if not -len(self) <= index <= len(self):
            raise IndexError(faults.no_place(index, len(self)))
        self._members.insert(index, (transform, invert))
        self._renew()

    def forward(self, data: Any) -> Any:
        """Change what is read.

        Args:
            data: what was read.

        Returns:
            What the user gets.
        """
        for call in self._reads:
            data = call(data)
        return data

    def inv(self, data: Any) -> Any:
        """Change what is written.

        Args:
            data: what the user gives.

        Returns:
            What is stored.
        """
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

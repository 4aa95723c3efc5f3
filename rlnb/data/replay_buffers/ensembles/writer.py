"""WriterEnsemble: the writers of an ensemble, which itself is read-only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from rlnb.data.replay_buffers import errors
from rlnb.data.replay_buffers.ensembles.members import checked_members, member_at, states_of
from rlnb.data.replay_buffers.storages.base import Storage
from rlnb.data.replay_buffers.writers.base import Writer


class WriterEnsemble(Writer):
    """The writers of several buffers. It cannot write, because it does not know to which member.

    Args:
        *writers: one for each member.

    Raises:
        TypeError: If a member is not a writer.
        ValueError: If there are no members.

    Example:
        >>> from rlnb.data import RoundRobinWriter
        >>> writer = WriterEnsemble(RoundRobinWriter(), RoundRobinWriter())
        >>> writer.add("something")
        Traceback (most recent call last):
        ...
        RuntimeError: An ensemble only reads: it does not know which of its members new data belongs to. ...
        >>> writer[1]
        RoundRobinWriter()
    """

    def __init__(self, *writers: Writer) -> None:
        super().__init__()
        self._members: Sequence[Writer] = checked_members("WriterEnsemble", Writer, "writer", writers)

    @property
    def writers(self) -> tuple[Writer, ...]:
        """The writers."""
        return tuple(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, index: int) -> Writer:
        return member_at(self._members, index)

    def register_storage(self, storage: Storage) -> None:
        """Do nothing: every writer writes to the storage of its own buffer."""
        return

    def add(self, data: Any) -> NoReturn:
        """Raise ``RuntimeError``; see :meth:`Writer.add`."""
        raise RuntimeError(errors.ensemble_is_read_only("add"))

    def extend(self, data: Any) -> NoReturn:
        """Raise ``RuntimeError``; see :meth:`Writer.extend`."""
        raise RuntimeError(errors.ensemble_is_read_only("extend"))

    @property
    def _write_count(self) -> int:
        return sum(writer._write_count for writer in self._members)

    def _empty(self) -> None:
        for writer in self._members:
            writer._empty()

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the writers, by their numbers; see :meth:`Writer.state_dict`."""
        return {str(member): writer.state_dict() for member, writer in enumerate(self._members)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned; see :meth:`Writer.load_state_dict`."""
        for writer, state in zip(self._members, states_of(state_dict, len(self)), strict=True):
            writer.load_state_dict(state)

    def __repr__(self) -> str:
        return f"WriterEnsemble({', '.join(map(repr, self._members))})"

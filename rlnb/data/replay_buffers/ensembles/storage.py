"""StorageEnsemble: the storages of an ensemble, read as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch

from rlnb.data.replay_buffers import errors
from rlnb.data.replay_buffers.checkpointers.base import StorageEnsembleCheckpointer
from rlnb.data.replay_buffers.ensembles.members import checked_members, member_at, states_of
from rlnb.data.replay_buffers.indexing import Where
from rlnb.data.replay_buffers.storages.base import Storage

Transforms = Sequence[Callable[[Any], Any] | None]


class StorageEnsemble(Storage):
    """The storages of several buffers. It is read-only; each storage is written to by its own buffer.

    Args:
        *storages: one for each member.
        transforms: a transform or None for each member, if a :class:`~rlnb.data.ReplayBufferEnsemble` is made of parts.

    Attributes:
        transforms: the same.
        ndim: number of dimensions that count items, equal in all storages.

    Raises:
        TypeError: If a member is not a storage.
        ValueError: If there are no members, their ``ndim`` differ, or the number of transforms is another.

    Example:
        >>> from rlnb.data import LazyTensorStorage, ListStorage
        >>> storage = StorageEnsemble(LazyTensorStorage(10), ListStorage(5))
        >>> len(storage), storage.max_size, storage[1]
        (2, 15, ListStorage(len=0, max_size=5))
    """

    _default_checkpointer = StorageEnsembleCheckpointer

    def __init__(self, *storages: Storage, transforms: Transforms | None = None) -> None:
        self._members: Sequence[Storage] = checked_members("StorageEnsemble", Storage, "storage", storages)
        ndims = [storage.ndim for storage in storages]
        if len(set(ndims)) > 1:
            raise ValueError(
                f"The storages count items along different numbers of dimensions, ndim={list(ndims)}, so that one "
                "sample cannot hold their indices. Fix: storages of the same ndim."
            )
        self.ndim = ndims[0]
        if transforms is not None and len(transforms) != len(storages):
            raise ValueError(errors.unequal_parts({"storages": len(storages), "transforms": len(transforms)}))
        self.transforms: Transforms = tuple(transforms) if transforms is not None else (None,) * len(storages)

    def _can_be_shared(self) -> bool:
        return True  # each member checks itself

    @property
    def storages(self) -> tuple[Storage, ...]:
        """The storages."""
        return tuple(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, index: Any) -> Any:
        return member_at(self._members, index)

    @property
    def max_size(self) -> int:
        """Number of items there is room for, in all storages together."""
        return sum(storage.max_size for storage in self._members)

    @property
    def shape(self) -> torch.Size:
        """Number of items in all storages together."""
        return torch.Size((sum(map(len, self._members)),))

    @property
    def is_full(self) -> bool:
        """Whether every place of every storage is filled."""
        return all(storage.is_full for storage in self._members)

    # Writing ----------------------------------------------------------------------------------------------------------

    def prepare(self, data: Any, many: bool) -> NoReturn:
        """Raise ``RuntimeError``; see :class:`WriterEnsemble`."""
        raise RuntimeError(errors.ensemble_is_read_only("extend" if many else "add"))

    def _put(self, start: int, rows: Any, first: int, last: int) -> NoReturn:
        raise RuntimeError(errors.ensemble_is_read_only("extend"))

    def append(self, rows: Any) -> NoReturn:
        """Raise ``RuntimeError``; see :class:`WriterEnsemble`."""
        raise RuntimeError(errors.ensemble_is_read_only("extend"))

    def overwrite(self, place: Where, data: Any) -> NoReturn:
        """Raise ``RuntimeError``; see :class:`WriterEnsemble`."""
        raise RuntimeError(errors.ensemble_is_read_only("set"))

    def set(self, index: Any, data: Any) -> NoReturn:
        """Raise ``RuntimeError``; see :class:`WriterEnsemble`."""
        raise RuntimeError(errors.ensemble_is_read_only("set"))

    # Reading ----------------------------------------------------------------------------------------------------------

    def gather(self, index: Any) -> list[Any]:
        """Copy the items that a :class:`SamplerEnsemble` drew.

        Args:
            index: a TensorDict with ``"buffer_ids"``, shape ``[n, b]``, and ``"index"``, shape ``[n, b]`` or with
                several dimensions ``[n, b, ndim]``. All items of a row are of one member.

        Returns:
            The ``n`` batches of ``b`` items, as the storages return them.
        """
        ids, places = index["buffer_ids"][:, 0].tolist(), index["index"].unbind(0)
        return [self._members[member].gather(place) for member, place in zip(ids, places, strict=True)]

    def where(self, index: Any) -> NoReturn:
        """Raise ``TypeError``: an index refers to one storage."""
        raise TypeError(errors.no_such_member(index, len(self)))

    def read(self, place: Where) -> NoReturn:
        """Raise ``TypeError``: a place is in one storage."""
        raise TypeError(errors.no_such_member(place, len(self)))

    # State ------------------------------------------------------------------------------------------------------------

    def _empty(self) -> None:
        for storage in self._members:
            storage._empty()

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the storages, by their numbers; see :meth:`Storage.state_dict`."""
        return {str(member): storage.state_dict() for member, storage in enumerate(self._members)}

    def check_state(self, state_dict: dict[str, Any]) -> None:
        """Reject what one of the storages rejects; see :meth:`Storage.check_state`."""
        for storage, state in zip(self._members, states_of(state_dict, len(self)), strict=True):
            storage.check_state(state)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned; see :meth:`Storage.load_state_dict`."""
        self.check_state(state_dict)
        for storage, state in zip(self._members, states_of(state_dict, len(self)), strict=True):
            storage.load_state_dict(state)

    def __repr__(self) -> str:
        members = ",\n".join(map(repr, self._members)).replace("\n", "\n    ")
        return f"StorageEnsemble(\n    {members})"

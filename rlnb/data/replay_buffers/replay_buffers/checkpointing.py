"""Checkpointing: a buffer saved in a folder, and loaded from it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from rlnb.data.replay_buffers.checkpointers import errors
from rlnb.data.replay_buffers.checkpointers.base import Hook
from rlnb.data.replay_buffers.checkpointers.folder import loading, saving
from rlnb.data.replay_buffers.checkpointers.state import (
    SENSELESS,
    read_component,
    read_state,
    save_component,
    write_state,
)
from rlnb.data.replay_buffers.replay_buffers.prefetch import Chosen, Prefetcher
from rlnb.data.replay_buffers.samplers import Sampler
from rlnb.data.replay_buffers.storages import Storage
from rlnb.data.replay_buffers.writers import Writer


class Checkpointing:
    """How a buffer is saved and loaded; see :class:`ReplayBuffer`."""

    _lock: threading.RLock
    _storage: Storage
    _sampler: Sampler
    _writer: Writer
    _generator: torch.Generator | None

    _batch_size: int | None
    _prefetcher: Prefetcher | None

    def _chosen_ahead(self) -> list[Chosen]:
        raise NotImplementedError

    def _generators(self) -> list[torch.Generator | None]:
        """The source of randomness, None for torch's own; of an ensemble also those of its members."""
        return [self._generator]

    def _random_states(self) -> list[torch.Tensor | None]:
        return [None if generator is None else generator.get_state() for generator in self._generators()]

    def _set_random_states(self, states: list[torch.Tensor | None]) -> None:
        """Set what :func:`random_states` let through; a buffer draws from torch's own generator if it did before."""
        for generator, state in zip(self._generators(), states, strict=False):
            if generator is not None and state is not None:
                generator.set_state(state)

    def _load_ahead(self, batch_size: int | None, chosen: list[Chosen]) -> None:
        """Go on with the batches that another buffer had drawn; what it is none of, or of another size, is left."""
        if self._prefetcher is None:
            return
        self._prefetcher.clear()
        try:
            known = batch_size == self._batch_size and all(self._is_there(index) for index, _, _ in chosen)
        except SENSELESS:
            known = False
        if known:
            self._prefetcher.begin_with(chosen)

    def _is_there(self, index: Any) -> bool:
        """Whether the storage has these elements."""
        positions = self._storage.positions(index)
        return not positions.numel() or 0 <= int(positions.min()) <= int(positions.max()) < len(self._storage)

    def dumps(self, path: str | os.PathLike[str]) -> None:
        """Save storage, writer and sampler in a folder; the transforms are not saved.

        A checkpoint that is in the folder is replaced as a whole once the new one is on the disk. Until then, and
        whatever happens, it can be loaded. Data is written as it is in memory, without a second copy of it; see
        ``storage.checkpointer`` for other ways.

        Args:
            path: of the folder; it is made if it is not there.

        Raises:
            NotImplementedError: for a :class:`ListStorage`.
            OSError: if it cannot be written; what was there before is kept.
            TypeError: if there is non-tensor data that JSON cannot hold.
        """
        with self._lock, saving(path) as folder:
            (folder / "storage").mkdir()
            self._storage.checkpointer.dumps(self._storage, folder / "storage")
            save_component(self._writer, folder, "writer")
            save_component(self._sampler, folder, "sampler")
            state = {"rng": self._random_states()}
            write_state(folder, "buffer", {**state, "batch_size": self._batch_size, "ahead": self._chosen_ahead()})

    def loads(self, path: str | os.PathLike[str]) -> None:
        """Load what :meth:`dumps` saved.

        The buffer needs the components that the saved one had, and the same size. Its storage may be empty, and then
        learns from the checkpoint what the data is like. Nothing in a checkpoint is executed, so tensorclasses come
        back as TensorDicts, unless the storage has seen such data before.

        Args:
            path: of the folder.

        Raises:
            FileNotFoundError: if there is no checkpoint.
            ValueError: if a file is damaged, missing, or of another buffer; nothing was changed then.
        """
        with self._lock, loading(path) as folder:
            states = {
                name: read_component(part, folder, name, _storages(self._storage))
                for name, part in (("writer", self._writer), ("sampler", self._sampler))
            }
            rngs, size, ahead = _read_buffer(folder)
            self._storage.checkpointer.loads(self._storage, folder / "storage")
            self._writer.load_state_dict(states["writer"])
            self._sampler.load_state_dict(states["sampler"])
            self._set_random_states(rngs)
            self._load_ahead(size, ahead)

    def dump(self, path: str | os.PathLike[str]) -> None:
        """Do the same as :meth:`dumps`."""
        self.dumps(path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Do the same as :meth:`dumps`."""
        self.dumps(path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Do the same as :meth:`loads`."""
        self.loads(path)

    def register_save_hook(self, hook: Hook) -> None:
        """Have a function change what is saved, such as :class:`~rlnb.data.TED2Flat`.

        Hooks are not saved. See :meth:`~rlnb.data.StorageCheckpointerBase.register_save_hook`.

        Args:
            hook: the function.
        """
        self._storage.register_save_hook(hook)

    def register_load_hook(self, hook: Hook) -> None:
        """Have a function change what is loaded, such as :class:`~rlnb.data.Flat2TED`.

        Args:
            hook: the function.
        """
        self._storage.register_load_hook(hook)


def random_states(saved: Any) -> list[torch.Tensor | None]:
    """Check the states of generators.

    Args:
        saved: a list of states, with None for torch's own generator; or a single state.

    Returns:
        The list.

    Raises:
        RuntimeError: If one is not the state of a generator; it may also be a ``TypeError``.
    """
    states = saved if isinstance(saved, list) else [saved]
    for state in states:
        if state is not None:
            torch.Generator().set_state(state)
    return states


def _read_buffer(folder: Path) -> tuple[list[torch.Tensor | None], int | None, list[Chosen]]:
    """The states of the generators, the batch size, and what had been drawn ahead."""
    state = read_state(folder, "buffer")
    try:
        rngs = random_states(state["rng"])
        if not isinstance(state["ahead"], list):
            raise ValueError("the batches drawn ahead are not a list")
        ahead = [(index, dict(info), bool(last)) for index, info, last in state["ahead"]]
        size = state["batch_size"]
    except SENSELESS as error:
        raise ValueError(errors.unreadable(folder / "state" / "buffer.json", error)) from error
    return rngs, size, ahead


def _storages(storage: Any) -> Iterator[Any]:
    """A storage and those that it is made of."""
    yield storage
    for member in getattr(storage, "storages", ()):
        yield from _storages(member)

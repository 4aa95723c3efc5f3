"""Reading: sampling, iterating over and indexing a buffer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb._tensordict import set_entry
from rlnb.data.replay_buffers import faults
from rlnb.data.replay_buffers.forms import is_data
from rlnb.data.replay_buffers.indexing import Where
from rlnb.data.replay_buffers.replay_buffers import arguments
from rlnb.data.replay_buffers.replay_buffers.components import Components
from rlnb.data.replay_buffers.samplers import Info
from rlnb.data.replay_buffers.writers import ImmutableDatasetWriter
from rlnb.data.replay_buffers.writers.round_robin import INDEX_KEY
from rlnb.data.ted.keys import NestedKey


class Reading(Components):
    """How a buffer is read; see :class:`ReplayBuffer`."""

    # Sampling -----------------------------------------------------------------------------------------------------

    def sample(self, batch_size: int | None = None, return_info: bool = False) -> Any:
        """Draw elements.

        Args:
            batch_size: how many. Default: as the constructor was told. A batch of another size is not prepared ahead.
            return_info: whether to return, beside the batch, what the sampler says: ``"index"``, the index of each
                element, and whatever else it knows.

        Returns:
            The batch; or the batch and a dictionary.

        Raises:
            RuntimeError: if the buffer is empty, or the batch size is not known.
            ValueError: if the batch size is no positive integer.
        """
        size = self._size_of(batch_size)
        if self._prefetcher is not None and size == self._batch_size:
            with self._lock:
                ahead = self._prefetcher.next()
            batch, info = ahead.future.result()
        else:
            batch, info = self._process(*self._drawn_now(size))
        return (batch, info) if return_info else batch

    def can_sample(self, batch_size: int | None = None) -> bool:
        """Say whether :meth:`sample` can draw a batch now.

        Args:
            batch_size: how many elements. Default: as the constructor was told.

        Returns:
            False for an empty buffer, and where no slice or not enough elements are stored.
        """
        with self._lock:
            size = self._size_of(batch_size) * self._sampler.steps_per_item
            return self._sampler.can_sample(self._storage, size)

    def next(self) -> Any:
        """Draw the next batch, as iterating over the buffer does.

        Returns:
            The batch.

        Raises:
            RuntimeError: If the buffer is empty, or its batch size is not known.
        """
        return next(iter(self))

    def _size_of(self, given: int | None) -> int:
        if given is not None:
            return arguments.batch_size(given)
        if self._batch_size is None:
            raise RuntimeError(faults.no_batch_size())
        return self._batch_size

    def _draw(self, size: int) -> tuple[Any, Info]:
        """Choose elements, for a caller that holds the lock: their index and what else the sampler says."""
        if not len(self._storage):
            raise RuntimeError(faults.empty_sample())
        return self._sampler.sample(self._storage, size * self._sampler.steps_per_item)

    def _draw_one(self) -> tuple[Any, bool]:
        size = self._batch_size or 0
        if self._reads_later:
            return (None, *self._draw(size)), self._sampler.ran_out
        return self._drawn_now(size), self._sampler.ran_out

    @property
    def _reads_later(self) -> bool:
        """Whether what a batch ahead is made of need not be copied at once, since nobody writes over it."""
        return isinstance(self._writer, ImmutableDatasetWriter)

    def _drawn_now(self, size: int) -> tuple[Any, Any, Info]:
        """Choose elements and gather them, before anyone can empty the buffer."""
        with self._lock, self._storage.ring.reading:
            index, info = self._draw(size)
            return self._storage.gather(index), index, info

    def _draw_again(self, index: Any, info: Info) -> tuple[Any, Any, Info]:
        with self._storage.ring.reading:
            return self._storage.gather(index), index, info

    def _finish(self, drawn: tuple[Any, Any, Info]) -> tuple[Any, Info]:
        data, index, info = drawn
        return self._process(self._storage.gather(index) if data is None else data, index, info)

    def _process(self, data: Any, index: Any, info: Info) -> tuple[Any, Info]:
        """Make the batch of what was gathered; anything that takes long happens here."""
        data = self._collated(data)
        info = {INDEX_KEY: index, **info}
        return self._outgoing(self._annotate(data, info)), info

    def _collated(self, data: Any) -> Any:
        """Make the batch of what the storage returned of several elements."""
        storage, collate_fn = self._storage, self._collate_fn
        return storage.collate(data) if collate_fn is None else collate_fn(storage.elements(data))

    def _outgoing(self, data: Any) -> Any:
        """Transform a batch and put it where it is asked for."""
        if self._transform.changes_reads:
            data = self._transform.forward(data)
        if self._pin_memory and torch.accelerator.is_available():
            data = data.pin_memory()
        return data

    def _annotate(self, data: Any, info: Info) -> Any:
        """Write into a sample what was said about it."""
        return self._with_index(data, info[INDEX_KEY]) if self._writer.adds_index else data

    def _with_index(self, data: Any, index: Any) -> Any:
        if is_data(data):
            index = torch.stack(index, -1) if isinstance(index, tuple) else index
            put(data, INDEX_KEY, spread(index, data.batch_size, int(self._storage.ndim > 1)))
        return data

    def __iter__(self) -> Iterator[Any]:
        if self._batch_size is None:
            raise RuntimeError(faults.cannot_iterate())
        while True:
            if self._prefetcher is None:
                with self._lock:
                    drawn, last = self._drawn_now(self._batch_size), self._sampler.ran_out
                yield self._process(*drawn)[0]
            else:
                with self._lock:
                    ahead = self._prefetcher.next()
                (batch, _), last = ahead.future.result(), ahead.last
                yield batch
            if last:
                return

    # Indexing -----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._sampler.available(self._storage)

    def __getitem__(self, index: Any) -> Any:
        """Read elements; see :func:`~rlnb.data.replay_buffers.indexing.where` for what can be an index.

        A key, or ``("_data", key)``, reads one entry of all elements.

        A storage of several dimensions is time first, ``[time, envs]``, and so are all its indices and what is read
        with them: ``rb[i, j]`` is ``rb[:][i, j]``, and ``rb[sample["index"]]`` is what was sampled. Only
        :meth:`extend` takes data as an env writes it, ``[envs, time]``.
        """
        if isinstance(index, str) or (isinstance(index, tuple) and any(isinstance(part, str) for part in index)):
            return self._entry(index)
        with self._lock, self._storage.ring.reading:
            place = self._storage.where(index)
            data = self._storage.read(place)
        if place.position is None:
            data = self._collated(data)
        elif is_data(data) and (self._marks_index or self._transform.changes_reads):
            data = data.copy()  # a ListStorage returns what it holds; entries added below are not its own
        if self._marks_index and is_data(data):
            coordinates = self._indices(place)
            index = torch.stack(coordinates, -1) if isinstance(coordinates, tuple) else coordinates
            index = index.reshape((*place.lead, *index.shape[1:]))
            put(data, INDEX_KEY, spread(index, data.batch_size, int(self._storage.ndim > 1)))
        return self._transform.forward(data) if self._transform.changes_reads else data

    def read_all_in_order(self, end: int | None = None) -> Any:
        """Read all elements by index, through the transforms: ``buffer[:end]``.

        Args:
            end: how many. Default: all.

        Returns:
            The batch.
        """
        return self[:end]

    @property
    def _marks_index(self) -> bool:
        """Whether TensorDicts that are read say where they are stored."""
        return self._writer.adds_index

    def _indices(self, place: Where) -> Any:
        """The index of each element that is meant, as a sampler gives it."""
        return self._storage.index(place.positions(place.lead[1:].numel()))

    def _entry(self, key: Any) -> Any:
        """One entry of all elements."""
        parts = (key,) if isinstance(key, str) else tuple(part for i, part in enumerate(key) if i or part != "_data")
        data = self._storage.get(slice(None))
        try:
            return data[parts] if is_data(data) else data[parts[0]]
        except (KeyError, TypeError, IndexError, ValueError):
            form = getattr(self._storage, "form", None)
            raise KeyError(faults.no_such_entry(key, [leaf.key for leaf in form.leaves] if form else [])) from None


def put(data: Any, key: NestedKey, value: Any) -> None:
    """Set an entry of data that was just built.

    Args:
        data: a TensorDict or tensorclass.
        key: of the entry.
        value: leads with the batch size.
    """
    if isinstance(data, TensorDictBase) and isinstance(value, torch.Tensor):
        set_entry(data, key, value)
    else:
        data.set(key, value)


def spread(value: Any, batch: torch.Size, trailing: int) -> Any:
    """Repeat a value of each element over the dimensions that the element itself has, such as time.

    Args:
        value: a tensor of shape ``[*lead, *trailing]``.
        batch: the batch size of the data, which begins with ``lead``.
        trailing: how many dimensions belong to each value.

    Returns:
        A view of shape ``[*batch, *trailing]``; anything else than a tensor as it is.

    Example:
        >>> spread(torch.tensor([3, 4]), torch.Size([2, 3]), 0)
        tensor([[3, 3, 3],
                [4, 4, 4]])
    """
    missing = len(batch) - (value.ndim - trailing) if isinstance(value, torch.Tensor) else 0
    if missing <= 0:
        return value
    lead, own = value.shape[: value.ndim - trailing], value.shape[value.ndim - trailing :]
    return value.reshape((*lead, *[1] * missing, *own)).expand((*batch, *own))

"""ReplayBuffer: a storage, a writer that fills it and a sampler that draws from it."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Self

import torch
from tensordict import TensorDictBase

from rlnb.data.replay_buffers import arguments, errors
from rlnb.data.replay_buffers.buffer_state import check_state_dict, read_buffer_state, with_members
from rlnb.data.replay_buffers.checkpointers.base import Hook, StorageCheckpointerBase
from rlnb.data.replay_buffers.checkpointers.files import SENSELESS, write_values
from rlnb.data.replay_buffers.checkpointers.folder import loading, saving
from rlnb.data.replay_buffers.forms.tree_form import is_data
from rlnb.data.replay_buffers.indexing import Where
from rlnb.data.replay_buffers.pipeline import Pipeline
from rlnb.data.replay_buffers.prefetcher import Draw, Prefetcher
from rlnb.data.replay_buffers.process_lock import follow
from rlnb.data.replay_buffers.ring import finish
from rlnb.data.replay_buffers.samplers.base import Info, Sampler
from rlnb.data.replay_buffers.samplers.uniform import RandomSampler
from rlnb.data.replay_buffers.stacking import set_per_item, with_entries
from rlnb.data.replay_buffers.stateful import read_component, save_component
from rlnb.data.replay_buffers.storages.base import Storage
from rlnb.data.replay_buffers.storages.lazy_memmap import LazyMemmapStorage
from rlnb.data.replay_buffers.storages.list_storage import ListStorage
from rlnb.data.replay_buffers.writers import INDEX_KEY, ImmutableDatasetWriter, RoundRobinWriter, Writer, without_index
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple

DEFAULT_SIZE = 1000
_FORK_SECONDS = 1.0


class ReplayBuffer:
    """A replay buffer, composed of a storage, a sampler and a writer.

    Data is written through the inverse of the transforms, and read through ``collate_fn`` and then the transforms. All
    methods are thread-safe.

    Args:
        storage: holds the items. Default: ``ListStorage(1000)``. Like the sampler and the writer, it may also be a
            function that makes one, such as a class.
        sampler: chooses which items to sample. Default: :class:`RandomSampler`.
        writer: chooses where new items go. Default: :class:`RoundRobinWriter`.
        collate_fn: makes a batch of what the storage returned: a list of objects for a :class:`ListStorage`, a batch
            for all others. Default: stacks lists and returns batches unchanged. It is not called for a single item.
        pin_memory: whether samples are put into page-locked memory, from which an accelerator copies faster. No effect
            without an accelerator.
        prefetch: number of batches to prepare ahead, each in a thread. Useful if transforms are slow: items are copied
            when they are drawn (except for an :class:`ImmutableDatasetWriter`), and the threads do the rest.
        transform: a transform or a function; see :meth:`append_transform`.
        batch_size: number of items in a sample. Default: each call of :meth:`sample` gives it.
        dim_extend: the dimension of new data along which the storage grows, for storages with ``ndim`` above 1.
            Default: the last one, ``ndim - 1``, which is time.
        checkpointer: saves and loads the storage; or a function that makes one. Default: the storage's own.
        generator: source of random numbers. Default: torch's global generator.
        transform_factory: a function that makes the transform, in place of ``transform``.
        consume_after_n_samples: how often each item is drawn before it is consumed; see :class:`ConsumingSampler`.
            ``len(buffer)`` counts the items that are left. Default: items are never consumed.
        shared: whether other processes can read and extend the buffer; see :meth:`share`.
        compilable: only False: ``torch.compile`` cannot trace the methods of a buffer.
        delayed_init: ignored; accepted for code written for TorchRL. Memory is always allocated on the first write.
        **options: TorchRL's options for where a buffer runs (``service_backend``, ``transport``). Only the values that
            mean this process are accepted.

    Raises:
        NotImplementedError: If an option of TorchRL has a value that is not supported.
        TypeError: If a component has the wrong type, or an argument is unknown.
        ValueError: If a number is out of range, or ``prefetch`` is given without ``batch_size``.

    Example:
        >>> from tensordict import TensorDict
        >>> from rlnb.data import LazyTensorStorage
        >>> rb = ReplayBuffer(storage=LazyTensorStorage(1000), batch_size=32)
        >>> index = rb.extend(TensorDict({"observation": torch.zeros(10, 4)}, [10]))
        >>> len(rb), rb.sample()["observation"].shape
        (10, torch.Size([32, 4]))
    """

    def __init__(
        self,
        *args: Any,
        storage: Storage | Callable[[], Storage] | None = None,
        sampler: Sampler | Callable[[], Sampler] | None = None,
        writer: Writer | Callable[[], Writer] | None = None,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        prefetch: int | None = None,
        transform: Callable[[Any], Any] | None = None,
        batch_size: int | None = None,
        dim_extend: int | None = None,
        checkpointer: StorageCheckpointerBase | Callable[[], StorageCheckpointerBase] | None = None,
        generator: torch.Generator | None = None,
        transform_factory: Callable[[], Callable[[Any], Any]] | None = None,
        consume_after_n_samples: int | None = None,
        shared: bool = False,
        compilable: bool | None = None,
        delayed_init: bool | None = None,
        **options: Any,
    ) -> None:
        self._new_lock()
        arguments.check_supported(type(self).__name__, args, compilable, options)
        if consume_after_n_samples is not None:
            sampler = arguments.consuming_sampler(consume_after_n_samples, sampler)
        self._batch_size = None if batch_size is None else arguments.positive_batch_size(batch_size)
        arguments.check_types(prefetch, collate_fn, generator)
        if prefetch and self._batch_size is None:
            raise ValueError(
                "Prefetching needs to know the batch size in advance. Fix: pass batch_size=32 to the constructor, too."
            )
        self._generator = generator
        self._asked_dim_extend, self._collate_fn = dim_extend, collate_fn
        self._pin_memory = bool(pin_memory)
        self._transform = Pipeline()
        self._prefetcher = Prefetcher(prefetch or 0)
        self._writer = arguments.component("writer", Writer, writer, self._default_writer)
        self._sampler = arguments.component("sampler", Sampler, sampler, RandomSampler)
        made = arguments.component("storage", Storage, storage, lambda: ListStorage(DEFAULT_SIZE))
        self._writer._check_free_for(made)
        self._sampler._check_free_for(made)
        self.set_storage(made)
        self.set_sampler(self._sampler)
        if checkpointer is not None:
            self._storage.checkpointer = checkpointer
        if transform is not None and transform_factory is not None:
            raise TypeError("transform and transform_factory were both given. Fix: leave one of them out.")
        if transform_factory is not None:
            transform = transform_factory()
        if transform is not None:
            self.append_transform(transform)
        self.share(shared)

    def _default_writer(self) -> Writer:
        return RoundRobinWriter()

    # Components -------------------------------------------------------------------------------------------------------

    @property
    def storage(self) -> Storage:
        """The storage."""
        return self._storage

    @property
    def sampler(self) -> Sampler:
        """The sampler."""
        return self._sampler

    @property
    def writer(self) -> Writer:
        """The writer."""
        return self._writer

    @property
    def transform(self) -> Pipeline:
        """The transforms, in the order of their application to samples."""
        return self._transform

    @property
    def batch_size(self) -> int | None:
        """Number of items in a sample; None if each call of :meth:`sample` gives it."""
        return self._batch_size

    @property
    def dim_extend(self) -> int:
        """The dimension of new data along which the storage grows."""
        return self._dim_extend

    @property
    def write_count(self) -> int:
        """Number of rows written since the buffer was made or emptied."""
        return self._writer._write_count

    @property
    def initialized(self) -> bool:
        """Always True: the constructor makes storage, sampler and writer."""
        return True

    def share(self, shared: bool = True) -> Self:
        """Check that a process that receives the buffer will see the same items, and not a copy of them.

        Args:
            shared: if False, nothing is checked.

        Raises:
            NotImplementedError: If the storage is not a :class:`LazyMemmapStorage`.
        """
        if shared and not self._shareable():
            raise NotImplementedError(
                f"A {type(self._storage).__name__} cannot be shared with other processes: each would get a copy of its "
                f"items. Fix: {type(self).__name__}(storage=LazyMemmapStorage(size)), which keeps them in files."
            )
        return self

    def _shareable(self) -> bool:
        return isinstance(self._storage, LazyMemmapStorage)

    def stats(self) -> dict[str, int | float | bool]:
        """Summarize the state of the buffer.

        Returns:
            ``"size"`` and ``"capacity"`` in items, ``"utilization"``, their ratio, ``"write_count"``,
            ``"prefetch_queue_size"``, and ``"initialized"``.
        """
        with self._lock:
            size, capacity = len(self._storage), self._storage.max_size
            return {
                "size": size,
                "capacity": capacity,
                "utilization": size / capacity,
                "write_count": self.write_count,
                "prefetch_queue_size": len(self._prefetched_draws()),
                "initialized": self.initialized,
            }

    def set_storage(self, storage: Storage, collate_fn: Callable[[Any], Any] | None = None) -> None:
        """Replace the storage; writer and sampler forget the items of the old one.

        Args:
            storage: the new storage.
            collate_fn: the new collate function. Default: the current one.

        Raises:
            ValueError: If the storage does not suit the writer or ``dim_extend``; nothing is changed then.
        """
        ndim, asked = storage.ndim, self._asked_dim_extend
        if asked is not None and not 0 <= asked < ndim:
            raise ValueError(
                f"dim_extend must be from 0 to {ndim - 1} for a storage with ndim={ndim}, and got {asked!r}. "
                "It is the dimension along which new data is appended, usually time, the last one."
            )
        with self._lock:
            self._writer.register_storage(storage)
            self._dim_extend = ndim - 1 if asked is None else asked
            self._storage = storage
            self._collate_fn = collate_fn or self._collate_fn
            self._sampler._attach(storage)
            self._prefetcher.clear()

    def set_sampler(self, sampler: Sampler) -> None:
        """Replace the sampler; the new one forgets the items of any other storage.

        Args:
            sampler: the new sampler. It draws with the generator of the buffer, if that has one.

        Raises:
            ValueError: If it samples for another buffer and keeps data about the items there.
        """
        with self._lock:
            sampler._check_free_for(self._storage)
            self._sampler._attached = False
            sampler._attach(self._storage)
            self._sampler = sampler
            if self._generator is not None:
                sampler._generator = self._generator
            self._prefetcher.clear()

    def set_writer(self, writer: Writer) -> None:
        """Replace the writer.

        Args:
            writer: the new writer, which continues at the cursor of the storage.

        Raises:
            ValueError: If it writes for another buffer, or cannot write to this storage.
        """
        with self._lock:
            writer._check_free_for(self._storage)
            writer.register_storage(self._storage)
            self._writer = writer

    def set_rng(self, generator: torch.Generator) -> None:
        """Replace the generator of the buffer and its sampler, on the CPU; prefetched batches are dropped."""
        with self._lock:
            self._generator = self._sampler._generator = generator
            self._prefetcher.clear()

    def append_transform(self, transform: Callable[[Any], Any], *, invert: bool = False) -> Self:
        """Add a transform after the others, and return the buffer.

        A :class:`~rlnb.envs.transforms.Transform` is applied to data that is read, and its ``inv`` to data that is
        written. A plain function is applied only to data that is read.

        Args:
            transform: the transform.
            invert: whether to swap the directions: ``inv`` for reads, the transform for writes.

        Raises:
            TypeError: If the transform is not callable.
        """
        return self.insert_transform(len(self._transform), transform, invert=invert)

    def insert_transform(self, index: int, transform: Callable[[Any], Any], *, invert: bool = False) -> Self:
        """Insert a transform between the others, and return the buffer; see :meth:`append_transform`.

        Args:
            index: position of the new transform; the one that is there now follows it.
            transform: the transform.
            invert: whether to swap the directions of reading and writing.

        Raises:
            IndexError: If the position is out of range.
            TypeError: If the transform is not callable.
        """
        with self._lock:
            self._transform.insert(index, transform, invert)
            self._prefetcher.restart(self._prefetcher.draws)
        return self

    # Writing ----------------------------------------------------------------------------------------------------------

    def add(self, data: Any) -> Any:
        """Write one item.

        Args:
            data: the item. With a storage of several dimensions: one step of all envs.

        Returns:
            Its index; None if the writer did not keep it; an empty index if a transform holds it back, as
            :class:`~rlnb.envs.transforms.MultiStepTransform` does.

        Raises:
            ValueError: If the item differs in keys, shapes or dtypes from those stored; nothing is written then.
        """
        if self._transform.changes_writes:
            if self._transform.joins_writes and is_data(data) and len(data.batch_size) == self._storage.ndim - 1:
                index = self.extend(data.unsqueeze(self._dim_extend))  # a batch of one step
                return int(index) if self._storage.ndim == 1 and len(index) == 1 else index
            data = self._transform.inv(data)
            if is_data(data) and 0 in data.batch_size:
                return torch.zeros(0, dtype=torch.int64)
        with self._lock:
            first = not self._writer._write_count
            index = self._add(data)
        if first and is_data(data):
            self._warn_if_batch(data)
        return index

    def _warn_if_batch(self, data: Any) -> None:
        """Warn that a first item with a batch size was stored as a single item."""
        several = len(data.batch_size) >= self._storage.ndim and not isinstance(self._storage, ListStorage)
        if several and isinstance(self._writer, RoundRobinWriter):
            warnings.warn(
                f"add stores this data of batch size {list(data.batch_size)} as one item, so every item of this buffer "
                f"will have that batch size. If these are {data.batch_size[0]} items, use buffer.extend(data) on a new "
                "buffer.",
                UserWarning,
                stacklevel=3,
            )

    def extend(self, data: Any, *, update_priority: bool | None = None) -> torch.Tensor:
        """Write several items.

        Args:
            data: a list of items; or a batch of them: a tensor or TensorDict whose first dimension counts the items
                (its first ``ndim`` dimensions), or a PyTree of tensors that lead with the same dimensions. A tuple is a
                PyTree, a list at the root is a list of items.
            update_priority: for a :class:`TensorDictReplayBuffer`: if False, priorities in the data are ignored.

        Returns:
            The index of each item, shape ``[n]``; with several dimensions ``[n, ndim]``, time first.

        Raises:
            ValueError: If the data differs in keys, shapes or dtypes from what is stored; nothing is written then.
        """
        if self._transform.changes_writes:
            data = self._transform.inv(data)
        if self._dim_extend and not isinstance(data, list):
            # The storage reports data with too few dimensions.
            with contextlib.suppress(IndexError, RuntimeError, ValueError):
                data = arguments.swap_dims(data, self._dim_extend)
        with self._lock:
            return self._extend(data) if update_priority is not False else ReplayBuffer._extend(self, data)

    def _add(self, data: Any) -> Any:
        index = self._writer.add(data)
        self._sampler.add(index, self._storage)
        return index

    def _extend(self, data: Any) -> torch.Tensor:
        index = self._writer.extend(data)
        self._sampler.extend(index, self._storage)
        return index

    def __setitem__(self, index: Any, data: Any) -> None:
        if self._transform.changes_writes:
            data = self._transform.inv(data)
        if self._writer.adds_index:
            data = without_index(data)
        with self._lock:
            place = self._storage.where(index)
            self._writer.overwrite(place, data)
            self._sampler.mark_update(self._indices(place), self._storage)

    def update_priority(self, index: Any, priority: Any) -> None:
        """Change the priorities of items; no effect if the sampler has no priorities.

        Args:
            index: of the items, as the info of a sample or :meth:`extend` returns it.
            priority: one for each item, or one for all; finite and not negative.

        Raises:
            IndexError: If an index is out of range.
            ValueError: If a priority is NaN, infinite or negative; nothing is changed then.
        """
        with self._lock:
            self._sampler.update_priority(index, priority, storage=self._storage)

    def mark_update(self, index: Any) -> None:
        """Notify the sampler of items that were overwritten in the storage, without the buffer.

        Args:
            index: of the items, as the info of a sample or :meth:`extend` returns it.
        """
        with self._lock:
            self._sampler.mark_update(index, self._storage)

    def set_at_(self, key: NestedKey, value: Any, index: Any) -> None:
        """Overwrite one entry of stored items; their priorities stay.

        Args:
            key: of the entry.
            value: the new values, of the shape that the entry has in ``buffer[index]``.
            index: of the items; see ``buffer[index]``.

        Raises:
            KeyError: If there is no such entry.
            ValueError: If the values do not fit.
        """
        self._set_entries(index, {key: value})

    def set_(self, key: NestedKey, value: Any) -> None:
        """Overwrite one entry of all items; see :meth:`set_at_`.

        Args:
            key: of the entry.
            value: the new values.
        """
        self._set_entries(slice(None), {key: value})

    def update_(self, input_dict_or_td: Any, clone: bool = False, *, keys_to_update: Any = None) -> None:
        """Overwrite several entries of all items; see :meth:`set_at_`.

        Args:
            input_dict_or_td: the entries.
            clone: ignored; accepted for code written for TorchRL. Values are always copied.
            keys_to_update: the entries to overwrite. Default: all that are given.
        """
        is_td = isinstance(input_dict_or_td, TensorDictBase)
        given = input_dict_or_td.items(True, True) if is_td else input_dict_or_td.items()
        entries = {as_key(as_tuple(key)): value for key, value in given}
        if keys_to_update is not None:
            entries = {key: entries[key] for key in (as_key(as_tuple(key)) for key in keys_to_update)}
        self._set_entries(slice(None), entries)

    def _set_entries(self, index: Any, entries: dict[NestedKey, Any]) -> None:
        with self._lock:
            place = self._storage.where(index)
            data = self._storage.elements(self._storage.read(place))
            self._writer.overwrite(place, with_entries(data, entries))

    def write_all(self, data: Any, end: int | None = None) -> None:
        """Overwrite all items in the order of their index: ``buffer[:end] = data``.

        Args:
            data: the new items.
            end: number of items. Default: all.
        """
        self[:end] = data

    def empty(self, empty_write_count: bool = True) -> None:
        """Remove all items; the memory stays allocated.

        Args:
            empty_write_count: whether :attr:`write_count` starts at 0 again.

        Raises:
            RuntimeError: If the buffer is read-only.
        """
        with self._lock:
            self._writer.check_writable()
            self._prefetcher.clear()
            written = self._storage.ring.written
            finish(self._empty)  # or writer and sampler would still know items that are gone
            if not empty_write_count:
                self._storage.ring.jump(0, 0, written)

    def _empty(self) -> None:
        self._storage._empty()
        self._writer._empty()
        self._sampler._empty()

    # Sampling ---------------------------------------------------------------------------------------------------------

    def sample(self, batch_size: int | None = None, return_info: bool = False) -> Any:
        """Draw a batch of items.

        Args:
            batch_size: number of items. Default: the ``batch_size`` of the constructor. Only batches of that size are
                prefetched.
            return_info: whether to also return the sampler's info: ``"index"``, the index of each item, and further
                entries such as ``"priority_weight"``.

        Returns:
            The batch; or the batch and a dictionary.

        Raises:
            RuntimeError: If the buffer is empty, or no batch size was given.
            ValueError: If the batch size is not a positive integer.
        """
        size = self._size_of(batch_size)
        if self._prefetcher.depth and size == self._batch_size:
            with self._lock:
                prefetched = self._prefetcher.next(self)
            batch, info = prefetched.future.result()
        else:
            batch, info = self._process(*self._draw_and_gather(size))
        return (batch, info) if return_info else batch

    def can_sample(self, batch_size: int | None = None) -> bool:
        """Check whether :meth:`sample` can draw a batch of the same size now.

        It cannot if the buffer is empty, or holds too few items or no slice that is long enough.

        Args:
            batch_size: number of items. Default: the ``batch_size`` of the constructor.
        """
        with self._lock:
            size = self._size_of(batch_size) * self._sampler.steps_per_item
            return self._sampler.can_sample(self._storage, size)

    def next(self) -> Any:
        """Draw the next batch, as iteration over the buffer does; it needs the ``batch_size`` of the constructor."""
        return next(iter(self))

    def __iter__(self) -> Iterator[Any]:
        if self._batch_size is None:
            raise RuntimeError("Iterating over a buffer needs a batch size. Fix: give the constructor batch_size=32.")
        while True:
            if not self._prefetcher.depth:
                with self._lock:
                    drawn, last = self._draw_and_gather(self._batch_size), self._sampler.ran_out
                yield self._process(*drawn)[0]
            else:
                with self._lock:
                    prefetched = self._prefetcher.next(self)
                (batch, _), last = prefetched.future.result(), prefetched.last
                yield batch
            if last:
                return

    def _size_of(self, given: int | None) -> int:
        if given is not None:
            return arguments.positive_batch_size(given)
        if self._batch_size is None:
            raise RuntimeError(
                "The batch size is not known. Fix: give it to the constructor (batch_size=32) or to the call, "
                "buffer.sample(32)."
            )
        return self._batch_size

    def _draw(self, size: int) -> tuple[Any, Info]:
        """Draw the index and the info of a batch; the caller holds the lock."""
        if not len(self._storage):
            raise RuntimeError(errors.EMPTY_SAMPLE)
        return self._sampler.sample(self._storage, size * self._sampler.steps_per_item)

    def _draw_and_gather(self, size: int) -> tuple[Any, Any, Info]:
        """Draw a batch and copy its items under one lock, so that no other thread empties the buffer in between."""
        with self._lock, self._storage.ring.reading:
            index, info = self._draw(size)
            return self._storage.gather(index), index, info

    def _process(self, data: Any, index: Any, info: Info) -> tuple[Any, Info]:
        """Make the batch out of the items that were gathered; all slow steps happen here, without the lock."""
        data = self._collate(data)
        info = {INDEX_KEY: index, **info}
        return self._apply_transform(self._annotate(data, info)), info

    def _collate(self, data: Any) -> Any:
        storage, collate_fn = self._storage, self._collate_fn
        return storage.collate(data) if collate_fn is None else collate_fn(storage.elements(data))

    def _apply_transform(self, data: Any) -> Any:
        if self._transform.changes_reads:
            data = self._transform.forward(data)
        if self._pin_memory and torch.accelerator.is_available():
            data = data.pin_memory()
        return data

    def _annotate(self, data: Any, info: Info) -> Any:
        """Write entries of the info into the batch."""
        if self._writer.adds_index and is_data(data):
            self._set_index(data, info[INDEX_KEY])
        return data

    def _set_index(self, data: Any, index: Any) -> None:
        index = torch.stack(index, -1) if isinstance(index, tuple) else index
        set_per_item(data, INDEX_KEY, index, int(self._storage.ndim > 1))

    # Prefetching ------------------------------------------------------------------------------------------------------

    def _draw_ahead(self) -> tuple[tuple[Any, Any, Info], bool]:
        """Draw a batch to prefetch; also whether it is the last one of an epoch."""
        size = self._batch_size or 0
        if isinstance(self._writer, ImmutableDatasetWriter):  # the items are never overwritten: a thread can copy them
            return (None, *self._draw(size)), self._sampler.ran_out
        return self._draw_and_gather(size), self._sampler.ran_out

    def _gather_again(self, index: Any, info: Info) -> tuple[Any, Any, Info]:
        """Copy the items of a batch that was drawn before."""
        with self._storage.ring.reading:
            return self._storage.gather(index), index, info

    def _finish(self, drawn: tuple[Any, Any, Info]) -> tuple[Any, Info]:
        """Make the batch, in a thread of the prefetcher."""
        data, index, info = drawn
        return self._process(self._storage.gather(index) if data is None else data, index, info)

    def _prefetched_draws(self) -> list[Draw]:
        """The batches drawn and not returned yet; they are saved with the sampler, whose state is ahead by them."""
        return self._prefetcher.draws

    def shutdown(self, timeout: float | None = None) -> None:
        """Stop the prefetching threads; the next call of :meth:`sample` starts them again.

        Args:
            timeout: ``None`` (the default) waits for threads that are preparing a batch; a number does not wait.
        """
        with self._lock:
            self._prefetcher.restart(self._prefetcher.draws)
        self._prefetcher.close(wait=timeout is None)

    # Indexing ---------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._sampler.available(self._storage)

    def __getitem__(self, index: Any) -> Any:
        """Read items; see :func:`~rlnb.data.replay_buffers.indexing.where` for what an index can be.

        A key, or ``("_data", key)``, reads one entry of all items.

        A storage of several dimensions is time first, ``[time, envs]``, and so are its indices and what is read with
        them: ``rb[i, j]`` is ``rb[:][i, j]``, and ``rb[sample["index"]]`` is what was sampled. Only :meth:`extend`
        takes data in the order of an env's rollout, ``[envs, time]``.
        """
        if isinstance(index, str) or (isinstance(index, tuple) and any(isinstance(part, str) for part in index)):
            return self._read_entry(index)
        with self._lock, self._storage.ring.reading:
            place = self._storage.where(index)
            data = self._storage.read(place)
        if place.position is None:
            data = self._collate(data)
        elif is_data(data) and (self._marks_index or self._transform.changes_reads):
            data = data.copy()  # a ListStorage returns the stored object itself, which must not get new entries
        if self._marks_index and is_data(data):
            index = self._indices(place)
            several = isinstance(index, tuple)
            index = tuple(part.reshape(place.lead) for part in index) if several else index.reshape(place.lead)
            self._set_index(data, index)
        return self._transform.forward(data) if self._transform.changes_reads else data

    def read_all_in_order(self, end: int | None = None) -> Any:
        """Read items in order and through the transforms: ``buffer[:end]``.

        Args:
            end: number of items to read, from the first place of the storage on. Default: all.
        """
        return self[:end]

    @property
    def _marks_index(self) -> bool:
        """Whether TensorDicts that are read get an entry ``"index"``."""
        return self._writer.adds_index

    def _indices(self, place: Where) -> Any:
        """The index of each item of a place, in the format of a sampler."""
        return self._storage.index(place.positions(place.lead[1:].numel()))

    def _read_entry(self, key: Any) -> Any:
        """Read one entry of all items."""
        parts = (key,) if isinstance(key, str) else tuple(part for i, part in enumerate(key) if i or part != "_data")
        data = self._storage.get(slice(None))
        try:
            return data[parts] if is_data(data) else data[parts[0]]
        except (KeyError, TypeError, IndexError, ValueError):
            raise KeyError(errors.no_such_entry(key, list(getattr(self._storage, "columns", ())))) from None

    # State and checkpoints --------------------------------------------------------------------------------------------

    def _all_locked(self) -> AbstractContextManager[Any]:
        """Lock all that has a state: the buffer, and the members of an ensemble."""
        return self._lock

    def state_dict(self) -> dict[str, Any]:
        """Return the state of storage, writer and sampler: plain values, and tensors that may share its memory."""
        with self._all_locked():
            return {
                "_storage": self._storage.state_dict(),
                "_writer": self._writer.state_dict(),
                "_sampler": self._sampler.state_dict(),
                "_batch_size": self._batch_size,
                "_ahead": self._prefetched_draws(),
                "_rng": self._random_states(),
            }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state that :meth:`state_dict` returned.

        Args:
            state_dict: that of a buffer with the same components, size and form of data.

        Raises:
            ValueError: If it does not fit; nothing is changed then.
        """
        with self._all_locked():
            rngs = check_state_dict(state_dict, self._storage, self._sampler, self._writer)
            self._storage.load_state_dict(state_dict["_storage"])
            size, draws = state_dict.get("_batch_size"), state_dict.get("_ahead", [])
            self._load_parts(state_dict["_writer"], state_dict["_sampler"], rngs, size, draws)

    def dumps(self, path: str | os.PathLike[str]) -> None:
        """Save storage, writer and sampler in a folder; transforms are not saved.

        A checkpoint that is already in the folder is replaced as a whole once the new one is on the disk; until then
        it can be loaded, even after a crash. Data is written from where it is in memory, without a copy; see
        ``storage.checkpointer`` for other formats.

        Args:
            path: the folder, which is created if needed.

        Raises:
            NotImplementedError: If the storage is a :class:`ListStorage`.
            OSError: If the checkpoint cannot be written; a previous one is kept.
            TypeError: If there is non-tensor data that JSON cannot hold.
        """
        with self._all_locked(), saving(path) as folder:
            self._storage.checkpointer.dumps(self._storage, folder / "storage")
            save_component(self._writer, folder, "writer")
            save_component(self._sampler, folder, "sampler")
            rngs, draws = self._random_states(), self._prefetched_draws()
            state = {"rng": rngs, "batch_size": self._batch_size, "ahead": draws}
            write_values(folder / "state" / "buffer.json", state)

    def loads(self, path: str | os.PathLike[str]) -> None:
        """Load what :meth:`dumps` saved.

        The buffer needs the same components and the same size as the one that was saved. Its storage may be empty; it
        then learns keys, shapes and dtypes from the checkpoint. Nothing in a checkpoint is executed, so tensorclasses
        come back as TensorDicts, unless the storage already holds data of that class.

        Args:
            path: the folder that :meth:`dumps` wrote.

        Raises:
            FileNotFoundError: If there is no checkpoint.
            ValueError: If a file is damaged, missing, or of another buffer; nothing is changed then.
        """
        with self._all_locked(), loading(path) as folder:
            states = {
                name: read_component(part, folder, name, with_members(self._storage))
                for name, part in (("writer", self._writer), ("sampler", self._sampler))
            }
            rngs, size, draws = read_buffer_state(folder)
            self._storage.checkpointer.loads(self._storage, folder / "storage")
            self._load_parts(states["writer"], states["sampler"], rngs, size, draws)

    def dump(self, path: str | os.PathLike[str]) -> None:
        """Alias of :meth:`dumps`."""
        self.dumps(path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Alias of :meth:`dumps`."""
        self.dumps(path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Alias of :meth:`loads`."""
        self.loads(path)

    def register_save_hook(self, hook: Hook) -> None:
        """Register a function such as :class:`~rlnb.data.TED2Flat` that changes data before it is saved.

        Hooks are not saved. See :meth:`~rlnb.data.StorageCheckpointerBase.register_save_hook`.
        """
        self._storage.register_save_hook(hook)

    def register_load_hook(self, hook: Hook) -> None:
        """Register a function such as :class:`~rlnb.data.Flat2TED` that changes data after it is loaded.

        See :meth:`~rlnb.data.StorageCheckpointerBase.register_load_hook`.
        """
        self._storage.register_load_hook(hook)

    def _generators(self) -> list[torch.Generator | None]:
        """The sources of random numbers: the buffer's own, and those of the members of an ensemble; None: torch's."""
        return [self._generator]

    def _random_states(self) -> list[torch.Tensor | None]:
        return [None if generator is None else generator.get_state() for generator in self._generators()]

    def _load_parts(
        self, writer: Any, sampler: Any, rngs: list[Any], batch_size: int | None, draws: list[Draw]
    ) -> None:
        """Load all but the storage; batches that were drawn before are dropped if size or index do not fit."""
        self._writer.load_state_dict(writer)
        self._sampler.load_state_dict(sampler)
        for generator, state in zip(self._generators(), rngs, strict=False):
            if generator is not None and state is not None:
                generator.set_state(state)
        self._prefetcher.clear()
        try:
            fits = batch_size == self._batch_size and all(self._has_items(index) for index, _, _ in draws)
        except SENSELESS:
            fits = False
        if fits and self._prefetcher.depth:
            self._prefetcher.restart(draws)

    def _has_items(self, index: Any) -> bool:
        positions = self._storage.positions(index)
        return not positions.numel() or 0 <= int(positions.min()) <= int(positions.max()) < len(self._storage)

    # Copies and forks -------------------------------------------------------------------------------------------------

    def _new_lock(self) -> None:
        self._lock = threading.RLock()
        self._held_for_fork = False
        follow(self)

    def _before_fork(self) -> None:
        # Waits until no thread is inside a method; with a limit, because that thread may wait for the forking one.
        self._held_for_fork = self._lock.acquire(timeout=_FORK_SECONDS)

    def _after_fork(self, child: bool) -> None:
        if child:
            self._new_lock()
        elif self._held_for_fork:
            self._lock.release()

    def __getstate__(self) -> dict[str, Any]:
        depth = self._prefetcher.depth
        return {**vars(self), "_lock": None, "_prefetcher": depth, "_ahead": self._prefetched_draws()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        draws = state.pop("_ahead")
        vars(self).update(state)
        self._new_lock()
        self._sampler._attach(self._storage)
        self._prefetcher = Prefetcher(state["_prefetcher"])
        self._prefetcher.restart(draws)

    def __repr__(self) -> str:
        parts: dict[str, Any] = {"storage": self._storage, "sampler": self._sampler, "writer": self._writer}
        parts |= {"batch_size": self._batch_size}
        if len(self._transform):
            parts["transform"] = self._transform
        lines = ",\n".join(f"    {name}={part!r}".replace("\n", "\n    ") for name, part in parts.items())
        return f"{type(self).__name__}(\n{lines})"

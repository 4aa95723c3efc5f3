"""ReplayBuffer: a storage, a writer that fills it and a sampler that draws from it."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data.replay_buffers import faults
from rlnb.data.replay_buffers.forms import is_data
from rlnb.data.replay_buffers.replay_buffers import arguments
from rlnb.data.replay_buffers.replay_buffers.reading import Reading
from rlnb.data.replay_buffers.storages import ListStorage
from rlnb.data.replay_buffers.writers import RoundRobinWriter
from rlnb.data.replay_buffers.writers.round_robin import without_index
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple


class ReplayBuffer(Reading):
    """A replay buffer, composed of a storage, a sampler and a writer.

    Writing goes through the transforms backwards, reading through ``collate_fn`` and the transforms forwards. All
    methods can be called from several threads.

    Args:
        storage: holds the elements. Default: ``ListStorage(1000)``. Like the sampler and the writer it may be a
            function that makes one, such as a class.
        sampler: chooses what is sampled. Default: :class:`RandomSampler`.
        writer: chooses where new elements go. Default: :class:`RoundRobinWriter`.
        collate_fn: makes a batch of what the storage returned: of a list of objects for a :class:`ListStorage`, of a
            batch for all others. Default: stacks the former and keeps the latter. It is not called for one element.
        pin_memory: whether samples are put into page-locked memory, from which an accelerator copies faster. Without
            an accelerator there is none, and this changes nothing.
        prefetch: how many batches to prepare ahead, each in a thread of its own. It pays where transforms are slow; the
            elements themselves are copied when they are chosen, except where the writer says that nobody writes.
        transform: a transform or a function; see :meth:`append_transform`.
        batch_size: how many elements a sample has.
        dim_extend: the dimension of new data along which the storage grows, for storages with ``ndim`` above 1.
            Default: the last one, ``ndim - 1``, which is time.
        checkpointer: how the storage is saved, or a function that makes it. Default: as the storage has it.
        generator: the source of randomness. Default: torch's own.
        transform_factory: a function that makes the transform, in place of ``transform``.
        consume_after_n_samples: how often each element is drawn before it is consumed; see :class:`ConsumingSampler`.
            ``len(buffer)`` counts those that are left. Default: elements are never consumed.
        shared: whether other processes can read and extend the buffer; see :meth:`share`.
        compilable: only False: methods of a buffer cannot be traced by ``torch.compile``.
        delayed_init: taken, so that code for TorchRL runs. Memory is made when the first data comes in any case.
        **options: those of TorchRL that choose where a buffer runs (``service_backend``, ``transport``): only the
            values that mean this process.

    Raises:
        NotImplementedError: If an option of TorchRL has a value that cannot be kept.
        TypeError: If a component is not of its kind, or there is no such argument.
        ValueError: if a number makes no sense, or ``prefetch`` comes without ``batch_size``.

    Example:
        >>> from tensordict import TensorDict
        >>> from rlnb.data import LazyTensorStorage
        >>> rb = ReplayBuffer(storage=LazyTensorStorage(1000), batch_size=32)
        >>> index = rb.extend(TensorDict({"observation": torch.zeros(10, 4)}, [10]))
        >>> len(rb), rb.sample()["observation"].shape
        (10, torch.Size([32, 4]))
    """

    def add(self, data: Any) -> Any:
        """Write one element.

        Args:
            data: the element. With a storage of several dimensions: one step of all envs.

        Returns:
            Its index; None if the writer did not keep it; an empty index if a transform holds it back, as
            :class:`~rlnb.envs.transforms.MultiStepTransform` does.

        Raises:
            ValueError: if it differs from what is stored; nothing is written then.
        """
        if self._transform.changes_writes:
            if self._transform.joins_writes and is_data(data) and len(data.batch_size) == self._storage.ndim - 1:
                return self._add_in_time(data)
            data = self._transform.inv(data)
            if is_data(data) and 0 in data.batch_size:
                return torch.zeros(0, dtype=torch.int64)
        with self._lock:
            first = not self._writer._write_count
            index = self._add(data)
        if first and is_data(data):
            self._warn_of_batch(data)
        return index

    def _add_in_time(self, data: Any) -> Any:
        """Write one element, for transforms that look along time: as a batch of one step."""
        index = self.extend(data.unsqueeze(self._dim_extend))
        return int(index) if self._storage.ndim == 1 and len(index) == 1 else index

    def _warn_of_batch(self, data: Any) -> None:
        """Say that a first element with a batch size is one element all the same."""
        one, lists = len(data.batch_size) < self._storage.ndim, isinstance(self._storage, ListStorage)
        if not one and not lists and isinstance(self._writer, RoundRobinWriter):
            warnings.warn(faults.first_is_batch(data.batch_size), UserWarning, stacklevel=3)

    def extend(self, data: Any, *, update_priority: bool | None = None) -> torch.Tensor:
        """Write several elements.

        Args:
            data: a list of elements; or a batch of them: a tensor or TensorDict, whose first dimension counts them (its
                first ``ndim`` dimensions), or any PyTree of tensors that lead with the same dimensions. A tuple is a
                PyTree, a list at the root is a list of elements.
            update_priority: for a :class:`TensorDictReplayBuffer`: False ignores priorities that the data brings.

        Returns:
            The index of each, shape ``[n]``; with several dimensions ``[n, ndim]``, time first.

        Raises:
            ValueError: if the data differs from what is stored; nothing is written then.
        """
        data = self._incoming(data)
        with self._lock:
            return self._extend(data) if update_priority is not False else ReplayBuffer._extend(self, data)

    def _incoming(self, data: Any) -> Any:
        """What is given to :meth:`extend`, as it is stored: transformed, and with time first."""
        if self._transform.changes_writes:
            data = self._transform.inv(data)
        if self._dim_extend and not isinstance(data, list):
            # Where there are too few dimensions, the storage says so.
            with contextlib.suppress(IndexError, RuntimeError, ValueError):
                data = arguments.swap_dims(data, self._dim_extend)
        return data

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
        """Change the priorities of elements; without a sampler that knows priorities, nothing happens.

        Args:
            index: of the elements, as a sample's info or :meth:`extend` gives it.
            priority: one for each, or one for all; finite and not negative.

        Raises:
            IndexError: if there is no such element.
            ValueError: if one is no priority; nothing is changed then.
        """
        with self._lock:
            self._sampler.update_priority(index, priority, storage=self._storage)

    def mark_update(self, index: Any) -> None:
        """Tell the sampler that elements were written over past the buffer.

        Args:
            index: of the elements, as a sample's info or :meth:`extend` gives it.
        """
        with self._lock:
            self._sampler.mark_update(index, self._storage)

    def set_at_(self, key: NestedKey, value: Any, index: Any) -> None:
        """Write one entry of elements that are stored; priorities stay.

        Args:
            key: of the entry.
            value: what to write, of the shape that the entry has in ``buffer[index]``.
            index: which elements; see ``buffer[index]``.

        Raises:
            KeyError: If there is no such entry.
            ValueError: If the value does not fit.
        """
        self._set_entries(index, {key: value})

    def set_(self, key: NestedKey, value: Any) -> None:
        """Write one entry of all elements; see :meth:`set_at_`.

        Args:
            key: of the entry.
            value: what to write.
        """
        self._set_entries(slice(None), {key: value})

    def update_(self, input_dict_or_td: Any, clone: bool = False, *, keys_to_update: Any = None) -> None:
        """Write several entries of all elements; see :meth:`set_at_`.

        Args:
            input_dict_or_td: the entries.
            clone: taken, so that code for TorchRL runs; values are always copied.
            keys_to_update: which entries to write. Default: all that are given.
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
            self._writer.overwrite(place, _with_entries(data, entries))

    def write_all(self, data: Any, end: int | None = None) -> None:
        """Write over all elements by index: ``buffer[:end] = data``.

        Args:
            data: the new elements.
            end: how many. Default: all.
        """
        self[:end] = data

    def empty(self, empty_write_count: bool = True) -> None:
        """Forget all elements; the memory stays.

        Args:
            empty_write_count: whether :attr:`write_count` starts at 0 again.

        Raises:
            RuntimeError: if the buffer is read-only.
        """
        with self._lock:
            self._writer.check_writable()
            self._forget_ahead()
            written = self._storage.ring.written
            try:
                self._empty()
            except KeyboardInterrupt:  # neither writer nor sampler shall know of elements that are gone
                self._empty()
                raise
            if not empty_write_count:
                self._storage.ring.jump(0, 0, written)

    def _empty(self) -> None:
        self._storage._empty()
        self._writer._empty()
        self._sampler._empty()


def _with_entries(data: Any, entries: dict[NestedKey, Any]) -> Any:
    """Replace entries of elements that were read; those that are stored stay as they are."""
    if isinstance(data, list):
        values = {key: list(value) for key, value in entries.items()}
        return [_with_entries(item, {key: value[i] for key, value in values.items()}) for i, item in enumerate(data)]
    if not isinstance(data, TensorDictBase):
        raise TypeError(f"Entries are written in TensorDicts, and the buffer holds: {type(data).__name__}.")
    changed = data.copy()
    for key, value in entries.items():
        if key not in changed.keys(True):
            raise KeyError(faults.no_such_entry(key, list(data.keys(True, True))))
        changed.set(key, value)
    return changed

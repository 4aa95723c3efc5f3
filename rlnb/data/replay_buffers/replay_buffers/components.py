"""Components: what a buffer is put together from, and what is done with it as a whole."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from rlnb.data.replay_buffers import faults
from rlnb.data.replay_buffers.checkpointers import StorageCheckpointerBase
from rlnb.data.replay_buffers.forks import follow
from rlnb.data.replay_buffers.replay_buffers import arguments
from rlnb.data.replay_buffers.replay_buffers.checkpointing import Checkpointing, random_states
from rlnb.data.replay_buffers.replay_buffers.pipeline import Pipeline
from rlnb.data.replay_buffers.replay_buffers.prefetch import Chosen, Prefetcher
from rlnb.data.replay_buffers.samplers import Info, RandomSampler, Sampler
from rlnb.data.replay_buffers.storages import LazyMemmapStorage, ListStorage, Storage
from rlnb.data.replay_buffers.writers import RoundRobinWriter, Writer

Self = TypeVar("Self", bound="Components")
DEFAULT_SIZE = 1000
_FORK_SECONDS = 1.0


class Components(Checkpointing):
    """The storage, sampler, writer and transforms of a buffer; see :class:`ReplayBuffer`."""

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
        arguments.check_options(type(self).__name__, args, compilable, options)
        if consume_after_n_samples is not None:
            sampler = arguments.consuming(consume_after_n_samples, sampler)
        self._batch_size = None if batch_size is None else arguments.batch_size(batch_size)
        arguments.check(prefetch, collate_fn, generator)
        if prefetch and self._batch_size is None:
            raise ValueError(faults.prefetch_without_batch_size())
        self._generator = generator
        self._asked_dim_extend, self._collate_fn = dim_extend, collate_fn
        self._pin_memory = bool(pin_memory)
        self._transform = Pipeline()
        self._prefetcher = self._new_prefetcher(prefetch)
        self._writer = arguments.component("writer", Writer, writer, self._default_writer)
        self._sampler = arguments.component("sampler", Sampler, sampler, RandomSampler)
        made = arguments.component("storage", Storage, storage, lambda: ListStorage(DEFAULT_SIZE))
        arguments.free_writer(self._writer, made)
        arguments.free_sampler(self._sampler, made)
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

    # Components ---------------------------------------------------------------------------------------------------

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
        """The transforms, in a row."""
        return self._transform

    @property
    def batch_size(self) -> int | None:
        """How many elements a sample has; None if each call says so."""
        return self._batch_size

    @property
    def dim_extend(self) -> int:
        """The dimension of new data along which the storage grows."""
        return self._dim_extend

    @property
    def write_count(self) -> int:
        """How many rows were ever written."""
        return self._writer._write_count

    @property
    def initialized(self) -> bool:
        """Whether storage, sampler and writer are there: always, for they are made in the constructor."""
        return True

    def share(self: Self, shared: bool = True) -> Self:
        """Make sure that other processes can read and extend the buffer.

        A buffer with a :class:`LazyMemmapStorage` is shared as it is, once it was written to for the first time: a
        process that gets the buffer finds the same elements. For other storages a process would get a copy.

        Args:
            shared: False changes nothing.

        Returns:
            The buffer.

        Raises:
            NotImplementedError: If the storage cannot be shared.
        """
        if shared and not self._shareable():
            raise NotImplementedError(
                f"A {type(self._storage).__name__} cannot be shared with other processes: each would get a copy of its "
                f"elements. Fix: {type(self).__name__}(storage=LazyMemmapStorage(size)), which keeps them in files."
            )
        return self

    def _shareable(self) -> bool:
        return isinstance(self._storage, LazyMemmapStorage)

    def stats(self) -> dict[str, int | float | bool]:
        """Count what the buffer holds.

        Returns:
            ``"size"`` and ``"capacity"`` in elements, ``"utilization"``, their ratio, ``"write_count"``,
            ``"prefetch_queue_size"``, and ``"initialized"``.
        """
        with self._lock:
            size, capacity = len(self._storage), self._storage.max_size
            return {
                "size": size,
                "capacity": capacity,
                "utilization": size / capacity,
                "write_count": self.write_count,
                "prefetch_queue_size": len(self._chosen_ahead()),
                "initialized": self.initialized,
            }

    def set_storage(self, storage: Storage, collate_fn: Callable[[Any], Any] | None = None) -> None:
        """Exchange the storage; what sampler and writer remember of the elements of the other one is forgotten.

        Args:
            storage: the new one.
            collate_fn: the new one. Default: as it is.

        Raises:
            ValueError: if it does not suit the writer or ``dim_extend``; nothing is changed then.
        """
        ndim, asked = storage.ndim, self._asked_dim_extend
        if asked is not None and not 0 <= asked < ndim:
            raise ValueError(faults.bad_dim_extend(asked, ndim))
        with self._lock:
            self._writer.register_storage(storage)
            self._dim_extend = ndim - 1 if asked is None else asked
            self._storage = storage
            self._collate_fn = collate_fn or self._collate_fn
            self._sampler._begin_with(storage)
            self._forget_ahead()

    def set_sampler(self, sampler: Sampler) -> None:
        """Exchange the sampler.

        Args:
            sampler: the new one.

        Raises:
            ValueError: if it remembers elements of another buffer.
        """
        with self._lock:
            arguments.free_sampler(sampler, self._storage)
            self._sampler._taken = False
            sampler._begin_with(self._storage)
            self._sampler = sampler
            if self._generator is not None:
                sampler._generator = self._generator
            self._forget_ahead()

    def set_writer(self, writer: Writer) -> None:
        """Exchange the writer; it goes on at the cursor of the storage.

        Args:
            writer: the new one.

        Raises:
            ValueError: if it writes for another buffer, or cannot write to such a storage.
        """
        with self._lock:
            arguments.free_writer(writer, self._storage)
            writer.register_storage(self._storage)
            self._writer = writer

    def set_rng(self, generator: torch.Generator) -> None:
        """Exchange the source of randomness.

        Args:
            generator: the new one.
        """
        with self._lock:
            self._generator = self._sampler._generator = generator
            self._forget_ahead()

    def append_transform(self: Self, transform: Callable[[Any], Any], *, invert: bool = False) -> Self:
        """Add a transform behind the others.

        A :class:`~rlnb.envs.transforms.Transform` is called on what is read, and its ``inv`` on what is written. A
        plain function is called on what is read only.

        Args:
            transform: the transform.
            invert: whether it is used the other way round.

        Returns:
            The buffer.

        Raises:
            TypeError: if it cannot be called.
        """
        return self.insert_transform(len(self._transform), transform, invert=invert)

    def insert_transform(self: Self, index: int, transform: Callable[[Any], Any], *, invert: bool = False) -> Self:
        """Add a transform between the others; see :meth:`append_transform`.

        Args:
            index: before which one.
            transform: the transform.
            invert: whether it is used the other way round.

        Returns:
            The buffer.

        Raises:
            IndexError: if there is no such place.
            TypeError: if it cannot be called.
        """
        with self._lock:
            self._transform.insert(index, transform, invert)
            self._begin_ahead_again()
        return self

    # What reading adds --------------------------------------------------------------------------------------------

    def _draw_one(self) -> tuple[Any, bool]:
        """Choose the elements of a batch; also say whether it is the last of a pass."""
        raise NotImplementedError

    def _draw_again(self, index: Any, info: Info) -> tuple[Any, Any, Info]:
        """Gather what was chosen before."""
        raise NotImplementedError

    def _finish(self, drawn: tuple[Any, Any, Info]) -> tuple[Any, Info]:
        """Make a batch of what was chosen."""
        raise NotImplementedError

    # Life ---------------------------------------------------------------------------------------------------------

    def _new_prefetcher(self, depth: int | None) -> Prefetcher | None:
        return Prefetcher(depth, self._draw_one, self._draw_again, self._finish) if depth else None

    def _forget_ahead(self) -> None:
        if self._prefetcher is not None:
            self._prefetcher.clear()

    def _begin_ahead_again(self) -> None:
        if self._prefetcher is not None:
            self._prefetcher.begin_with(self._prefetcher.chosen)

    def _chosen_ahead(self) -> list[Chosen]:
        """What was drawn and not given yet; whoever saves the state saves it with the sampler, which is ahead."""
        return [] if self._prefetcher is None else self._prefetcher.chosen

    def shutdown(self, timeout: float | None = None) -> None:
        """Stop the threads that prepare batches; sampling starts them again.

        Args:
            timeout: with a number, threads that are in the middle of a batch are not waited for. ``None`` waits.
        """
        if self._prefetcher is not None:
            with self._lock:
                self._begin_ahead_again()
            self._prefetcher.close(wait=timeout is None)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of storage, writer and sampler.

        Returns:
            Plain values and tensors, which ``torch.save`` can write. Tensors may share memory with the buffer.
        """
        with self._lock:
            return {
                "_storage": self._storage.state_dict(),
                "_writer": self._writer.state_dict(),
                "_sampler": self._sampler.state_dict(),
                "_batch_size": self._batch_size,
                "_ahead": self._chosen_ahead(),
                "_rng": self._random_states(),
            }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned.

        Args:
            state_dict: of a buffer of the same components, size and form of data.

        Raises:
            ValueError: if it does not fit; nothing is changed then.
        """
        if not isinstance(state_dict, dict) or not {"_storage", "_writer", "_sampler"} <= state_dict.keys():
            raise ValueError(faults.no_buffer_state(state_dict))
        try:
            rngs = random_states(state_dict.get("_rng"))
        except (RuntimeError, TypeError) as error:
            raise ValueError(faults.other_component_state("generator", "torch.Generator", error)) from error
        with self._lock:
            # Sampler and writer are tried on a copy, so that a state that one refuses changes none of the three.
            apart = {id(part): part for part in (self._storage, *getattr(self._storage, "storages", ()))}
            for name, part in (("sampler", self._sampler), ("writer", self._writer)):
                try:
                    copy.deepcopy(part, dict(apart)).load_state_dict(state_dict[f"_{name}"])
                except (KeyError, TypeError, AttributeError) as error:
                    text = faults.other_component_state(name, type(part).__name__, error)
                    raise ValueError(text) from error
            self._storage.load_state_dict(state_dict["_storage"])
            self._writer.load_state_dict(state_dict["_writer"])
            self._sampler.load_state_dict(state_dict["_sampler"])
            self._set_random_states(rngs)
            self._load_ahead(state_dict.get("_batch_size"), state_dict.get("_ahead", []))

    def _new_lock(self) -> None:
        self._lock = threading.RLock()
        self._held_for_fork = False
        follow(self)

    def _before_fork(self) -> None:
        # Until no thread is in the middle of something; not for ever, for it may wait for the one that forks.
        self._held_for_fork = self._lock.acquire(timeout=_FORK_SECONDS)

    def _after_fork(self, child: bool) -> None:
        if child:
            self._new_lock()
        elif self._held_for_fork:
            self._lock.release()

    def __getstate__(self) -> dict[str, Any]:
        depth = None if self._prefetcher is None else self._prefetcher.depth
        return {**vars(self), "_lock": None, "_prefetcher": depth, "_ahead": self._chosen_ahead()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        chosen = state.pop("_ahead")
        vars(self).update(state)
        self._new_lock()
        self._sampler._begin_with(self._storage)
        self._prefetcher = self._new_prefetcher(state["_prefetcher"])
        if self._prefetcher is not None:
            self._prefetcher.begin_with(chosen)

    def __repr__(self) -> str:
        parts: dict[str, Any] = {"storage": self._storage, "sampler": self._sampler, "writer": self._writer}
        parts |= {"batch_size": self._batch_size}
        if len(self._transform):
            parts["transform"] = self._transform
        lines = ",\n".join(f"    {name}={part!r}".replace("\n", "\n    ") for name, part in parts.items())
        return f"{type(self).__name__}(\n{lines})"

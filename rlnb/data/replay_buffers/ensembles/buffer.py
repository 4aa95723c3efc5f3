"""ReplayBufferEnsemble: several replay buffers that are sampled as one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence, Sized
from typing import Any, NoReturn

import torch
from tensordict import TensorDict

from rlnb.data.replay_buffers import errors
from rlnb.data.replay_buffers.buffer import ReplayBuffer
from rlnb.data.replay_buffers.ensembles.parts import (
    BUFFER_IDS_KEY,
    Drawn,
    PartOf,
    SamplerEnsemble,
    StorageEnsemble,
    WriterEnsemble,
    as_index,
    checked_members,
    info_of,
    member_at,
    stack_batches,
)
from rlnb.data.replay_buffers.forms.tree_form import is_data
from rlnb.data.replay_buffers.prefetcher import Draw
from rlnb.data.replay_buffers.samplers.base import Info, Sampler
from rlnb.data.replay_buffers.stacking import set_per_item
from rlnb.data.replay_buffers.storages.base import Storage
from rlnb.data.replay_buffers.writers import INDEX_KEY, Writer
from rlnb.data.ted.keys import NestedKey

_MEMBERS_OR_PARTS = (
    "An ensemble is made either of buffers or of their parts. Fix: ReplayBufferEnsemble(rb0, rb1), or "
    "ReplayBufferEnsemble(storages=StorageEnsemble(...), samplers=SamplerEnsemble(...), "
    "writers=WriterEnsemble(...))."
)


class ReplayBufferEnsemble(ReplayBuffer):
    """Several replay buffers that are sampled as one, such as one for each dataset or task.

    A sample of ``b`` items has the batch size ``[n, b / n]``: ``n`` members are drawn, with replacement, and each gives
    the same number of items. Each part passes through the collate function and the transforms of its member; the parts
    are stacked; the transform of the ensemble comes last. A sample of TensorDicts with an index names the origin of
    each item in ``"index"``: ``("index", "buffer_ids")`` is the number of the member and ``("index", "index")`` the
    index in that member.

    ``ensemble[i]`` is member ``i``, ``ensemble[i, 3]`` its fourth item, and ``len(ensemble)`` the number of members.
    Write to the members; the ensemble itself only writes if ``routing_key`` or ``routing_dim`` names the member.

    Args:
        *rbs: the members. Or none, and instead:
        storages: their storages, with their transforms.
        samplers: their samplers, with ``p``, ``sample_from_all`` and ``num_buffer_sampled``.
        writers: their writers.
        transform: applied to the stacked sample.
        batch_size: number of items in a sample; a multiple of ``num_buffer_sampled``.
        collate_fn: makes a sample of the list of parts. Default: stacks them. Parts with different keys or shapes make
            a lazy stack: entries of all members are read from it, ``sample["key"]``, and the others from its parts,
            ``sample[0]["key"]``. Transforms of the members can make them alike.
        collate_fns: those of the members, if they are made of parts.
        p: weight with which each member is drawn. ``"sampleable"``: the number of items that the member holds, or 0 if
            it cannot be sampled. Default: all equal.
        sample_from_all: whether to draw every member once, in order, instead of randomly.
        num_buffer_sampled: number of members drawn for a sample. Default: the number of members.
        generator: source of random numbers, also for members without one. Default: torch's global generator.
        routing_key: the entry of new data with the number of the member to write it to, for :meth:`add` and
            :meth:`extend`.
        routing_dim: in its place, the dimension of new data whose size is the number of members.
        **options: as for :class:`~rlnb.data.ReplayBuffer`, such as ``prefetch``; ``shared`` checks all members.

    Raises:
        RuntimeError: If both ``p`` and ``sample_from_all`` are given.
        TypeError: If a member is not a replay buffer, or both buffers and parts are given.
        ValueError: If there are no members, or a number is invalid.

    Example:
        >>> from tensordict import TensorDict
        >>> from rlnb.data import LazyTensorStorage, TensorDictReplayBuffer
        >>> rb = ReplayBufferEnsemble(*[TensorDictReplayBuffer(storage=LazyTensorStorage(9)) for _ in range(3)])
        >>> for i in range(3):
        ...     _ = rb[i].extend(TensorDict({"task": torch.full((9,), i)}, [9]))
        >>> sample = rb.sample(12)
        >>> sample.batch_size, bool((sample["task"] == sample["index", "buffer_ids"]).all())
        (torch.Size([3, 4]), True)
    """

    def __init__(
        self,
        *rbs: ReplayBuffer,
        storages: StorageEnsemble | None = None,
        samplers: SamplerEnsemble | None = None,
        writers: WriterEnsemble | None = None,
        transform: Callable[[Any], Any] | None = None,
        batch_size: int | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        collate_fns: Sequence[Callable[[Any], Any] | None] | None = None,
        p: Sequence[float] | torch.Tensor | str | None = None,
        sample_from_all: bool = False,
        num_buffer_sampled: int | None = None,
        generator: torch.Generator | None = None,
        routing_key: NestedKey | None = None,
        routing_dim: int | None = None,
        **options: Any,
    ) -> None:
        if routing_key is not None and routing_dim is not None:
            raise ValueError("routing_key and routing_dim were both given. Fix: leave one of them out.")
        self.routing_key, self.routing_dim = routing_key, routing_dim
        how: dict[str, Any] = {"p": p, "sample_from_all": sample_from_all, "num_buffer_sampled": num_buffer_sampled}
        if rbs:
            if any(part is not None for part in (storages, samplers, writers)):
                raise TypeError(_MEMBERS_OR_PARTS)
            if collate_fns is not None:
                raise TypeError(
                    "collate_fns is for ensembles made of parts; buffers have their own. "
                    "Fix: ReplayBuffer(collate_fn=...) for each member."
                )
            self._members = checked_members(
                "ReplayBufferEnsemble", ReplayBuffer, "rb", rbs, but_not=ReplayBufferEnsemble
            )
            transforms = [member.transform.forward for member in self._members]
            storages = StorageEnsemble(*[member.storage for member in self._members], transforms=transforms)
            samplers = SamplerEnsemble(*[member.sampler for member in self._members], **how)
            writers = WriterEnsemble(*[member.writer for member in self._members])
        else:
            parts = ((storages, StorageEnsemble), (samplers, SamplerEnsemble), (writers, WriterEnsemble))
            if not all(isinstance(part, kind) for part, kind in parts):
                raise TypeError(_MEMBERS_OR_PARTS)
            assert storages is not None and samplers is not None and writers is not None
            self._members = _built(storages, samplers, writers, collate_fns, how)
        storages._members = PartOf[Storage](self._members, "storage")
        samplers._members = PartOf[Sampler](self._members, "sampler")
        writers._members = PartOf[Writer](self._members, "writer")
        super().__init__(
            storage=storages,
            sampler=samplers,
            writer=writers,
            collate_fn=collate_fn,
            transform=transform,
            batch_size=batch_size,
            generator=generator,
            **options,
        )

    def _shareable(self) -> bool:
        return all(member._shareable() for member in self._members)

    _storage: StorageEnsemble
    _sampler: SamplerEnsemble

    # Sampling ---------------------------------------------------------------------------------------------------------

    def _draw_and_gather(self, size: int) -> tuple[Any, Any, Info]:
        """Draw members, and items in each of them; each member is locked while its items are drawn and copied."""

        def draw(member: int, count: int) -> Drawn:
            buffer = self._members[member]
            with buffer._lock:
                if not len(buffer):
                    raise RuntimeError(errors.empty_member(member))
                data, index, info = buffer._draw_and_gather(count)
                return Drawn(member, index, info, data)

        with self._lock:
            return (), self._sampler.sample_each(size, draw, self._storage), {}

    def _gather_again(self, index: list[Any], info: Info) -> tuple[Any, list[Drawn], Info]:
        """Copy the items of parts that were drawn before."""
        parts = [
            Drawn(member, place, info_of_part, self._members[member].storage.gather(place))
            for member, place, info_of_part, *_ in index
        ]
        return (), parts, info

    def _prefetched_draws(self) -> list[Draw]:
        """The draws to save, as plain tuples without data."""
        return [([tuple(part[:3]) for part in parts], info, last) for parts, info, last in super()._prefetched_draws()]

    def _has_items(self, index: list[Any]) -> bool:
        return all(0 <= part[0] < len(self._members) and self._members[part[0]]._has_items(part[1]) for part in index)

    def _process(self, data: Any, index: Any, info: Info) -> tuple[Any, Info]:
        """Make a batch of the parts: process each in its member, stack them, and apply the ensemble's transform."""
        parts: list[Drawn] = index
        info = info_of(parts)
        batches = [self._members[part.member]._process(part.data, part.index, part.info)[0] for part in parts]
        if self._collate_fn is None:
            data = stack_batches(_without_odd(batches, parts), [part.member for part in parts])
        else:
            data = self._collate_fn(batches)
        if is_data(data) and isinstance(data.get(INDEX_KEY, None), torch.Tensor):
            set_per_item(data, INDEX_KEY, as_index(data.get(INDEX_KEY), info[BUFFER_IDS_KEY], data.batch_size))
        return self._apply_transform(data), info

    def update_priority(self, index: Any, priority: Any) -> None:
        """Change the priorities of items, each in its member; see :meth:`ReplayBuffer.update_priority`.

        Args:
            index: of the items: the entry ``"index"`` of a sample or of its info, which names the members.
            priority: one for each item, or one for all; finite and not negative.

        Raises:
            TypeError: If the index does not name members.
        """
        with self._all_locked():
            self._sampler.update_priority(index, priority, storage=self._storage)

    # Members ----------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, index: Any) -> Any:
        """Return the member with this number; for a tuple that starts with the number, items of the member.

        A slice or a list of numbers returns an ensemble of these members.
        """
        if isinstance(index, (slice, list)) or (isinstance(index, torch.Tensor) and index.ndim):
            return self._sub_ensemble(index)
        if isinstance(index, tuple) and len(index) > 1:
            return member_at(self._members, index[0])[index[1] if len(index) == 2 else index[1:]]
        return member_at(self._members, index)

    def _sub_ensemble(self, index: Any) -> ReplayBufferEnsemble:
        """Return an ensemble of some of the members."""
        numbers = list(range(len(self)))[index] if isinstance(index, slice) else torch.as_tensor(index).tolist()
        members = [member_at(self._members, number) for number in numbers]
        sampler, p = self._sampler, self._sampler.p
        every = sampler.num_buffer_sampled == len(self)
        return ReplayBufferEnsemble(
            *members,
            batch_size=self._batch_size,
            collate_fn=self._collate_fn,
            p=p[numbers] if isinstance(p, torch.Tensor) else p,
            sample_from_all=sampler.sample_from_all,
            num_buffer_sampled=None if every else sampler.num_buffer_sampled,
            generator=self._generator,
            transform=self._transform.forward if len(self._transform) else None,
        )

    @contextlib.contextmanager
    def _all_locked(self) -> Iterator[None]:
        """Hold the locks of all members, always in the same order, so that two ensembles cannot deadlock."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._lock)
            for lock in sorted({id(member): member._lock for member in self._members}.items()):
                stack.enter_context(lock[1])
            yield

    def add(self, data: Any) -> TensorDict:
        """Write one item, a TensorDict, to the member that its entry ``routing_key`` names; see :meth:`extend`."""
        if self.routing_key is None:
            raise RuntimeError(errors.ensemble_is_read_only("add"))
        found: TensorDict = self.extend(data.unsqueeze(0))[0]
        return found

    def extend(self, data: Any, *, update_priority: bool | None = None) -> TensorDict:
        """Write several items, each to the member that ``routing_key`` or ``routing_dim`` names.

        Args:
            data: the items, a TensorDict.
            update_priority: as for :meth:`ReplayBuffer.extend`.

        Returns:
            ``"buffer_ids"``, the numbers of the members, and ``"index"``, the index of each item in its member, of
            batch size ``[n]``.

        Raises:
            IndexError: If there is no such member; nothing is written then.
            RuntimeError: If the ensemble was made without both and is therefore read-only.
            ValueError: If the size along ``routing_dim`` is not the number of members.
        """
        if self.routing_dim is not None:
            parts = dict(enumerate(data.unbind(self.routing_dim)))
            if len(parts) != len(self):
                raise ValueError(
                    f"The data has size {len(parts)} along routing_dim={self.routing_dim}, and the ensemble has "
                    f"{len(self)} members. Nothing was written. Fix: give one part for each member."
                )
            written = [self._members[i].extend(part, update_priority=update_priority) for i, part in parts.items()]
            ids = [torch.full((len(index),), i) for i, index in enumerate(written)]
            return TensorDict({BUFFER_IDS_KEY: torch.cat(ids), INDEX_KEY: torch.cat(written)}, [len(torch.cat(ids))])
        if self.routing_key is None:
            raise RuntimeError(errors.ensemble_is_read_only("extend"))
        to = data[self.routing_key].reshape(-1).to(torch.int64)
        outside = to[(to < 0) | (to >= len(self))]
        if len(outside):
            raise IndexError(errors.no_such_member(int(outside[0]), len(self)))
        places: torch.Tensor | None = None
        for member in to.unique().tolist():
            mine = to == member
            index = self._members[member].extend(data[mine], update_priority=update_priority)
            places = torch.zeros((len(to), *index.shape[1:]), dtype=index.dtype) if places is None else places
            places[mine] = index
        return TensorDict({BUFFER_IDS_KEY: to, INDEX_KEY: to.clone() if places is None else places}, [len(to)])

    def __setitem__(self, index: Any, data: Any) -> NoReturn:
        raise RuntimeError(errors.ensemble_is_read_only("set"))

    def _set_entries(self, index: Any, entries: dict[NestedKey, Any]) -> NoReturn:
        raise RuntimeError(errors.ensemble_is_read_only("set"))

    def mark_update(self, index: Any) -> NoReturn:
        """Raise ``RuntimeError``: items are overwritten in the members."""
        raise RuntimeError(errors.ensemble_is_read_only("mark_update"))

    def set_storage(self, storage: Storage, collate_fn: Callable[[Any], Any] | None = None) -> None:
        """Raise ``RuntimeError`` after the constructor: storages belong to the members."""
        if hasattr(self, "_storage"):
            raise RuntimeError(_belongs_to_members("storage"))
        super().set_storage(storage, collate_fn)

    def set_writer(self, writer: Writer) -> NoReturn:
        """Raise ``RuntimeError``: writers belong to the members."""
        raise RuntimeError(_belongs_to_members("writer"))

    def set_sampler(self, sampler: Sampler) -> None:
        """Raise ``RuntimeError`` after the constructor: samplers belong to the members."""
        if sampler is not self._sampler:
            raise RuntimeError(_belongs_to_members("sampler"))
        super().set_sampler(sampler)

    # State ------------------------------------------------------------------------------------------------------------

    def empty(self, empty_write_count: bool = True) -> None:
        """Remove all items of all members; see :meth:`ReplayBuffer.empty`."""
        with self._all_locked():
            for member in self._members:
                member.writer.check_writable()
            self._prefetcher.clear()
            for member in self._members:
                member.empty(empty_write_count)

    def _generators(self) -> list[torch.Generator | None]:
        members = [generator for member in self._members for generator in member._generators()]
        return [*super()._generators(), *members]

    def _load_parts(self, *states: Any) -> None:
        super()._load_parts(*states)
        for member in self._members:
            member._prefetcher.clear()


def _belongs_to_members(name: str) -> str:
    return (
        f"The {name}s of an ensemble are those of its members. "
        f"Fix: ensemble[0].set_{name}(...), or make a new ReplayBufferEnsemble."
    )


def _without_odd(batches: list[Any], parts: Sequence[Drawn]) -> list[Any]:
    """Remove info entries that not all samplers return, such as priority weights."""
    given = {key for part in parts for key in part.info}
    if not given or not all(map(is_data, batches)):
        return batches
    odd = [key for key in given if any(batch.get(key, None) is None for batch in batches)]
    return [batch.exclude(*odd) for batch in batches] if odd else batches


def _built(
    storages: StorageEnsemble,
    samplers: SamplerEnsemble,
    writers: WriterEnsemble,
    collate_fns: Sequence[Callable[[Any], Any] | None] | None,
    how: dict[str, Any],
) -> tuple[ReplayBuffer, ...]:
    """Make the members of their parts."""
    if how["p"] is not None or how["sample_from_all"] or how["num_buffer_sampled"] is not None:
        raise TypeError(
            "p, sample_from_all and num_buffer_sampled are for ensembles made of buffers; a SamplerEnsemble has its "
            "own. Fix: SamplerEnsemble(..., p=...)."
        )
    collate_fns = [None] * len(storages) if collate_fns is None else collate_fns
    parts: dict[str, Sized] = {"storages": storages, "samplers": samplers, "writers": writers}
    parts |= {"collate_fns": collate_fns}
    counts = {name: len(part) for name, part in parts.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(errors.unequal_parts(counts))
    return tuple(
        ReplayBuffer(storage=storage, sampler=sampler, writer=writer, transform=transform, collate_fn=collate_fn)
        for storage, sampler, writer, transform, collate_fn in zip(
            storages.storages, samplers.samplers, writers.writers, storages.transforms, collate_fns, strict=True
        )
    )

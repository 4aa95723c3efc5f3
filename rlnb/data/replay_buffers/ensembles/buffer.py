"""ReplayBufferEnsemble: several replay buffers, sampled together."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence, Sized
from typing import Any, NoReturn

import torch
from tensordict import TensorDict

from rlnb.data.replay_buffers import faults
from rlnb.data.replay_buffers.ensembles.members import PartOf, checked, member_at, stack_batches
from rlnb.data.replay_buffers.ensembles.sampler import BUFFER_IDS_KEY, Drawn, SamplerEnsemble, as_index, info_of
from rlnb.data.replay_buffers.ensembles.storage import StorageEnsemble
from rlnb.data.replay_buffers.ensembles.writer import WriterEnsemble
from rlnb.data.replay_buffers.forms import is_data
from rlnb.data.replay_buffers.replay_buffers import ReplayBuffer
from rlnb.data.replay_buffers.replay_buffers.prefetch import Chosen
from rlnb.data.replay_buffers.replay_buffers.reading import Reading, put
from rlnb.data.replay_buffers.samplers import Info, Sampler
from rlnb.data.replay_buffers.storages import Storage
from rlnb.data.replay_buffers.writers import Writer
from rlnb.data.replay_buffers.writers.round_robin import INDEX_KEY
from rlnb.data.ted.keys import NestedKey


class ReplayBufferEnsemble(Reading):
    """Several replay buffers that are sampled as one, such as one for each dataset or task.

    A sample of ``b`` elements has the batch size ``[n, b / n]``: ``n`` members are drawn, with replacement, and each
    gives as many elements. Each part goes through the collate function and the transforms of its member, then the parts
    are stacked, and the transform of the ensemble comes last. A sample of TensorDicts that know their index says in
    ``"index"`` where each element is from: ``("index", "buffer_ids")`` is the number of the member and
    ``("index", "index")`` the index there.

    ``ensemble[i]`` is member ``i``, ``ensemble[i, 3]`` its fourth element, and ``len(ensemble)`` is how many members
    there are. An ensemble only reads; write to the members.

    Args:
        *rbs: the members, at any time full or not. Or none, and instead:
        storages: their storages, with their transforms.
        samplers: their samplers, with ``p``, ``sample_from_all`` and ``num_buffer_sampled`` if those shall be given.
        writers: their writers.
        transform: called on the stacked sample.
        batch_size: how many elements a sample has; a multiple of ``num_buffer_sampled``.
        collate_fn: makes a sample of the list of parts. Default: stacks them. Where the parts have different keys or
            shapes the sample is a lazy stack: what all members have is read from it, ``sample["key"]``, and the rest
            from its parts, ``sample[0]["key"]``. Transforms of the members can make them alike.
        collate_fns: those of the members, where these are made of parts.
        p: how likely each member is drawn, in proportion. ``"sampleable"``: in proportion to the elements that each
            holds, and none for members that cannot be sampled. Default: all the same.
        sample_from_all: whether every member is drawn once, in order, in place of by chance.
        num_buffer_sampled: how many members are drawn. Default: as many as there are.
        generator: the source of randomness, also of the members that have none of their own. Default: torch's own.
        pin_memory: as for :class:`~rlnb.data.ReplayBuffer`.
        prefetch: as for :class:`~rlnb.data.ReplayBuffer`.
        routing_key: the entry of new data that says which member it is for; with it, :meth:`add` and :meth:`extend`
            write to the members.
        routing_dim: in its place, the dimension of new data along which there is one place for each member.
        shared: whether other processes can read the members; see :meth:`ReplayBuffer.share`.
        **options: as for :class:`~rlnb.data.ReplayBuffer`.

    Raises:
        RuntimeError: if both ``p`` and ``sample_from_all`` are given.
        TypeError: if a member is no replay buffer, or both buffers and parts are given.
        ValueError: if there is no member, or a number makes no sense.

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
        pin_memory: bool = False,
        prefetch: int | None = None,
        routing_key: NestedKey | None = None,
        routing_dim: int | None = None,
        shared: bool = False,
        **options: Any,
    ) -> None:
        if routing_key is not None and routing_dim is not None:
            raise ValueError("routing_key and routing_dim were both given. Fix: leave one of them out.")
        self.routing_key, self.routing_dim = routing_key, routing_dim
        how = {"p": p, "sample_from_all": sample_from_all, "num_buffer_sampled": num_buffer_sampled}
        if rbs:
            if any(part is not None for part in (storages, samplers, writers)):
                raise TypeError(faults.members_or_parts())
            if collate_fns is not None:
                raise TypeError(faults.members_have_collate_fns())
            self._members = checked("ReplayBufferEnsemble", ReplayBuffer, "rb", rbs)
            storages, samplers, writers = _parts_of(self._members, how)
        else:
            parts = ((storages, StorageEnsemble), (samplers, SamplerEnsemble), (writers, WriterEnsemble))
            if not all(isinstance(part, kind) for part, kind in parts):
                raise TypeError(faults.members_or_parts())
            assert storages is not None and samplers is not None and writers is not None
            if p is not None or sample_from_all or num_buffer_sampled is not None:
                raise TypeError(faults.samplers_have_p())
            self._members = _built(storages, samplers, writers, collate_fns)
        storages._members = PartOf[Storage](self._members, "storage")
        samplers._members = PartOf[Sampler](self._members, "sampler")
        writers._members = PartOf[Writer](self._members, "writer")
        super().__init__(
            storage=storages,
            sampler=samplers,
            writer=writers,
            collate_fn=collate_fn,
            pin_memory=pin_memory,
            prefetch=prefetch,
            transform=transform,
            batch_size=batch_size,
            generator=generator,
            shared=shared,
            **options,
        )

    def _shareable(self) -> bool:
        return all(member._shareable() for member in self._members)

    _storage: StorageEnsemble
    _sampler: SamplerEnsemble

    # Sampling ---------------------------------------------------------------------------------------------------------

    def _drawn_now(self, size: int) -> tuple[Any, Any, Info]:
        """Choose elements of members and gather them, each while its member is locked."""

        def draw(member: int, count: int) -> Drawn:
            buffer = self._members[member]
            with buffer._lock:
                if not len(buffer):
                    raise RuntimeError(faults.empty_member(member))
                data, index, info = buffer._drawn_now(count)
                return Drawn(member, index, info, data)

        with self._lock:
            return (), self._sampler.sample_each(size, draw, self._storage), {}

    def _draw_again(self, index: list[Any], info: Info) -> tuple[Any, list[Drawn], Info]:
        """Gather what was chosen before, each part in its member."""
        parts = [
            Drawn(member, place, said, self._members[member].storage.gather(place)) for member, place, said, *_ in index
        ]
        return (), parts, info

    def _chosen_ahead(self) -> list[Chosen]:
        """What was drawn and not given yet, as plain tuples without its data."""
        return [([tuple(part[:3]) for part in parts], info, last) for parts, info, last in super()._chosen_ahead()]

    def _is_there(self, index: list[Any]) -> bool:
        """Whether the members have these elements."""
        return all(0 <= part[0] < len(self._members) and self._members[part[0]]._is_there(part[1]) for part in index)

    def _process(self, data: Any, index: Any, info: Info) -> tuple[Any, Info]:
        """Make a batch of the parts: each through its member, then stacked, then through the ensemble's transform."""
        parts: list[Drawn] = index
        info = info_of(parts)
        batches = [self._members[part.member]._process(part.data, part.index, part.info)[0] for part in parts]
        if self._collate_fn is None:
            data = stack_batches(_without_odd(batches, parts), [part.member for part in parts])
        else:
            data = self._collate_fn(batches)
        if is_data(data) and isinstance(data.get(INDEX_KEY, None), torch.Tensor):
            put(data, INDEX_KEY, as_index(data.get(INDEX_KEY), info[BUFFER_IDS_KEY], data.batch_size))
        return self._outgoing(data), info

    def update_priority(self, index: Any, priority: Any) -> None:
        """Change the priorities of elements, each in its member; members without priorities do nothing.

        Args:
            index: of the elements: the entry ``"index"`` of a sample or of its info, which names the members.
            priority: one for each, or one for all; finite and not negative.

        Raises:
            IndexError: if there is no such member or element.
            TypeError: if the index does not name members.
            ValueError: if one is no priority; nothing is changed then.
        """
        with self._all_locked():
            self._sampler.update_priority(index, priority, storage=self._storage)

    # Members ----------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, index: Any) -> Any:
        """Return a member by its number; of a tuple, whose first part is that number, elements of the member.

        A slice or a list of numbers returns an ensemble of these members.
        """
        if isinstance(index, (slice, list)) or (isinstance(index, torch.Tensor) and index.ndim):
            return self._part(index)
        if isinstance(index, tuple) and len(index) > 1:
            return member_at(self._members, index[0])[index[1] if len(index) == 2 else index[1:]]
        return member_at(self._members, index)

    def _part(self, index: Any) -> ReplayBufferEnsemble:
        """An ensemble of some of the members."""
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
        """Hold the locks of all members, always in the same order, so that two ensembles never wait for one another."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._lock)
            for lock in sorted({id(member): member._lock for member in self._members}.items()):
                stack.enter_context(lock[1])
            yield

    def add(self, data: Any) -> TensorDict:
        """Write one element to the member that its entry ``routing_key`` names.

        Args:
            data: the element, a TensorDict.

        Returns:
            ``"buffer_ids"``, the member, and ``"index"``, the index there.

        Raises:
            RuntimeError: If the ensemble was made without ``routing_key``: it only reads then.
        """
        if self.routing_key is None:
            raise RuntimeError(faults.ensemble_is_read_only("add"))
        found: TensorDict = self.extend(data.unsqueeze(0))[0]
        return found

    def extend(self, data: Any, *, update_priority: bool | None = None) -> TensorDict:
        """Write several elements, each to the member that ``routing_key`` or ``routing_dim`` names.

        Args:
            data: the elements, a TensorDict.
            update_priority: as for :meth:`ReplayBuffer.extend`.

        Returns:
            ``"buffer_ids"``, the members, and ``"index"``, the index of each element there, of batch size ``[n]``.

        Raises:
            IndexError: If there is no such member; nothing is written then.
            RuntimeError: If the ensemble was made without both: it only reads then.
            ValueError: If there is another number of places along ``routing_dim`` than of members.
        """
        if self.routing_dim is not None:
            parts = dict(enumerate(data.unbind(self.routing_dim)))
            if len(parts) != len(self):
                raise ValueError(
                    f"The data has {len(parts)} places along routing_dim={self.routing_dim}, and the ensemble "
                    f"{len(self)} members. Nothing was written. Fix: one place for each member."
                )
            written = [self._members[i].extend(part, update_priority=update_priority) for i, part in parts.items()]
            ids = [torch.full((len(index),), i) for i, index in enumerate(written)]
            return TensorDict({BUFFER_IDS_KEY: torch.cat(ids), INDEX_KEY: torch.cat(written)}, [len(torch.cat(ids))])
        if self.routing_key is None:
            raise RuntimeError(faults.ensemble_is_read_only("extend"))
        to = data[self.routing_key].reshape(-1).to(torch.int64)
        outside = to[(to < 0) | (to >= len(self))]
        if len(outside):
            raise IndexError(faults.no_member(int(outside[0]), len(self)))
        places: torch.Tensor | None = None
        for member in to.unique().tolist():
            mine = to == member
            index = self._members[member].extend(data[mine], update_priority=update_priority)
            places = torch.zeros((len(to), *index.shape[1:]), dtype=index.dtype) if places is None else places
            places[mine] = index
        return TensorDict({BUFFER_IDS_KEY: to, INDEX_KEY: to.clone() if places is None else places}, [len(to)])

    def __setitem__(self, index: Any, data: Any) -> NoReturn:
        raise RuntimeError(faults.ensemble_is_read_only("set"))

    def set_storage(self, storage: Storage, collate_fn: Callable[[Any], Any] | None = None) -> None:
        """Refuse once the ensemble is made: storages are those of the members."""
        if hasattr(self, "_storage"):
            raise RuntimeError(faults.not_the_members("storage"))
        super().set_storage(storage, collate_fn)

    def set_writer(self, writer: Writer) -> NoReturn:
        """Refuse: writers are those of the members."""
        raise RuntimeError(faults.not_the_members("writer"))

    def set_sampler(self, sampler: Sampler) -> None:
        """Refuse once the ensemble is made: samplers are those of the members."""
        if sampler is not self._sampler:
            raise RuntimeError(faults.not_the_members("sampler"))
        super().set_sampler(sampler)

    # Life -------------------------------------------------------------------------------------------------------------

    def empty(self) -> None:
        """Forget all elements of all members; the memory stays."""
        with self._all_locked():
            for member in self._members:
                member.writer.check_writable()
            self._forget_ahead()
            for member in self._members:
                member.empty()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the members; see :meth:`ReplayBuffer.state_dict`."""
        with self._all_locked():
            return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned; see :meth:`ReplayBuffer.load_state_dict`."""
        with self._all_locked():
            super().load_state_dict(state_dict)
            self._forget_all_ahead()

    def dumps(self, path: str | os.PathLike[str]) -> None:
        """Save the members in a folder; see :meth:`ReplayBuffer.dumps`."""
        with self._all_locked():
            super().dumps(path)

    def loads(self, path: str | os.PathLike[str]) -> None:
        """Load what :meth:`dumps` saved; see :meth:`ReplayBuffer.loads`."""
        with self._all_locked():
            super().loads(path)
            self._forget_all_ahead()

    def _generators(self) -> list[torch.Generator | None]:
        members = [generator for member in self._members for generator in member._generators()]
        return [*super()._generators(), *members]

    def _forget_all_ahead(self) -> None:
        for member in self._members:
            member._forget_ahead()


def _without_odd(batches: list[Any], parts: Sequence[Drawn]) -> list[Any]:
    """Leave out what only some of the samplers say, such as the weights of priorities."""
    said = {key for part in parts for key in part.info}
    if not said or not all(map(is_data, batches)):
        return batches
    odd = [key for key in said if any(batch.get(key, None) is None for batch in batches)]
    return [batch.exclude(*odd) for batch in batches] if odd else batches


def _parts_of(
    members: Sequence[ReplayBuffer], how: dict[str, Any]
) -> tuple[StorageEnsemble, SamplerEnsemble, WriterEnsemble]:
    storages = StorageEnsemble(
        *[member.storage for member in members], transforms=[member.transform.forward for member in members]
    )
    samplers = SamplerEnsemble(*[member.sampler for member in members], **how)
    return storages, samplers, WriterEnsemble(*[member.writer for member in members])


def _built(
    storages: StorageEnsemble,
    samplers: SamplerEnsemble,
    writers: WriterEnsemble,
    collate_fns: Sequence[Callable[[Any], Any] | None] | None,
) -> tuple[ReplayBuffer, ...]:
    """Make buffers of their parts."""
    collate_fns = [None] * len(storages) if collate_fns is None else collate_fns
    parts: dict[str, Sized] = {"storages": storages, "samplers": samplers, "writers": writers}
    parts |= {"collate_fns": collate_fns}
    counts = {name: len(part) for name, part in parts.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(faults.unequal_parts(counts))
    return tuple(
        ReplayBuffer(storage=storage, sampler=sampler, writer=writer, transform=transform, collate_fn=collate_fn)
        for storage, sampler, writer, transform, collate_fn in zip(
            storages.storages, samplers.samplers, writers.writers, storages.transforms, collate_fns, strict=True
        )
    )

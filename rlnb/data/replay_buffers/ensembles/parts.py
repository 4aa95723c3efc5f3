"""Parts of an ensemble: the storages, samplers and writers of several buffers, each seen as one."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

import torch
from tensordict import TensorDict, TensorDictBase, lazy_stack

from rlnb._tensordict import fast_tensordict
from rlnb.data.replay_buffers import errors
from rlnb.data.replay_buffers.checkpointers.base import StorageEnsembleCheckpointer
from rlnb.data.replay_buffers.forms.tree_form import form_of
from rlnb.data.replay_buffers.indexing import Where
from rlnb.data.replay_buffers.samplers.base import Info, Sampler
from rlnb.data.replay_buffers.stacking import stack_leaves
from rlnb.data.replay_buffers.storages.base import Storage
from rlnb.data.replay_buffers.writers import INDEX_KEY, Writer

P = TypeVar("P")
Transforms = Sequence[Callable[[Any], Any] | None]
BUFFER_IDS_KEY = "buffer_ids"
_P_AND_ALL = (
    "p sets how likely each member is drawn, and sample_from_all=True draws each of them every time. "
    "Fix: leave one of them out."
)


def checked_members(
    name: str, base: Any, kind: str, members: Sequence[P], but_not: type | tuple[()] = ()
) -> tuple[P, ...]:
    """Return the members of an ensemble, checked to be instances of ``base``; ``kind`` names one in an example."""
    if not members:
        raise ValueError(f"A {name} needs at least one member. Fix: {name}({kind}0, {kind}1).")
    for position, member in enumerate(members):
        if not isinstance(member, base) or isinstance(member, but_not):
            what = f"the class {member.__name__}" if isinstance(member, type) else f"a {type(member).__name__}"
            raise TypeError(f"Every member of a {name} must be a {base.__name__}, and member {position} is {what}.")
    return tuple(members)


class PartOf(Sequence[P], Generic[P]):
    """One component of each buffer of an ensemble, such as its storage; always the current one."""

    def __init__(self, buffers: Sequence[Any], name: str) -> None:
        self._buffers, self._name = buffers, name

    def __getitem__(self, index: Any) -> Any:
        return getattr(self._buffers[index], self._name)

    def __iter__(self) -> Iterator[P]:
        return (getattr(buffer, self._name) for buffer in self._buffers)

    def __len__(self) -> int:
        return len(self._buffers)

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[P, ...]:
        """Copy the components, and not the buffers."""
        return tuple(copy.deepcopy(part, memo) for part in self)


def member_at(members: Sequence[P], index: Any) -> P:
    """Return a member by its number; negative numbers count from the end."""
    try:
        position = operator.index(index)
    except TypeError:
        raise TypeError(errors.no_such_member(index, len(members))) from None
    if not -len(members) <= position < len(members):
        raise IndexError(errors.no_such_member(position, len(members)))
    return members[position]


def states_of(state_dict: dict[str, Any], count: int) -> list[Any]:
    """Return the states of ``count`` members, by number; raises ``ValueError`` if there are more or fewer of them."""
    if set(state_dict) != set(map(str, range(count))):
        raise ValueError(
            f"The state has {len(state_dict)} members, and this ensemble has {count}. Nothing was changed."
        )
    return [state_dict[str(member)] for member in range(count)]


class StorageEnsemble(Storage):
    """The storages of several buffers. It is read-only; each storage is written to by its own buffer.

    Args:
        *storages: one for each member, all of the same ``ndim``.
        transforms: a transform or None for each member, if a :class:`~rlnb.data.ReplayBufferEnsemble` is made of parts.

    Raises:
        TypeError: If a member is not a storage.
        ValueError: If there are no members, their ``ndim`` differ, or the number of transforms differs.

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

    def gather(self, index: Any) -> list[Any]:
        """Copy the items that a :class:`SamplerEnsemble` drew: a batch for each row of the index, of one member."""
        ids, places = index["buffer_ids"][:, 0].tolist(), index["index"].unbind(0)
        return [self._members[member].gather(place) for member, place in zip(ids, places, strict=True)]

    def where(self, index: Any) -> NoReturn:
        """Raise ``TypeError``: an index refers to one storage."""
        raise TypeError(errors.no_such_member(index, len(self)))

    def read(self, place: Where) -> NoReturn:
        """Raise ``TypeError``: a place is in one storage."""
        raise TypeError(errors.no_such_member(place, len(self)))

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


class Drawn(NamedTuple):
    """A part of a batch: the number of the member, the index of its items, the sampler's info, and the items."""

    member: int
    index: Any
    info: Info
    data: Any = None


class SamplerEnsemble(Sampler):
    """The samplers of several buffers.

    For each sample, ``num_buffer_sampled`` members are drawn, with replacement, and each of them contributes an equal
    part of the batch, drawn by its own sampler.

    Args:
        *samplers: one for each member.
        p: as for :class:`ReplayBufferEnsemble`, like ``sample_from_all`` and ``num_buffer_sampled``, which is ignored
            with ``sample_from_all``.

    Raises:
        RuntimeError: If both ``p`` and ``sample_from_all`` are given.
        TypeError: If a member is not a sampler.
        ValueError: If there are no members, or ``p`` or ``num_buffer_sampled`` is invalid.

    Example:
        >>> from rlnb.data import LazyTensorStorage, RandomSampler, StorageEnsemble
        >>> storage = StorageEnsemble(LazyTensorStorage(5), LazyTensorStorage(5))
        >>> for member in storage.storages:
        ...     _ = member.append(member.prepare(torch.arange(5), True))
        >>> index, info = SamplerEnsemble(RandomSampler(), RandomSampler(), p=[0.0, 1.0]).sample(storage, 6)
        >>> index["index"].shape, info["buffer_ids"]
        (torch.Size([2, 3]), tensor([1, 1]))
    """

    def __init__(
        self,
        *samplers: Sampler,
        p: Sequence[float] | torch.Tensor | str | None = None,
        sample_from_all: bool = False,
        num_buffer_sampled: int | None = None,
    ) -> None:
        self._members: Sequence[Sampler] = checked_members("SamplerEnsemble", Sampler, "sampler", samplers)
        self._source: torch.Generator | None = None
        super().__init__()
        if p is not None and sample_from_all:
            raise RuntimeError(_P_AND_ALL)
        drawn = len(samplers) if num_buffer_sampled is None or sample_from_all else num_buffer_sampled
        if not isinstance(drawn, int) or isinstance(drawn, bool) or drawn < 1:
            raise ValueError(errors.bad_size("num_buffer_sampled", drawn))
        self.sample_from_all, self.num_buffer_sampled = bool(sample_from_all), drawn
        self.p = p

    @property
    def p(self) -> torch.Tensor | str | None:
        """Probability of each member, float64, shape ``[n]``; ``"sampleable"``; None: all equal. It can be set."""
        return self._p

    @p.setter
    def p(self, value: Sequence[float] | torch.Tensor | str | None) -> None:
        if value is None:
            self._p: torch.Tensor | str | None = None
            return
        if self.sample_from_all:
            raise RuntimeError(_P_AND_ALL)
        if isinstance(value, str):
            if value != "sampleable":
                raise ValueError(f"p must be weights, 'sampleable' or None, and got {value!r}. Fix: p='sampleable'.")
            self._p = value
            return
        p = torch.as_tensor(value, dtype=torch.float64, device="cpu").detach().reshape(-1).clone()
        total = float(p.sum())
        if len(p) != len(self) or not bool((p >= 0).all()) or not 0 < total < math.inf:
            raise ValueError(
                f"p must hold one weight for each of the {len(self)} members, none negative or infinite and not all 0, "
                f"and got {p.tolist()}."
            )
        self._p = p / total

    @property
    def samplers(self) -> tuple[Sampler, ...]:
        """The samplers."""
        return tuple(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, index: int) -> Sampler:
        return member_at(self._members, index)

    @property
    def _generator(self) -> torch.Generator | None:
        return self._source

    @_generator.setter
    def _generator(self, generator: torch.Generator | None) -> None:
        """Draw from a generator, also in members without one."""
        before, self._source = self._source, generator
        for sampler in self._members:
            if sampler._generator is before:
                sampler._generator = generator

    def sample_each(self, batch_size: int, draw: Callable[[int, int], Drawn], storage: Storage) -> list[Drawn]:
        """Draw members, and ``draw(member, count)`` from each; returns the parts in the order of drawing."""
        count, rest = divmod(batch_size, self.num_buffer_sampled)
        if rest:
            less = batch_size - rest
            near = f"{less} or {less + self.num_buffer_sampled}" if less else f"{self.num_buffer_sampled}"
            raise ValueError(
                f"A batch of {batch_size} cannot be drawn in equal parts from {self.num_buffer_sampled} members. "
                f"Fix: a multiple of {self.num_buffer_sampled}, such as {near}, or another num_buffer_sampled."
            )
        drawn, ran_out = [], False
        for member in self._choose(storage, count):
            drawn.append(draw(member, count))
            ran_out = self._members[member].ran_out or ran_out
        self._ran_out = ran_out
        return drawn

    def can_sample(self, storage: Storage, batch_size: int) -> bool:
        """Check whether every member that may be drawn can be sampled; see :meth:`Sampler.can_sample`."""
        count, rest = divmod(batch_size, self.num_buffer_sampled)
        if rest:
            return False
        can = [sampler.can_sample(storage[i], count) for i, sampler in enumerate(self._members)]
        if isinstance(self._p, str):
            return any(can)
        return all(fine or (self._p is not None and not self._p[i]) for i, fine in enumerate(can))

    def _choose(self, storage: Storage, each: int) -> list[int]:
        count, shape = len(self), (self.num_buffer_sampled,)
        if self.sample_from_all:
            return list(range(count))
        if self._p is None:
            return torch.randint(count, shape, generator=self._generator).tolist()
        p = self._sampleable(storage, each) if isinstance(self._p, str) else self._p
        return torch.multinomial(p, *shape, replacement=True, generator=self._generator).tolist()

    def _sampleable(self, storage: Storage, each: int) -> torch.Tensor:
        """Count the items of each member that can be drawn."""
        found = [
            sampler.available(storage[i]) if sampler.can_sample(storage[i], each) else 0
            for i, sampler in enumerate(self._members)
        ]
        if not any(found):
            raise RuntimeError("No member of the ensemble can be sampled. Fix: ensemble[0].extend(data) first.")
        return torch.tensor(found, dtype=torch.float64)

    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, Info]:
        """Draw items of the members of a :class:`StorageEnsemble`.

        Returns:
            A TensorDict of batch size ``[n, b]`` with ``"buffer_ids"``, the number of the member, and ``"index"``, the
            index in that member; and the info with ``"buffer_ids"``, shape ``[n]``, and the stacked entries that all
            samplers give.
        """

        def draw(member: int, count: int) -> Drawn:
            part = storage[member]
            if not len(part):
                raise RuntimeError(errors.empty_member(member))
            return Drawn(member, *self._members[member].sample(part, count))

        drawn = self.sample_each(batch_size, draw, storage)
        info = info_of(drawn)
        return info.pop(INDEX_KEY), info

    @property
    def has_priorities(self) -> bool:  # type: ignore[override]  # a constant in other samplers
        """Whether a member has priorities."""
        return any(sampler.has_priorities for sampler in self._members)

    def update_priority(self, index: Any, priority: Any, *, storage: Storage | None = None) -> None:
        """Change priorities, each in the member of the item; see :meth:`ReplayBufferEnsemble.update_priority`."""
        parts = [part for part in _routed(index, priority, len(self)) if self._members[part[0]].has_priorities]
        within = [None if storage is None else storage[member] for member, _, _ in parts]
        for (member, places, values), part in zip(parts, within, strict=True):
            self._members[member].check_priority(values, len(values))
            if part is not None:
                positions = part.positions(places)
                outside = positions[(positions < 0) | (positions >= len(part))]
                if len(outside):
                    raise IndexError(errors.no_item(int(outside[0]), len(part)))
        for (member, places, values), part in zip(parts, within, strict=True):
            self._members[member].update_priority(places, values, storage=part)

    def _empty(self) -> None:
        super()._empty()
        for sampler in self._members:
            sampler._empty()

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the samplers, by their numbers; see :meth:`Sampler.state_dict`."""
        return {str(member): sampler.state_dict() for member, sampler in enumerate(self._members)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned; see :meth:`Sampler.load_state_dict`."""
        for sampler, state in zip(self._members, states_of(state_dict, len(self)), strict=True):
            sampler.load_state_dict(state)

    def __repr__(self) -> str:
        parts = list(map(repr, self._members))
        if self._p is not None:
            parts.append(f"p={self._p if isinstance(self._p, str) else [round(x, 4) for x in self._p.tolist()]!r}")
        parts += ["sample_from_all=True"] if self.sample_from_all else []
        if self.num_buffer_sampled != len(self):
            parts.append(f"num_buffer_sampled={self.num_buffer_sampled}")
        return f"SamplerEnsemble({', '.join(parts)})"


def info_of(drawn: Sequence[Drawn]) -> Info:
    """Combine index and info of the parts of a batch, as :meth:`SamplerEnsemble.sample` returns them, in one dict."""
    ids = torch.tensor([part.member for part in drawn])
    places = [torch.stack(part.index, -1) if isinstance(part.index, tuple) else part.index for part in drawn]
    counts = [len(place) for place in places]
    if len(set(counts)) > 1:
        raise ValueError(errors.unequal_member_batches(counts))
    batch = torch.Size((len(drawn), counts[0]))
    named = {INDEX_KEY: torch.stack(places), BUFFER_IDS_KEY: ids[:, None].expand(batch).clone()}
    info: Info = {INDEX_KEY: fast_tensordict(named, batch), BUFFER_IDS_KEY: ids}
    for key in drawn[0].info:
        values = [part.info[key] for part in drawn if isinstance(part.info.get(key), torch.Tensor)]
        if len(values) == len(drawn) and len({(value.shape, value.dtype) for value in values}) == 1:
            info.setdefault(key, torch.stack(values))
    return info


def _routed(index: Any, priority: Any, count: int) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Yield each member that is named, with the index and the priorities of its items."""
    if not isinstance(index, (TensorDictBase, dict)) or not {INDEX_KEY, BUFFER_IDS_KEY} <= set(index.keys()):
        raise TypeError(
            "Items of an ensemble are named by a TensorDict with the entries 'index' and 'buffer_ids', and got: "
            f"{type(index).__name__}. Fix: batch, info = ensemble.sample(return_info=True), then info['index']; "
            "for one member, ensemble[0].update_priority(index, priority)."
        )
    places, named = index[INDEX_KEY], index[BUFFER_IDS_KEY]
    ids = named.reshape(-1)
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < count:
        raise IndexError(errors.no_such_member(int(ids[(ids < 0) | (ids >= count)][0]), count))
    places = places.reshape(len(ids), *places.shape[named.ndim :])
    given = torch.as_tensor(priority).detach()
    values = given.reshape(-1)
    if len(values) not in (1, len(ids)):
        raise ValueError(errors.priorities_for(len(ids), given.shape))
    values = values.expand(len(ids))
    for member in ids.unique().tolist():
        mine = ids == member
        yield member, places[mine], values[mine]


def as_index(index: torch.Tensor, buffer_ids: torch.Tensor, batch: torch.Size) -> TensorDict:
    """Make the entry ``"index"`` of a sample of ``n`` members, of batch size ``batch``, which starts with ``n``."""
    ids = buffer_ids.reshape(-1, *[1] * (len(batch) - 1)).expand(batch).clone()
    return fast_tensordict({INDEX_KEY: index, BUFFER_IDS_KEY: ids}, batch)


def stack_batches(batches: Sequence[Any], members: Sequence[int]) -> Any:
    """Stack the batches of several members, whose numbers are ``members``, along a new first dimension.

    Different dtypes are promoted. TensorDicts that differ in keys or shapes make a lazy stack: common entries can be
    read from the stack, and others from its parts. Batches without tensors make a list.

    Example:
        >>> stack_batches([torch.tensor([1, 2]), torch.tensor([3, 4])], [0, 1]).tolist()
        [[1, 2], [3, 4]]
        >>> stack_batches([["a", "b"], ["c", "d"]], [0, 1])
        [['a', 'b'], ['c', 'd']]
    """
    try:
        forms = [form_of(batch, 0) for batch in batches]
    except TypeError:
        return list(batches)
    try:
        leaves = stack_leaves(batches, forms[0])
    except ValueError:
        if not _stackable(batches, forms):
            raise ValueError(_difference(forms, members)) from None
        looks = [{leaf.key: leaf.shape for leaf in form.leaves} for form in forms]
        if all(look == looks[0] for look in looks):  # only dtypes differ
            return torch.stack(list(batches))
        return lazy_stack(list(batches))
    return forms[0].build(leaves, torch.Size((len(batches),)))


def _stackable(batches: Sequence[Any], forms: Sequence[Any]) -> bool:
    """Whether batches that differ can be stacked nevertheless."""
    if not all(type(batch) in (torch.Tensor, TensorDict) for batch in batches):
        return False
    tensors = all(leaf.dtype is not None for form in forms for leaf in form.leaves)
    shapes = {batch.shape for batch in batches}
    return len(set(map(type, batches))) == len(shapes) == 1 and (tensors or type(batches[0]) is TensorDict)


def _difference(forms: Sequence[Any], members: Sequence[int]) -> str:
    """Describe which two batches differ, and how."""
    found = [{leaf.key: (leaf.shape, leaf.dtype) for leaf in form.leaves} for form in forms]
    other = next((i for i, leaves in enumerate(found) if leaves != found[0]), 1)
    one, two = found[0], found[other]
    counts = [{shape[0] for shape, _ in leaves.values() if len(shape)} for leaves in found]
    same_rest = {key: (shape[1:], dtype) for key, (shape, dtype) in one.items()} == {
        key: (shape[1:], dtype) for key, (shape, dtype) in two.items()
    }
    if same_rest and one != two and all(len(count) == 1 for count in counts):
        return errors.unequal_member_batches([count.pop() for count in counts])
    first, second, lines = members[0], members[other], []
    for here, there, has, lacks in ((one, two, first, second), (two, one, second, first)):
        only = [key for key in here if key not in there]
        lines += [f"\n  only member {has} has {errors.listed(only)}, and member {lacks} does not"] if only else []
    for key in [key for key in one if key in two and one[key] != two[key]][: errors.MAX_LISTED]:
        label = "" if key == () else f"{key!r}: "
        lines.append(
            f"\n  {label}{errors.looks(*one[key])} in member {first}, {errors.looks(*two[key])} in member {second}"
        )
    return (
        f"The samples of members {first} and {second} cannot be stacked:{''.join(lines) or ' they nest differently.'}\n"
        "Fix: make them alike with transforms of the members, such as RenameTransform, ExcludeTransform, Resize or "
        "DTypeCastTransform; or give the ensemble a collate_fn, which gets the list of samples."
    )

"""SamplerEnsemble: draws members of an ensemble, and lets their samplers draw items."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb._tensordict import fast_tensordict
from rlnb.data.replay_buffers import errors
from rlnb.data.replay_buffers.ensembles.members import checked_members, member_at, states_of
from rlnb.data.replay_buffers.samplers.base import Info, Sampler
from rlnb.data.replay_buffers.storages.base import Storage
from rlnb.data.replay_buffers.writers.round_robin import INDEX_KEY

BUFFER_IDS_KEY = "buffer_ids"
SAMPLEABLE = "sampleable"
_P_AND_ALL = (
    "p sets how likely each member is drawn, and sample_from_all=True draws each of them every time. "
    "Fix: leave one of them out."
)


class Drawn(NamedTuple):
    """A part of a batch: the number of the member, the index of its items, the sampler's info, and the items."""

    member: int
    index: Any
    info: Info
    data: Any = None


class SamplerEnsemble(Sampler):
    """The samplers of several buffers.

    For each sample, ``num_buffer_sampled`` members are drawn, with replacement, and each of them gives an equal part of
    the batch, drawn by its own sampler.

    Args:
        *samplers: one for each member.
        p: weight with which each member is drawn. ``"sampleable"``: the number of items that the member holds, or 0 if
            it cannot be sampled. Default: all equal.
        sample_from_all: whether to draw every member once, in order, instead of randomly.
        num_buffer_sampled: number of members drawn for a sample. Default: the number of members. Ignored with
            ``sample_from_all``.

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
            if value != SAMPLEABLE:
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

    # Drawing ----------------------------------------------------------------------------------------------------------

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

        Raises:
            RuntimeError: If a member that was drawn is empty.
            ValueError: If the batch size is not a multiple of the number of members drawn.
        """

        def draw(member: int, count: int) -> Drawn:
            part = storage[member]
            if not len(part):
                raise RuntimeError(errors.empty_member(member))
            return Drawn(member, *self._members[member].sample(part, count))

        drawn = self.sample_each(batch_size, draw, storage)
        info = info_of(drawn)
        return info.pop(INDEX_KEY), info

    # Priorities -------------------------------------------------------------------------------------------------------

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

    # State ------------------------------------------------------------------------------------------------------------

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
    """Combine the index and the info of the parts of a batch.

    Returns:
        ``"index"``, a TensorDict of batch size ``[n, b]`` with ``"index"`` and ``"buffer_ids"``; ``"buffer_ids"``, the
        numbers of the members, shape ``[n]``; and the stacked entries that all samplers give.
    """
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
    """Make the entry ``"index"`` of a sample of ``n`` members, of batch size ``batch``, which starts with ``n``.

    Example:
        >>> as_index(torch.tensor([[5, 6]]), torch.tensor([3]), torch.Size([1, 2]))["buffer_ids"]
        tensor([[3, 3]])
    """
    ids = buffer_ids.reshape(-1, *[1] * (len(batch) - 1)).expand(batch).clone()
    return fast_tensordict({INDEX_KEY: index, BUFFER_IDS_KEY: ids}, batch)

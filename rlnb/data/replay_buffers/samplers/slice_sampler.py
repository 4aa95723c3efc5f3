"""Slice samplers that draw fixed-length trajectory segments: uniformly, without replacement, or by priorities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from rlnb.data.replay_buffers import errors
from rlnb.data.replay_buffers.columns import Column
from rlnb.data.replay_buffers.errors import MAX_LISTED, MismatchError
from rlnb.data.replay_buffers.ring import Ring
from rlnb.data.replay_buffers.samplers.base import Info, Sampler
from rlnb.data.replay_buffers.samplers.prioritized import WEIGHT_KEY, PrioritizedSampler
from rlnb.data.replay_buffers.samplers.signals import END_KEY, Signals, find_signals, given_signals
from rlnb.data.replay_buffers.samplers.trajectory_index import StoredTrajectories, TrajectoryIndex
from rlnb.data.replay_buffers.samplers.uniform import checked_order
from rlnb.data.replay_buffers.storages.base import Storage
from rlnb.data.replay_buffers.sum_tree import StartTree
from rlnb.data.ted.keys import DONE, NestedKey, as_key, as_tuple

Span = bool | int | Sequence[bool | int]
# The env, the first step and the length of each slice (or one length for all), and the info.
Drawn = tuple[np.ndarray, np.ndarray, int | np.ndarray, Info]
Draw = Callable[[TrajectoryIndex, Storage, int, int], Drawn]  # the last two: how many slices, and steps of each
MASK_KEY: NestedKey = ("collector", "mask")


class SliceSampler(Sampler):
    """Draws slices: consecutive steps of one trajectory.

    For each slice, a trajectory is drawn uniformly from those that are long enough, and a start uniformly from its
    steps where the slice fits. A batch is a concatenation of slices; ``sample.reshape(num_slices, -1)`` separates them.

    The steps of a trajectory must be stored consecutively along time. For several envs use a storage with ``ndim=2``
    and data of shape ``[envs, time]``. In a full buffer a slice may wrap around the end of the memory, but it never
    crosses the cursor: the trajectory that is being written ends, for the time being, with its newest step.

    The sampler keeps an index of the trajectories and reads only what was written since the last sample. It does not
    see changes made directly in the tensors of the storage.

    Args:
        num_slices: number of slices in a batch; the batch size must be a multiple of it.
        slice_len: in its place, number of steps of a slice; the batch size must be a multiple of it.
        end_key: the entry that is True at the last step of a trajectory. Default: ``("next", "done")``.
        end_keys: several such entries, in its place; a trajectory ends where one of them is True.
        traj_key: the entry with the trajectory id of each step. If ``end_key`` is given too, a trajectory ends where
            either says so. Default: ``"episode"``, if that is stored and ``end_key`` is not given.
        ends: flags for the last steps of trajectories, shape ``[size]``, in place of both keys; for a full storage
            that is not written to. If the last flag is False, a trajectory continues from the last item to the first.
        trajectories: likewise the trajectory id of each step. If the last and the first item have the same id, the
            trajectory continues from one to the other.
        cache_values: promises that the storage never changes; required with ``ends`` and ``trajectories``.
        truncated_key: where the info marks the last step of each slice, and ``"done"`` beside it; a
            :class:`TensorDictReplayBuffer` writes these entries into the sample. None: not marked.
        init_key: where the info marks the first step of each slice, for recurrent networks, if the entry is stored.
            None: not marked.
        strict_length: whether to leave out trajectories shorter than a slice. Otherwise they are taken whole, and a
            batch can have fewer steps.
        pad_output: whether to pad shorter slices with copies of their last step. The info then has a mask,
            ``("collector", "mask")``, which is False for the copies.
        compile, use_gpu: ignored; accepted for code written for TorchRL.
        span: whether a slice may start before its trajectory or end after it; only the steps inside are returned. True
            requires at least one step inside, a number at least ``slice_len - span``. A pair is for start and end.
        step_key: ignored; accepted for code written for TorchRL, where ``fragmented=True`` reads it.
        fragmented: only False: the steps of a trajectory must be stored consecutively.
        replacement: False makes a :class:`SliceSamplerWithoutReplacement`, with ``drop_last`` and ``shuffle``.

    Raises:
        NotImplementedError: If ``fragmented`` is True.
        TypeError: If not exactly one of ``num_slices`` and ``slice_len`` is given.
        ValueError: If another argument is invalid.

    Example:
        >>> from tensordict import TensorDict
        >>> from rlnb.data import LazyTensorStorage, TensorDictReplayBuffer
        >>> sampler = SliceSampler(slice_len=3, end_key="done")
        >>> rb = TensorDictReplayBuffer(storage=LazyTensorStorage(10), sampler=sampler, batch_size=6)
        >>> done = torch.tensor([0, 0, 0, 1, 0, 0], dtype=torch.bool)
        >>> index = rb.extend(TensorDict({"step": torch.tensor([0, 1, 2, 3, 0, 1]), "done": done[:, None]}, [6]))
        >>> sample = rb.sample().reshape(2, 3)
        >>> bool((sample["step"].diff() == 1).all())
        True
        >>> sample["next", "truncated"].squeeze(-1)
        tensor([[False, False,  True],
                [False, False,  True]])
    """

    def __new__(cls, *args: Any, replacement: bool = True, **kwargs: Any) -> SliceSampler:
        """Make a sampler without replacement if ``replacement`` is False."""
        if cls is SliceSampler and not replacement:
            return super().__new__(SliceSamplerWithoutReplacement)
        return super().__new__(cls)

    def __init__(
        self,
        *,
        num_slices: int | None = None,
        slice_len: int | None = None,
        end_key: NestedKey | None = None,
        end_keys: Sequence[NestedKey] | None = None,
        traj_key: NestedKey | None = None,
        ends: torch.Tensor | None = None,
        trajectories: torch.Tensor | None = None,
        cache_values: bool = False,
        truncated_key: NestedKey | None = ("next", "truncated"),
        init_key: NestedKey | None = "is_init",
        strict_length: bool = True,
        pad_output: bool = False,
        compile: bool | dict[str, Any] = False,
        span: Span = False,
        use_gpu: torch.device | bool = False,
        step_key: NestedKey | None = "step_count",
        fragmented: bool = False,
        replacement: bool = True,
    ) -> None:
        super().__init__()
        if fragmented:
            raise NotImplementedError(
                "fragmented=True joins steps of one trajectory that are scattered over the storage, and this sampler "
                "needs them one after another. Fix: LazyTensorStorage(size, ndim=2) for the data of several envs, of "
                "shape [envs, time]."
            )
        if (num_slices is None) == (slice_len is None):
            got = "neither" if num_slices is None else f"both ({num_slices=}, {slice_len=})"
            raise TypeError(
                f"A slice sampler needs either num_slices or slice_len, and got {got}. Fix: num_slices=8 for eight "
                "slices a batch, of batch_size // 8 steps each; or slice_len=8 for batch_size // 8 slices of eight "
                "steps."
            )
        for name, value in (("num_slices", num_slices), ("slice_len", slice_len)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise ValueError(errors.bad_size(name, value))
        if pad_output and strict_length:
            raise ValueError(
                "pad_output=True pads short slices, and strict_length=True leaves short trajectories out, so there is "
                "nothing to pad. Fix: strict_length=False."
            )
        sources = {"ends": ends, "trajectories": trajectories, "end_key": end_key, "end_keys": end_keys}
        _check_sources({**sources, "traj_key": traj_key}, cache_values)
        self.num_slices, self.slice_len = num_slices, slice_len
        self.end_key, self.traj_key = end_key, traj_key
        self.end_keys = None if end_keys is None else tuple(end_keys)
        self.init_key, self.pad_output = init_key, pad_output
        self.step_key, self.fragmented = step_key, False
        self.ends, self.trajectories = ends, trajectories
        self.cache_values, self.truncated_key, self.strict_length = cache_values, truncated_key, strict_length
        self.span = span
        self._span = _span_of(span)
        self._forget()

    def _forget(self) -> None:
        self._index: TrajectoryIndex | None = None
        self._ring: Ring | None = None  # of the storage that is indexed
        self._written = 0
        self._marks: SliceMarks | None = None
        self._found: tuple[Any, StoredTrajectories] | None = None

    # Sampling ---------------------------------------------------------------------------------------------------------

    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, Info]:
        """Choose slices; the info marks their first and last steps. See :meth:`Sampler.sample`.

        Raises:
            KeyError: If the storage has no entry that says where trajectories end.
            RuntimeError: If no trajectory is long enough.
            ValueError: If the batch size is not a multiple of ``num_slices`` or ``slice_len``.
        """
        return self._sample(storage, batch_size, self._draw)

    def _sample(self, storage: Storage, batch_size: int, draw: Draw) -> tuple[Any, Info]:
        """Choose slices as :meth:`sample` does, where ``draw`` says."""
        count, length = self._split(batch_size)
        with storage.ring.reading:
            index = self._follow(storage)
            env, first, lengths, info = draw(index, storage, count, length)
            positions = index.positions(env, first, lengths)
            begin = np.arange(len(env)) * lengths if isinstance(lengths, int) else lengths.cumsum() - lengths
            if self.pad_output and not isinstance(lengths, int):
                step = np.arange(length)
                positions = positions[(begin[:, None] + np.minimum(step, lengths[:, None] - 1)).reshape(-1)]
                info[MASK_KEY] = torch.from_numpy((step < lengths[:, None]).reshape(-1))
                begin = np.arange(len(env)) * length
            if self._marks is not None:
                info.update(self._marks.read(positions, begin + lengths - 1, begin))
        return storage.index(torch.from_numpy(positions)), info

    def can_sample(self, storage: Storage, batch_size: int) -> bool:
        """Check whether a trajectory is long enough; see :meth:`Sampler.can_sample`."""
        if not len(storage):
            return False
        try:
            _, length = self._split(batch_size)
            with storage.ring.reading:
                index = self._follow(storage)
                return bool(len(index.trajectories(length if self.strict_length else 1).length))
        except (KeyError, TypeError, ValueError):
            return False

    def _split(self, batch_size: int) -> tuple[int, int]:
        """Return the number of slices, and the number of steps of each."""
        by = self.num_slices or self.slice_len or 1
        if batch_size % by:
            name = "num_slices" if self.num_slices else "slice_len"
            lower, upper = batch_size // by * by, -(-batch_size // by) * by
            sizes = f"{lower} or {upper}" if lower else f"{upper}"
            raise MismatchError(
                f"The batch size must be a multiple of {name}={by}, and got {batch_size}. Fix: batch_size {sizes}."
            )
        return (by, batch_size // by) if self.num_slices else (batch_size // by, by)

    def _follow(self, storage: Storage) -> TrajectoryIndex:
        """Return the trajectory index, up to date."""
        if self._index is None or self._ring is not storage.ring:
            if self.ends is not None or self.trajectories is not None:
                signals: Signals = given_signals(self.ends, self.trajectories, storage)
            else:
                end_keys = self.end_keys or (() if self.end_key is None else (self.end_key,))
                signals = find_signals(storage, self.traj_key, end_keys)
            self._index, self._ring, self._written = TrajectoryIndex(signals), storage.ring, storage.ring.written
            self._marks = SliceMarks(storage, self.truncated_key, self.init_key)
            self._found = None
        elif self._ring is not self._index.signals.ring and self._ring.written != self._written:
            raise RuntimeError(
                "ends and trajectories are for a storage that does not change, and "
                f"{storage.ring.written - self._written} rows were written since. "
                "Fix: end_key or traj_key in place of ends or trajectories."
            )
        self._index.refresh()
        return self._index

    def _draw(self, index: TrajectoryIndex, storage: Storage, count: int, length: int) -> Drawn:
        """Choose ``count`` slices of ``length`` steps."""
        found = self._long_enough(index, length)
        chance = torch.rand(2, count, dtype=torch.float64, generator=self._generator).numpy()
        chosen = (chance[0] * len(found.length)).astype(np.int64)
        return (*self._cut(found, chosen, chance[1], length), {})

    def _long_enough(self, index: TrajectoryIndex, length: int) -> StoredTrajectories:
        """Return the trajectories that slices can be drawn from."""
        asked = (index.version, length)
        if self._found is None or self._found[0] != asked:
            found = index.trajectories(length if self.strict_length else 1)
            if not len(found.length):
                raise RuntimeError(self._too_short(index, length))
            self._found = (asked, found)
        return self._found[1]

    def _too_short(self, index: TrajectoryIndex, length: int) -> str:
        """Explain why no slice can be drawn: the trajectories are too short, or their steps are interleaved."""
        every = index.trajectories()
        lengths, envs = every.length.tolist(), every.env.tolist()
        ids = index.signals.ids_at(index.positions(every.env, every.start, 1))
        text = (
            f"No trajectory is long enough for a slice of {length} steps. Stored are {len(lengths)}, of these lengths: "
            f"{_histogram(lengths)}."
        )
        runs = None if ids is None else Counter(zip(envs, ids, strict=True))
        if ids is not None and runs is not None and len(runs) < len(ids):
            order = ", ".join([*map(str, ids[:MAX_LISTED]), *(["and so on"] if len(ids) > MAX_LISTED else [])])
            return (
                f"{text} They are interleaved: {len(ids)} pieces have only {len(runs)} ids, in the order {order}. "
                "Steps of one trajectory must be stored one after another. Fix: a storage with ndim=2 for the data of "
                "several envs, of shape [envs, time], in place of data.reshape(-1)."
            )
        return (
            f"{text} They are too short. Fix: slices of at most {max(lengths, default=0)} steps, longer trajectories, "
            "or strict_length=False, which takes short ones whole."
        )

    def _cut(
        self, found: StoredTrajectories, chosen: np.ndarray, chance: np.ndarray, length: int
    ) -> tuple[np.ndarray, np.ndarray, int | np.ndarray]:
        """Choose the start and the length of a slice in each of the chosen trajectories."""
        env, start, own = found.env[chosen], found.start[chosen], found.length[chosen]
        if self.strict_length and self._span == (0, 0):
            return env, start + (chance * (own - length + 1)).astype(np.int64), length
        whole = np.minimum(own, length)
        before, after = (np.maximum(whole - self._fewest(length, side), 0) for side in (0, 1))
        begin = np.floor(chance * (own - whole + before + after + 1)).astype(np.int64) - before
        inside = np.maximum(begin, 0)
        return env, start + inside, np.minimum(begin + whole, own) - inside

    def _fewest(self, length: int, side: int) -> int:
        """Return how many steps of a slice must be inside its trajectory, at its start (0) or end (1)."""
        span = self._span[side]
        return 1 if span is None else max(length - span, 1)

    # Updates ----------------------------------------------------------------------------------------------------------

    def mark_update(self, index: Any, storage: Storage) -> None:
        """Check whether trajectories now end elsewhere; see :meth:`Sampler.mark_update`."""
        super().mark_update(index, storage)
        if self._index is not None and self._ring is storage.ring:
            with storage.ring.reading:
                self._index.overwritten(storage.positions(index).numpy())

    def _empty(self) -> None:
        super()._empty()
        self._forget()

    def __getstate__(self) -> dict[str, Any]:
        # A copy builds its own index of its own storage.
        return {**super().__getstate__(), "_index": None, "_ring": None, "_marks": None, "_found": None}

    def __repr__(self) -> str:
        size = f"num_slices={self.num_slices}" if self.num_slices else f"slice_len={self.slice_len}"
        keys = {"end_key": self.end_key, "traj_key": self.traj_key, "truncated_key": self.truncated_key}
        shown = "".join(f", {name}={value!r}" for name, value in keys.items() if value is not None)
        return f"{type(self).__name__}({size}{shown}, strict_length={self.strict_length})"


class SliceSamplerWithoutReplacement(SliceSampler):
    """Draws one slice from every trajectory in each epoch.

    The start of each slice is random. An epoch covers the trajectories that are stored when it begins; a write during
    an epoch begins a new one.

    Args:
        num_slices: number of slices in a batch, each of another trajectory.
        slice_len: in its place, number of steps of a slice.
        drop_last: whether to leave out the last batch of an epoch if it has fewer slices than the others.
        end_key: as for :class:`SliceSampler`, like all arguments that are not listed here.
        shuffle: whether the order of trajectories is random, and a new one in each epoch.
        replacement: ignored; accepted so that ``SliceSampler(replacement=False)`` makes this class.

    Example:
        >>> from tensordict import TensorDict
        >>> from rlnb.data import LazyTensorStorage, TensorDictReplayBuffer
        >>> sampler = SliceSamplerWithoutReplacement(slice_len=2, shuffle=False)
        >>> rb = TensorDictReplayBuffer(storage=LazyTensorStorage(10), sampler=sampler, batch_size=4)
        >>> index = rb.extend(TensorDict({"episode": torch.tensor([0, 0, 0, 1, 2, 2, 3, 3])}, [8]))
        >>> [sample["episode"].tolist() for sample in rb]
        [[0, 0, 2, 2], [3, 3]]
    """

    exclusive = True

    def __init__(
        self,
        *,
        num_slices: int | None = None,
        slice_len: int | None = None,
        drop_last: bool = False,
        end_key: NestedKey | None = None,
        end_keys: Sequence[NestedKey] | None = None,
        traj_key: NestedKey | None = None,
        ends: torch.Tensor | None = None,
        trajectories: torch.Tensor | None = None,
        truncated_key: NestedKey | None = ("next", "truncated"),
        init_key: NestedKey | None = "is_init",
        strict_length: bool = True,
        shuffle: bool = True,
        compile: bool | dict[str, Any] = False,
        use_gpu: torch.device | bool = False,
        replacement: bool = False,
    ) -> None:
        self.drop_last, self.shuffle = drop_last, shuffle
        super().__init__(
            num_slices=num_slices,
            slice_len=slice_len,
            end_key=end_key,
            end_keys=end_keys,
            traj_key=traj_key,
            ends=ends,
            trajectories=trajectories,
            cache_values=True,
            truncated_key=truncated_key,
            init_key=init_key,
            strict_length=strict_length,
        )

    def _forget(self) -> None:
        super()._forget()
        self._begin(np.empty(0, dtype=np.int64), 0, None)

    def _begin(self, order: np.ndarray, count: int, about: Any) -> None:
        """Begin an epoch with the order of ``count`` trajectories, and what their numbers refer to."""
        self._order, self._count, self._about = order, count, about

    def _draw(self, index: TrajectoryIndex, storage: Storage, count: int, length: int) -> Drawn:
        """Choose slices of the next trajectories of the epoch; see :class:`SliceSampler`."""
        found = self._long_enough(index, length)
        total, about = len(found.length), (index, index.version, length)
        if self.drop_last and total < count:
            raise RuntimeError(
                f"A batch of {count} slices takes as many trajectories without replacement, and {total} are long "
                f"enough. Fix: at most {total} slices, drop_last=False, or SliceSampler, which draws with replacement."
            )
        if self._about is None and self._count == total:  # continue an epoch that was loaded
            self._about = about
        if self._about != about or len(self._order) < (count if self.drop_last else 1):
            order = torch.randperm(total, generator=self._generator) if self.shuffle else torch.arange(total)
            self._begin(order.numpy(), total, about)
        chosen, self._order = self._order[:count], self._order[count:]
        self._ran_out = len(self._order) < (count if self.drop_last else 1)
        chance = torch.rand(len(chosen), dtype=torch.float64, generator=self._generator).numpy()
        return (*self._cut(found, chosen, chance, length), {})

    def state_dict(self) -> dict[str, Any]:
        """Return the rest of the epoch; see :meth:`Sampler.state_dict`."""
        return {"order": torch.from_numpy(self._order.copy()), "count": self._count, "ran_out": self._ran_out}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned; see :meth:`Sampler.load_state_dict`."""
        count = state_dict["count"]
        order = checked_order(state_dict["order"], count, "SliceSamplerWithoutReplacement", "trajectories")
        self._begin(order.numpy(), count, None)
        self._ran_out = bool(state_dict["ran_out"])

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_about": None}

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, drop_last={self.drop_last}, shuffle={self.shuffle})"


class _Allowed(NamedTuple):
    """The state of the trajectory index for which the tree knows where slices can start."""

    trajectories: TrajectoryIndex
    epoch: int
    least: int
    version: int
    known: int


def _of_slices(name: str) -> property:
    """An attribute of the slice sampler that a sampler holds, to be read and set as its own."""
    return property(
        lambda sampler: getattr(sampler._slices, name),
        lambda sampler, value: setattr(sampler._slices, name, value),
        doc=f"As in :class:`SliceSampler`: ``{name}``.",
    )


class PrioritizedSliceSampler(PrioritizedSampler):
    """Draws slices whose first steps are chosen in proportion to their priorities, with replacement.

    A step can be first if the slice fits between it and the end of its trajectory. Among these steps, probabilities and
    weights are those of a :class:`PrioritizedSampler`; each step of a slice has the weight of its first step. A step of
    high priority that is too close to the end of its trajectory is never first, but can still be part of a slice that
    starts earlier: pass the priorities of whole slices to :meth:`update_priority`, so that the steps before it learn of
    it as well.

    Args:
        max_capacity: as for :class:`PrioritizedSampler`, like ``alpha``, ``beta``, ``eps``, ``dtype``, ``reduction``,
            ``max_priority_within_buffer`` and ``replacement``.
        num_slices: as for :class:`SliceSampler`, like all arguments that are not listed here.
        strict_length: whether a slice can start only where it fits whole. Otherwise it can start at every step, and
            ends with its trajectory.
        compile: ignored; accepted for code written for TorchRL.
        span: whether a slice may end after its trajectory: True requires at least one step inside, a number at least
            ``slice_len - span``. Only the second of a pair counts, because a slice starts at the step that was drawn.

    Example:
        >>> from tensordict import TensorDict
        >>> from rlnb.data import LazyTensorStorage, TensorDictReplayBuffer
        >>> sampler = PrioritizedSliceSampler(10, alpha=1.0, beta=1.0, slice_len=2)
        >>> rb = TensorDictReplayBuffer(storage=LazyTensorStorage(10), sampler=sampler, batch_size=4)
        >>> steps = TensorDict({"episode": torch.tensor([0, 0, 0, 1, 1]), "td_error": torch.zeros(5)}, [5])
        >>> index = rb.extend(steps)
        >>> rb.update_priority(torch.tensor([2, 3]), torch.tensor([5.0, 1.0]))  # 2 is the last step of its episode
        >>> rb.sample()["index"]
        tensor([3, 4, 3, 4])
    """

    _tree_type = StartTree
    _priority_tree: StartTree  # for the type checker: what _tree_type makes

    num_slices, slice_len, strict_length = map(_of_slices, ("num_slices", "slice_len", "strict_length"))
    end_key, end_keys, traj_key = map(_of_slices, ("end_key", "end_keys", "traj_key"))
    ends, trajectories, cache_values = map(_of_slices, ("ends", "trajectories", "cache_values"))
    truncated_key, init_key, pad_output = map(_of_slices, ("truncated_key", "init_key", "pad_output"))
    span, step_key, fragmented = map(_of_slices, ("span", "step_key", "fragmented"))

    def __init__(
        self,
        max_capacity: int,
        alpha: float,
        beta: float,
        eps: float = 1e-8,
        dtype: torch.dtype = torch.float32,
        reduction: str = "max",
        *,
        num_slices: int | None = None,
        slice_len: int | None = None,
        end_key: NestedKey | None = None,
        end_keys: Sequence[NestedKey] | None = None,
        traj_key: NestedKey | None = None,
        ends: torch.Tensor | None = None,
        trajectories: torch.Tensor | None = None,
        cache_values: bool = False,
        truncated_key: NestedKey | None = ("next", "truncated"),
        init_key: NestedKey | None = "is_init",
        strict_length: bool = True,
        compile: bool | dict[str, Any] = False,
        span: Span = False,
        max_priority_within_buffer: bool = False,
        replacement: bool = True,
    ) -> None:
        priorities = (max_capacity, alpha, beta, eps, dtype, reduction, max_priority_within_buffer)
        super().__init__(*priorities, replacement=replacement)
        self._slices = SliceSampler(
            num_slices=num_slices,
            slice_len=slice_len,
            end_key=end_key,
            end_keys=end_keys,
            traj_key=traj_key,
            ends=ends,
            trajectories=trajectories,
            cache_values=cache_values,
            truncated_key=truncated_key,
            init_key=init_key,
            strict_length=strict_length,
            span=span,
        )

    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, Info]:
        """Choose slices by the priorities of their first steps; see :meth:`SliceSampler.sample`."""
        return self._slices._sample(storage, batch_size, self._draw)

    def can_sample(self, storage: Storage, batch_size: int) -> bool:
        """Check whether a trajectory is long enough; see :meth:`Sampler.can_sample`."""
        return self._slices.can_sample(storage, batch_size)

    def mark_update(self, index: Any, storage: Storage) -> None:
        """Give overwritten items the default priority, and check where trajectories end now."""
        super().mark_update(index, storage)
        self._slices.mark_update(index, storage)

    def _empty(self) -> None:
        super()._empty()
        self._slices._empty()

    def _draw(self, index: TrajectoryIndex, storage: Storage, count: int, length: int) -> Drawn:
        """Choose slices by the priorities of their first steps."""
        least = self._slices._fewest(length, 1) if self.strict_length else 1
        self._allow(index, storage, least)
        if not self._priority_tree.total() and not self._priority_tree.allows_any:
            raise RuntimeError(self._slices._too_short(index, length))
        drawn, weights = self.draw(len(storage), count)
        env, first = index.steps_at(drawn.numpy())
        if least == length:
            return env, first, length, {WEIGHT_KEY: weights.repeat_interleave(length)}
        lengths = index.left(env, first, length)
        return env, first, lengths, {WEIGHT_KEY: weights.repeat_interleave(torch.from_numpy(lengths))}

    def _allow(self, index: TrajectoryIndex, storage: Storage, least: int) -> None:
        """Let slices start at the steps from which a trajectory continues for ``least`` steps."""
        self._catch_up(len(storage))
        now = _Allowed(index, index.epoch, least, index.version, index.known)
        old: _Allowed | None = self._priority_tree.allowed_for
        if old == now:
            return
        anew = old is None or old[:3] != now[:3]
        first = index.oldest if old is None or anew else max(old.known - least + 1, index.oldest)
        steps, width = np.arange(first, index.written), storage.shape[1:].numel()
        positions = index.positions(np.tile(np.arange(width), len(steps)), np.repeat(steps, width), 1)
        self._priority_tree.allow(positions, index.goes_on(first, index.written, least).reshape(-1), only=anew)
        self._priority_tree.allowed_for = now

    def __repr__(self) -> str:
        slices = repr(self._slices).split("(", 1)[1]
        return f"PrioritizedSliceSampler(alpha={self.alpha}, beta={self.beta}, eps={self.eps}, {slices}"


SliceSampler.register(PrioritizedSliceSampler)  # programs test for it, and read what it has


class SliceMarks:
    """Reads ``"truncated"``, ``"done"`` and ``"is_init"`` of slices, with their last and first steps marked.

    ``key`` is that of ``"truncated"``; ``"done"`` is beside it, and both count as False if they are not stored.
    ``init_key`` is that of ``"is_init"``, which tells recurrent networks where to reset, and is read only if stored.

    Example:
        >>> from rlnb.data import LazyTensorStorage, ReplayBuffer
        >>> rb = ReplayBuffer(storage=LazyTensorStorage(10))
        >>> index = rb.extend({"done": torch.zeros(6, 1, dtype=torch.bool)})
        >>> marks = SliceMarks(rb.storage, "truncated").read(np.array([1, 2, 4, 5]), np.array([1, 3]), np.array([0, 2]))
        >>> marks["done"].ravel(), marks["truncated"].shape
        (tensor([False,  True, False,  True]), torch.Size([4, 1]))
    """

    def __init__(self, storage: Storage, key: NestedKey | None, init_key: NestedKey | None = None) -> None:
        parts = () if key is None else as_tuple(key)
        keys = [as_key(parts), as_key((*parts[:-1], DONE))] if parts else []
        stored = getattr(storage, "columns", {})
        self._init_key = None if init_key is None else as_key(as_tuple(init_key))
        init = stored.get(self._init_key)
        self._init = init if isinstance(init, Column) else None
        columns = [stored.get(name) for name in keys]
        self._columns = {
            name: column if isinstance(column, Column) else None for name, column in zip(keys, columns, strict=True)
        }
        example = next((c for c in (*columns, stored.get(END_KEY)) if isinstance(c, Column)), None)
        self._shape = (1,) if example is None else example.tensor.shape[storage.ndim :]
        self._device = getattr(storage, "device", None)

    def read(self, positions: np.ndarray, last: np.ndarray, first: np.ndarray) -> dict[Any, Any]:
        """Read the entries at positions of shape ``[n]``; ``last`` and ``first`` are the indices of those to mark."""
        where = torch.from_numpy(positions)
        found: dict[Any, Any] = {}
        for key, column in self._columns.items():
            if column is None:
                values = torch.zeros((len(positions), *self._shape), dtype=torch.bool, device=self._device)
            else:
                values = column.take(where)
            found[key] = _mark(values, last)
        if self._init is not None:
            found[self._init_key] = _mark(self._init.take(where), first)
        return found


def _mark(values: torch.Tensor, places: np.ndarray) -> torch.Tensor:
    if values.dtype is torch.bool and values.device.type == "cpu":
        values.numpy()[places] = 1  # several times as fast as torch
    else:
        values[torch.from_numpy(places).to(values.device)] = 1
    return values


def _check_sources(sources: dict[str, Any], cache_values: bool) -> None:
    """Check the arguments that say where trajectories end."""
    names = [name for name, value in sources.items() if value is not None]
    if "end_key" in names and "end_keys" in names:
        raise MismatchError("end_key and end_keys were both given. Fix: end_keys=[...] with all of them.")
    if "ends" in names or "trajectories" in names:
        if len(names) > 1:
            raise MismatchError(
                f"{' and '.join(names)} were given. ends or trajectories take the place of what is stored. "
                "Fix: give only one."
            )
        if not cache_values:
            raise ValueError(
                f"{names[0]} defines once and for all where trajectories end. "
                "Fix: cache_values=True, if nothing will be written."
            )


def _span_of(span: Span) -> tuple[int | None, int | None]:
    """Return how many steps of a slice may be outside its trajectory, before and after it; None: all but one."""
    pair = tuple(span) if isinstance(span, (tuple, list)) else (span, span)
    if len(pair) != 2 or any(not isinstance(side, int) or side < 0 for side in pair):
        raise ValueError(
            f"span must be a bool, an integer of at least 0 or a pair of these, and got {span!r}. "
            "Fix: such as span=True, or span=(False, 3) for up to three steps after the end of a trajectory."
        )
    before, after = (None if side is True else int(side) for side in pair)
    return before, after


def _histogram(lengths: Sequence[int]) -> str:
    """List how often each length occurs; of many, the shortest and the longest."""
    counts = sorted(Counter(lengths).items())
    shown = [f"{length} ({count}x)" if count > 1 else f"{length}" for length, count in counts]
    if len(shown) > MAX_LISTED:
        shown = [*shown[: MAX_LISTED // 2], "...", *shown[-MAX_LISTED // 2 :]]
    return ", ".join(shown)

"""SliceSampler: slices of trajectories, drawn with replacement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rlnb.data.replay_buffers import faults
from rlnb.data.replay_buffers.errors import MismatchError
from rlnb.data.replay_buffers.ring import Ring
from rlnb.data.replay_buffers.samplers.base import Info, Sampler
from rlnb.data.replay_buffers.samplers.signals import Signals, find_signals, given_signals
from rlnb.data.replay_buffers.samplers.slice_marks import SliceMarks
from rlnb.data.replay_buffers.samplers.trajectory_index import Trajectories, TrajectoryIndex
from rlnb.data.replay_buffers.storages import Storage
from rlnb.data.ted.keys import NestedKey

Span = bool | int | Sequence[bool | int]
MASK_KEY: NestedKey = ("collector", "mask")


class SliceSampler(Sampler):
    """A sampler of slices: steps of one trajectory, one after another.

    Each slice is drawn so: a trajectory, all with the same probability that are long enough, and where in it the slice
    begins, all steps with the same probability from which it fits. A batch is its slices, one after another; reshape
    it with ``sample.reshape(num_slices, -1)``.

    Steps of a trajectory must be stored one after another along time. For several envs use a storage with ``ndim=2``
    and data of shape ``[envs, time]``. A slice may go over the end of the memory of a full buffer, and never over the
    cursor: the trajectory that is being written ends, for the time being, with its newest step.

    The sampler knows where trajectories begin and end without looking through the storage: it reads only what was
    written since the last sample. What is written past the buffer, into the tensors of its storage, it does not see.

    Args:
        num_slices: how many slices a batch has. The batch size must be a multiple.
        slice_len: in its place, how many steps a slice has. The batch size must be a multiple.
        end_key: the entry that says which steps are the last of a trajectory. Default: ``("next", "done")``.
        end_keys: several such entries in its place; a trajectory ends where one of them is set.
        traj_key: the entry with the id of the trajectory of each step. With ``end_key`` as well, a trajectory ends
            where either says so. Default: ``"episode"``, if that is stored and ``end_key`` is not given.
        ends: flags that say which steps are the last of a trajectory, shape ``[size]``, in place of both keys; for a
            full storage that is not written to. If the last one is False, a trajectory goes on from the last element
            to the first.
        trajectories: likewise the id of the trajectory of each step. One with the id of the last element and of the
            first goes on from one to the other.
        cache_values: whether a storage never changes; needed with ``ends`` and ``trajectories``. All is kept anyway.
        truncated_key: the last step of a slice is marked there, and as "done" beside it, in what the sampler says
            about a sample; a :class:`TensorDictReplayBuffer` writes that into the sample. None: not marked.
        init_key: the first step of a slice is marked there likewise, if the entry is stored, for recurrent networks.
            None: not marked.
        strict_length: whether shorter trajectories are left out. Otherwise they are taken whole, and a batch can have
            fewer steps.
        pad_output: whether slices that are shorter than the others are filled up with copies of their last step. What
            the sampler says has a mask then, ``("collector", "mask")``, which is False for the copies.
        compile: taken, so that code for TorchRL runs. There is nothing to compile.
        span: whether a slice may begin before its trajectory or end after it, which leaves only the steps inside, and
            fewer of them in a batch: True for at least one, a number for at least ``slice_len - span``. A pair is for
            the begin and the end.
        use_gpu: taken, so that code for TorchRL runs. There is no search that an accelerator could do.
        step_key: taken, so that code for TorchRL runs. Only ``fragmented=True`` would read it.
        fragmented: only False: the steps of a trajectory are stored one after another.
        replacement: False makes a :class:`SliceSamplerWithoutReplacement`, with ``drop_last`` and ``shuffle``.

    Raises:
        NotImplementedError: If ``fragmented`` is True.
        TypeError: if both or none of ``num_slices`` and ``slice_len`` are given.
        ValueError: if another argument makes no sense.

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
        """Make the sampler without replacement where that is asked for."""
        if cls is SliceSampler and not replacement:
            from rlnb.data.replay_buffers.samplers import SliceSamplerWithoutReplacement  # it is made of this class

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
        self.step_key, self.fragmented = step_key, False
        self._set_up(
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
            pad_output=pad_output,
            span=span,
        )

    def _set_up(
        self,
        *,
        num_slices: int | None,
        slice_len: int | None,
        end_key: NestedKey | None,
        end_keys: Sequence[NestedKey] | None,
        traj_key: NestedKey | None,
        ends: torch.Tensor | None,
        trajectories: torch.Tensor | None,
        cache_values: bool,
        truncated_key: NestedKey | None,
        init_key: NestedKey | None,
        strict_length: bool,
        span: Span,
        pad_output: bool = False,
    ) -> None:
        if (num_slices is None) == (slice_len is None):
            raise TypeError(faults.slices_or_length(num_slices, slice_len))
        for name, value in (("num_slices", num_slices), ("slice_len", slice_len)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise ValueError(faults.bad_size(name, value))
        if pad_output and strict_length:
            raise ValueError(
                "pad_output=True fills up short slices, and strict_length=True leaves short trajectories out, so there "
                "is nothing to fill up. Fix: strict_length=False."
            )
        if end_key is not None and end_keys is not None:
            raise MismatchError("end_key and end_keys were both given. Fix: end_keys=[...] with all of them.")
        given = {"ends": ends, "trajectories": trajectories, "end_key": end_key, "end_keys": end_keys}
        names = [name for name, value in {**given, "traj_key": traj_key}.items() if value is not None]
        if ends is not None or trajectories is not None:
            if len(names) > 1:
                raise MismatchError(faults.several_sources(names))
            if not cache_values:
                raise ValueError(faults.given_without_cache(names[0]))
        self.num_slices, self.slice_len = num_slices, slice_len
        self.end_key, self.traj_key = end_key, traj_key
        self.end_keys = None if end_keys is None else tuple(end_keys)
        self.init_key, self.pad_output = init_key, pad_output
        self.ends, self.trajectories = ends, trajectories
        self.cache_values, self.truncated_key, self.strict_length = cache_values, truncated_key, strict_length
        self.span = span
        self._span = _span_of(span)
        self._forget()

    def _forget(self) -> None:
        self._index: TrajectoryIndex | None = None
        self._ring: Ring | None = None  # of the storage that the index is about
        self._written = 0
        self._marks: SliceMarks | None = None
        self._found: tuple[Any, Trajectories] | None = None

    # Sampling ---------------------------------------------------------------------------------------------------------

    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, Info]:
        """Choose slices; the info has the end signals of their steps. See :meth:`Sampler.sample`.

        Raises:
            KeyError: if the storage has no entry that says where trajectories end.
            RuntimeError: if no trajectory is long enough.
            ValueError: if the batch size is no multiple of what was asked for.
        """
        count, length = self._split(batch_size)
        with storage.ring.reading:
            index = self._follow(storage)
            env, first, lengths, info = self._draw(index, storage, count, length)
            positions = index.positions(env, first, lengths)
            begin = np.arange(len(env)) * lengths if isinstance(lengths, int) else lengths.cumsum() - lengths
            if self.pad_output and not isinstance(lengths, int):
                step = np.arange(length)
                positions = positions[(begin[:, None] + np.minimum(step, lengths[:, None] - 1)).reshape(-1)]
                info[MASK_KEY] = torch.from_numpy((step < lengths[:, None]).reshape(-1))
                begin = np.arange(len(env)) * length
            if self._marks is not None:
                info.update(self._marks.of(positions, begin + lengths - 1, begin))
        return storage.index(torch.from_numpy(positions)), info

    def can_sample(self, storage: Storage, batch_size: int) -> bool:
        """Say whether slices can be drawn: whether a trajectory is long enough. See :meth:`Sampler.can_sample`."""
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
        """How many slices, of how many steps each."""
        by = self.num_slices or self.slice_len or 1
        if batch_size % by:
            raise MismatchError(
                faults.batch_of_slices(batch_size, "num_slices" if self.num_slices else "slice_len", by)
            )
        return (by, batch_size // by) if self.num_slices else (batch_size // by, by)

    def _follow(self, storage: Storage) -> TrajectoryIndex:
        """Bring the index up to date."""
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
            raise RuntimeError(faults.given_are_old(storage.ring.written - self._written))
        self._index.refresh()
        return self._index

    def _draw(
        self, index: TrajectoryIndex, storage: Storage, count: int, length: int
    ) -> tuple[np.ndarray, np.ndarray, int | np.ndarray, Info]:
        """Choose slices: the env, the first step and the length of each (or of all), and what to say about them."""
        found = self._long_enough(index, length)
        chance = torch.rand(2, count, dtype=torch.float64, generator=self._generator).numpy()
        chosen = (chance[0] * len(found.length)).astype(np.int64)
        return (*self._cut(found, chosen, chance[1], length), {})

    def _long_enough(self, index: TrajectoryIndex, length: int) -> Trajectories:
        """The trajectories that slices can be drawn from."""
        asked = (index.version, length)
        if self._found is None or self._found[0] != asked:
            found = index.trajectories(length if self.strict_length else 1)
            if not len(found.length):
                raise RuntimeError(self._too_short(index, length))
            self._found = (asked, found)
        return self._found[1]

    def _too_short(self, index: TrajectoryIndex, length: int) -> str:
        """Say why no slice can be drawn."""
        every = index.trajectories()
        ids = index.signals.ids_at(index.positions(every.env, every.start, 1))
        return faults.no_slice(length, every.length.tolist(), every.env.tolist(), ids)

    def _cut(
        self, found: Trajectories, chosen: np.ndarray, chance: np.ndarray, length: int
    ) -> tuple[np.ndarray, np.ndarray, int | np.ndarray]:
        """Cut a slice out of each of the chosen trajectories."""
        env, start, own = found.env[chosen], found.start[chosen], found.length[chosen]
        if self.strict_length and self._span == (0, 0):
            return env, start + (chance * (own - length + 1)).astype(np.int64), length
        whole = np.minimum(own, length)
        before, after = (np.maximum(whole - self._fewest(length, side), 0) for side in (0, 1))
        begin = np.floor(chance * (own - whole + before + after + 1)).astype(np.int64) - before
        inside = np.maximum(begin, 0)
        return env, start + inside, np.minimum(begin + whole, own) - inside

    def _fewest(self, length: int, side: int) -> int:
        """How many steps of a slice must be inside of its trajectory."""
        span = self._span[side]
        return 1 if span is None else max(length - span, 1)

    # What changes the trajectories ------------------------------------------------------------------------------------

    def mark_update(self, index: Any, storage: Storage) -> None:
        """Look whether trajectories end elsewhere now; see :meth:`Sampler.mark_update`."""
        super().mark_update(index, storage)
        if self._index is not None and self._ring is storage.ring:
            with storage.ring.reading:
                self._index.overwritten(storage.positions(index).numpy())

    def _empty(self) -> None:
        super()._empty()
        self._forget()

    def __getstate__(self) -> dict[str, Any]:
        # What is known about the storage is found anew where the sampler is sent to.
        return {**super().__getstate__(), "_index": None, "_ring": None, "_marks": None, "_found": None}

    def __repr__(self) -> str:
        size = f"num_slices={self.num_slices}" if self.num_slices else f"slice_len={self.slice_len}"
        keys = {"end_key": self.end_key, "traj_key": self.traj_key, "truncated_key": self.truncated_key}
        shown = "".join(f", {name}={value!r}" for name, value in keys.items() if value is not None)
        return f"{type(self).__name__}({size}{shown}, strict_length={self.strict_length})"


def _span_of(span: Span) -> tuple[int | None, int | None]:
    """How many steps of a slice may be outside, before and after its trajectory; None: all but one."""
    pair = tuple(span) if isinstance(span, (tuple, list)) else (span, span)
    if len(pair) != 2 or any(not isinstance(side, int) or side < 0 for side in pair):
        raise ValueError(faults.bad_span(span))
    before, after = (None if side is True else int(side) for side in pair)
    return before, after

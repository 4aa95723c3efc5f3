"""TED2Flat: observations stored once, plus the last one of each trajectory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

import torch
from tensordict import NonTensorData, TensorDict, TensorDictBase

from rlnb.data.ted.columns import Column, Constant, Path, read_columns, stack_values
from rlnb.data.ted.ends import end_flags
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.data.ted.layout import BREAKS_KEY, LAYOUT_KEY, RESERVED, ROOT_KEY, Layout, plan
from rlnb.data.ted.timeline import Timeline, bits, not_adjacent

DONE_KEYS = ("done", "truncated", "terminated")


class FlatForm:
    """What the hooks between TED and its flat forms have in common.

    Args:
        done_key: where the ends of the trajectories are read.
        shift_key: where the place of the oldest step is written.
        is_full_key: where it is written whether the data went round in a ring.
        done_keys: the end signals. Those at the root are not stored if they are all False.
        reward_keys: the rewards.
    """

    def __init__(
        self,
        done_key: NestedKey,
        shift_key: str = "shift",
        is_full_key: str = "is_full",
        done_keys: Sequence[NestedKey] = DONE_KEYS,
        reward_keys: Sequence[NestedKey] = ("reward",),
    ) -> None:
        self.done_key, self.shift_key, self.is_full_key = done_key, shift_key, is_full_key
        self.done_keys, self.reward_keys = tuple(done_keys), tuple(reward_keys)

    @property
    def _ends(self) -> set[Path]:
        return {as_tuple(key) for key in self.done_keys}

    @property
    def _rewards(self) -> set[Path]:
        return {as_tuple(key) for key in self.reward_keys}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(done_key={self.done_key!r})"


class TED2Flat(FlatForm):
    """Turn TED data into its flat form, which holds each observation once.

    In TED an observation stands twice: under "next" of a step and at the root of the step after it. The flat form has
    the observations of the root, and behind the last step of each trajectory the one that followed it. Nothing is lost:
    :class:`Flat2TED` gives back the same data, bit by bit. Where "next" is not the root of the step that follows (after
    :class:`~rlnb.data.MultiStep`, or where two rollouts were put together), what followed is stored as well.

    The flat form has the batch size [] and these entries: an observation, ``[steps + trajectories, ...]``; every other
    entry, ``[steps, ...]``, rewards and end signals of "next" under their own names; "shift" and "is_full"; and
    "_layout", which says what belongs where.

    Args:
        done_key: where the ends of the trajectories are read. It has one element for each step.
        shift_key: where the place of the oldest step is written.
        is_full_key: where it is written whether the data went round in a ring.
        done_keys: the end signals. Those at the root are not stored if they are all False.
        reward_keys: the rewards.

    Attributes:
        shift: for data from a ring buffer: where the oldest step stands along time, which is the writer's cursor.
        is_full: whether the ring went round. If not, ``shift`` does not matter: the data starts with the oldest step.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> rollout = GymEnv("CartPole-v1").rollout(5)
        >>> flat = TED2Flat()(rollout)
        >>> len(flat["observation"]), len(flat["action"])
        (6, 5)
        >>> from rlnb.data import Flat2TED
        >>> bool((Flat2TED()(flat) == rollout).all())
        True
    """

    def __init__(
        self,
        done_key: NestedKey = ("next", "done"),
        shift_key: str = "shift",
        is_full_key: str = "is_full",
        done_keys: Sequence[NestedKey] = DONE_KEYS,
        reward_keys: Sequence[NestedKey] = ("reward",),
    ) -> None:
        super().__init__(done_key, shift_key, is_full_key, done_keys, reward_keys)
        self.shift = 0
        self.is_full = False

    def __call__(self, data: TensorDictBase, path: str | PathLike[str] | None = None) -> TensorDictBase:
        """Make the flat form.

        Args:
            data: TED data of any batch size; time is its last dimension.
            path: a folder to write to. The entries are then memory-mapped files, filled without a copy in memory, and
                ``TensorDict.load(path)`` reads them.

        Returns:
            The flat form.

        Raises:
            ValueError: if the data has no time dimension, if ``done_key`` has several elements for a step, or if an
                entry has a name that the flat form needs.
            KeyError: if there is no "next", or no ``done_key``.
        """
        return self.flatten(data, path)[0]

    def flatten(
        self, data: TensorDictBase, path: str | PathLike[str] | None = None
    ) -> tuple[TensorDictBase, Layout, Timeline]:
        """Make the flat form, and say how it is laid out.

        Args:
            data: see :meth:`__call__`.
            path: see :meth:`__call__`.

        Returns:
            The flat form, its layout, and the places of the steps in it.
        """
        ends = end_flags(data, self.done_key)
        length = data.batch_size[-1]
        columns, branches = read_columns(data)
        self._check_names(columns)
        layout = plan(columns, branches, data.batch_size, self._ends | self._rewards)
        shift = int(self.shift or 0) % length if self.is_full and length else 0
        timeline, extra = _timeline(columns, layout, ends, shift)
        flat = TensorDict({}, [], device=data.device)
        flat.set_non_tensor(self.shift_key, shift)
        flat.set_non_tensor(self.is_full_key, bool(self.is_full))
        flat.set_non_tensor(LAYOUT_KEY, layout.to_json())
        tensors: dict[Path, tuple[torch.Tensor, torch.Tensor | None]] = {}
        depth = {branch.path: len(branch.extra) for branch in branches}
        for where, column, after in _sources(columns, layout):
            if isinstance(column, torch.Tensor):
                tensors[where] = column, after
            else:
                flat.set(as_key(where), _ordered(column, timeline, 1 + depth.get(where[:-1], 0)))
        if path is not None:
            for where in tensors:
                _branch(flat, where)
            flat = flat.memmap_(str(path))
        if extra:
            _allocate(flat, (BREAKS_KEY,), timeline.breaks, timeline.breaks.shape[0]).copy_(timeline.breaks)
        source = timeline.source()
        for where, (root, after) in tensors.items():
            rows = layout.steps if after is None else timeline.size
            _write(_allocate(flat, where, root, rows), root, after, timeline, source)
        return flat, layout, timeline

    def _check_names(self, columns: Mapping[Path, Column]) -> None:
        names = {path[0] for path in columns}
        if "next" not in names:
            raise KeyError(
                f"TED data has an entry 'next' with what a step led to, and this has only: "
                f"{', '.join(sorted(names)) or 'nothing'}. Fix: pass what env.rollout or a collector returns."
            )
        for name in sorted(names & {self.shift_key, self.is_full_key, *RESERVED}):
            argument = {self.shift_key: "shift_key", self.is_full_key: "is_full_key"}.get(name)
            fix = f"{argument}='another name'" if argument else f"data.rename_key_({name!r}, 'another name')"
            raise ValueError(f"The data has an entry {name!r}, which the flat form needs for itself. Fix: {fix}.")


def _timeline(columns: Mapping[Path, Column], layout: Layout, ends: torch.Tensor, shift: int) -> tuple[Timeline, bool]:
    """The places of the steps, and whether some break is not where an episode ends."""
    length = layout.batch_size[-1]
    rows = layout.steps // length if length else 0
    breaks = ends.flatten().clone()
    by_row = breaks.view(rows, length)
    if breaks.shape[0]:
        by_row[:, shift - 1] = True
    # A step at the end of the storage is followed by the one at its start: compared apart from the others.
    stops = breaks.clone()
    if breaks.shape[0]:
        stops.view(rows, length)[:, -1] = True
    extra = False
    for path in layout.shared:
        root, after = columns[path], columns["next", *path]
        assert isinstance(root, torch.Tensor) and isinstance(after, torch.Tensor)
        found = not_adjacent(root, after, stops)
        if shift:
            last = torch.arange(1, rows + 1, device=ends.device) * length - 1
            differs = bits(root[last + 1 - length]) != bits(after[last])
            last = last[differs.reshape(rows, -1).any(1) & ~breaks[last]]
            found = torch.cat([found, last])
        if found.shape[0]:
            breaks[found] = stops[found] = extra = True
    return Timeline(breaks, rows, length, shift), extra


def _sources(columns: Mapping[Path, Column], layout: Layout) -> Iterator[tuple[Path, Column, torch.Tensor | None]]:
    """For each entry of the flat form: its column in the TED, and for a shared entry that of "next"."""
    for path in layout.shared:
        after = columns["next", *path]
        assert isinstance(after, torch.Tensor)
        yield path, columns[path], after
    for path in layout.root:
        yield path, columns[path], None
    for path in layout.next:
        yield path, columns["next", *path], None
    for path in layout.twice:
        yield (ROOT_KEY, *path), columns[path], None


def _branch(flat: TensorDictBase, path: Path) -> TensorDictBase:
    """The TensorDict that an entry stands in, made if it is not there."""
    for name in path[:-1]:
        below = flat.get(name, None)
        if below is None:
            below = TensorDict({}, flat.batch_size, device=flat.device)
            flat.set(name, below)
        flat = flat.get(name)
    return flat


def _allocate(flat: TensorDictBase, path: Path, like: torch.Tensor, rows: int) -> torch.Tensor:
    """Make room for an entry: in memory, or in a file if that is where the flat form is."""
    shape = torch.Size((rows, *like.shape[1:]))
    branch = _branch(flat, path)
    if flat.is_memmap():
        return branch.make_memmap(path[-1], shape=shape, dtype=like.dtype)
    out = torch.empty(shape, dtype=like.dtype, device=like.device)
    branch.set(path[-1], out)
    return out


def _write(
    out: torch.Tensor, column: torch.Tensor, after: torch.Tensor | None, timeline: Timeline, source: torch.Tensor
) -> None:
    if not out.numel():
        return
    if after is None:
        timeline.in_order(column, out.as_subclass(torch.Tensor))
        return
    target = bits(out)
    if target.device != column.device:
        target.copy_(bits(column).index_select(0, source))
    else:
        torch.index_select(bits(column), 0, source, out=target)
    last = bits(after).index_select(0, timeline.breaks)
    target.index_copy_(0, timeline.after_breaks().to(target.device), last.to(target.device))


def _ordered(column: list[Any] | Constant, timeline: Timeline, dims: int) -> Any:
    if isinstance(column, Constant):
        return NonTensorData(column.value)
    return stack_values(timeline.roll_list(column), dims)

"""TED2Flat and Flat2TED: TED data with each observation stored once, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.data.ted.columns import Column, Constant, build, read_columns, stack_values
from rlnb.data.ted.ends import end_flags
from rlnb.data.ted.keys import END_KEYS, NestedKey, as_key, as_tuple
from rlnb.data.ted.layout import BREAKS_KEY, LAYOUT_KEY, RESERVED, FlatLayout, check_lengths, infer, plan
from rlnb.data.ted.ragged import Path
from rlnb.data.ted.timeline import Timeline, bits, find_breaks, rolled


@dataclass(repr=False, eq=False)
class TEDForm:
    """Base class of the conversions between TED and its stored forms: the keys that they interpret, see TED2Flat."""

    done_key: NestedKey = ("next", "done")
    shift_key: str = "shift"
    is_full_key: str = "is_full"
    done_keys: Sequence[NestedKey] = END_KEYS
    reward_keys: Sequence[NestedKey] = ("reward",)

    def __post_init__(self) -> None:
        self.done_keys, self.reward_keys = tuple(self.done_keys), tuple(self.reward_keys)

    @property
    def done_path(self) -> Path:
        """Path of the flags at which trajectories end in a stored form, which has no "next"."""
        key = as_tuple(self.done_key)
        return key[1:] if key[0] == "next" and len(key) > 1 else key

    def __repr__(self) -> str:
        return f"{type(self).__name__}(done_key={self.done_key!r})"


class TED2Flat(TEDForm):
    """Converts TED data to its flat form, which stores each observation once.

    In TED, an observation is stored twice: under "next" of a step and at the root of the step after it. The flat form
    holds the observations of the root and, after the last step of each trajectory, the final one. It is lossless:
    :class:`Flat2TED` restores the data bit by bit. Where "next" differs from the root of the following step (after
    :class:`~rlnb.data.MultiStep`, or where two rollouts were concatenated), the observation under "next" is stored too.

    The flat form has batch size ``[]`` and these entries: observations, ``[steps + trajectories, ...]``; all other
    entries, ``[steps, ...]``, with rewards and end-of-episode signals of "next" under their own names; "shift" and
    "is_full"; and "_layout", which records where each entry belongs.

    Args:
        done_key: key of the flags at which trajectories end, one per step.
        shift_key: key that the position of the oldest step is written to.
        is_full_key: key that the flag for a wrapped ring buffer is written to.
        done_keys: keys of the end-of-episode signals. Those of the root are not stored if all are False.
        reward_keys: keys of the rewards.

    Attributes:
        shift: for data from a ring buffer: the position of the oldest step along time, which is the writer's cursor.
        is_full: whether the ring buffer has wrapped around. If not, the first step is the oldest and ``shift`` is
            ignored.

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

    shift: int = 0
    is_full: bool = False

    def __call__(self, data: TensorDictBase, path: str | PathLike[str] | None = None) -> TensorDictBase:
        """Convert TED data.

        Args:
            data: TED data of any batch size; time is its last dimension.
            path: a folder to write to. The entries are then memory-mapped files, which are filled without a copy in
                memory and which ``TensorDict.load(path)`` reads.

        Returns:
            The flat form.

        Raises:
            ValueError: If the data has no time dimension, if ``done_key`` has several elements per step, or if an entry
                has a name that the flat form reserves.
            KeyError: If there is no "next", or no ``done_key``.
        """
        return flatten(self, data, (self.shift or 0) if self.is_full else None, path)[0]


@dataclass(repr=False, eq=False)
class Flat2TED(TEDForm):
    """Converts the flat form of :class:`TED2Flat` back to TED data.

    Flat data without a "_layout", which was not written by :class:`TED2Flat`, is interpreted by keys and lengths: an
    entry that is longer than the end-of-episode signals belongs to the root and to "next", rewards and end-of-episode
    signals belong to "next", and all other entries to the root.

    Args:
        done_key: key of the flags at which trajectories end. The other arguments are those of :class:`TED2Flat`.

    Example:
        >>> from tensordict import TensorDict
        >>> flat = TensorDict({"observation": torch.arange(4.0), "done": torch.tensor([False, False, True])})
        >>> Flat2TED()(flat)["next", "observation"]
        tensor([1., 2., 3.])
    """

    done_key: NestedKey = "done"

    def __call__(self, data: TensorDictBase, out: TensorDictBase | None = None) -> TensorDictBase:
        """Convert flat data to TED data of the original batch size and order; ``out`` is updated in place if given.

        Raises:
            KeyError: If an entry is missing.
            ValueError: If an entry is too short, or the data is not a flat form.
        """
        columns, layout, timeline = self._read(data)
        return rebuild(columns, layout, timeline, data.device, out)

    def rows(self, data: TensorDictBase) -> FlatRows:
        """Read flat data step by step, so that large data can stay on disk; for the errors see the call.

        The flat form is for example ``TensorDict.load_memmap(path)`` after ``TED2Flat()(rollout, path)``. The result, a
        :class:`~rlnb.data.ted.FlatRows`, creates the TED data of exactly the steps that it is indexed with.
        """
        return FlatRows(*self._read(data), data.device)

    def _read(self, data: TensorDictBase) -> tuple[Mapping[Path, Column], FlatLayout, Timeline]:
        columns = read_columns(data)[0]
        layout, done = read_layout(self, columns)
        timeline = read_timeline(layout, done, read_shift(self, columns, layout), columns.get((BREAKS_KEY,)))
        check_lengths(columns, layout, timeline.size)
        return columns, layout, timeline


class FlatRows:
    """The steps of flat data, converted to TED data when they are indexed.

    Created by :meth:`Flat2TED.rows <rlnb.data.Flat2TED.rows>`. The flat form may lie in memory-mapped files: only the
    rows that the indexed steps need are read, and only a few numbers per step are kept in memory.

    Attributes:
        batch_size: batch size of the TED data.

    Example:
        >>> from rlnb.data import Flat2TED, TED2Flat
        >>> from rlnb.envs import GymEnv
        >>> rollout = GymEnv("CartPole-v1").rollout(10)
        >>> rows = Flat2TED().rows(TED2Flat()(rollout))
        >>> rows[3:5]["next", "observation"].shape
        torch.Size([2, 4])
        >>> bool((rows[[7, 0, 7]] == rollout[[7, 0, 7]]).all())
        True
    """

    def __init__(
        self, columns: Mapping[Path, Column], layout: FlatLayout, timeline: Timeline, device: torch.device | None
    ) -> None:
        self._columns, self._layout, self._timeline, self._device = columns, layout, timeline, device
        self.batch_size = torch.Size(layout.batch_size)
        names = {branch.path: branch.names for branch in layout.branches}.get(())
        at = torch.arange(layout.steps, device=timeline.slot.device).view(self.batch_size)
        self._at = TensorDict({"at": at}, self.batch_size, names=names)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return self.batch_size[0]

    def __getitem__(self, index: Any) -> TensorDictBase:
        """Create the TED data at an index into a TensorDict of this batch size, or raise ``IndexError``."""
        chosen = self._at[index]
        steps = chosen.get("at").flatten()
        slots = self._timeline.slot[steps]
        in_order = self._timeline.place_in_order(steps)
        found = _ted_columns(self._columns, self._layout, slots, lambda column: _some(column, in_order), self._device)
        names = list(chosen.names) if chosen.batch_dims else []
        branches = [branch.renamed(names, len(self.batch_size)) for branch in self._layout.branches]
        if not chosen.batch_dims:
            found = {path: column if isinstance(column, Constant) else column[0] for path, column in found.items()}
        return build(found, chosen.batch_size, branches, self._device)


# Shared with the nested form ------------------------------------------------------------------------------------------


def flatten(
    form: TEDForm, data: TensorDictBase, shift: int | None = None, path: str | PathLike[str] | None = None
) -> tuple[TensorDictBase, FlatLayout, Timeline]:
    """Make the flat form, in memory or in memory-mapped files below ``path``; return it with its layout and timeline.

    ``shift`` is the position of the oldest step of data from a ring buffer that has wrapped around, else ``None``.
    """
    ends = end_flags(data, form.done_key)
    length = data.batch_size[-1]
    columns, branches = read_columns(data)
    _check_names(form, columns)
    layout = plan(columns, branches, data.batch_size, _paths(form.done_keys) | _paths(form.reward_keys))
    start = int(shift or 0) % length if length else 0
    timeline, extra = _timeline(columns, layout, ends, start)
    flat = TensorDict({}, [], device=data.device)
    flat.set_non_tensor(form.shift_key, start)
    flat.set_non_tensor(form.is_full_key, shift is not None)
    flat.set_non_tensor(LAYOUT_KEY, layout.to_json())
    depth = {branch.path: len(branch.extra) for branch in branches}
    tensors: dict[Path, tuple[torch.Tensor, torch.Tensor | None]] = {}
    for where in layout.shared:
        tensors[where] = _tensor(columns[where]), _tensor(columns["next", *where])
    for origin, where in layout.single.items():
        column = columns[origin]
        if isinstance(column, torch.Tensor):
            tensors[where] = column, None
        elif isinstance(column, Constant):
            flat.set_non_tensor(as_key(where), column.value)
        else:
            flat.set(as_key(where), stack_values(timeline.roll_list(column), 1 + depth.get(where[:-1], 0)))
    if path is not None:
        flat = flat.memmap_(str(path))
    if extra:
        _allocate(flat, (BREAKS_KEY,), timeline.breaks, timeline.breaks.shape[0]).copy_(timeline.breaks)
    source = timeline.source()
    for where, (root, after) in tensors.items():
        rows = layout.steps if after is None else timeline.size
        write_rows(_allocate(flat, where, root, rows), root, after, timeline, source)
    return flat, layout, timeline


def _check_names(form: TEDForm, columns: Mapping[Path, Column]) -> None:
    names = {path[0] for path in columns}
    if "next" not in names:
        raise KeyError(
            "TED data must have an entry 'next' with the results of the steps, got only: "
            f"{', '.join(sorted(names)) or 'nothing'}. Fix: pass the data that env.rollout or a collector returns."
        )
    for name in sorted(names & {form.shift_key, form.is_full_key, *RESERVED}):
        argument = {form.shift_key: "shift_key", form.is_full_key: "is_full_key"}.get(name)
        fix = f"{argument}='another name'" if argument else f"data.rename_key_({name!r}, 'another name')"
        raise ValueError(f"The data has an entry {name!r}, a name that the flat form reserves. Fix: {fix}.")


def read_layout(form: TEDForm, columns: Mapping[Path, Column]) -> tuple[FlatLayout, torch.Tensor]:
    """Read the layout and the end flags ``[steps]`` of flat data.

    Raises:
        KeyError: If there is no ``done_key``.
        ValueError: If the layout is damaged.
    """
    key = form.done_path
    done = columns.get(key)
    if not isinstance(done, torch.Tensor) or not done.dim():
        raise KeyError(
            f"Flat data must have the entry {as_key(key)!r}, the flags at which trajectories end, got only: "
            f"{', '.join(repr(as_key(path)) for path in columns) or 'nothing'}. "
            f"Fix: {type(form).__name__}(done_key=...) with the key of the flags."
        )
    text = columns.get((LAYOUT_KEY,))
    known = {(name,) for name in (form.shift_key, form.is_full_key, BREAKS_KEY, "_storage_shape")}
    if text is None:
        rest = {path: column for path, column in columns.items() if path not in known}
        layout = infer(rest, done.shape[0], _paths(form.done_keys), _paths(form.reward_keys))
    else:
        layout = FlatLayout.from_json(text.value if isinstance(text, Constant) else text)
    if done.numel() != layout.steps:
        raise ValueError(
            f"The entry {as_key(key)!r} of the flat data must have one flag for each of the {layout.steps} steps "
            f"(batch size {list(layout.batch_size)}), got {done.numel()}. "
            "It was changed or cut short. Fix: save it again."
        )
    return layout, done.reshape(-1).bool()


def read_shift(form: TEDForm, columns: Mapping[Path, Column], layout: FlatLayout) -> int:
    """Read the position of the oldest step along time; raise ``ValueError`` if it is not an index."""
    shift, is_full = (_scalar(columns.get((key,))) for key in (form.shift_key, form.is_full_key))
    if not is_full or not shift:
        return 0
    if not isinstance(shift, int) or not 0 <= shift < layout.batch_size[-1]:
        raise ValueError(
            f"The entry {form.shift_key!r} must be the position of the oldest of {layout.batch_size[-1]} steps, got "
            f"{shift!r}. The data was changed. Fix: save it again."
        )
    return shift


def rebuild(
    columns: Mapping[Path, Column],
    layout: FlatLayout,
    timeline: Timeline,
    device: torch.device | None,
    out: TensorDictBase | None = None,
) -> TensorDictBase:
    """Make TED data from the columns of its flat form, whose lengths match the layout; ``out`` is updated if given."""

    def single(column: Column) -> Column:
        if isinstance(column, torch.Tensor):
            return timeline.as_stored(column, torch.empty_like(column, memory_format=torch.contiguous_format))
        return timeline.roll_list(column, back=True) if isinstance(column, list) else column

    found = _ted_columns(columns, layout, timeline.slot, single, device)
    ted = build(found, layout.batch_size, layout.branches, device)
    return ted if out is None else out.update(ted, inplace=True)


def _ted_columns(
    columns: Mapping[Path, Column],
    layout: FlatLayout,
    slots: torch.Tensor,
    single: Callable[[Column], Column],
    device: torch.device | None,
) -> dict[Path, Column]:
    """The columns of steps whose observations are at ``slots``; ``single`` picks them from a column without others."""
    found: dict[Path, Column] = {}
    for path in layout.shared:
        found[path], found["next", *path] = (_take(_tensor(columns[path]), at) for at in (slots, slots + 1))
    for path, source in layout.single.items():
        found[path] = single(columns[source])
    for path in layout.unset:
        like = columns.get(path)
        feature = like.shape[1:] if isinstance(like, torch.Tensor) else (1,)
        found[path] = torch.zeros((len(slots), *feature), dtype=torch.bool, device=device)
    return found


def read_timeline(layout: FlatLayout, ends: torch.Tensor, shift: int, breaks: Column | None = None) -> Timeline:
    """The positions of the steps of flat data, from its end flags in chronological order and the breaks beside them."""
    rows, length = layout.rows, layout.batch_size[-1]
    flags = ends.clone()
    if flags.shape[0]:
        flags.view(rows, length)[:, -1] = True
    stored = rolled(flags, rows, length, -shift)
    if isinstance(breaks, torch.Tensor):
        if breaks.dtype != torch.int64 or breaks.dim() != 1 or bool(((breaks < 0) | (breaks >= layout.steps)).any()):
            raise ValueError(
                f"The entry {BREAKS_KEY!r} must list steps by their index, from 0 to {layout.steps - 1}, but holds "
                "something else. The data was changed. Fix: save it again."
            )
        stored[breaks] = True
    return Timeline(stored, rows, length, shift)


def _scalar(column: Column | None) -> Any:
    value = column.value if isinstance(column, Constant) else column
    return value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value


def _timeline(
    columns: Mapping[Path, Column], layout: FlatLayout, ends: torch.Tensor, shift: int
) -> tuple[Timeline, bool]:
    """The positions of the steps, and whether there are breaks inside episodes."""
    rows, length = layout.rows, layout.batch_size[-1]
    stops = ends.flatten().clone()
    if stops.shape[0]:
        stops.view(rows, length)[:, shift - 1] = True
    pairs = ((_tensor(columns[path]), _tensor(columns["next", *path])) for path in layout.shared)
    first = torch.arange(rows, device=ends.device) * length
    breaks = find_breaks(stops, pairs, first, first + length - 1)
    return Timeline(breaks, rows, length, shift), not torch.equal(breaks, stops)


def _tensor(column: Column) -> torch.Tensor:
    """The column of a shared entry, which the layout lists only if it is a tensor."""
    assert isinstance(column, torch.Tensor)
    return column


def _allocate(flat: TensorDictBase, path: Path, like: torch.Tensor, rows: int) -> torch.Tensor:
    """Allocate an entry: in memory, or in a file if the flat form is memory-mapped."""
    shape = torch.Size((rows, *like.shape[1:]))
    if flat.is_memmap():
        return flat.make_memmap(as_key(path), shape=shape, dtype=like.dtype)
    out = torch.empty(shape, dtype=like.dtype, device=like.device)
    flat.set(as_key(path), out)
    return out


def write_rows(
    out: torch.Tensor, column: torch.Tensor, after: torch.Tensor | None, timeline: Timeline, source: torch.Tensor
) -> None:
    """Write a column to ``out`` in chronological order, with what comes ``after`` the breaks, if given, behind them."""
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


def _some(column: Column, rows: torch.Tensor) -> Column:
    if isinstance(column, torch.Tensor):
        return _take(column, rows)
    return [column[row] for row in rows.tolist()] if isinstance(column, list) else column


def _take(column: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Copy some rows of a column, which may be a memory-mapped file, and read nothing else of it."""
    out = torch.empty((index.shape[0], *column.shape[1:]), dtype=column.dtype, device=column.device)
    if out.numel():
        torch.index_select(bits(column), 0, index, out=bits(out))
    return out


def _paths(keys: Sequence[NestedKey]) -> set[Path]:
    return set(map(as_tuple, keys))

"""Flat2TED: TED data made from its flat form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data.ted.columns import Column, Constant, Path, build, read_columns
from rlnb.data.ted.flat import DONE_KEYS, FlatForm
from rlnb.data.ted.flat_rows import FlatRows, singles, take
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.data.ted.layout import BREAKS_KEY, LAYOUT_KEY, Layout, check_lengths, infer
from rlnb.data.ted.timeline import Timeline


class Flat2TED(FlatForm):
    """Turn the flat form of :class:`TED2Flat` back into TED data.

    Flat data that has no "_layout", because it was not written by :class:`TED2Flat`, is read by its keys and lengths:
    an entry that is longer than the end signals belongs to the root and to "next", rewards and end signals belong to
    "next", and the rest to the root.

    Args:
        done_key: where the ends of the trajectories are read.
        shift_key: where the place of the oldest step is read.
        is_full_key: where it is read whether the data went round in a ring.
        done_keys: the end signals.
        reward_keys: the rewards.

    Example:
        >>> from tensordict import TensorDict
        >>> flat = TensorDict({"observation": torch.arange(4.0), "done": torch.tensor([False, False, True])})
        >>> Flat2TED()(flat)["next", "observation"]
        tensor([1., 2., 3.])
    """

    def __init__(
        self,
        done_key: NestedKey = "done",
        shift_key: str = "shift",
        is_full_key: str = "is_full",
        done_keys: Sequence[NestedKey] = DONE_KEYS,
        reward_keys: Sequence[NestedKey] = ("reward",),
    ) -> None:
        super().__init__(done_key, shift_key, is_full_key, done_keys, reward_keys)

    def __call__(self, data: TensorDictBase, out: TensorDictBase | None = None) -> TensorDictBase:
        """Make the TED data.

        Args:
            data: the flat form.
            out: updated in place and returned, if given.

        Returns:
            TED data of the batch size that was flattened, in the order in which it was stored.

        Raises:
            KeyError: if an entry is missing.
            ValueError: if an entry is too short, or if the data is not a flat form.
        """
        columns, layout, timeline = self._read(data)
        return rebuild(columns, layout, timeline, data.device, out)

    def rows(self, data: TensorDictBase) -> FlatRows:
        """Read flat data row by row, so that what is large can stay on disk.

        Args:
            data: the flat form, such as ``TensorDict.load_memmap(path)`` gives of what
                ``TED2Flat()(rollout, path)`` wrote.

        Returns:
            What makes TED data of the steps that it is indexed with, and of these only.

        Raises:
            KeyError: if an entry is missing.
            ValueError: if an entry is too short, or if the data is not a flat form.

        Example:
            >>> from tensordict import TensorDict
            >>> flat = TensorDict({"observation": torch.arange(4.0), "done": torch.tensor([False, False, True])})
            >>> Flat2TED().rows(flat)[1]["next", "observation"]
            tensor(2.)
        """
        return FlatRows(*self._read(data), data.device)

    def _read(self, data: TensorDictBase) -> tuple[Mapping[Path, Column], Layout, Timeline]:
        columns = read_columns(data)[0]
        layout, done = self.read_layout(columns)
        breaks = columns.get((BREAKS_KEY,))
        timeline = _timeline_of(layout, done, self.read_shift(columns, layout), breaks)
        check_lengths(columns, layout, timeline.size)
        return columns, layout, timeline

    def read_layout(self, columns: Mapping[Path, Column]) -> tuple[Layout, torch.Tensor]:
        """Find the layout and the end flags of flat data.

        Args:
            columns: of the flat data.

        Returns:
            The layout, and the flags of shape ``[steps]``.

        Raises:
            KeyError: if there is no ``done_key``.
            ValueError: if the layout does not read as such.
        """
        key = as_tuple(self.done_key)
        key = key[1:] if key[0] == "next" and len(key) > 1 else key
        done = columns.get(key)
        if not isinstance(done, torch.Tensor) or not done.dim():
            raise KeyError(
                f"Flat data has an entry {as_key(key)!r}, which says where the trajectories end, and this has only: "
                f"{', '.join(repr(as_key(path)) for path in columns) or 'nothing'}. "
                f"Fix: {type(self).__name__}(done_key=...) names the entry."
            )
        text = columns.get((LAYOUT_KEY,))
        known = {(name,) for name in (self.shift_key, self.is_full_key, BREAKS_KEY, "_storage_shape")}
        if text is None:
            rest = {path: column for path, column in columns.items() if path not in known}
            layout = infer(rest, done.shape[0], self._ends, self._rewards)
        else:
            layout = Layout.from_json(text.value if isinstance(text, Constant) else text)
        if done.numel() != layout.steps:
            raise ValueError(
                f"The entry {as_key(key)!r} of the flat data has {done.numel()} elements, and its layout speaks of "
                f"{layout.steps} steps (batch size {list(layout.batch_size)}). "
                "It was changed or cut short. Fix: save it again."
            )
        return layout, done.reshape(-1).bool()

    def read_shift(self, columns: Mapping[Path, Column], layout: Layout) -> int:
        """Find where the oldest step stands.

        Args:
            columns: of the flat data.
            layout: of it.

        Returns:
            An index along time.

        Raises:
            ValueError: if what is written there is no such index.
        """
        shift, is_full = (_scalar(columns.get((key,))) for key in (self.shift_key, self.is_full_key))
        if not is_full or not shift:
            return 0
        if not isinstance(shift, int) or not 0 <= shift < layout.batch_size[-1]:
            raise ValueError(
                f"The entry {self.shift_key!r} says where the oldest of {layout.batch_size[-1]} steps stands, and is "
                f"{shift!r}. The data was changed. Fix: save it again."
            )
        return shift


def rebuild(
    columns: Mapping[Path, Column],
    layout: Layout,
    timeline: Timeline,
    device: torch.device | None,
    out: TensorDictBase | None = None,
) -> TensorDictBase:
    """Make TED data from the columns of its flat form.

    Args:
        columns: of the flat form; their lengths fit the layout.
        layout: of the flat form.
        timeline: the places of the steps.
        device: of the result.
        out: updated in place and returned, if given.

    Returns:
        TED data.
    """
    found: dict[Path, Column] = {}
    after = timeline.slot + 1
    for path in layout.shared:
        column = columns[path]
        assert isinstance(column, torch.Tensor)
        found[path] = take(column, timeline.slot)
        found["next", *path] = take(column, after)
    for path, source in singles(layout).items():
        column = columns[source]
        if isinstance(column, torch.Tensor):
            found[path] = timeline.as_stored(column, torch.empty_like(column, memory_format=torch.contiguous_format))
        elif isinstance(column, list):
            found[path] = timeline.roll_list(column, back=True)
        else:
            found[path] = column
    for path in layout.unset:
        like = columns.get(path)
        shape = like.shape if isinstance(like, torch.Tensor) else (layout.steps, 1)
        found[path] = torch.zeros(shape, dtype=torch.bool, device=device)
    ted = build(found, layout.batch_size, layout.branches, device)
    return ted if out is None else out.update(ted, inplace=True)


def _timeline_of(layout: Layout, done: torch.Tensor, shift: int, breaks: Column | None) -> Timeline:
    """The places of the steps of flat data, whose end flags stand in the order in which things happened."""
    length = layout.batch_size[-1]
    rows = layout.steps // length if length else 0
    flags = done.clone()
    if flags.shape[0]:
        flags.view(rows, length)[:, -1] = True
    in_order = Timeline(flags, rows, length, shift)
    if isinstance(breaks, torch.Tensor):
        if breaks.dtype != torch.int64 or breaks.dim() != 1 or bool(((breaks < 0) | (breaks >= layout.steps)).any()):
            raise ValueError(
                f"The entry {BREAKS_KEY!r} lists steps by their index, from 0 to {layout.steps - 1}, and holds "
                "something else. The data was changed. Fix: save it again."
            )
        stored = in_order.as_stored(flags)
        stored = stored.clone()
        stored[breaks] = True
        return Timeline(stored, rows, length, shift)
    return Timeline(in_order.as_stored(flags), rows, length, shift)


def _scalar(column: Column | None) -> Any:
    value = column.value if isinstance(column, Constant) else column
    return value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value

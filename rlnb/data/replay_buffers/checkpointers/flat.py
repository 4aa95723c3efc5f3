"""Checkpointer of TED data that saves each observation once, and the last one of each trajectory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import torch

from rlnb.data.replay_buffers.checkpointers.column import (
    ColumnCheckpointer,
    Head,
    columns_of,
    put_objects,
    read_objects,
    write_objects,
)
from rlnb.data.replay_buffers.checkpointers.files import PIECE_BYTES, check_bytes, read_tensor
from rlnb.data.replay_buffers.checkpointers.memmap import Entry, KeyPath, files_of, write_entries
from rlnb.data.replay_buffers.columns import Column, ObjectColumn
from rlnb.data.replay_buffers.forms import TensorDictForm
from rlnb.data.ted.columns import alike
from rlnb.data.ted.ends import end_flags
from rlnb.data.ted.flat import DONE_KEYS
from rlnb.data.ted.keys import NestedKey, as_keys
from rlnb.data.ted.timeline import bits, not_adjacent

WHOLE, LAST, UNSET, OBJECTS = "whole", "last", "all False", "objects"  # how an entry is saved
BREAKS = ("breaks",)
_MOST_UNSET = 1 << 10  # flags of one item that need no file if all are False


class FlatStorageCheckpointer(ColumnCheckpointer):
    """Checkpointer that saves each observation of TED data once, and the last one of each trajectory.

    Where observations are most of the data, that is half of it. Nothing is lost: what is loaded is equal bit by bit.
    It is written and read in small pieces, so that no second copy of the data is made.

    The data needs an end signal with one element for each step, ``("next", "done")``. The step that was written last
    counts as the end of its trajectory, as the writer's cursor says.

    The files are those of a TensorDict, see ``TensorDict.load_memmap``: below "data" the entries in the order of the
    storage, and below "last" what is under "next" of the steps that "breaks" lists, at which a trajectory ends or the
    next step starts from somewhere else. Of all other steps that is what stands at the root of the step behind. End
    signals that are all False are not written.

    Args:
        done_keys: End signals. The first one says, below "next", where trajectories end. Default: "done", "truncated",
            "terminated".
        reward_keys: Rewards. Default: "reward".

    Example:
        >>> import tempfile
        >>> from tensordict import TensorDict
        >>> from rlnb.data import LazyTensorStorage, ReplayBuffer
        >>> def make():
        ...     return ReplayBuffer(storage=LazyTensorStorage(100), checkpointer=FlatStorageCheckpointer())
        >>> rb, other, folder = make(), make(), tempfile.mkdtemp()
        >>> done = torch.tensor([[False], [True], [False]])
        >>> below = TensorDict({"observation": torch.tensor([1.0, 2.0, 6.0]), "done": done}, [3])
        >>> rollout = TensorDict({"observation": torch.tensor([0.0, 1.0, 5.0]), "next": below}, [3])
        >>> index = rb.extend(rollout)
        >>> rb.dumps(folder)
        >>> other.loads(folder)
        >>> other[:]["next", "observation"]
        tensor([1., 2., 6.])
    """

    _most_breaks = 1.0  # share of all steps from which on all that follows them is saved

    def __init__(
        self, done_keys: Sequence[NestedKey] | None = None, reward_keys: Sequence[NestedKey] | None = None
    ) -> None:
        super().__init__()
        self.done_keys = tuple(as_keys(list(DONE_KEYS if done_keys is None else done_keys)))
        self.reward_keys = tuple(as_keys(["reward"] if reward_keys is None else list(reward_keys)))

    def register_save_hook(self, hook: Any) -> NoReturn:
        """Raise ``NotImplementedError``: this checkpointer decides by itself what is written."""
        raise NotImplementedError(
            f"A {type(self).__name__} decides by itself what is written, and calls no hooks. "
            "Fix: storage.checkpointer = TensorStorageCheckpointer() before the hook is registered."
        )

    register_load_hook = register_save_hook

    # Writing ----------------------------------------------------------------------------------------------------------

    def _write(self, storage: Any, folder: Path) -> Any:
        twice, columns, length = self._twice(storage), columns_of(storage), storage.ring.length
        breaks = self._breaks(storage, twice).flatten().nonzero().flatten()
        few, kinds = len(breaks) <= self._most_breaks * len(storage), {}
        entries: dict[KeyPath, Entry] = {BREAKS: Entry(breaks.shape, breaks.dtype, [breaks])}
        objects: dict[KeyPath, ObjectColumn] = {}
        for path, column in columns.items():
            if isinstance(column, ObjectColumn):
                kinds[path], objects[path] = OBJECTS, column
            elif path[0] == "next" and path[1:] in twice and few:
                kinds[path], flat = LAST, column.flat
                blocks = map(column.take, breaks.split(_block_items(column)))
                entries["last", *path] = Entry((len(breaks), *flat.shape[1:]), flat.dtype, blocks)
            elif _is_unset(column, length):
                kinds[path] = UNSET
            else:
                kinds[path], rows = WHOLE, column.rows(slice(length))
                entries["data", *path] = Entry(rows.shape, rows.dtype, [rows])
        self._write_entries(folder, entries, objects, length)
        return {"breaks": len(breaks), "kinds": list(kinds.values())}

    def _write_entries(
        self, folder: Path, entries: dict[KeyPath, Entry], objects: dict[KeyPath, ObjectColumn], length: int
    ) -> None:
        write_entries(folder, entries)
        for number, (path, column) in enumerate(objects.items()):
            write_objects(column, length, path, folder, number)

    def _twice(self, storage: Any) -> list[KeyPath]:
        """Return the paths of entries that are alike at the root and under "next"; raises for data that is not TED."""
        columns = columns_of(storage)
        below = {path[1:] for path in columns if path[:1] == ("next",) and len(path) > 1}
        if not isinstance(storage.form, TensorDictForm) or not below:
            what = "TensorDict without one" if isinstance(storage.form, TensorDictForm) else storage.form._name()
            raise ValueError(
                f"A {type(self).__name__} saves data in the TED format, which is a TensorDict with an entry 'next', "
                f"and the storage holds a {what}. "
                "Fix: storage.checkpointer = TensorStorageCheckpointer(), which saves any data."
            )
        apart = {*self.done_keys, *self.reward_keys}
        return [
            path
            for path, column in columns.items()
            if path in below - apart and path[0] != "next" and alike(column.tensor, columns["next", *path].tensor)
        ]

    def _breaks(self, storage: Any, twice: Sequence[KeyPath]) -> torch.Tensor:
        """Return flags ``[length, *others]``: whether what follows a step has to be saved."""
        ring, columns = storage.ring, columns_of(storage)
        length = ring.length
        flags = end_flags(storage._view(slice(length)), ("next", *self.done_keys[0])).cpu().clone()
        if not length:
            return flags
        flags[(ring.cursor - 1) % length if ring.is_full else length - 1] = True
        by_env = flags.view(length, -1)
        envs = by_env.shape[1]
        for path in twice:
            root, after = (
                columns[key].rows(slice(length)).view(length, envs, *columns[key].flat.shape[1:])
                for key in (path, ("next", *path))
            )
            # The first row is behind the last one.
            by_env[-1] |= (bits(root[0]) != bits(after[-1])).view(envs, -1).any(1).cpu()
            for env in range(envs):
                stops = by_env[:, env].clone()
                stops[-1] = True
                by_env[not_adjacent(root[:, env], after[:, env], stops).cpu(), env] = True
        return flags

    # Reading ----------------------------------------------------------------------------------------------------------

    def _check(self, head: Head, content: Any, folder: Path, rehearse: bool) -> Any:
        kinds, shapes = _check_layout(head, content)
        breaks, objects, source = self._check_entries(head, kinds, shapes, folder, rehearse)
        steps = head.length * head.width
        if len(breaks) and not (breaks[0] >= 0 and breaks[-1] < steps and bool((breaks.diff() > 0).all())):
            raise ValueError(f"the breaks are not positions of {steps} steps in order")
        return kinds, shapes, breaks, objects, source

    def _check_entries(
        self, head: Head, kinds: dict[KeyPath, str], shapes: dict[KeyPath, Any], folder: Path, rehearse: bool
    ) -> tuple[torch.Tensor, dict[KeyPath, Any], Any]:
        """Check the files; return the breaks, the non-tensor data, and what :meth:`_read_entries` needs."""
        files = files_of(folder, list(shapes))
        for path, (shape, dtype) in shapes.items():
            check_bytes(files[path], torch.Size(shape).numel() * dtype.itemsize)
        breaks = torch.empty(shapes[BREAKS][0], dtype=torch.int64)
        read_tensor(files[BREAKS], breaks)
        objects = [path for path, kind in kinds.items() if kind == OBJECTS]
        return breaks, {path: read_objects(head, folder, n) for n, path in enumerate(objects)}, files

    def _read(self, storage: Any, head: Head, checked: Any, folder: Path) -> None:
        columns, (kinds, shapes, breaks, objects, source) = columns_of(storage), checked
        for path, values in objects.items():
            put_objects(columns[path], values, head.length)
        whole = {path: columns[path].rows(slice(head.length)) for path, kind in kinds.items() if kind == WHOLE}
        read_last = self._read_entries(whole, shapes, source)
        for path, kind in kinds.items():
            if kind == UNSET:
                columns[path].tensor[: head.length] = False
        for path, kind in kinds.items():
            if kind == LAST and head.length:
                root, after, start = columns[path[1:]].tensor, columns[path], 0
                after.tensor[: head.length - 1] = root[1 : head.length]
                after.tensor[head.length - 1] = root[0]
                for part in breaks.split(_block_items(after)):
                    block = torch.empty((len(part), *after.flat.shape[1:]), dtype=after.flat.dtype)
                    read_last(path, start, block)
                    put_at(after, part, block)
                    start += len(part)

    def _read_entries(
        self, whole: dict[KeyPath, torch.Tensor], shapes: dict[KeyPath, Any], source: Any
    ) -> Callable[[KeyPath, int, torch.Tensor], None]:
        """Fill the entries that were saved whole; return what fills a tensor with what follows breaks, from one on."""
        for path, rows in whole.items():
            read_tensor(source["data", *path], rows)

        def read_last(path: KeyPath, start: int, out: torch.Tensor) -> None:
            read_tensor(source["last", *path], out, start * out[:1].nbytes)

        return read_last


def _check_layout(head: Head, content: Any) -> tuple[dict[KeyPath, str], dict[KeyPath, Any]]:
    """Return how each entry is saved, and the shape and dtype of each tensor that is."""
    assert head.leaves is not None
    kinds, breaks = dict(zip(head.leaves, content["kinds"], strict=True)), content["breaks"]
    if type(breaks) is not int or not 0 <= breaks <= head.length * head.width:
        raise ValueError("the number of breaks does not fit the number of steps")
    shapes: dict[KeyPath, Any] = {BREAKS: ((breaks,), torch.int64)}
    for path, leaf in head.leaves.items():
        root = head.leaves.get(path[1:]) if path[:1] == ("next",) else None
        fits = {
            OBJECTS: leaf.dtype is None,
            WHOLE: leaf.dtype is not None,
            UNSET: leaf.dtype == torch.bool and leaf.shape.numel() <= _MOST_UNSET,
            LAST: root is not None and leaf.dtype is not None and root[1:] == leaf[1:] and kinds[path[1:]] != LAST,
        }
        if not fits.get(kinds[path]):
            raise ValueError(f"the entry {path} is written in an unknown way")
        if kinds[path] == WHOLE:
            shapes["data", *path] = (head.length, *head.others, *leaf.shape), leaf.dtype
        elif kinds[path] == LAST:
            shapes["last", *path] = (breaks, *leaf.shape), leaf.dtype
    return kinds, shapes


def _is_unset(column: Column, length: int) -> bool:
    """Whether a column holds flags that are all False, so that nothing needs to be written."""
    is_flags = column.tensor.dtype == torch.bool and column.flat.shape[1:].numel() <= _MOST_UNSET
    return is_flags and not column.rows(slice(length)).any()


def put_at(column: Column, positions: torch.Tensor, values: torch.Tensor) -> None:
    """Write items ``[n, ...]`` at distinct positions ``[n]`` along ``column.flat``, each bit as it is."""
    if values.numel():
        flat = column.flat
        bits(flat).index_copy_(0, positions.to(flat.device), bits(values).to(flat.device))


def _block_items(column: Column) -> int:
    """Return how many items are in memory at once."""
    return max(PIECE_BYTES // max(column.flat.shape[1:].numel() * column.flat.element_size(), 1), 1)

"""Checkpointer of TED data whose files can be read as nested tensors, a row for each trajectory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict

from rlnb.data.replay_buffers.checkpointers.column import HEAD, Head, columns_of, read_saved
from rlnb.data.replay_buffers.checkpointers.files import read_tensor
from rlnb.data.replay_buffers.checkpointers.flat import LAST, OBJECTS, WHOLE, FlatStorageCheckpointer
from rlnb.data.replay_buffers.checkpointers.folder import loading
from rlnb.data.replay_buffers.checkpointers.state import SENSELESS, explained
from rlnb.data.replay_buffers.columns import ObjectColumn
from rlnb.data.ted.keys import as_key
from rlnb.data.ted.nested import nest, offsets_of
from rlnb.data.ted.timeline import Timeline, bits


class NestedStorageCheckpointer(FlatStorageCheckpointer):
    """Checkpointer that saves TED data so that it can be read trajectory by trajectory.

    Like :class:`FlatStorageCheckpointer`, whose files it writes, it saves each observation once, and one more at the
    end of each trajectory. :meth:`read` gives nested tensors: the steps of a trajectory stand behind one another,
    oldest first, also those of a trajectory that goes over the seam of the ring, or that is one of several envs.

    Args:
        done_keys: End signals. Default: "done", "truncated", "terminated".
        reward_keys: Rewards. Default: "reward".

    Example:
        >>> import tempfile
        >>> from rlnb.data import LazyTensorStorage, ReplayBuffer
        >>> rb = ReplayBuffer(storage=LazyTensorStorage(100), checkpointer=NestedStorageCheckpointer())
        >>> done = torch.tensor([[False], [True], [False]])
        >>> below = TensorDict({"observation": torch.tensor([1.0, 2.0, 6.0]), "done": done}, [3])
        >>> rollout = TensorDict({"observation": torch.tensor([0.0, 1.0, 5.0]), "next": below}, [3])
        >>> index, folder = rb.extend(rollout), tempfile.mkdtemp()
        >>> rb.dumps(folder)
        >>> saved = NestedStorageCheckpointer.read(folder)
        >>> [row.tolist() for row in saved["observation"].unbind()]
        [[0.0, 1.0, 2.0], [5.0, 6.0]]
    """

    def _write(self, storage: Any, folder: Path) -> Any:
        for path, column in columns_of(storage).items():
            if isinstance(column, ObjectColumn):
                raise TypeError(
                    f"The entry {as_key(path)!r} is non-tensor data, which a nested tensor does not hold. "
                    "Fix: storage.checkpointer = FlatStorageCheckpointer(), which saves it too."
                )
        return super()._write(storage, folder)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> TensorDict:
        """Read a checkpoint as nested tensors.

        Args:
            path: Folder of the checkpoint of a buffer or a storage.

        Returns:
            A TensorDict ``[trajectories]``. A row of an observation has one element more than the trajectory has steps.
            What is only under "next" is there too, under "next".

        Raises:
            FileNotFoundError: If there is no checkpoint.
            ValueError: If it is damaged, or was saved by another checkpointer.
        """
        with loading(path) as top:
            folder = top / "storage"
            head, content = read_saved(folder, cls.__name__)
            try:
                return cls()._read_nested(head, content, folder)
            except SENSELESS as error:
                raise explained(folder / HEAD, error) from error

    def _read_nested(self, head: Head, content: Any, folder: Path) -> TensorDict:
        if head.leaves is None:
            raise ValueError(
                "The storage had not been written to when it was saved. Fix: fill the buffer, and save it."
            )
        kinds, shapes, breaks, _, files = self._check(head, content, folder, True)
        length, width = head.length, head.width
        flags = torch.zeros(length * width, dtype=torch.bool)
        flags[breaks] = True
        if length and not flags.view(length, width)[(head.cursor - 1) % length if length == head.rows else -1].all():
            raise ValueError("the newest step of an env does not end a trajectory")
        start = head.cursor if length == head.rows else 0
        timeline = Timeline(flags.view(length, width).t().flatten(), width, length, start)
        lengths = timeline.lengths()
        found = TensorDict({}, [len(lengths)])
        steps = _positions(timeline.in_order(torch.arange(length * width)), length, width)
        sources = _positions(timeline.source().long(), length, width)
        last = torch.searchsorted(breaks, _positions(timeline.breaks, length, width))
        for key, leaf in head.leaves.items():
            if kinds[key] in (LAST, OBJECTS):
                continue
            rows = torch.zeros((length, *head.others, *leaf.shape), dtype=leaf.dtype)
            if kinds[key] == WHOLE:
                read_tensor(files["data", *key], rows)
            rows = bits(rows.view(length * width, *leaf.shape))
            longer = kinds.get(("next", *key)) == LAST
            values = rows[sources if longer else steps]
            if longer:
                after = torch.empty(shapes["last", "next", *key][0], dtype=leaf.dtype)
                read_tensor(files["last", "next", *key], after)
                values[timeline.after_breaks()] = bits(after)[last]
            found[as_key(key)] = nest(_as_dtype(values, leaf.dtype), offsets_of(lengths + longer))
        return found


def _positions(steps: torch.Tensor, length: int, width: int) -> torch.Tensor:
    """Return the positions in the storage of steps that are counted env by env."""
    return steps % max(length, 1) * width + steps.div(max(length, 1), rounding_mode="floor")


def _as_dtype(values: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    """Undo :func:`bits`."""
    assert dtype is not None
    return torch.view_as_complex(values.view(torch.float64)) if dtype == torch.complex128 else values.view(dtype)

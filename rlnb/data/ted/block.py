"""The TED block: storage for one rollout, allocated once and filled in place, row by row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict

from rlnb.data.ted.keys import END_KEYS, NestedKey, as_key, as_tuple

# A block starts with room for this many bytes at the most and doubles when it is full: max_steps is only a bound, and
# an episode of 20 steps must not pay for 100,000.
_FIRST_BYTES = 1 << 24
_FIRST_ROWS = 16

LeafInfo = tuple[torch.Size, torch.dtype]


class TEDBlock:
    """Rows of a rollout in the TED format, for an env that writes numpy data.

    Row *t* of ``root`` is what the policy saw, row *t* of ``next`` what the step made of it. Both are written through
    numpy views of torch storage, so a step copies each number once and creates no tensor.

    Args:
        root: shape (without time) and dtype of each entry that a reset writes.
        next_only: the same for entries that only a step writes, such as the reward.
        max_rows: the most rows that can be asked for.

    Attributes:
        root: numpy arrays of shape ``[rows, *shape]``, by key.
        next: numpy arrays of shape ``[rows, *shape]``, by key.
        rows: how many rows there is room for now.

    Example:
        >>> block = TEDBlock({"observation": ((2,), torch.float32)}, {"reward": ((1,), torch.float32)}, max_rows=8)
        >>> block.root["observation"][0] = [1.0, 2.0]
        >>> block.next["observation"][0], block.next["reward"][0] = [3.0, 4.0], 1.0
        >>> block.to_tensordict(1)["next", "observation"]
        tensor([[3., 4.]])
    """

    def __init__(
        self, root: Mapping[NestedKey, LeafInfo], next_only: Mapping[NestedKey, LeafInfo], max_rows: int
    ) -> None:
        self.max_rows = max_rows
        leaves = [*root.values(), *root.values(), *next_only.values()]
        row_bytes = sum(torch.Size(shape).numel() * dtype.itemsize for shape, dtype in leaves)
        self.rows = min(max_rows, max(_FIRST_ROWS, _FIRST_BYTES // max(row_bytes, 1)))
        self._root = {key: _allocate(self.rows, *info) for key, info in root.items()}
        self._next = {key: _allocate(self.rows, *info) for key, info in {**root, **next_only}.items()}
        self._view()

    def _view(self) -> None:
        self.root = {key: tensor.numpy() for key, tensor in self._root.items()}
        self.next = {key: tensor.numpy() for key, tensor in self._next.items()}
        self._carried = [(self.root[key], self.next[key]) for key in self._root if as_tuple(key)[-1] not in END_KEYS]

    def grow(self) -> None:
        """Double the room, keeping the rows there are; arrays taken from the block before are stale after it."""
        rows = min(2 * self.rows, self.max_rows)
        for leaves in (self._root, self._next):
            for key, old in leaves.items():
                leaves[key] = _allocate(rows, old.shape[1:], old.dtype)
                leaves[key][: self.rows] = old
        self.rows = rows
        self._view()

    def carry(self, t: int) -> None:
        """Make row t+1's root from row t: ``step_mdp``, inside an episode.

        The end signals need no copy: inside an episode they are False, which is what an untouched row holds.

        Args:
            t: the row that was stepped.
        """
        for root, next_entry in self._carried:
            root[t + 1] = next_entry[t]

    def root_row(self, t: int) -> dict[NestedKey, torch.Tensor]:
        """Look at the root entries of one row.

        Args:
            t: the row.

        Returns:
            A view of each entry, by key.
        """
        return {key: tensor[t] for key, tensor in self._root.items()}

    def to_tensordict(self, length: int, extra: Mapping[NestedKey, Any] | None = None, **kwargs: Any) -> TensorDict:
        """Build the TensorDict around the first rows: once, at the end.

        Args:
            length: how many rows were filled.
            extra: further entries of shape ``[length, ...]``; a key may start with ``"next"``.
            **kwargs: passed to the TensorDict, such as its device.

        Returns:
            A TensorDict of batch size ``[length]`` whose dimension is named "time".
        """
        # A short rollout must not hold on to the storage of a long one.
        full = length == self.rows
        entries: dict[NestedKey, Any] = {}
        for prefix, leaves in ((), self._root), (("next",), self._next):
            for key, tensor in leaves.items():
                entries[as_key((*prefix, *as_tuple(key)))] = tensor if full else tensor[:length].clone()
        entries.update(extra or {})
        return TensorDict(entries, [length], names=["time"], **kwargs)


def _allocate(rows: int, shape: torch.Size | tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    # numpy's zeros come from the system untouched: rows that are never reached cost nothing, torch's are written once.
    numpy_dtype = torch.empty(0, dtype=dtype).numpy().dtype
    return torch.from_numpy(np.zeros((rows, *shape), dtype=numpy_dtype))

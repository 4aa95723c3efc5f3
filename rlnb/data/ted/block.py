"""TEDBlock: preallocated storage for a rollout, filled in place, row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from tensordict import TensorDict

from rlnb._tensordict import named
from rlnb.data.ted.keys import END_KEYS, NestedKey, as_key, as_tuple

# A block starts with at most this many bytes and doubles when it is full: max_steps is only a bound, and an episode of
# 20 steps must not pay for 100,000.
_FIRST_BYTES = 1 << 26
_FIRST_ROWS = 16

LeafInfo = tuple[torch.Size, torch.dtype]
Allocate = Callable[[tuple[int, ...], np.dtype], np.ndarray]


class EnvRows(NamedTuple):
    """Views of the rows of one env; both dictionaries hold arrays of shape ``[rows, *shape]``, by key."""

    root: dict[NestedKey, np.ndarray]
    next: dict[NestedKey, np.ndarray]


class TEDBlock:
    """The rows of a rollout in the TED format, for envs that write numpy data.

    Row *t* of ``root`` is the input of the policy at step *t*, row *t* of ``next`` the result of the step. Both are
    written through numpy views of torch storage, so a step copies each number once and creates no tensor.

    Args:
        root: shape (without batch and time) and dtype of each entry that a reset writes.
        next_only: shape and dtype of the entries that only a step writes, such as the reward.
        max_rows: the largest number of rows.
        batch: batch size of the env.
        allocate: returns an array of zeros of a shape and dtype. Default: ``numpy.zeros``.

    Attributes:
        root: numpy arrays of shape ``[*batch, rows, *shape]``, by key.
        next: numpy arrays of shape ``[*batch, rows, *shape]``, by key.
        rows: current number of rows.

    Raises:
        TypeError: If numpy does not support a dtype.

    Example:
        >>> block = TEDBlock({"observation": ((2,), torch.float32)}, {"reward": ((1,), torch.float32)}, max_rows=8)
        >>> block.root["observation"][0] = [1.0, 2.0]
        >>> block.next["observation"][0], block.next["reward"][0] = [3.0, 4.0], 1.0
        >>> block.to_tensordict(1)["next", "observation"]
        tensor([[3., 4.]])
    """

    def __init__(
        self,
        root: Mapping[NestedKey, LeafInfo],
        next_only: Mapping[NestedKey, LeafInfo],
        max_rows: int,
        batch: Sequence[int] = (),
        allocate: Allocate = np.zeros,
    ) -> None:
        self.max_rows, self.batch, self._allocate = max_rows, tuple(batch), allocate
        leaves = [*root.values(), *root.values(), *next_only.values()]
        row_bytes = sum(torch.Size((*batch, *shape)).numel() * dtype.itemsize for shape, dtype in leaves)
        self.rows = min(max_rows, max(_FIRST_ROWS, _FIRST_BYTES // max(row_bytes, 1)))
        self._root = {key: self._zeros(*info) for key, info in root.items()}
        self._next = {key: self._zeros(*info) for key, info in {**root, **next_only}.items()}
        self._view()

    def _zeros(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        # numpy.zeros leaves zeroing to the operating system, so unused rows cost nothing; torch.zeros writes them.
        numpy_dtype = torch.empty(0, dtype=dtype).numpy().dtype
        return torch.from_numpy(self._allocate((*self.batch, self.rows, *shape), numpy_dtype))

    def _view(self) -> None:
        self.root = {key: tensor.numpy() for key, tensor in self._root.items()}
        self.next = {key: tensor.numpy() for key, tensor in self._next.items()}
        self._carried = [(self.root[key], self.next[key]) for key in self._root if key not in END_KEYS]

    def _at(self, t: int | slice) -> tuple[int | slice, ...]:
        """The index of row t in all envs of the batch."""
        return (*[slice(None)] * len(self.batch), t)

    def env(self, *index: int) -> EnvRows:
        """Return views of the rows of one env, whose index has one number per batch dimension."""
        pick = [{key: array[index] for key, array in leaves.items()} for leaves in (self.root, self.next)]
        return EnvRows(*pick)

    def grow(self) -> None:
        """Double the number of rows and keep their content. Views taken before become stale."""
        filled = self._at(slice(self.rows))
        self.rows = min(2 * self.rows, self.max_rows)
        for leaves in (self._root, self._next):
            for key, old in leaves.items():
                leaves[key] = self._zeros(old.shape[len(self.batch) + 1 :], old.dtype)
                leaves[key][filled] = old
        self._view()

    def carry(self, t: int) -> None:
        """Copy the results of row t to the root of row t+1, as ``step_mdp`` does.

        The end signals at the root are not copied: inside an episode they are False, like in an unused row.
        """
        now: Any = t
        after: Any = t + 1
        if self.batch:
            now, after = self._at(now), self._at(after)
        for root, next_entry in self._carried:
            root[after] = next_entry[now]

    def carry_all(self, first: int, end: int) -> None:
        """Carry all rows of an episode: from row t to row t+1, for each t from ``first`` to ``end - 2``."""
        now, after = self._at(slice(first, end - 1)), self._at(slice(first + 1, end))
        for root, next_entry in self._carried:
            root[after] = next_entry[now]

    def root_row(self, t: int) -> dict[NestedKey, torch.Tensor]:
        """Return a view of each root entry of row t, by key."""
        now = self._at(t)
        return {key: tensor[now] for key, tensor in self._root.items()}

    def root_rows(self, key: NestedKey, span: slice) -> torch.Tensor:
        """Return a view of rows of a root entry, ``[*batch, rows, ...]``. It is stale after :meth:`grow`."""
        return self._root[key][self._at(span)]

    def next_row(self, t: int) -> dict[NestedKey, torch.Tensor]:
        """Return a view of each "next" entry of row t, by key."""
        now = self._at(t)
        return {key: tensor[now] for key, tensor in self._next.items()}

    def to_tensordict(self, length: int, extra: Mapping[NestedKey, Any] | None = None, **kwargs: Any) -> TensorDict:
        """Create a TensorDict of the first rows, once, at the end of the rollout.

        Args:
            length: number of filled rows.
            extra: further entries of shape ``[*batch, length, ...]``; keys may start with ``"next"``.
            **kwargs: further arguments of the TensorDict, such as its device.

        Returns:
            A TensorDict of batch size ``[*batch, length]`` whose last dimension is named "time".
        """
        # Copied unless full, so that a short rollout does not keep the storage of a long one alive.
        full, filled = length == self.rows, self._at(slice(length))
        entries: dict[NestedKey, Any] = {}
        for prefix, leaves in ((), self._root), (("next",), self._next):
            for key, tensor in leaves.items():
                entries[as_key((*prefix, *as_tuple(key)))] = tensor if full else tensor[filled].clone()
        entries.update(extra or {})
        names = [*[None] * len(self.batch), "time"]
        return named(TensorDict(entries, [*self.batch, length], **kwargs), names)

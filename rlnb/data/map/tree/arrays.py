"""TreeArrays: the nodes of a tree as a struct of arrays, which a Tree views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import NestedKey


class TreeArrays:
    """The nodes of a tree, one per row. Row 0 is the root; a node with several parents is one row.

    ``count`` and ``wins`` are shared with the tree, not copied: when a search writes to its arrays, the tree changes,
    and vice versa. The structure is a snapshot; create new TreeArrays, which is cheap, after the tree has grown.

    Args:
        children: the rows of the children of each node, in order: integers of shape ``[N, A]``, with -1 for no child.
            Rows that cannot be reached from row 0 are not part of the tree.
        node_data: the data of each node: a TensorDict of batch size ``[N]``, or a function from a row to a TensorDict.
        count: number of visits of each node, shape ``[N]``, an array or a tensor. Default: zeros, int32.
        wins: sum of the returns backed up through each node, shape ``[N]``. Default: zeros, float32.
        steps: the step that leads to each node, in the TED format, as a TensorDict of batch size ``[N]`` whose row 0 is
            ignored; or any number of steps, see ``step_rows``. Default: the steps are unknown.
        step_rows: the rows of ``steps`` that lead to each node, one list per node. ``steps`` is then anything that can
            be indexed with a tensor of rows and with a slice.
        hashes: hash of each node, shape ``[N]``, int64, or a function that returns them. Default: no hashes.
        index: a number for each child, of the shape of ``children``. Default: no numbers.
        specs: specs of the env.
        action_keys: keys of the actions in the steps. Default: those of ``specs``, else ``"action"``.

    Raises:
        ValueError: If the shapes do not match, a child is not a row, or a node is its own descendant.

    Example:
        >>> arrays = TreeArrays(
        ...     children=np.array([[1, 2], [-1, -1], [-1, -1]]),
        ...     node_data=TensorDict({"observation": torch.tensor([0, 5, 7])}, [3]),
        ...     count=np.array([2, 1, 1], dtype=np.int32),
        ... )
        >>> from rlnb.data import Tree
        >>> tree = Tree.from_arrays(arrays)
        >>> print(tree.to_string())
        (0,) {'observation': tensor(5)}
        (1,) {'observation': tensor(7)}
        >>> tree.count
        tensor(2, dtype=torch.int32)
    """

    def __init__(
        self,
        children: np.ndarray | torch.Tensor,
        node_data: TensorDictBase | Callable[[int], TensorDictBase],
        *,
        count: np.ndarray | torch.Tensor | None = None,
        wins: np.ndarray | torch.Tensor | None = None,
        steps: Any = None,
        step_rows: Sequence[Sequence[int]] | None = None,
        hashes: np.ndarray | torch.Tensor | Callable[[], np.ndarray] | None = None,
        index: np.ndarray | torch.Tensor | None = None,
        specs: Composite | None = None,
        action_keys: Sequence[NestedKey] | None = None,
    ) -> None:
        table = np.asarray(children)
        if table.ndim != 2 or not len(table) or table.dtype.kind not in "iu":
            raise ValueError(
                "children must be an array of integers of shape [nodes, actions] with at least one node, -1 for no "
                f"child, got shape {list(table.shape)} and dtype {table.dtype}. "
                "Fix: children=np.full((nodes, actions), -1), then fill in the rows of the children."
            )
        if table.size and (table.max() >= len(table) or table.min() < -1):
            raise ValueError(
                f"The values of children must be rows, 0 to {len(table) - 1}, or -1 for no child, got values from "
                f"{table.min()} to {table.max()}. Fix: write the row of the child, or -1."
            )
        rows, columns = np.nonzero(table >= 0)
        lists = np.split(table[rows, columns], np.cumsum((table >= 0).sum(1))[:-1])
        self.children: list[list[int]] = [row.tolist() for row in lists]
        _assert_no_cycle(self.children)
        self.index: list[Any] | None = None
        if index is not None:
            is_child = torch.as_tensor(table >= 0)
            self.index = [row[there] for row, there in zip(torch.as_tensor(index), is_child, strict=True)]
        if isinstance(node_data, TensorDictBase):
            _assert_length("node_data", len(node_data), len(table))
        self._take(node_data, count, wins, steps, step_rows, hashes, specs, action_keys)

    @classmethod
    def from_lists(cls, children: list[list[int]], node_data: Any, **others: Any) -> TreeArrays:
        """Create arrays from lists of children, which are trusted to have no cycles.

        Args:
            children: for each node the rows of its children; row 0 is the root.
            node_data: see the class.
            **others: further arguments of the class, with hashes and indices as lists.
        """
        self = cls.__new__(cls)
        self.children, self.index = children, others.pop("index", None)
        self._take(node_data, **others)
        return self

    def _take(
        self,
        node_data: Any,
        count: Any = None,
        wins: Any = None,
        steps: Any = None,
        step_rows: Any = None,
        hashes: Any = None,
        specs: Composite | None = None,
        action_keys: Sequence[NestedKey] | None = None,
    ) -> None:
        size = len(self.children)
        self._node_data, self._hashes, self.has_hashes = node_data, hashes, hashes is not None
        self.count = torch.zeros(size, dtype=torch.int32) if count is None else torch.as_tensor(count)
        self.wins = torch.zeros(size) if wins is None else torch.as_tensor(wins)
        for name, values in (("count", self.count), ("wins", self.wins)):
            _assert_length(name, len(values), size)
        if steps is not None and step_rows is None:
            _assert_length("steps", len(steps), size)
            step_rows = [[], *([row] for row in range(1, size))]
        if step_rows is not None:
            _assert_length("step_rows", len(step_rows), size)
        self.steps, self.step_rows = steps, step_rows
        self.specs, self.action_keys = specs, action_keys

    def __len__(self) -> int:
        return len(self.children)

    @cached_property
    def hashes(self) -> list[int] | None:
        """Hashes of all nodes, computed on first access."""
        found = self._hashes() if callable(self._hashes) else self._hashes
        return None if found is None else found.tolist()

    @cached_property
    def parents(self) -> list[list[int]]:
        """The rows of the parents of each row."""
        found: list[list[int]] = [[] for _ in self.children]
        for parent, children in enumerate(self.children):
            for child in children:
                found[child].append(parent)
        return found

    def node_data(self, row: int) -> TensorDictBase:
        """Return the data of the node at ``row``."""
        return self._node_data(row) if callable(self._node_data) else self._node_data[row]

    def has_rollout(self, row: int) -> bool:
        """Whether the steps that lead to the node at ``row`` are known."""
        return self.step_rows is not None and len(self.step_rows[row]) > 0

    def rollout(self, row: int) -> TensorDict:
        """Return the steps that lead to the node at ``row``, of batch size ``[steps]``."""
        assert self.step_rows is not None
        rows = self.step_rows[row]
        # The steps of one rollout are mostly contiguous, and a slice is cheaper to read.
        if rows[-1] - rows[0] + 1 == len(rows) and list(rows) == list(range(rows[0], rows[-1] + 1)):
            return self.steps[rows[0] : rows[-1] + 1]
        return self.steps[torch.as_tensor(rows)]


def _assert_length(name: str, length: int, size: int) -> None:
    if length != size:
        raise ValueError(
            f"{name} must have one row per node, {size} as children has, got {length}. "
            f"Fix: slice it to the nodes that are in use, such as {name}[:{size}]."
        )


def _assert_no_cycle(children: list[list[int]]) -> None:
    """Raise if a depth-first search meets a node again on its own path."""
    state = [0] * len(children)  # 0: not visited, 1: on the path, 2: finished
    stack = [(0, iter(children[0]))]
    state[0] = 1
    while stack:
        row, rest = stack[-1]
        for child in rest:
            if state[child] == 1:
                raise ValueError(
                    f"Row {child} of children is its own descendant: it is a child of row {row}. A tree has no cycles. "
                    "Fix: use a separate row for each node."
                )
            if not state[child]:
                state[child] = 1
                stack.append((child, iter(children[child])))
                break
        else:
            state[row] = 2
            stack.pop()

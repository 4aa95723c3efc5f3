"""A tree as arrays: what a forest or a search hands over to be seen as a Tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.data.specs import Composite
from rlnb.data.ted.keys import NestedKey


class TreeArrays:
    """The nodes of a tree, one a row. Row 0 is the root; a node with several parents is one row.

    ``count`` and ``wins`` are not copied: what a search writes into its arrays is seen by the tree at once, and the
    other way round. The structure is taken as it is now; make new TreeArrays, which is cheap, to see what grew.

    Args:
        children: which rows are the children of each, in order: an array of integers of shape ``[N, A]``, with -1
            where there is no child. A row that nothing leads to from row 0 is no part of the tree.
        node_data: the data of each node: a TensorDict of batch size ``[N]``, or a function from a row to a TensorDict.
        count: visits of each node, shape ``[N]``, an array or a tensor; None for zeros, int32.
        wins: the sum of what was won below each node, likewise; None for zeros, float32.
        steps: the steps that led to the nodes, in the TED format, as a TensorDict of batch size ``[N]``, of which row 0
            does not count; or see ``step_rows``. None if they are not known.
        step_rows: for steps of another number: those of each node, one list a node, as rows of ``steps`` (anything
            that a tensor of rows and a slice can index).
        hashes: of the nodes, shape ``[N]``, int64, or a function that returns them; None for none.
        index: a number for each child, in the shape of ``children``; None for none.
        specs: of the env that the tree is about.
        action_keys: which entries of the steps are actions; None for those of ``specs``, and without them for
            ``"action"``.

    Raises:
        ValueError: if the shapes do not fit, a child is no row, or a node is its own descendant.

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
                "children is an array of integers of shape [nodes, actions] with at least one node, -1 where there is "
                f"no child, and has shape {list(table.shape)} and dtype {table.dtype}. "
                "Fix: children=np.full((nodes, actions), -1) and fill in the rows of the children."
            )
        if table.size and (table.max() >= len(table) or table.min() < -1):
            raise ValueError(
                f"children has entries from {table.min()} to {table.max()}, and there are rows 0 to {len(table) - 1}. "
                "Fix: write the row of the child, or -1 for none."
            )
        rows, columns = np.nonzero(table >= 0)
        lists = np.split(table[rows, columns], np.cumsum((table >= 0).sum(1))[:-1])
        self.children: list[list[int]] = [row.tolist() for row in lists]
        _assert_no_cycle(self.children)
        numbers = None if index is None else torch.as_tensor(index)
        self.index = (
            None if numbers is None else [n[t >= 0] for n, t in zip(numbers, torch.as_tensor(table), strict=True)]
        )
        if isinstance(node_data, TensorDictBase):
            _assert_length("node_data", len(node_data), len(table))
        self._take(node_data, count, wins, steps, step_rows, hashes, specs, action_keys)

    @classmethod
    def from_lists(cls, children: list[list[int]], node_data: Any, **others: Any) -> TreeArrays:
        """Take lists of children that are known to be sound, as the forest makes them.

        Args:
            children: rows of the children of each row.
            node_data: see the class.
            others: see the class; ``index`` is a list with a tensor for each row.

        Returns:
            The arrays.
        """
        self = cls.__new__(cls)
        self.children, self.index = children, others.pop("index", None)
        defaults = dict.fromkeys(("count", "wins", "steps", "step_rows", "hashes", "specs", "action_keys"))
        self._take(node_data, **{**defaults, **others})
        return self

    def _take(
        self,
        node_data: Any,
        count: Any,
        wins: Any,
        steps: Any,
        step_rows: Any,
        hashes: Any,
        specs: Any,
        action_keys: Any,
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
        """Hashes of all nodes, computed when they are first asked for."""
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
        """The data of a node."""
        return self._node_data(row) if callable(self._node_data) else self._node_data[row]

    def has_rollout(self, row: int) -> bool:
        """Whether steps are known that led to a node."""
        return self.step_rows is not None and len(self.step_rows[row]) > 0

    def rollout(self, row: int) -> TensorDict:
        """The steps that led to a node."""
        assert self.step_rows is not None
        rows = self.step_rows[row]
        # Steps of one rollout mostly lie one after the other; a slice is cheaper to read.
        if rows[-1] - rows[0] + 1 == len(rows) and list(rows) == list(range(rows[0], rows[-1] + 1)):
            return self.steps[rows[0] : rows[-1] + 1]
        return self.steps[torch.as_tensor(rows)]


def _assert_length(name: str, length: int, size: int) -> None:
    if length != size:
        raise ValueError(
            f"{name} has a row for each node, {size} as children has, and has {length}. "
            f"Fix: cut it to the nodes that are in use, such as {name}[:{size}]."
        )


def _assert_no_cycle(children: list[list[int]]) -> None:
    """Follow all edges from the root, deepest first; a node that is met again on its own path is a cycle."""
    state = [0] * len(children)  # 0: not seen, 1: on the path, 2: done
    stack = [(0, iter(children[0]))]
    state[0] = 1
    while stack:
        row, rest = stack[-1]
        for child in rest:
            if state[child] == 1:
                raise ValueError(
                    f"Row {child} of children is its own descendant: row {row} has it as a child. A tree has no "
                    "cycles. Fix: give each node a row of its own."
                )
            if not state[child]:
                state[child] = 1
                stack.append((child, iter(children[child])))
                break
        else:
            state[row] = 2
            stack.pop()

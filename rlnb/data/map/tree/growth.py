"""Trees from the graph of a forest: which steps become nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict

from rlnb.data.map.hash import siphash
from rlnb.data.map.rows import RowKey
from rlnb.data.map.tree.arrays import TreeArrays
from rlnb.data.map.tree.graph import StepGraph
from rlnb.data.map.tree.steps import Steps
from rlnb.data.specs.composite import Composite
from rlnb.data.ted.columns import Path
from rlnb.data.ted.keys import NestedKey


def tree_arrays(
    graph: StepGraph,
    steps: Steps,
    state: int,
    *,
    max_depth: int | None,
    compact: bool,
    observation: list[Path],
    action_keys: Sequence[NestedKey],
    specs: Composite | None,
) -> TreeArrays:
    """Make the tree that starts at a state.

    A node is identified by the edge that branches off to it. Its rollout is therefore unique, and a node that several
    paths lead to is one row with several parents.

    Args:
        graph: the states and the steps between them.
        steps: the stored entries of the steps.
        state: number of the state at the root.
        max_depth: depth of the deepest nodes, or ``None``.
        compact: whether a chain of steps without branches becomes one node.
        observation: paths of the entries that become the data of the nodes.
        action_keys: keys of the actions, passed on to the tree.
        specs: specs of the env, passed on to the tree.

    Returns:
        The arrays of the tree.
    """
    out, edge_keys = graph.out, graph.edge_keys
    chain, end = _chain(graph, state) if compact else ([], state)
    rows: dict[int, int] = {}  # of the nodes, by the edge that branches off to them
    step_rows, ends, children, index = [chain], [end], [], []
    depth, last = 0, 1  # rows before `last` have at most this depth
    # Rows are created breadth first and opened in that order, so the depth of a row is its smallest one.
    row = 0
    while row < len(ends):
        if row == last:
            depth, last = depth + 1, len(ends)
        below: list[int] = []
        edges = out[ends[row]] if max_depth is None or depth < max_depth else []
        for edge in edges:
            child = rows.get(edge)
            if child is None:
                child = rows[edge] = len(ends)
                after = edge_keys[edge][2]
                further, end = _chain(graph, after) if compact else ([], after)
                step_rows.append([edge, *further])
                ends.append(end)
            below.append(child)
        children.append(below)
        index.append(edges)
        row += 1
    return TreeArrays.from_lists(
        children,
        _NodeData(steps, step_rows, observation, _data_of(graph, steps, state, observation)),
        steps=steps,
        step_rows=step_rows,
        index=_Tensors(index),
        hashes=_Hashes(graph, [state, *rows]),
        specs=specs,
        action_keys=list(action_keys),
    )


def _chain(graph: StepGraph, state: int) -> tuple[list[int], int]:
    """The steps from a state to the next one where rollouts branch or end, and that state."""
    out, edge_keys = graph.out, graph.edge_keys
    steps: list[int] = []
    while len(out[state]) == 1:
        steps.append(out[state][0])
        state = edge_keys[steps[-1]][2]
    return steps, state


def _data_of(graph: StepGraph, steps: Steps, state: int, observation: list[Path]) -> TensorDict:
    """The observation of a state, read from a step that leaves it or leads to it."""
    out = graph.out[state]
    if out:
        return steps.select(observation, out[0])
    edge = next(edge for edge, key in enumerate(graph.edge_keys) if key[2] == state)
    return steps.select([("next", *path) for path in observation], edge)


class _NodeData:
    """Reads the data of a node: the observation after the last step that leads to it."""

    def __init__(self, steps: Steps, step_rows: list[list[int]], observation: list[Path], root: TensorDict) -> None:
        self._steps, self._step_rows, self._root = steps, step_rows, root
        self._paths = [("next", *path) for path in observation]

    def __call__(self, row: int) -> TensorDict:
        rows = self._step_rows[row]
        return self._steps.select(self._paths, rows[-1]) if rows else self._root


class _Tensors:
    """Lists of numbers, each converted to a tensor when it is read."""

    def __init__(self, lists: list[list[int]]) -> None:
        self._lists = lists

    def __getitem__(self, row: int) -> torch.Tensor:
        return torch.tensor(self._lists[row])


class _Hashes:
    """Computes the hashes of a state and of edges from the data that identifies them."""

    def __init__(self, graph: StepGraph, root_and_edges: list[int]) -> None:
        self._graph, self._members = graph, root_and_edges

    def __call__(self) -> np.ndarray:
        keys, edge_keys = self._graph.keys, self._graph.edge_keys
        rows = [_as_bytes(keys[self._members[0]])]
        for edge in self._members[1:]:
            source, action, target = edge_keys[edge]
            rows.append(_as_bytes(keys[source]) + _as_bytes(action) + _as_bytes(keys[target]))
        found = np.empty(len(rows), np.int64)
        widths: dict[int, list[int]] = {}
        for row, data in enumerate(rows):
            widths.setdefault(len(data), []).append(row)
        for width, members in widths.items():
            together = b"".join(rows[row] for row in members)
            found[members] = siphash(np.frombuffer(together, np.uint8).reshape(len(members), width))
        return found


def _as_bytes(key: RowKey) -> bytes:
    if isinstance(key, bytes):
        return key
    parts: Any = key
    if isinstance(parts, tuple) and len(parts) == 2 and isinstance(parts[0], type):
        return f"{parts[0].__qualname__}:{parts[1]!r};".encode()
    return b"".join(map(_as_bytes, parts))

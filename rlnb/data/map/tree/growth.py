"""Trees from the graph of a forest: which steps become nodes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from tensordict import TensorDict

from rlnb.data.map.hash import siphash
from rlnb.data.map.rows import RowKey
from rlnb.data.map.tree.arrays import TreeArrays
from rlnb.data.map.tree.graph import StepGraph
from rlnb.data.map.tree.steps import Steps
from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import NestedKey
from rlnb.data.ted.ragged import Path


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
    paths lead to is one row with several parents. With ``compact``, a chain of steps without branches becomes one node.
    The entries at the ``observation`` paths become the data of the nodes.
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
        index.append(list(edges))  # copied: the list grows with the forest
        row += 1
    root, after_step = _data_of(graph, steps, state, observation), [("next", *path) for path in observation]

    def node_data(row: int) -> TensorDict:
        return steps.select(after_step, step_rows[row][-1]) if step_rows[row] else root

    return TreeArrays.from_lists(
        children,
        node_data,
        steps=steps,
        step_rows=step_rows,
        index=index,
        hashes=partial(_hashes, graph, state, list(rows)),
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


def _hashes(graph: StepGraph, state: int, edges: list[int]) -> np.ndarray:
    """Hashes of a state and of edges, from the data that identifies them."""
    keys, edge_keys = graph.keys, graph.edge_keys
    rows = [_as_bytes(keys[state])]
    for edge in edges:
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

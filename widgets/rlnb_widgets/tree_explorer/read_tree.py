"""Conversion of a Tree to columns: from its arrays if it is a view of arrays, else node by node."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from tensordict import TensorDictBase

from rlnb.data.map.tree.arrays import TreeArrays
from rlnb.data.map.tree.node import Tree
from rlnb.data.map.tree.steps import Steps
from rlnb.data.map.tree.view import NodeView, view_of
from rlnb.data.ted.keys import NestedKey, as_tuple
from rlnb_widgets.tree_explorer import layout
from rlnb_widgets.tree_explorer.schema import Edges, Nodes, TreeModel, Values


class _Rows(NamedTuple):
    """A tree as rows in any order, one per node."""

    root: int  #: row of the root
    children: list[list[int]]  #: rows of the children of each row
    visits: np.ndarray  #: visits of each row
    wins: np.ndarray  #: sum of the returns of each row
    steps: np.ndarray  #: number of steps that led to each row
    action: np.ndarray | None  #: the first action of these steps, ``[rows, ...]``; None if it is not known
    reward: np.ndarray  #: sum of the rewards of these steps
    terminal: np.ndarray | None  #: whether the episode ends there; None if it is not known


def read_tree(tree: Tree) -> tuple[TreeModel, Callable[[int], Tree]]:
    """Return the model of a tree, with columns only, and a function that returns the Tree of a node."""
    viewed = view_of(tree._tensordict)
    rows, make = _walked(tree) if viewed is None else _viewed(tree, *viewed)
    model, order = _model(rows)
    return model, lambda node: make(int(order[node]))


# Reading ----------------------------------------------------------------------------------------------------------


def _viewed(tree: Tree, view: NodeView, root: int) -> tuple[_Rows, Callable[[int], Tree]]:
    """Read a tree that is a view of arrays."""
    arrays = view.arrays
    n = len(arrays)
    count, wins = _numbers(arrays.count), _numbers(arrays.wins)
    for name, column in (("count", count), ("wins", wins)):
        for row, value in view.seen(name).items():
            column[row] = float(value)
    lengths = np.array(list(map(len, arrays.step_rows or [()] * n)), dtype=np.int64)
    action, reward, terminal = _read_steps(tree, arrays, lengths)
    rows = _Rows(root, arrays.children, count, wins, lengths, action, reward, terminal)
    return rows, lambda row: tree if row == root else Tree._from_tensordict(view.node(row))


def _numbers(column: torch.Tensor) -> np.ndarray:
    return column.detach().cpu().double().numpy().reshape(len(column), -1).sum(1)


def _read_steps(
    tree: Tree, arrays: TreeArrays, lengths: np.ndarray
) -> tuple[np.ndarray | None, np.ndarray, np.ndarray | None]:
    """Read actions, rewards and ends of the steps that led to the nodes."""
    n, reward = len(arrays), np.zeros(len(arrays))
    led = np.flatnonzero(lengths)
    if arrays.step_rows is None or not len(led):
        return None, reward, None
    rows = np.fromiter(chain.from_iterable(arrays.step_rows), np.int64, int(lengths.sum()))
    first = (np.cumsum(lengths) - lengths)[led]
    found = _column(arrays.steps, ("next", "reward"), rows)
    if found is not None:
        np.add.at(reward, np.repeat(np.arange(n), lengths), found.reshape(len(rows), -1).sum(1))
    done = _column(arrays.steps, ("next", "done"), rows[first + lengths[led] - 1])
    terminal = None
    if done is not None:
        terminal = np.zeros(n, dtype=bool)
        terminal[led] = done.reshape(len(led), -1).any(1)
    keys = list(arrays.action_keys or tree._spec_keys("input_spec", "full_action_spec") or ["action"])
    taken = _column(arrays.steps, keys[0], rows[first]) if len(keys) == 1 else None
    if taken is None:
        return None, reward, terminal
    action = np.zeros((n, *taken.shape[1:]), dtype=taken.dtype)
    action[led] = taken
    return action, reward, terminal


def _column(steps: Any, key: NestedKey, rows: np.ndarray) -> np.ndarray | None:
    """Read a single entry of some steps."""
    index = torch.from_numpy(rows)
    if isinstance(steps, Steps):
        memory: Any = steps.columns.get(as_tuple(key))
        value = memory.take(index) if hasattr(memory, "take") else None
    elif isinstance(steps, TensorDictBase):
        value = steps.get(key, None)
        value = value[index.to(value.device)] if isinstance(value, torch.Tensor) else None
    else:
        value = steps[index].get(key, None)
    return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else None


def _walked(tree: Tree) -> tuple[_Rows, Callable[[int], Tree]]:
    """Read a tree that was built by hand or loaded, by walking it."""
    nodes: list[Tree] = [tree]
    children: list[list[int]] = [[]]
    known, on_way, stack = {_name(tree): 0}, {0}, [(0, 0)]
    while stack:
        row, place = stack.pop()
        if place == nodes[row].num_children:
            on_way.discard(row)
            continue
        stack.append((row, place + 1))
        child = nodes[row].subtree[place]
        number = known.setdefault(_name(child), len(nodes))
        if number in on_way:
            node_id = nodes[row].node_id
            where = "a node" if node_id is None else f"the node with id {node_id}"
            raise ValueError(
                f"A tree has no cycles, and {where} is its own descendant. Fix: make a new node for the child."
            )
        children[row].append(number)
        if number == len(nodes):
            nodes.append(child)
            children.append([])
            on_way.add(number)
            stack.append((number, 0))
    nodes, children = _by_number(nodes, children)
    rollouts = [node.rollout for node in nodes]
    ends = [None if rollout is None else rollout.get(("next", "done"), None) for rollout in rollouts]
    actions = [None if row == 0 or node.rollout is None else _action(node) for row, node in enumerate(nodes)]
    rows = _Rows(
        root=0,
        children=children,
        visits=np.array([_number(node.count) for node in nodes]),
        wins=np.array([_number(node.wins) for node in nodes]),
        steps=np.array([0 if rollout is None else rollout.numel() for rollout in rollouts]),
        action=_stacked(actions[1:]),
        reward=np.array([0.0 if r is None else _number(r.get(("next", "reward"), None)) for r in rollouts]),
        terminal=None if all(end is None for end in ends) else np.array([_at_end(end) for end in ends]),
    )
    return rows, lambda row: nodes[row]


def _by_number(nodes: list[Tree], children: list[list[int]]) -> tuple[list[Tree], list[list[int]]]:
    """Sort nodes by ``node_id`` if these are unique, so that a copy of a tree has the order of the original."""
    numbers = [-1 if node.node_id is None else int(node.node_id) for node in nodes]
    if len(set(numbers)) < len(numbers) or min(numbers) != numbers[0]:
        return nodes, children
    order = sorted(range(len(nodes)), key=numbers.__getitem__)
    new = {old: place for place, old in enumerate(order)}
    return [nodes[old] for old in order], [[new[child] for child in children[old]] for old in order]


def _name(node: Tree) -> Any:
    """Return the identity of a node: number and hash for copies, else the object itself."""
    number, hash_ = node.node_id, node.hash
    return id(node._tensordict) if number is None or hash_ is None else (number, hash_)


def _number(value: Any) -> float:
    return 0.0 if value is None else float(torch.as_tensor(value).double().sum())


def _at_end(end: torch.Tensor | None) -> bool:
    return end is not None and bool(end[-1].any())


def _action(node: Tree) -> torch.Tensor | None:
    try:
        action = node.branching_action
    except KeyError:  # the key of the action is not known
        return None
    return action if isinstance(action, torch.Tensor) else None


def _stacked(actions: list[torch.Tensor | None]) -> np.ndarray | None:
    """Stack the actions of all nodes but the root, with a row of zeros for the root."""
    if not actions or any(action is None for action in actions):
        return None
    given = [action.detach().cpu() for action in actions if action is not None]
    if len({(action.shape, action.dtype) for action in given}) > 1:
        return None
    return torch.stack([torch.zeros_like(given[0]), *given]).numpy()


# Columns ----------------------------------------------------------------------------------------------------------


def _model(rows: _Rows) -> tuple[TreeModel, np.ndarray]:
    """Number the nodes with parents before children, and make the columns; also return the row of each node."""
    counts = np.array(list(map(len, rows.children)), dtype=np.int64)
    flat = np.fromiter(chain.from_iterable(rows.children), np.int64, int(counts.sum()))
    source = np.repeat(np.arange(len(counts)), counts)
    order, parent = _numbered(rows.root, counts, flat, source)
    new = np.full(len(counts), -1, dtype=np.int64)
    new[order] = np.arange(len(order))
    kept = new[source] >= 0
    node, child = new[source[kept]], new[flat[kept]]
    place = (np.arange(len(flat)) - np.repeat(np.cumsum(counts) - counts, counts))[kept]
    action, notes = _action_numbers(rows.action, order, child, place)
    sort = np.lexsort((place, action, node))
    node, child, action = node[sort], child[sort], action[sort]
    nodes = _nodes(rows, order, parent, node, child, action)
    visits, wins = nodes.visits, nodes.value_sum
    visited = bool(visits.any())
    if not visited and len(order) > 1:
        notes.append("No node was visited, so areas stand for the number of nodes at and below a node.")
        if nodes.shared.any():
            notes.append("A node that can be reached in several ways is counted once, where it is drawn.")
    edges = Edges(
        first=np.concatenate(([0], np.cumsum(nodes.legal))),
        node=node,
        action=action,
        child=child,
        visits=visits[child],
        value_sum=wins[child],
        prior=np.zeros(len(child)),
    )
    model = TreeModel(
        kind="tree",
        name="Tree",
        n_actions=int(action.max(initial=-1)) + 1,
        nodes=nodes,
        edges=edges,
        values=_values(visits, wins),
        sized_by="visits" if visited else "nodes",
        priors=False,
        notes=tuple(notes),
    )
    return model, order


def _nodes(
    rows: _Rows, order: np.ndarray, parent: np.ndarray, node: np.ndarray, child: np.ndarray, action: np.ndarray
) -> Nodes:
    """Return the columns of the nodes; ``order`` is the row of each node, the other arrays describe the edges."""
    n = len(order)
    depth, edge = layout.depths(parent), layout.tree_edges(parent, node, child)
    visits = rows.visits[order].astype(np.int64)
    size = visits if visits.any() else layout.below(parent, depth)
    start, end = layout.spans(parent, depth, size, node, child)
    children = np.bincount(node, minlength=n)
    return Nodes(
        parent=parent,
        action=np.append(action, -1)[edge],
        edge=edge,
        depth=depth,
        to_play=np.zeros(n, dtype=np.int8),
        terminal=children == 0 if rows.terminal is None else rows.terminal[order],
        shared=np.bincount(child, minlength=n) > 1,
        steps=np.where(parent >= 0, np.maximum(rows.steps[order], 1), 0),
        legal=children,
        visits=visits,
        value_sum=rows.wins[order],
        evaluation=np.zeros(n),
        reward=np.where(parent >= 0, rows.reward[order], 0.0),
        size=size,
        start=start,
        end=end,
    )


def _numbered(root: int, counts: np.ndarray, flat: np.ndarray, source: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort rows with parents before children; return the rows, and the new number of the parent of each."""
    n = len(counts)
    parent = np.full(n, -1, dtype=np.int64)
    if root == 0 and (source < flat).all() and np.bincount(flat, minlength=n)[1:].all():
        parent[flat[::-1]] = source[::-1]  # already in order; a node with several parents keeps the first
        return np.arange(n), parent
    first = np.cumsum(counts) - counts
    seen = np.zeros(n, dtype=bool)
    seen[root] = True
    front, levels = np.array([root]), [np.array([root])]
    while len(front):
        many = counts[front]
        edges = np.repeat(first[front] - (np.cumsum(many) - many), many) + np.arange(many.sum())
        edges = edges[~seen[flat[edges]]]
        children, at = np.unique(flat[edges], return_index=True)
        front = children[np.argsort(at)]
        parent[children], seen[children] = source[edges[at]], True
        levels.append(front)
    order = np.concatenate(levels)
    new = np.full(n + 1, -1, dtype=np.int64)  # one more entry, so that -1 maps to -1
    new[order] = np.arange(len(order))
    return order, new[parent[order]]


def _action_numbers(
    found: np.ndarray | None, order: np.ndarray, child: np.ndarray, place: np.ndarray
) -> tuple[np.ndarray, list[str]]:
    """Number the actions of the edges: by index or one-hot vector if they are such, else by their order."""
    if found is not None and len(child):
        taken = found[order][child].reshape(len(child), -1)
        if taken.shape[1] == 1 and taken.dtype.kind in "iu" and taken.min() >= 0:
            return taken[:, 0].astype(np.int64), []
        if taken.shape[1] > 1 and taken.dtype.kind in "iub" and (taken.astype(bool).sum(1) == 1).all():
            return taken.argmax(1), []
    note = "The actions are not integers, so they are numbered by the order of the children, from 0."
    return place, [note] if len(child) else []


def _values(visits: np.ndarray, wins: np.ndarray) -> Values:
    means = wins[visits > 0] / visits[visits > 0]
    low, high = (float(means.min()), float(means.max())) if len(means) else (0.0, 0.0)
    if low < 0 < high:
        low, high = -max(-low, high), max(-low, high)
    if low == high:
        low, high = low - 1, high + 1
    return Values(low, high, (low + high) / 2, "wins / count", False)

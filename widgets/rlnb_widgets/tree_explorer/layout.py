"""Layout of trees: depths, spans of the icicle, the principal variation, and the nodes that are open at first."""

from __future__ import annotations

import numpy as np

#: How many nodes of the principal variation are open at first, and how many children of each, as in the page.
_MOST_DEEP, _MOST_CHILDREN, _MOST_ROOT_CHILDREN = 12, 2, 6


def depths(parent: np.ndarray) -> np.ndarray:
    """Return the depth of each node from its parent (-1 for the root), ``[n]``.

    Example:
        >>> depths(np.array([-1, 0, 1, 1])).tolist()
        [0, 1, 2, 2]
    """
    return _to_root((parent >= 0).astype(np.int64), parent)


def _to_root(numbers: np.ndarray, parent: np.ndarray) -> np.ndarray:
    """Sum numbers along the path to the root, by pointer doubling: each round covers twice the distance."""
    total, far = numbers.copy(), parent.astype(np.int64)
    while (going := np.flatnonzero(far >= 0)).size:
        total[going] += total[far[going]]
        far[going] = far[far[going]]
    return total


def tree_edges(parent: np.ndarray, edge_node: np.ndarray, edge_child: np.ndarray) -> np.ndarray:
    """Return the edge by which each node is drawn, the first one from its parent, ``[n]``; -1 for the root."""
    edges = np.full(len(parent), -1, dtype=np.int64)
    own = np.flatnonzero((edge_child >= 0) & (parent[edge_child] == edge_node))[::-1]
    edges[edge_child[own]] = own  # in reverse order, so that the first edge is written last
    return edges


def _levels(depth: np.ndarray) -> list[np.ndarray]:
    """Return the nodes of each depth."""
    order = np.argsort(depth, kind="stable")
    return np.split(order, np.cumsum(np.bincount(depth))[:-1])


def below(parent: np.ndarray, depth: np.ndarray) -> np.ndarray:
    """Return the number of nodes at and below each node, ``[n]``.

    Example:
        >>> below(np.array([-1, 0, 1, 1]), np.array([0, 1, 2, 2])).tolist()
        [4, 3, 1, 1]
    """
    count = np.ones(len(parent), dtype=np.int64)
    for level in _levels(depth)[:0:-1]:
        np.add.at(count, parent[level], count[level])
    return count


def spans(
    parent: np.ndarray, depth: np.ndarray, size: np.ndarray, edge_node: np.ndarray, edge_child: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Lay out an icicle; return start and end of each node in [0, 1], ``[n]`` each.

    A node is as wide as its size, and at least as wide as its children, which lie side by side below it from its left
    end.

    Example:
        >>> parent, nodes = np.array([-1, 0, 0]), np.array([0, 0])
        >>> spans(parent, depths(parent), np.array([4, 1, 2]), nodes, np.array([1, 2]))[0].tolist()
        [0.0, 0.0, 0.25]
    """
    wide = np.maximum(size, 0).astype(np.float64)
    inside = np.zeros(len(parent))
    for level in _levels(depth)[:0:-1]:
        wide[level] = np.maximum(wide[level], inside[level])
        np.add.at(inside, parent[level], wide[level])
    wide[0] = max(wide[0], inside[0])
    drawn = np.sort(tree_edges(parent, edge_node, edge_child)[1:])
    child, above = edge_child[drawn], edge_node[drawn]
    offset = np.zeros(len(parent))
    if len(drawn):
        before = np.cumsum(wide[child]) - wide[child]
        fresh = np.flatnonzero(np.diff(above, prepend=-1))
        offset[child] = before - np.repeat(before[fresh], np.diff(fresh, append=len(above)))
    start = _to_root(offset, parent)
    total = max(wide[0], 1e-300)
    return start / total, (start + wide) / total


def children_by_size(
    node: int, first: np.ndarray, edge_child: np.ndarray, weight: np.ndarray, most: int | None = None
) -> list[int]:
    """Return at most ``most`` children of a node by the weight of their edges, largest first, without duplicates."""
    edges = np.arange(first[node], first[node + 1])
    edges = edges[edge_child[edges] >= 0]
    order = edges[np.argsort(-weight[edges], kind="stable")]
    return list(dict.fromkeys(edge_child[order].tolist()))[:most]


def principal(first: np.ndarray, edge_child: np.ndarray, weight: np.ndarray, mean: np.ndarray) -> tuple[int, ...]:
    """Return the principal variation: from the root along the largest edges, among equals by the best mean."""
    weight = np.where(edge_child >= 0, weight, -1.0)
    way = [0]
    while True:
        begin, end = int(first[way[-1]]), int(first[way[-1] + 1])
        if begin == end:
            return tuple(way)
        most = weight[begin:end] == weight[begin:end].max()
        best = begin + int(np.where(most, mean[begin:end], -np.inf).argmax())
        if edge_child[best] < 0:
            return tuple(way)
        way.append(int(edge_child[best]))


def open_nodes(way: tuple[int, ...], first: np.ndarray, edge_child: np.ndarray, weight: np.ndarray) -> tuple[int, ...]:
    """Return the nodes that are drawn at first: the principal variation, and the largest children of its nodes."""
    found = {0}
    for node, after in zip(way[:_MOST_DEEP], (*way[1:], None), strict=False):
        most = _MOST_CHILDREN if node else _MOST_ROOT_CHILDREN
        # Among equals the principal variation need not go on with one of the first.
        chosen = ([] if after is None else [after]) + children_by_size(node, first, edge_child, weight, most)
        found.update(list(dict.fromkeys(chosen))[:most])
    return tuple(sorted(found))

"""Where the nodes of a drawn tree stand: leaves side by side, parents above the middle of their children."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Layout(NamedTuple):
    """A drawing of a tree.

    Attributes:
        positions: of the nodes, shape ``[nodes, 2]``: from left to right in widths of a leaf, and down in steps.
        parents: the node that each one hangs below, shape ``[nodes]``; -1 for the root, which is node 0.
    """

    positions: np.ndarray
    parents: np.ndarray


def layout(children: list[list[int]]) -> Layout:
    """Lay a tree out.

    Args:
        children: of each node; node 0 is the root, and every node comes after one that leads to it. A node that several
            nodes lead to hangs below the first of them.

    Returns:
        The layout.

    Example:
        >>> layout([[1, 2], [], []]).positions.tolist()
        [[0.5, 0.0], [0.0, -1.0], [1.0, -1.0]]
    """
    count = len(children)
    parents = np.full(count, -1)
    depth = np.zeros(count)
    own: list[list[int]] = [[] for _ in children]
    for node, below in enumerate(children):
        for child in below:
            if child and parents[child] < 0:
                parents[child] = node
                depth[child] = depth[node] + 1
                own[node].append(child)
    x = np.zeros(count)
    stack, leaves, order = [0], 0, []
    while stack:
        node = stack.pop()
        order.append(node)
        if not own[node]:
            x[node] = leaves
            leaves += 1
        stack.extend(reversed(own[node]))
    for node in reversed(order):
        if own[node]:
            x[node] = (x[own[node][0]] + x[own[node][-1]]) / 2
    return Layout(np.stack([x, 0.0 - depth], 1), parents)

"""Two trees beside each other: which nodes they share, and where their best ways part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlnb_widgets.tree_explorer import faults
from rlnb_widgets.tree_explorer.schema import Parting, TreeModel

__all__ = ["Comparison", "compared", "matched"]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Another tree beside the one that is shown.

    Args:
        other: the other tree.
        match: for each node here the one in the other that the same actions lead to; -1 without one.
        parting: where the ways by the actions visited most part; None if they are the same.
    """

    other: TreeModel
    match: np.ndarray
    parting: Parting | None

    @property
    def shared(self) -> int:
        """How many nodes are in both."""
        return int((self.match >= 0).sum())


def compared(model: TreeModel, other: TreeModel) -> Comparison:
    """Compare two trees action by action.

    Args:
        model: the tree that is shown.
        other: the other one.

    Returns:
        The comparison.

    Raises:
        ValueError: if they have different numbers of actions.
    """
    if model.kind == other.kind == "search" and model.n_actions != other.n_actions:
        raise ValueError(faults.other_actions(model.n_actions, other.n_actions))
    match = matched(model, other)
    return Comparison(other, match, _parting(model, other, match))


def matched(model: TreeModel, other: TreeModel) -> np.ndarray:
    """Find for each node the one in another tree that the same actions lead to from the root.

    Args:
        model: a tree.
        other: another one.

    Returns:
        Nodes of the other, -1 without one, ``[n]``.
    """
    base = max(model.n_actions, other.n_actions, 1)
    keys = other.nodes.parent.astype(np.int64) * base + other.nodes.action
    order = np.argsort(keys, kind="stable")
    sorted_keys = keys[order]
    match = np.full(len(model.nodes), -1, dtype=np.int64)
    match[0] = 0
    depth = model.nodes.depth
    for level in range(1, int(depth.max(initial=0)) + 1):
        nodes = np.flatnonzero(depth == level)
        above = match[model.nodes.parent[nodes]]
        nodes, above = nodes[above >= 0], above[above >= 0]
        if not len(nodes):
            break
        wanted = above * base + model.nodes.action[nodes]
        at = np.minimum(np.searchsorted(sorted_keys, wanted), len(sorted_keys) - 1)
        found = sorted_keys[at] == wanted
        match[nodes[found]] = order[at[found]]
    return match


def same_numbers(before: TreeModel, now: TreeModel) -> bool:
    """Whether a tree is another one that grew or shrank: what both have is numbered alike."""
    n = min(len(before.nodes), len(now.nodes))
    pairs = ((getattr(before.nodes, name), getattr(now.nodes, name)) for name in ("parent", "action"))
    return all(np.array_equal(a[:n], b[:n]) for a, b in pairs)


def _parting(model: TreeModel, other: TreeModel, match: np.ndarray) -> Parting | None:
    """Go down both principal variations as long as they are one."""
    for here, there in zip([*model.principal, -1], [*other.principal, -1], strict=False):
        if here < 0 or there < 0 or match[here] != there:
            break
    else:
        return None
    if here < 0 and there < 0:
        return None
    above = model.principal[-1] if here < 0 else int(model.nodes.parent[here])
    return Parting(
        path=tuple(model.path(above)),
        node=above,
        other=int(match[above]),
        action=-1 if here < 0 else int(model.nodes.action[here]),
        other_action=-1 if there < 0 else int(other.nodes.action[there]),
    )

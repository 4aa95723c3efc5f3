"""Comparison of two trees: shared nodes, and where their principal variations diverge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlnb_widgets.tree_explorer.schema import TreeDivergence, TreeModel

#: Names of two trees that were given none.
UNNAMED = ("this tree", "the other tree")


@dataclass(frozen=True, eq=False)
class Comparison:
    """A second tree next to the tree that is shown."""

    other: TreeModel  #: the second tree
    #: for each node the node of the second tree that the same actions lead to, ``[n]``; -1 if there is none
    match: np.ndarray
    parting: TreeDivergence | None  #: where the principal variations diverge; None if they are equal
    names: tuple[str, str]  #: names of the tree that is shown and of the second one

    @property
    def shared(self) -> int:
        """Number of nodes in both trees."""
        return int((self.match >= 0).sum())


def compared(model: TreeModel, other: TreeModel, names: tuple[str, str] = UNNAMED) -> Comparison:
    """Compare two trees action by action.

    Raises:
        ValueError: If they have different numbers of actions.
    """
    if model.kind == other.kind == "search" and model.n_actions != other.n_actions:
        raise ValueError(
            f"Two trees are compared action by action, and the first has {model.n_actions} actions, the second "
            f"{other.n_actions}. Fix: give two searches of the same game, such as with two rules or two seeds."
        )
    match = matched(model, other)
    return Comparison(other, match, _parting(model, other, match), names)


def matched(model: TreeModel, other: TreeModel) -> np.ndarray:
    """Return for each node the node of another tree that the same actions lead to, ``[n]``; -1 if there is none."""
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
    """Whether two trees are stages of one search, so that their common nodes have the same numbers."""
    n = min(len(before.nodes), len(now.nodes))
    pairs = ((getattr(before.nodes, name), getattr(now.nodes, name)) for name in ("parent", "action"))
    return all(np.array_equal(a[:n], b[:n]) for a, b in pairs)


def _parting(model: TreeModel, other: TreeModel, match: np.ndarray) -> TreeDivergence | None:
    """Follow both principal variations until they diverge."""
    for here, there in zip([*model.principal, -1], [*other.principal, -1], strict=False):
        if here < 0 or there < 0 or match[here] != there:
            break
    else:
        return None
    if here < 0 and there < 0:
        return None
    above = model.principal[-1] if here < 0 else int(model.nodes.parent[here])
    return TreeDivergence(
        path=tuple(model.path(above)),
        node=above,
        other=int(match[above]),
        action=-1 if here < 0 else int(model.nodes.action[here]),
        other_action=-1 if there < 0 else int(other.nodes.action[there]),
    )

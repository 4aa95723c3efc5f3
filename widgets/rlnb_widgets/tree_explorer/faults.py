"""What the explorer says when something cannot be shown."""

from __future__ import annotations

from typing import Any


def not_a_tree(given: Any, name: str) -> str:
    """Say that something is neither a search nor a Tree."""
    hints = {
        "MCTSForest": "a forest holds many trees; take one, forest.get_tree(root)",
        "SearchTree": "give the search itself, TreeExplorer(search)",
        "TreeArrays": "TreeExplorer(Tree.from_arrays(arrays))",
        "TensorDict": "a rollout is grown into a tree by a forest: forest.extend(rollout), then forest.get_tree(root)",
    }
    said = f"the class {given.__name__}" if isinstance(given, type) else f"a {type(given).__name__}"
    fix = hints.get(type(given).__name__, "search = MCTS(env).reset().run(simulations=100), then TreeExplorer(search)")
    return f"{name} must be a search (MCTS) or a Tree, and is {said}. Fix: {fix}."


def no_roots(name: str) -> str:
    """Say that a search has no root yet."""
    return (
        f"{name} is a search without a root, so there is no tree to show. Fix: search.reset(), or search.reset(td) "
        "with what env.reset() or env.step() returned, then TreeExplorer(search)."
    )


def bad_index(index: Any, batch: int) -> str:
    """Say that there is no such root."""
    if type(index) is not int:
        return f"index must be an integer that says which root of the search is shown, and is {index!r}."
    roots = "1 root, number 0" if batch == 1 else f"{batch} roots, numbers 0 to {batch - 1}"
    return f"index={index} names no root: the search has {roots}. Fix: TreeExplorer(search, index=0)."


def index_of_tree(index: int) -> str:
    """Say that a Tree has one root."""
    return f"index={index} chooses among the roots of a search, and a Tree has one. Fix: leave it out."


def stacked(shape: Any) -> str:
    """Say that several nodes were given."""
    return (
        f"The Tree is a stack of nodes of batch size {list(shape)}, and one node is wanted, the root of what is shown. "
        "Fix: TreeExplorer(tree[0]), or the parent of these nodes."
    )


def cycle(node_id: Any) -> str:
    """Say that a node is its own descendant."""
    where = "a node" if node_id is None else f"the node with id {node_id}"
    return (
        f"A tree has no cycles, and {where} has a child that it lies below itself. "
        "Fix: give the child a node of its own."
    )


def other_actions(here: int, there: int) -> str:
    """Say that two trees are about different actions."""
    return (
        f"Two trees are compared action by action, and the first has {here} actions, the second {there}. "
        "Fix: give two searches of the same game, such as with two rules or two seeds."
    )


def bad_names(names: Any, count: int) -> str:
    """Say that the names of the actions do not fit."""
    if isinstance(names, str) or not hasattr(names, "__len__"):
        return f"actions must be a list of names, one for each action, and is a {type(names).__name__}."
    return f"actions has {len(names)} names, and there are {count} actions. Fix: give a name for each, in their order."


def bad_labels(labels: Any) -> str:
    """Say that labels cannot be called."""
    return (
        f"labels must be a function from a node, which is a Tree, to text, and is a {type(labels).__name__}. "
        "Fix: labels=lambda node: str(node.visits)."
    )


def no_search(what: str) -> str:
    """Say that a Tree cannot search."""
    return (
        f"{what} needs a search, and what is shown is a Tree, which holds what was found and cannot look further. "
        "Fix: TreeExplorer(search), with search an MCTS."
    )


def bad_count(n: Any) -> str:
    """Say that a number of simulations is none."""
    return f"run(n) does n simulations, a positive integer, and got {n!r}. Fix: explorer.run(100)."


def bad_action(action: Any) -> str:
    """Say that an action is no number."""
    return (
        f"advance(action) takes the number of an action, and got {action!r}. "
        "Fix: explorer.advance(explorer.model.best)."
    )


def no_board(why: str) -> str:
    """Say that a position cannot be drawn."""
    return f"The position cannot be shown: {why}"


def bad_node(node: Any, count: int) -> str:
    """Say that there is no such node."""
    return f"There is no node {node!r}: the tree has nodes 0 to {count - 1}."


def no_path(path: list[int], step: int, action: Any, legal: list[int], ended: bool) -> str:
    """Say that a path of actions leaves the tree."""
    where = "the root" if step == 0 else f"the node after {path[:step]}"
    if ended or not legal:
        why = "the episode ends there" if ended else "the tree goes no further there"
        return f"The path {path} leaves the tree at {where}: {why}. Fix: end it there, select({path[:step]})."
    return (
        f"The path {path} leaves the tree at {where}: action {action!r} was not taken there. Taken were {legal}. "
        "Fix: choose one of them, or run more simulations."
    )


__all__ = [
    "bad_action", "bad_count", "bad_index", "bad_labels", "bad_names", "bad_node", "cycle", "index_of_tree",
    "no_board", "no_path", "no_roots", "no_search", "not_a_tree", "other_actions", "stacked",
]  # fmt: skip

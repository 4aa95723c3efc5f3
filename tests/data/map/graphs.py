"""Rollouts of small graphs, and the forest of the page's example."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from tensordict import TensorDict

from rlnb.data import MCTSForest, Tree

PAGE = [
    [(3, 123), (1, 456)],
    [(2, 359), (2, 3094)],
    [(3, 123), (9, 392), (6, 989), (20, 809), (21, 847)],
    [(1, 75)],
    [(3, 123), (0, 948)],
    [(2, 359), (2, 3094), (10, 68)],
    [(2, 359), (2, 3094), (11, 9045)],
]

PATHS = [(), (0,), (1,), (2,), (0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]  # of its tree


def make_rollout(states: Sequence[int], actions: Sequence[int] | None = None) -> TensorDict:
    """A rollout through states that are numbers; without actions each is the number of the state it leads to."""
    observations = torch.tensor(states)
    chosen = torch.tensor(states[1:] if actions is None else actions)
    size = [len(chosen)]
    after = TensorDict({"observation": observations[1:]}, size)
    return TensorDict({"observation": observations[:-1], "action": chosen, "next": after}, size)


def state(number: int) -> TensorDict:
    """A state as a root."""
    return TensorDict({"observation": torch.tensor(number)})


def forest_of(*rollouts: Sequence[int]) -> MCTSForest:
    """A forest of rollouts through numbered states."""
    forest = MCTSForest()
    for states in rollouts:
        forest.extend(make_rollout(states))
    return forest


def page_forest() -> MCTSForest:
    """The forest of the page, extended step by step as the page does it."""
    forest = MCTSForest()
    root = TensorDict({"observation": 0})
    for rollout in PAGE:
        td = root.clone().unsqueeze(0)
        for action, observation in rollout:
            after = TensorDict({"observation": [observation]}, [1])
            td = td.update(TensorDict({"action": [action], "next": after}, [1]))
            forest.extend(td)
            td = td["next"].clone()
    return forest


def page_tree() -> Tree:
    """The tree of the page."""
    return page_forest().get_tree(state(0))


def meeting_forest() -> MCTSForest:
    """A forest in which two ways meet: 0 to 1 or 2, both to 3, and on to 4 or 5."""
    return forest_of([0, 1, 3, 4], [0, 2, 3, 5])


def meeting_tree() -> Tree:
    """The tree of it; nodes 1 and 2 end in state 3 and share their children, nodes 3 and 4."""
    return meeting_forest().get_tree(state(0))


def by_hand() -> Tree:
    """A root with two children, of which the first has one child; no node has an id or a hash."""
    nodes = [Tree.make_node(state(number)) for number in range(4)]
    nodes[1].subtree = Tree.lazy_stack([nodes[3]])
    nodes[0].subtree = Tree.lazy_stack(nodes[1:3])
    return nodes[0]


def views_and_copies(make: Callable[[], Tree]) -> dict[str, Tree]:
    """The tree as a view of arrays, as a copy without them, and as plain TensorDicts turned into a tree."""
    return {
        "view": make(),
        "clone": make().clone(),
        "from_tensordict": Tree.from_tensordict(make().to_tensordict()),
    }

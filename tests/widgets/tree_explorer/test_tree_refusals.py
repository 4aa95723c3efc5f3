"""Errors of the explorer, word for word, and that they change nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from rlnb_widgets import TreeExplorer
from tensordict import TensorDict

from rlnb.data import MCTSForest, Tree
from rlnb.data.map.tree.arrays import TreeArrays
from rlnb.envs import TicTacToeEnv
from rlnb.search import MCTS
from tests.widgets.tree_explorer.conftest import (
    batched_search,
    board,
    cartpole_search,
    diamond,
    endgame_search,
    search_of,
    step,
)

TREE = "must be a search (MCTS) or a Tree, got"
USUAL = "search = MCTS(env).reset().run(simulations=100), then TreeExplorer(search)"


@pytest.mark.parametrize(
    ("given", "said", "fix"),
    [
        (3, "a int", USUAL),
        (None, "a NoneType", USUAL),
        (MCTS, "the class MCTS", USUAL),
        (MCTSForest(), "a MCTSForest", "a forest holds many trees; take one, forest.get_tree(root)"),
        (search_of(n=1).nodes, "a SearchTree", "give the search itself, TreeExplorer(search)"),
        (
            TreeArrays(np.array([[-1]]), TensorDict(batch_size=[1])),
            "a TreeArrays",
            "TreeExplorer(Tree.from_arrays(arrays))",
        ),
        (
            step(0, 0, 1),
            "a TensorDict",
            "a rollout is grown into a tree by a forest: forest.extend(rollout), then forest.get_tree(root)",
        ),
    ],
)
def test_what_is_no_tree(given, said, fix):
    with pytest.raises(TypeError) as error:
        TreeExplorer(given)
    assert str(error.value) == f"tree {TREE} {said}. Fix: {fix}."
    if given is not None:
        with pytest.raises(TypeError) as error:
            TreeExplorer(search_of(n=1), other=given)
        assert str(error.value) == f"other {TREE} {said}. Fix: {fix}."


@pytest.mark.parametrize("name", ["tree", "other"])
def test_a_search_without_a_root(name):
    search = MCTS(TicTacToeEnv())
    with pytest.raises(ValueError) as error:
        TreeExplorer(**{"tree": search_of(n=1), name: search})
    assert str(error.value) == (
        f"{name} is a search without a root, so there is no tree to show. Fix: search.reset(), or search.reset(td) "
        "with what env.reset() or env.step() returned, then TreeExplorer(search)."
    )


@pytest.mark.parametrize(
    ("make", "index", "kind", "text"),
    [
        (
            search_of,
            1,
            IndexError,
            "There is no root with index=1: the search has 1 root, number 0. Fix: TreeExplorer(search, index=0).",
        ),
        (
            batched_search,
            -1,
            IndexError,
            "There is no root with index=-1: the search has 3 roots, numbers 0 to 2. "
            "Fix: TreeExplorer(search, index=0).",
        ),
        (
            batched_search,
            1.0,
            TypeError,
            "index, the root of the search to show, must be an integer, got 1.0.",
        ),
        (
            diamond,
            2,
            IndexError,
            "index=2 chooses among the roots of a search, and a Tree has one. Fix: leave it out.",
        ),
    ],
)
def test_an_index_that_names_no_root(make, index, kind, text):
    with pytest.raises(kind) as error:
        TreeExplorer(make(), index=index)
    assert str(error.value) == text


def test_a_stack_of_nodes():
    with pytest.raises(ValueError) as error:
        TreeExplorer(diamond().subtree)
    assert str(error.value) == (
        "The Tree is a stack of nodes of batch size [2]; give one node, the root of the tree to show. "
        "Fix: TreeExplorer(tree[0]), or the parent of these nodes."
    )


def test_a_node_that_lies_below_itself():
    node = Tree.make_node(TensorDict({"observation": torch.tensor(0)}))
    child = Tree.make_node(TensorDict({"observation": torch.tensor(1)}))
    node.subtree = Tree.lazy_stack([child])
    child.subtree = Tree.lazy_stack([node])
    with pytest.raises(ValueError) as error:
        TreeExplorer(node)
    assert str(error.value) == (
        "A tree has no cycles, and a node is its own descendant. Fix: make a new node for the child."
    )


@pytest.mark.parametrize(
    ("make", "names", "kind", "text"),
    [
        (
            search_of,
            ["a"],
            ValueError,
            "actions has 1 names, and there are 9 actions. Fix: give a name for each, in their order.",
        ),
        (search_of, "abcdefghi", TypeError, "actions must be a list of names, one for each action, got a str."),
        (search_of, 9, TypeError, "actions must be a list of names, one for each action, got a int."),
        (
            diamond,
            ["a"],
            ValueError,
            "actions has 1 names, and there are 2 actions. Fix: give a name for each, in their order.",
        ),
    ],
)
def test_names_that_do_not_fit(make, names, kind, text):
    with pytest.raises(kind) as error:
        TreeExplorer(make(), actions=names)
    assert str(error.value) == text


def test_a_tree_may_have_names_for_actions_that_were_not_taken():
    assert TreeExplorer(diamond(), actions=["left", "right", "up"])._head["actions"] == 3


def test_labels_and_arguments_that_are_none():
    with pytest.raises(TypeError) as error:
        TreeExplorer(search_of(n=1), labels="visits")
    assert str(error.value) == (
        "labels must be a function that maps a node, which is a Tree, to text, got a str. "
        "Fix: labels=lambda node: str(node.visits)."
    )
    with pytest.raises(TypeError) as error:
        TreeExplorer(search_of(n=1), label=str)
    assert str(error.value) == (
        "TreeExplorer has no argument 'label'; it takes tree, other, env, index, labels, actions, names."
    )
    with pytest.raises(TypeError, match="env must be an environment or its id"):
        TreeExplorer(search_of(n=1), env=3)


@pytest.mark.parametrize("what", ["step", "back", "run", "advance"])
def test_a_tree_cannot_search(what):
    explorer = TreeExplorer(diamond())
    with pytest.raises(TypeError) as error:
        getattr(explorer, what)(*([1] if what in ("run", "advance") else []))
    assert str(error.value) == (
        f"{what} needs a search, and this explorer shows a Tree, which cannot be searched further. "
        "Fix: TreeExplorer(search), with search an MCTS."
    )


def test_a_search_with_no_history_cannot_go_back():
    explorer = TreeExplorer(search_of(n=5, record=False))
    head = explorer._head
    with pytest.raises(RuntimeError) as error:
        explorer.back()
    assert str(error.value) == (
        "There is no recorded simulation to take back: the search is at its first one, or the simulations were run "
        "without a record. Fix: search.step(), or search.run(..., record=True), records them."
    )
    assert explorer._head is head


@pytest.mark.parametrize("n", [0, -1, 1.5, True, None])
def test_no_number_of_simulations(n):
    explorer = TreeExplorer(search_of(n=2))
    with pytest.raises(ValueError) as error:
        explorer.run(n)
    assert str(error.value) == f"run(n) takes a positive number of simulations, got {n!r}. Fix: explorer.run(100)."
    assert explorer.tree.simulations == 2


def test_numbers_of_numpy_and_torch_are_numbers():
    explorer = TreeExplorer(search_of(n=0))
    explorer.run(np.int64(5))
    explorer.advance(explorer.tree.best_action)
    explorer.advance(torch.tensor(4))
    assert explorer.model.advanced is None and explorer.tree.simulations == 0


def test_an_illegal_action_leaves_all_as_it_was():
    search = search_of(n=0)
    search.reset(search.game.env.reset(board(0, 1, -1, -1, -1, -1, -1, -1, -1))).run(simulations=9, record=True)
    explorer = TreeExplorer(search)
    head = explorer._head
    with pytest.raises(ValueError) as error:
        explorer.advance(0)
    assert str(error.value) == (
        "advance got the action 0 for tree 0, and the legal actions of its root are [2, 3, 4, 5, 6, 7, 8]."
    )
    assert explorer._head is head and search.simulations == 9 and search.history.position == 9


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (61, "There is no node 61: the tree has nodes 0 to 60."),
        (-1, "There is no node -1: the tree has nodes 0 to 60."),
        ("4", "There is no node '4': the tree has nodes 0 to 60."),
        (
            [9],
            "The path [9] leaves the tree at the root: action 9 was not taken there. Taken were "
            "[0, 1, 2, 3, 4, 5, 6, 7, 8]. Fix: choose one of them, or run more simulations.",
        ),
        (
            [4, 4],
            "The path [4, 4] leaves the tree at the node after [4]: action 4 was not taken there. Taken were "
            "[0, 1, 2, 3, 5, 6, 7, 8]. Fix: choose one of them, or run more simulations.",
        ),
    ],
)
def test_nodes_that_there_are_not(where, text):
    explorer = TreeExplorer(search_of(n=60))
    explorer.select(5)
    with pytest.raises(IndexError) as error:
        explorer.select(where)
    assert str(error.value) == text
    assert explorer.selection == 5


def test_paths_that_go_on_where_the_tree_does_not():
    explorer = TreeExplorer(endgame_search())
    nodes = explorer.model.nodes
    end = int(np.flatnonzero(nodes.terminal)[0])
    path = explorer.model.path(end)
    with pytest.raises(IndexError) as error:
        explorer.select([*path, 0])
    assert str(error.value) == (
        f"The path {[*path, 0]} leaves the tree at the node after {path}: the episode ends there. "
        f"Fix: end it there, select({path})."
    )
    explorer = TreeExplorer(cartpole_search(2))
    with pytest.raises(IndexError) as error:
        explorer.select([0, 0])
    assert str(error.value) == (
        "The path [0, 0] leaves the tree at the node after [0]: the tree goes no further there. "
        "Fix: end it there, select([0])."
    )

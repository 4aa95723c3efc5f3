"""Trees deeper than Python's stack: copied, pickled, written and displayed."""

from __future__ import annotations

import copy
import pickle
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from rlnb.data import Tree, TreeArrays
from tests.pairwise import sampled


def viewed(levels):
    """A chain of nodes that is a view of arrays."""
    children = np.full((levels, 1), -1)
    children[:-1, 0] = np.arange(1, levels)
    return Tree.from_arrays(TreeArrays(children, TensorDict({"observation": torch.arange(levels)}, [levels])))


def made(levels):
    """A chain of nodes that hold one another."""
    node = None
    for level in reversed(range(levels)):
        above = Tree.make_node(TensorDict({"observation": torch.tensor(level)}))
        if node is not None:
            above.subtree = Tree.lazy_stack([node])
        node = above
    return node


def last(tree):
    while tree.num_children:
        tree = tree.subtree[0]
    return tree


COPIES = {"clone": Tree.clone, "deepcopy": copy.deepcopy, "pickle": lambda tree: pickle.loads(pickle.dumps(tree))}


def assert_copied(tree, name, levels):
    twin = COPIES[name](tree)
    end = last(twin)
    assert twin.num_vertices() == levels and end.node_data["observation"].item() == levels - 1
    end.count.add_(3)
    assert last(tree).count.item() == 0 and end.parent.node_data["observation"].item() == levels - 2


@pytest.mark.parametrize(("make", "name"), sampled([viewed, made], COPIES.keys(), strength=1))
def test_a_deep_tree_is_copied(make, name):
    assert_copied(make(1200), name, 1200)


@pytest.mark.deep
@pytest.mark.parametrize("name", COPIES)
def test_a_tree_of_eight_thousand_levels_is_copied(name):
    assert_copied(viewed(8_000), name, 8_000)


def test_a_deep_tree_is_written():
    lines = viewed(1200).to_string(lambda node: node.node_data["observation"].item()).splitlines()
    assert len(lines) == 1199
    assert lines[1] == " (0, 0) 2" and lines[99].startswith(" " * 99 + "(0, 0, 0, 0,")
    assert lines[-1] == " " * 99 + "(0, 0, 0, ..., 0, 0, 0: 1,199 steps) 1199"


@pytest.mark.deep
def test_a_tree_of_twenty_thousand_levels_is_written():
    text = viewed(20_000).to_string()
    assert len(text) < 5_000_000 and "(0, 0, 0, ..., 0, 0, 0: 19,999 steps)" in text
    assert "20,000 nodes in all" in repr(viewed(20_000))


@pytest.mark.parametrize("make", [viewed, made])
def test_a_repr_writes_the_first_levels(make):
    text = repr(make(300))
    assert text.endswith("})\n# the first 3 levels of 299; 300 nodes in all")
    assert text.count("observation") == 4 and "subtree: str" in text
    # Nothing is left out of a small one.
    assert repr(make(4)).count("observation") == 4 and "#" not in repr(make(4))


def test_nodes_that_are_shared_stay_shared():
    children = np.array([[1, 2], [3, -1], [3, -1], [-1, -1]])
    tree = Tree.from_arrays(TreeArrays(children, TensorDict({"observation": torch.arange(4)}, [4])))
    for copied in COPIES.values():
        twin = copied(tree)
        twin.subtree[0].subtree[0].count.add_(2)
        assert twin.subtree[1].subtree[0].count == 2 and tree.subtree[1].subtree[0].count == 0


def test_a_pickle_holds_each_entry_once():
    # The entries of nodes are views of the arrays of all nodes.
    small, large = (len(pickle.dumps(viewed(levels))) for levels in (100, 400))
    assert large < 4.5 * small
    shared = made(2)
    shared.node_data.share_memory_()
    sent = ForkingPickler.loads(ForkingPickler.dumps(shared))
    sent.node_data["observation"].fill_(7)
    assert shared.node_data["observation"] == 7


def test_a_shallow_clone_shares_its_tensors():
    tree = viewed(5)
    twin = tree.clone(recurse=False)
    twin.subtree[0].count.add_(1)
    assert tree.subtree[0].count == 1
    twin.subtree[0].node_data["more"] = torch.tensor(1)
    assert tree.subtree[0].node_data.get("more", None) is None

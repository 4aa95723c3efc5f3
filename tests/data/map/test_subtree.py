"""Tree: paths, edges, vertices and texts, on trees of a forest, copies of them, and trees made by hand."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import Tree
from tests.data.map.graphs import (
    PATHS,
    by_hand,
    forest_of,
    make_rollout,
    meeting_tree,
    page_tree,
    state,
    views_and_copies,
)


@pytest.fixture(params=["view", "clone", "from_tensordict"])
def page(request):
    return views_and_copies(page_tree)[request.param]


@pytest.fixture(params=["view", "clone", "from_tensordict"])
def meeting(request):
    return views_and_copies(meeting_tree)[request.param]


def test_valid_paths(page):
    assert list(page.valid_paths()) == [(2,), (0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    assert list(page.subtree[1].valid_paths()) == [(0,), (1,)]
    assert list(page.subtree[2].valid_paths()) == [()]
    assert list(by_hand().valid_paths()) == [(1,), (0, 0)]
    assert iter(page.valid_paths()) is not None and next(page.valid_paths()) == (2,)


def test_max_length(page):
    assert page.max_length() == 2 and page.subtree[0].max_length() == 1 and page.subtree[2].max_length() == 0
    assert by_hand().max_length() == 2 and Tree(batch_size=[]).max_length() == 0


def test_num_vertices(page, meeting):
    assert page.num_vertices() == page.num_vertices(count_repeat=True) == 9
    assert meeting.num_vertices() == 5 and meeting.num_vertices(count_repeat=True) == 7
    assert by_hand().num_vertices() == 4 and Tree(batch_size=[]).num_vertices() == 1


def test_edges(page, meeting):
    assert page.edges() == [(0, 1), (0, 2), (0, 3), (1, 4), (1, 5), (1, 6), (2, 7), (2, 8)]
    assert page.subtree[1].edges() == [(2, 7), (2, 8)] and page.subtree[2].edges() == []
    assert meeting.edges() == [(0, 1), (0, 2), (1, 3), (1, 4), (2, 3), (2, 4)]


def test_vertices(page, meeting):
    assert list(page.vertices(key_type="path")) == PATHS
    ids = page.vertices(key_type="id")
    assert list(ids) == list(range(9)) and all(node.node_id == key for key, node in ids.items())
    hashes = page.vertices()
    assert len(hashes) == 9 and all(node.hash == key for key, node in hashes.items())
    assert [len(meeting.vertices(key_type=kind)) for kind in ("id", "hash", "path")] == [5, 5, 7]
    found = meeting.vertices(key_type="path")
    assert found[0, 1].node_id == found[1, 1].node_id == 4
    with pytest.raises(ValueError) as error:
        page.vertices(key_type="name")
    assert str(error.value) == (
        'key_type must be "id", "hash" or "path", got \'name\'. Fix: tree.vertices(key_type="path").'
    )


@pytest.mark.parametrize(("kind", "field"), [("id", "node_id"), ("hash", "hash")])
def test_vertices_without_names(kind, field):
    assert len(by_hand().vertices(key_type="path")) == 4
    with pytest.raises(ValueError) as error:
        by_hand().vertices(key_type=kind)
    assert str(error.value) == (
        f'The node at path () has no {field}. Fix: tree.vertices(key_type="path"), which works for every tree.'
    )


def test_get_vertex(page):
    for path, node in page.vertices(key_type="path").items():
        for found in (page.get_vertex_by_id(node.node_id), page.get_vertex_by_hash(node.hash)):
            assert found.node_id == node.node_id and found.node_observation.item() == node.node_observation.item()
            assert (found.parent is None) == (not path)
    for kind, find in (("id", page.get_vertex_by_id), ("hash", page.get_vertex_by_hash)):
        with pytest.raises(ValueError) as error:
            find(99)
        assert str(error.value) == (
            f'None of the 9 nodes has the {kind} 99. Fix: take one from tree.vertices(key_type="{kind}").'
        )


def test_contains(page):
    node = page.subtree[0].subtree[1]
    assert node in page and page.subtree[1] not in page.subtree[0] and node in page_tree()
    tree = by_hand()
    assert tree.subtree[0] in tree and Tree.make_node(state(1)) not in tree


def test_rollout_from_path(page):
    assert page.rollout_from_path(()) is None
    found = page.rollout_from_path((0, 1))
    assert (found == make_rollout([0, 123, 392, 989, 809, 847], [3, 9, 6, 20, 21])).all()
    assert page.rollout_from_path((1,))["action"].tolist() == [2, 2]
    for path in ((0, 3), (3,), (0, 0, 0), (-1,)):
        with pytest.raises(IndexError, match=r"leaves the tree: the node at .* Fix: take a path from"):
            page.rollout_from_path(path)
    with pytest.raises(IndexError) as error:
        page.rollout_from_path((0, 3))
    assert str(error.value) == (
        "The path (0, 3) leaves the tree: the node at (0,) has 3 children, so there is no child 3. "
        "Fix: take a path from tree.valid_paths()."
    )


def test_rollout_from_path_begins_with_that_of_the_root():
    tree = forest_of([0, 1, 2, 3], [0, 1, 2, 4]).get_tree(state(0))
    assert tree.rollout["action"].tolist() == [1, 2]
    assert tree.rollout_from_path((1,))["action"].tolist() == [1, 2, 4]


def test_to_string(page):
    assert page.to_string(lambda node: node.node_id) == (
        "(0,) 1\n (0, 0) 4\n (0, 1) 5\n (0, 2) 6\n(1,) 2\n (1, 0) 7\n (1, 1) 8\n(2,) 3"
    )
    assert page.subtree[1].to_string(lambda node: node.node_id) == "() 2\n(0,) 7\n(1,) 8"
    assert by_hand().to_string() == (
        "(0,) {'observation': tensor(1)}\n (0, 0) {'observation': tensor(3)}\n(1,) {'observation': tensor(2)}"
    )


def test_to_string_of_nested_data():
    node = Tree.make_node(TensorDict({"a": {"b": torch.tensor(1)}, "name": "root"}))
    assert node.to_string() == "() {'a': {'b': tensor(1)}, 'name': 'root'}"


def test_other_children_than_the_arrays_have():
    tree = page_tree()
    leaf = tree.subtree[2]
    leaf.subtree = Tree.lazy_stack([Tree.make_node(state(76))])
    assert tree.subtree[2].num_children == 1 and tree.num_vertices(count_repeat=True) == 10
    assert tree.to_string().endswith("(2,) {'observation': tensor(75)}\n (2, 0) {'observation': tensor(76)}")
    assert tree.subtree[2].subtree[0].parent.node_id == 3
    tree.subtree = None
    assert tree.num_children == 0 and tree.num_vertices() == 1


def test_a_long_way_down():
    tree = forest_of(list(range(3_000))).get_tree(state(0), compact=False)
    assert tree.num_vertices() == 3_000 and tree.max_length() == 2_999 and len(tree.edges()) == 2_999
    assert tree.get_vertex_by_id(2_999).node_observation.item() == 2_999
    del tree

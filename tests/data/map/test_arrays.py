"""TreeArrays: the arrays of a search as a Tree, without a copy and at constant cost."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from rlnb.data import Composite, Tree, TreeArrays
from rlnb.data.map.tree.view import Entries
from tests.data.map.graphs import page_forest, state

CHILDREN = np.array([[1, -1, 2], [3, -1, -1], [-1, -1, -1], [-1, -1, -1], [0, 1, 2]])


def make(**options) -> TreeArrays:
    """A root with nodes 1 and 2, node 1 with node 3; row 4 is not in use yet."""
    data = TensorDict({"observation": torch.arange(5) * 10}, [5])
    return TreeArrays(**{"children": CHILDREN, "node_data": data, **options})


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_a_search_as_a_tree(kind):
    steps = TensorDict({"action": torch.arange(5), "next": {"reward": torch.ones(5, 1)}}, [5])
    tree = Tree.from_arrays(
        make(
            children=kind(CHILDREN),
            count=kind(np.arange(5)),
            wins=kind(np.arange(5) / 2),
            hashes=kind(np.arange(5) + 100),
            index=kind(CHILDREN * 10),
            steps=steps,
            specs=Composite(),
        )
    )
    assert tree.to_string() == (
        "(0,) {'observation': tensor(10)}\n (0, 0) {'observation': tensor(30)}\n(1,) {'observation': tensor(20)}"
    )
    assert tree.edges() == [(0, 1), (0, 2), (1, 3)] and tree.num_vertices() == 4
    assert tree.subtree.count.tolist() == [1, 2] and tree.subtree.wins.tolist() == [0.5, 1.0]
    assert list(tree.vertices()) == [100, 101, 102, 103] and tree.index.tolist() == [10, 20]
    assert tree.rollout is None and tree.subtree[0].subtree[0].rollout["action"].tolist() == [3]
    assert tree.selected_actions.tolist() == [1, 2] and tree.rollout_from_path((0, 0))["action"].tolist() == [1, 3]
    assert tree.specs == Composite() and tree.subtree[1].specs == Composite()


def test_numbers_are_seen_both_ways():
    count, wins = np.zeros(5, np.int32), np.zeros(5, np.float32)
    tree = Tree.from_arrays(make(count=count, wins=wins))
    count[1], wins[3] = 7, 2.5
    assert tree.subtree[0].count.item() == 7 and tree.subtree[0].subtree[0].wins.item() == 2.5
    tree.subtree[0].count.add_(1)
    assert count[1] == 8
    copied = tree.clone()
    count[1] = 0
    assert copied.subtree[0].count.item() == 8


def test_what_is_not_given():
    tree = Tree.from_arrays(make())
    assert tree.count.dtype == torch.int32 and tree.wins.dtype == torch.float32 and tree.count.item() == 0
    assert tree.hash is None and tree.index is None and tree.rollout is None and tree.specs is None
    assert tree.subtree[0].branching_action is None


def test_steps_of_their_own():
    steps = TensorDict({"move": torch.arange(6)}, [6])
    rows = [[], [4, 5], [3, 0, 5], [1], []]
    tree = Tree.from_arrays(make(steps=steps, step_rows=rows, action_keys=["move"]))
    assert tree.rollout_from_path((0, 0))["move"].tolist() == [4, 5, 1]
    assert tree.subtree[1].rollout["move"].tolist() == [3, 0, 5]
    assert tree.subtree[1].branching_action.item() == 3 and tree.subtree[1].prev_action.item() == 5


def test_nodes_are_made_when_they_are_looked_at():
    asked = []

    def data(row):
        asked.append(row)
        return state(row)

    tree = Tree.from_arrays(make(node_data=data))
    assert tree.num_vertices() == 4 and tree.max_length() == 2 and tree.edges() and list(tree.valid_paths())
    assert asked == []
    node = tree.subtree[0]
    assert asked == [] and node.node_data["observation"].item() == 1 and node.node_data is node.node_data
    assert asked == [1]


def test_one_row_only_is_a_tree():
    tree = Tree.from_arrays(TreeArrays(children=np.full((1, 0), -1), node_data=state(0).unsqueeze(0)))
    assert tree.is_terminal and tree.to_string() == "() {'observation': tensor(0)}" and tree.num_vertices() == 1
    assert len(TreeArrays(children=np.full((1, 0), -1), node_data=state(0).unsqueeze(0))) == 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"children": np.zeros((0, 3), int)},
            "children must be an array of integers of shape [nodes, actions] with at least one node, -1 for no child, "
            "got shape [0, 3] and dtype int64. "
            "Fix: children=np.full((nodes, actions), -1), then fill in the rows of the children.",
        ),
        (
            {"children": np.zeros((5, 3))},
            "children must be an array of integers of shape [nodes, actions] with at least one node, -1 for no child, "
            "got shape [5, 3] and dtype float64. "
            "Fix: children=np.full((nodes, actions), -1), then fill in the rows of the children.",
        ),
        (
            {"children": np.full((5, 2), 5)},
            "The values of children must be rows, 0 to 4, or -1 for no child, got values from 5 to 5. "
            "Fix: write the row of the child, or -1.",
        ),
        (
            {"children": np.array([[1, 2], [-1, -1], [3, -1], [2, -1], [-1, -1]])},
            "Row 2 of children is its own descendant: it is a child of row 3. A tree has no cycles. "
            "Fix: use a separate row for each node.",
        ),
        (
            {"children": np.array([[0], [-1], [-1], [-1], [-1]])},
            "Row 0 of children is its own descendant: it is a child of row 0. A tree has no cycles. "
            "Fix: use a separate row for each node.",
        ),
        (
            {"count": np.zeros(8)},
            "count must have one row per node, 5 as children has, got 8. "
            "Fix: slice it to the nodes that are in use, such as count[:5].",
        ),
        (
            {"wins": np.zeros(4)},
            "wins must have one row per node, 5 as children has, got 4. "
            "Fix: slice it to the nodes that are in use, such as wins[:5].",
        ),
        (
            {"steps": TensorDict({"action": torch.zeros(9)}, [9])},
            "steps must have one row per node, 5 as children has, got 9. "
            "Fix: slice it to the nodes that are in use, such as steps[:5].",
        ),
        (
            {"node_data": TensorDict({"observation": torch.zeros(9)}, [9])},
            "node_data must have one row per node, 5 as children has, got 9. "
            "Fix: slice it to the nodes that are in use, such as node_data[:5].",
        ),
    ],
)
def test_arrays_that_do_not_fit(options, text):
    with pytest.raises(ValueError) as error:
        make(**options)
    assert str(error.value) == text


def test_entries_are_a_dictionary():
    tree = page_forest().get_tree(state(0))
    entries = tree._tensordict._tensordict
    assert type(entries) is Entries
    assert (
        list(entries) == list(entries.keys()) == ["count", "wins", "index", "hash", "node_id", "node_data", "subtree"]
    )
    assert dict(entries).keys() == entries.keys() == entries.copy().keys() and type(entries.copy()) is dict
    assert [value is entries[name] for name, value in entries.items()] == [True] * len(entries)
    assert len(list(entries.values())) == len(entries)
    assert entries.get("nothing") is None and entries.get("nothing", 3) == 3 and entries.get("count") is tree.count
    assert entries.setdefault("count", 5) is tree.count
    assert entries.pop("nothing", 4) == 4 and entries.pop("index").tolist() == [0, 2, 8] and tree.index is None
    with pytest.raises(KeyError):
        entries.pop("index")
    other: dict = {}
    other.update(page_forest().get_tree(state(0))._tensordict._tensordict)
    assert other["count"].item() == 0  # not the mark of what is yet to be made
    assert tree.num_vertices() == 9 and not entries.view.edited
    entries.update(subtree=tree.subtree[0]._tensordict)
    assert entries.view.edited

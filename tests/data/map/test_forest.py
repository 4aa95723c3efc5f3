"""MCTSForest: how rollouts are stored, which keys matter, and the examples of the page."""

from __future__ import annotations

import importlib

import pytest
import torch
from tensordict import TensorDict, lazy_stack

from rlnb.data import MCTSForest, Tree
from tests.data.map.graphs import forest_of, make_rollout, meeting_forest, page_forest, state


def nodes_of(forest: MCTSForest, start: int = 0, **options) -> str:
    """A tree as the states at its nodes."""
    return forest.get_tree(state(start), **options).to_string(lambda node: node.node_observation.item())


@pytest.mark.parametrize("module", ["rlnb.data", "rlnb.data.map", "rlnb.data.map.tree"])
def test_where_it_is(module):
    assert importlib.import_module(module).MCTSForest is MCTSForest
    assert importlib.import_module(module).Tree is Tree


def test_one_rollout_is_one_node():
    forest = forest_of([0, 1, 2, 3])
    tree = forest.get_tree(state(0))
    assert len(forest) == 3 and tree.num_vertices() == 1 and list(tree.valid_paths()) == [()]
    assert tree.rollout["action"].tolist() == [1, 2, 3] and tree.to_string() == "() {'observation': tensor(3)}"


def test_rollouts_that_part():
    assert nodes_of(forest_of([0, 1, 2, 3, 4], [0, 1, 2, 5, 6])) == "() 2\n(0,) 4\n(1,) 6"
    assert nodes_of(forest_of([0, 1, 2], [0, 3, 4])) == "(0,) 2\n(1,) 4"


def test_longer_rollouts_lengthen_leaves():
    forest = forest_of([0, 1], [0, 2])
    assert nodes_of(forest) == "(0,) 1\n(1,) 2"
    forest.extend(make_rollout([0, 1, 3, 4]))
    assert nodes_of(forest) == "(0,) 4\n(1,) 2"
    forest.extend(make_rollout([2, 5]))
    assert nodes_of(forest) == "(0,) 4\n(1,) 5"


@pytest.mark.parametrize("again", [[0, 1, 2, 3], [0, 1], [1, 2], [0, 1, 4]])
def test_repeats_change_nothing(again):
    forest = forest_of([0, 1, 2, 3], [0, 1, 4])
    before, hashes, size = nodes_of(forest), list(forest.get_tree(state(0)).vertices()), len(forest)
    forest.extend(make_rollout(again))
    assert (nodes_of(forest), list(forest.get_tree(state(0)).vertices()), len(forest)) == (before, hashes, size)


def test_what_came_first_stays():
    forest, rollout = MCTSForest(), make_rollout([0, 1, 2])
    rollout["next", "reward"] = torch.tensor([[1.0], [2.0]])
    forest.extend(rollout)
    rollout["next", "reward"] += 5
    forest.extend(rollout)
    assert forest.get_tree(state(0)).rollout["next", "reward"].tolist() == [[1.0], [2.0]]


def test_the_forest_copies_what_it_gets():
    forest, rollout = MCTSForest(), make_rollout([0, 1, 2])
    forest.extend(rollout)
    rollout["next", "observation"] += 100
    forest.get_tree(state(0)).rollout["action"] += 100
    assert forest.get_tree(state(0)).rollout["action"].tolist() == [1, 2] and nodes_of(forest) == "() 2"


def test_chance():
    forest = MCTSForest()
    forest.extend(make_rollout([0, 1, 3], [7, 8]))
    forest.extend(make_rollout([0, 2, 4], [7, 8]))
    assert nodes_of(forest) == "(0,) 3\n(1,) 4"
    assert forest.get_tree(state(0)).selected_actions.tolist() == [7, 7]


def test_rows_in_any_shape():
    blocks = [make_rollout([0, 1, 2]), make_rollout([0, 3, 4])]
    expected = nodes_of(forest_of([0, 1, 2], [0, 3, 4]))
    for data in (torch.stack(blocks), torch.cat(blocks), lazy_stack(blocks), torch.cat(blocks)[:, None]):
        forest = MCTSForest()
        forest.extend(data)
        assert nodes_of(forest) == expected
    one_by_one = MCTSForest()
    for step in torch.cat(blocks):
        one_by_one.add(step)
    assert nodes_of(one_by_one) == expected and len(one_by_one) == 4


def test_nothing():
    forest = MCTSForest()
    assert forest.extend(make_rollout([0, 1])[:0]) is None and len(forest) == 0


def test_add():
    forest = MCTSForest()
    assert forest.add(make_rollout([0, 1])[0]) is None
    node = forest.add(make_rollout([1, 2])[0], return_node=True)
    assert node.rollout["action"].tolist() == [2] and nodes_of(forest) == "() 2"
    with pytest.raises(ValueError) as error:
        forest.add(make_rollout([0, 1]))
    assert str(error.value) == (
        "forest.add takes one step, a TensorDict of batch size [], got batch size [1]. Fix: forest.extend(rollout)."
    )


def test_return_node():
    forest = forest_of([0, 1, 2])
    node = forest.extend(make_rollout([0, 1, 3]), return_node=True)
    assert node.node_observation.item() == 1 and node.num_children == 2
    assert MCTSForest().extend(make_rollout([0, 1])[:0], return_node=True) is None


def test_get_tree_without_compacting():
    forest = forest_of([0, 1, 2, 3], [0, 1, 4])
    assert nodes_of(forest, compact=False) == "(0,) 1\n (0, 0) 2\n  (0, 0, 0) 3\n (0, 1) 4"
    assert forest.get_tree(state(0), compact=False).rollout is None


@pytest.mark.parametrize("compact", [True, False])
def test_max_depth(compact):
    forest = forest_of([0, 1, 2, 3], [0, 1, 2, 4, 5], [0, 6, 7, 8], [0, 6, 9], [0, 1, 2, 4, 10])
    whole = forest.get_tree(state(0), compact=compact)
    for depth in range(whole.max_length() + 2):
        tree = forest.get_tree(state(0), max_depth=depth, compact=compact)
        assert tree.max_length() == min(depth, whole.max_length())
        expected = [path for path in whole.vertices(key_type="path") if len(path) <= depth]
        assert list(tree.vertices(key_type="path")) == expected
    for depth in (-1, 1.5, "all"):
        with pytest.raises(ValueError) as error:
            forest.get_tree(state(0), max_depth=depth)
        assert str(error.value) == (
            f"max_depth must be an integer of at least 0, the depth of the deepest nodes, got {depth!r}. "
            "Fix: forest.get_tree(root, max_depth=3)."
        )


def test_a_tree_from_the_middle():
    forest = page_forest()
    assert nodes_of(forest, 123) == "(0,) 456\n(1,) 847\n(2,) 948"
    assert nodes_of(forest, 989) == "() 847" and nodes_of(forest, 847) == "() 847"


def test_a_tree_is_as_it_was():
    forest = forest_of([0, 1, 2])
    tree = forest.get_tree(state(0))
    for last in range(10, 2_000):
        forest.extend(make_rollout([0, 1, last]))
    assert tree.num_vertices() == 1 and tree.rollout["action"].tolist() == [1, 2]
    assert forest.get_tree(state(0)).num_children == 1_991


def test_it_grows_without_a_limit():
    forest = MCTSForest()
    forest.extend(make_rollout(list(range(20_001))))
    assert len(forest) == 20_000
    for start in range(0, 3_000, 10):
        forest.extend(make_rollout([start, 50_000 + start]))
    tree = forest.get_tree(state(0))
    assert tree.num_vertices() == 601 and tree.max_length() == 300
    longest = max(tree.valid_paths(), key=len)
    assert tree.rollout_from_path(longest)["action"].tolist() == list(range(1, 20_001))


def test_ways_that_meet():
    forest = meeting_forest()
    assert nodes_of(forest) == "(0,) 3\n (0, 0) 4\n (0, 1) 5\n(1,) 3\n (1, 0) 4\n (1, 1) 5"
    assert len(forest) == 6 and forest.get_tree(state(0)).num_vertices() == 5
    tree = forest.get_tree(state(0), compact=False)
    assert tree.subtree[0].subtree[0].hash != tree.subtree[1].subtree[0].hash  # other steps to one state
    assert tree.subtree[0].subtree[0].subtree[0].hash == tree.subtree[1].subtree[0].subtree[0].hash
    assert tree.num_vertices() == 7 and tree.num_vertices(count_repeat=True) == 9
    forest.extend(make_rollout([3, 6]))
    assert nodes_of(forest).count("6") == 2


def test_ways_of_other_lengths_meet():
    forest = forest_of([0, 1, 2, 5, 6], [0, 3, 5], [0, 1, 4])
    assert nodes_of(forest) == "(0,) 1\n (0, 0) 6\n (0, 1) 4\n(1,) 6"
    assert forest.get_tree(state(0)).rollout_from_path((1,))["action"].tolist() == [3, 5, 6]
    late = forest_of([5, 6], [2, 5], [0, 2], [0, 5])
    assert nodes_of(late) == "(0,) 6\n(1,) 6" and len(late) == 4


def test_get_child():
    forest = forest_of([0, 1, 2], [0, 3])
    root = state(0).set("action", torch.tensor(3))
    assert (forest.get_child(root) == make_rollout([0, 3])[0]).all()
    forest.extend(make_rollout([0, 4], [3]))
    both = forest.get_child(root)
    assert both.batch_size == torch.Size([2]) and both["next", "observation"].tolist() == [3, 4]
    with pytest.raises(ValueError) as error:
        forest.get_child(state(0).set("action", torch.tensor(9)))
    assert str(error.value) == (
        "This action was not taken in this state; 3 others were. "
        "Fix: take a step from a rollout that was added, or see forest.get_tree(root).selected_actions."
    )
    with pytest.raises(ValueError, match="no others were"):
        forest.get_child(state(2).set("action", torch.tensor(9)))
    with pytest.raises(KeyError, match="no entry 'action'"):
        forest.get_child(state(0))


def test_collisions_merge_nothing(monkeypatch):
    """Where all hashes agree, the data still tells states apart."""
    from rlnb.data.map.tree import growth

    monkeypatch.setattr(growth, "siphash", lambda rows: torch.zeros(len(rows), dtype=torch.int64).numpy())

    class Same(bytes):
        def __hash__(self):
            return 1

    from rlnb.data.map import rows

    plain = rows._byte_keys
    monkeypatch.setattr(rows, "_byte_keys", lambda array: [Same(key) for key in plain(array)])
    forest = forest_of([0, 1, 2, 3], [0, 1, 4], [0, 2, 3])
    assert nodes_of(forest) == "(0,) 1\n (0, 0) 3\n (0, 1) 4\n(1,) 3"
    assert set(forest.get_tree(state(0)).vertices(key_type="id")) == set(range(5))


def test_zero_is_zero():
    data = TensorDict(
        {
            "observation": torch.tensor([[0.0], [-0.0]]),
            "action": torch.tensor([1, 1]),
            "next": TensorDict({"observation": torch.tensor([[1.0], [1.0]])}, [2]),
        },
        [2],
    )
    forest = MCTSForest()
    forest.extend(data)
    assert len(forest) == 1


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.float16, torch.bfloat16, torch.float64, torch.complex64]
)
def test_states_of_any_dtype(dtype):
    rollout = make_rollout([0, 1, 0], [1, 0])[:1]
    for level in (rollout, rollout["next"]):
        level["observation"] = level["observation"].to(dtype).reshape(1, 1, 1).expand(1, 2, 3)
    forest = MCTSForest()
    forest.extend(rollout)
    forest.extend(rollout)
    tree = forest.get_tree(rollout[0])
    assert len(forest) == 1 and torch.equal(tree.node_observation, rollout["next", "observation"][0])


def test_states_that_are_strings():
    def game(*positions):
        size = [len(positions) - 1]
        after = lazy_stack([TensorDict({"fen": position}) for position in positions[1:]])
        before = lazy_stack([TensorDict({"fen": position}) for position in positions[:-1]])
        return before.set("action", torch.arange(size[0])).set("next", after)

    forest = MCTSForest(observation_keys=["fen"])
    forest.extend(game("start", "e4", "e5"))
    forest.extend(game("start", "e4", "c5"))
    tree = forest.get_tree(TensorDict({"fen": "start"}))
    assert tree.to_string() == "() {'fen': 'e4'}\n(0,) {'fen': 'e5'}\n(1,) {'fen': 'c5'}"
    assert tree.rollout_from_path((1,))["next", "fen"] == ["e4", "c5"] and len(set(tree.vertices())) == 3
    assert tree.clone().to_string() == tree.to_string()


def test_the_index_of_a_tree_does_not_grow_with_the_forest():
    forest = forest_of([0, 1, 2], [0, 3])
    tree = forest.get_tree(state(0))
    forest.extend(make_rollout([0, 4]))
    assert tree.num_children == 2 and tree.index.tolist() == [0, 2]
    assert forest.get_tree(state(0)).index.tolist() == [0, 2, 3]

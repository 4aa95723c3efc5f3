"""Tree: properties of a node, on trees of a forest, copies of them, and trees made by hand."""

from __future__ import annotations

import weakref

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import Categorical, Composite, MCTSForest, Tree, Unbounded
from rlnb.envs import TicTacToeEnv
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

FIELDS = ["count", "wins", "index", "hash", "node_id", "rollout", "node_data", "subtree", "_parent", "specs"]


@pytest.fixture(params=["view", "clone", "from_tensordict"])
def page(request):
    return views_and_copies(page_tree)[request.param]


def test_constructor():
    specs = Composite()
    parent = Tree(count=torch.tensor(9), batch_size=[])
    tree = Tree(
        torch.tensor(3),
        torch.tensor(2.0),
        torch.tensor([4]),
        5,
        6,
        make_rollout([0, 1]),
        state(1),
        None,
        weakref.ref(parent),
        specs,
        batch_size=[],
        device="cpu",
    )
    assert (tree.count.item(), tree.wins.item(), tree.index.tolist(), tree.hash, tree.node_id) == (3, 2.0, [4], 5, 6)
    assert tree.rollout["action"].tolist() == [1] and tree.node_data["observation"].item() == 1
    assert tree.subtree is None and tree.parent.count.item() == 9 and tree.specs is specs
    assert tree.batch_size == torch.Size([]) and tree.device == torch.device("cpu")
    named = Tree(count=torch.zeros(2), batch_size=[2], names=["games"])
    assert named.names == ["games"] and named.batch_size == torch.Size([2])


def test_fields():
    with pytest.warns(DeprecationWarning, match="fields"):
        assert [field.name for field in Tree.fields()] == FIELDS


def test_a_node_without_anything():
    tree = Tree(batch_size=[])
    assert [getattr(tree, name) for name in FIELDS] == [None] * len(FIELDS)
    assert tree.num_children == 0 and tree.is_terminal and tree.parent is None and tree.to_string() == "() None"


@pytest.mark.parametrize("batch", [[], [3]])
def test_make_node(batch):
    specs = Composite(a=Unbounded())
    data = TensorDict({"a": torch.ones(*batch, 2)}, batch)
    node = Tree.make_node(data, specs=specs, device="cpu", batch_size=batch)
    assert (node.node_data == data).all() and node.specs is specs
    assert node.count.dtype == torch.int32 and node.wins.dtype == torch.float32
    assert node.count.tolist() == node.wins.tolist() == torch.zeros(batch).tolist()
    assert node.batch_size == torch.Size(batch) and node.device == torch.device("cpu")
    assert node.rollout is None and node.subtree is None and node.hash is None
    assert Tree.make_node(data).batch_size == torch.Size(batch)
    assert Tree.make_node(TensorDict({"a": torch.zeros(3)}, [3]), batch_size=[]).count.shape == ()


def test_data_rollout_and_children(page):
    assert page.rollout is None and page.node_data["observation"].item() == 0
    assert isinstance(page.subtree, Tree) and page.subtree.batch_size == torch.Size([3])
    assert page.subtree[0].node_data["observation"].item() == 123
    longest = page.subtree[0].subtree[1]
    assert longest.rollout["action"].tolist() == [9, 6, 20, 21]
    assert longest.rollout["next", "observation"].tolist() == [392, 989, 809, 847]
    assert longest.node_data["observation"].item() == 847 and longest.subtree is None
    assert page.subtree.node_data["observation"].tolist() == [123, 3094, 75]
    assert list(page.subtree.node_id) == [1, 2, 3] and page.subtree.count.tolist() == [0, 0, 0]


def test_index(page):
    assert page.index.tolist() == [0, 2, 8] and page.subtree[0].index.tolist() == [1, 4, 9]
    assert page.subtree[2].index is None


def test_num_children(page):
    assert [node.num_children for node in page.vertices(key_type="path").values()] == [3, 3, 2, 0, 0, 0, 0, 0, 0]
    assert [node.num_children for node in by_hand().subtree.unbind(0)] == [1, 0]


def test_is_terminal(page):
    found = {path: node.is_terminal for path, node in page.vertices(key_type="path").items()}
    assert found == {path: path not in ((), (0,), (1,)) for path in PATHS}
    assert page.subtree.is_terminal.tolist() == [False, False, True]


def test_is_terminal_asks_no_done_entry():
    ended = make_rollout([0, 1, 2])
    for level in (ended, ended["next"]):
        level["done"] = torch.zeros(2, 1, dtype=torch.bool)
    forest = MCTSForest()
    forest.extend(ended)
    assert forest.get_tree(state(0), compact=False).subtree[0].subtree[0].is_terminal is True


def test_fully_expanded():
    env = TicTacToeEnv()
    forest = MCTSForest()
    start = env.reset()
    for action in range(9):
        assert not action or forest.get_tree(start, compact=False).fully_expanded(env) is False
        forest.extend(env.step(start.clone().set("action", torch.tensor(action))).unsqueeze(0))
    assert forest.get_tree(start).fully_expanded(env) is True

    class Counted:
        cardinality = 9

    class Counting:
        def cardinality(self):
            return 8

    assert forest.get_tree(start).fully_expanded(Counted()) and not forest.get_tree(start).fully_expanded(Counting())


def test_visits():
    tree = Tree(count=torch.tensor(7), batch_size=[])
    assert tree.visits is tree.count


def test_parent(page):
    child = page.subtree[1]
    assert page.parent is None
    assert child.parent.node_id == 0 and child.subtree[0].parent.node_id == 2
    assert child.subtree[0].parent.parent.node_id == 0 and child.subtree[0].parent.parent.parent is None
    assert child.parent is not page and child.parent.node_data.get("observation") is page.node_data.get("observation")
    child.parent.count.add_(5)
    assert page.count.item() == 5
    for node in page.subtree.unbind(0):
        assert node.parent.node_id == 0
    assert next(iter(page.subtree)).parent.node_id == 0


def test_parent_that_nobody_holds():
    tree = page_tree()
    grandchild, child = tree.subtree[1].subtree[0], tree.subtree[1]
    del tree
    assert child.parent is None and grandchild.parent.node_id == 2
    del child
    assert grandchild.parent is None and grandchild.node_id == 7 and grandchild.rollout["action"].tolist() == [10]


def test_parents_where_ways_meet():
    tree = meeting_tree()
    met = tree.subtree[0].subtree[1]
    assert met.node_id == 4 and met.parent.batch_size == torch.Size([2]) and list(met.parent.node_id) == [1, 2]
    assert met.parent[1].rollout["action"].tolist() == [2, 3]
    assert tree.subtree[0].parent.node_id == 0
    second = tree.subtree[1]
    del tree
    assert met.parent.node_id == 2 and second.parent is None  # node 1 is held by nobody
    copy = meeting_tree().clone()
    assert copy.subtree[1].subtree[0].parent.node_id == 2  # a copy knows the way that was taken


def test_parents_that_nobody_looked_at():
    """The other parent lies in a branch where nobody has been; the root is there, so it is there."""
    tree = forest_of([0, 1, 3, 4], [0, 1, 7], [0, 2, 3, 5], [0, 2, 8]).get_tree(state(0))
    met = tree.subtree[0].subtree[0].subtree[0]
    assert met.parent.batch_size == torch.Size([2]) and met.parent.branching_action.tolist() == [3, 3]
    assert tree.subtree[1].subtree[0].node_id in met.parent.node_id
    del tree
    assert met.parent is None


@pytest.mark.parametrize("give", [weakref.ref, lambda tree: tree, lambda tree: weakref.ref(tree._tensordict)])
def test_parent_that_was_given(give):
    parent, other = by_hand(), by_hand()
    assert Tree(_parent=give(parent), batch_size=[]).parent.num_children == 2
    node = Tree.make_node(state(1))
    node._parent = [give(parent), give(other)]
    assert node.parent.batch_size == torch.Size([2])
    node._parent = None
    assert node.parent is None
    inner = parent.subtree[0]
    node._parent = give(inner)
    assert node.parent.num_children == 1
    with pytest.raises(TypeError) as error:
        node._parent = "root"
    assert str(error.value) == (
        "The parent of a node must be a Tree or a weak reference to one, got a str. "
        "Fix: Tree(..., _parent=weakref.ref(parent), batch_size=[])."
    )
    assert node.parent.num_children == 1
    node._parent = inner
    assert node.parent.parent.num_children == 2


def test_actions(page):
    assert page.branching_action is None and page.prev_action is None
    assert page.selected_actions.tolist() == [3, 2, 1]
    longest = page.subtree[0].subtree[1]
    assert (longest.branching_action.item(), longest.prev_action.item()) == (9, 21)
    one_step = page.subtree[0].subtree[0]
    assert one_step.branching_action.item() == one_step.prev_action.item() == 1
    assert longest.selected_actions is None


def test_several_actions():
    rollout = make_rollout([0, 1, 2])
    rollout["agents"] = TensorDict({"action": torch.tensor([[1, 2], [3, 4]]), "extra": torch.zeros(2)}, [2])
    forest = MCTSForest(action_keys=["action", ("agents", "action")])
    forest.extend(rollout)
    node = forest.get_tree(state(0))
    assert set(node.prev_action.keys(True, True)) == {"action", ("agents", "action")}
    assert node.prev_action["agents", "action"].tolist() == [3, 4]
    other = rollout[:1].clone()
    other["agents", "action"] += 1
    forest.extend(other)
    children = forest.get_tree(state(0))
    assert children.selected_actions["agents", "action"].tolist() == [[1, 2], [2, 3]]
    assert children.clone().selected_actions["agents", "action"].tolist() == [[1, 2], [2, 3]]


def test_actions_by_the_specs():
    specs = Composite(
        input_spec=Composite(full_action_spec=Composite(move=Categorical(5))),
        output_spec=Composite(full_observation_spec=Composite(observation=Unbounded(shape=()))),
    )
    node = Tree(rollout=make_rollout([0, 1]).rename_key_("action", "move"), specs=specs, batch_size=[])
    assert node.branching_action.item() == 1
    node.specs = None
    with pytest.raises(KeyError) as error:
        node.branching_action  # noqa: B018 - reading it is what fails
    assert error.value.args[0] == (
        "It is unknown which entries of the rollout are actions. Its entries are: 'observation', 'move'. "
        "Fix: give the tree specs, tree.specs = env.specs."
    )


def test_node_observation(page):
    for path, node in page.vertices(key_type="path").items():
        expected = page.rollout_from_path(path)
        expected = torch.tensor(0) if expected is None else expected["next", "observation"][-1]
        assert torch.equal(node.node_observation, expected)
        assert isinstance(node.node_observations, TensorDict) and list(node.node_observations.keys()) == ["observation"]
        assert torch.equal(node.node_observations["observation"], expected)


def test_several_observations():
    env = TicTacToeEnv()
    forest = MCTSForest()
    forest.get_keys_from_env(env)
    rollout = env.rollout(4)
    forest.extend(rollout)
    for node in (forest.get_tree(rollout[0]), forest.get_tree(rollout[0]).clone()):
        assert isinstance(node.node_observation, TensorDict)
        assert set(node.node_observation.keys()) == {"board", "turn", "mask"}
        assert torch.equal(node.node_observation["board"], rollout["next", "board"][-1])
        assert (node.node_observations == node.node_observation).all()


def test_observation_of_nothing():
    with pytest.raises(ValueError) as error:
        Tree(batch_size=[]).node_observation  # noqa: B018 - reading it is what fails
    assert str(error.value) == (
        "The node has no observation: both node_data and rollout are None. Fix: create it with Tree.make_node(data)."
    )
    assert Tree(rollout=make_rollout([0, 5]), batch_size=[]).node_observation.item() == 5


@pytest.mark.parametrize(
    ("name", "side"),
    [
        ("full_action_spec", "input_spec"),
        ("full_state_spec", "input_spec"),
        ("full_observation_spec", "output_spec"),
        ("full_reward_spec", "output_spec"),
        ("full_done_spec", "output_spec"),
    ],
)
def test_specs(name, side):
    env = TicTacToeEnv()
    node = Tree.make_node(env.reset(), specs=env.specs)
    assert getattr(node, name) == env.specs[side, name]
    forest = MCTSForest()
    forest.get_keys_from_env(env)
    rollout = env.rollout(5)
    forest.extend(rollout)
    assert getattr(forest.get_tree(rollout[0], compact=False).subtree[0], name) == env.specs[side, name]
    with pytest.raises(ValueError) as error:
        getattr(by_hand(), name)
    assert str(error.value) == (
        f"The tree has no specs, so {name} is not available. Fix: forest.get_keys_from_env(env) before "
        "forest.get_tree(root), or Tree.make_node(data, specs=env.specs)."
    )


def test_repr_has_no_addresses():
    tree = page_tree()
    text = repr(tree.subtree[0])
    assert "0x" not in text and "weakref" not in text and text == repr(page_tree().subtree[0])

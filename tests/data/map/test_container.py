"""Tree as a container of tensors: stacking, copies, saving, loading, parents, and nodes with several parents."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import warnings
from collections import namedtuple

import h5py
import numpy as np
import pytest
import torch
from tensordict import LazyStackedTensorDict, TensorDict, lazy_stack

from rlnb.data import Tree
from rlnb.envs import TicTacToeEnv
from tests.data.map.graphs import make_rollout, meeting_tree, page_forest, page_tree, state

TREES = {
    "page": page_tree,
    "meeting": meeting_tree,
    "child": lambda: keep(page_tree()).subtree[0],
    "parent given": lambda: give_parents(page_tree().clone()),
    "copy": lambda: page_tree().clone(),
}
_KEPT = []


def keep(tree: Tree) -> Tree:
    """A tree that stays there, so that its nodes have parents."""
    _KEPT.append(tree)
    return tree


def give_parents(tree: Tree) -> Tree:
    """The same tree, below a parent that is there."""
    tree._parent = keep(page_tree())
    return tree


@pytest.fixture(params=TREES)
def tree(request):
    yield TREES[request.param]()
    _KEPT.clear()


def same(one: Tree, other: Tree) -> bool:
    """Whether two trees say the same, all numbers and steps included, and their nodes know their parents."""
    paths = one.vertices(key_type="path")
    assert list(paths) == list(other.vertices(key_type="path"))
    for path, node in paths.items():
        twin = other.vertices(key_type="path")[path]
        assert (node.hash, node.node_id, node.num_children) == (twin.hash, twin.node_id, twin.num_children)
        assert torch.equal(torch.as_tensor(node.count), torch.as_tensor(twin.count)), path
        assert (node.rollout is None) == (twin.rollout is None)
        if node.rollout is not None:
            assert bool((node.rollout == twin.rollout).all())
        assert bool((node.node_data == twin.node_data).all())
        assert not path or twin.parent is not None
    assert one.edges() == other.edges()
    return one.to_string() == other.to_string()


def test_get(tree):
    assert tree.get("count") is tree.count
    assert tree.get(("node_data", "observation")) is tree.node_data["observation"]
    assert tree.get("nothing", 3) == 3
    assert tree.get("subtree").batch_size == tree.subtree.batch_size


def test_set(tree):
    count = tree.count
    assert tree.set("count", torch.tensor(7, dtype=torch.int32), inplace=True) is tree
    assert tree.count is count and count.item() == 7
    assert tree.set("count", torch.tensor(9)) is tree and tree.count is not count and tree.count.item() == 9
    assert tree.set("wins", torch.tensor(2.0), non_blocking=True).wins.item() == 2.0
    tree.node_id, tree.hash = 77, 78
    assert (tree.node_id, tree.hash) == (77, 78) and isinstance(tree.node_id, int)
    with pytest.raises(AttributeError):
        tree.nothing = 1


def leaves(count: int) -> list[Tree]:
    return [Tree.make_node(TensorDict({"observation": torch.full((2,), float(i))})) for i in range(count)]


def test_stack():
    for stacked in (Tree.stack(leaves(3)), torch.stack(leaves(3))):
        assert type(stacked) is Tree and stacked.batch_size == torch.Size([3])
        assert isinstance(stacked._tensordict, TensorDict)
        assert stacked.node_data["observation"].tolist() == [[0, 0], [1, 1], [2, 2]]
    assert Tree.stack([Tree.stack(leaves(3))] * 2, 1).batch_size == torch.Size([3, 2])


def test_cat():
    pair = Tree.stack(leaves(2))
    joined = Tree.cat([pair, pair], 0)
    assert type(joined) is Tree and joined.batch_size == torch.Size([4])
    assert joined.node_data["observation"][:, 0].tolist() == [0, 1, 0, 1]
    assert torch.cat([pair, pair]).batch_size == torch.Size([4])


def test_lazy_stack(tree):
    pair = Tree.lazy_stack([tree, tree.clone()])
    assert type(pair) is Tree and pair.batch_size == torch.Size([2])
    assert isinstance(pair._tensordict, LazyStackedTensorDict)
    assert same(tree, pair[0]) and same(tree, pair[1])


def test_maybe_dense_stack(tree):
    assert isinstance(Tree.maybe_dense_stack(leaves(2))._tensordict, TensorDict)
    uneven = [tree, Tree.make_node(state(1))]
    assert isinstance(Tree.maybe_dense_stack(uneven)._tensordict, LazyStackedTensorDict)


def test_unbind(tree):
    for stack in (Tree.stack(leaves(2)), Tree.lazy_stack(leaves(2))):
        nodes = stack.unbind(0)
        assert isinstance(nodes, tuple) and [type(node) for node in nodes] == [Tree, Tree]
        assert nodes[1].node_data["observation"].tolist() == [1, 1]
    assert [node.node_id for node in tree.subtree.unbind(0)] == list(tree.subtree.node_id)


def test_to_tensordict_and_back(tree):
    plain = tree.to_tensordict()
    assert type(plain) is TensorDict and isinstance(plain["subtree"], LazyStackedTensorDict)
    names = {field.name for field in dataclasses.fields(Tree)} - {"_parent"}
    assert set(plain.keys()) == names and plain.get("specs").data is None
    assert "specs" not in set(tree.to_tensordict(retain_none=False).keys())
    plain["count"] += 4
    assert tree.count.item() == 0
    assert same(tree, Tree.from_tensordict(tree.to_tensordict()))
    assert same(tree, Tree.from_tensordict(tree.to_tensordict(retain_none=False)))
    with pytest.raises(ValueError, match="other"):
        Tree.from_tensordict(TensorDict({"other": torch.zeros(1)}))
    assert Tree.from_tensordict(TensorDict({"count": torch.tensor(3)}), {"hash": 5}).hash == 5
    with pytest.warns(DeprecationWarning, match="safe"), pytest.raises(RuntimeError, match="TensorDictBase"):
        Tree.from_tensordict({"count": torch.tensor(1)}, safe=True)


def test_device(tree):
    assert tree.device is None
    moved = tree.to("cpu")
    assert moved.device == torch.device("cpu") and same(tree, moved)
    there = tree.to("meta")
    assert there.device == torch.device("meta") and there.subtree[0].count.device.type == "meta"


@pytest.mark.parametrize("copied", [Tree.clone, copy.deepcopy, lambda tree: pickle.loads(pickle.dumps(tree))])
def test_copies(tree, copied):
    twin = copied(tree)
    assert same(tree, twin)
    twin.subtree[0].count.add_(3)
    assert tree.subtree[0].count.item() == 0
    assert twin.subtree[0].parent.node_id == tree.node_id


@pytest.mark.parametrize("name", ["memmap", "save", "dumps"])
@pytest.mark.parametrize("load", [Tree.load, Tree.load_memmap])
def test_saved_and_loaded(tree, tmp_path, name, load):
    there = getattr(tree, name)(str(tmp_path))
    assert there is not tree and there.is_locked and there.is_memmap() and not tree.is_memmap()
    assert same(tree, there) and same(tree, load(str(tmp_path)))
    with pytest.raises(RuntimeError, match="lock"):
        there.node_id = 5
    bare = load(str(tmp_path), device="meta")
    assert bare.count.device.type == "meta" and bare.num_vertices() == tree.num_vertices()


def test_parents_are_not_saved(tmp_path):
    tree = page_tree()
    child = tree.subtree[0]
    assert child.parent is not None
    child.save(tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".pickle", ".pkl")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as that of an entry that has to be unpickled
        loaded = Tree.load(tmp_path)
    assert same(child.clone(), loaded) and loaded.parent is None
    assert child.parent.node_id == 0


def test_saved_again_over_the_same(tree, tmp_path):
    tree.memmap(tmp_path)
    tree.memmap(tmp_path)
    with pytest.raises(RuntimeError, match="exist"):
        tree.memmap(tmp_path, existsok=False)
    assert same(tree, Tree.load(tmp_path))
    other = tmp_path / "threads"
    assert same(tree, tree.memmap(other, num_threads=2, return_early=True).result())


def test_memmap_in_place(tree, tmp_path):
    twin = tree.clone()
    assert tree.memmap_(tmp_path) is tree and tree.is_memmap() and tree.is_locked
    assert same(twin, tree) and same(twin, Tree.load(tmp_path))


def test_memmap_like(tree, tmp_path):
    twin = tree.memmap_like(tmp_path)
    assert twin.is_memmap() and twin.num_vertices() == tree.num_vertices()
    assert twin.node_data["observation"].shape == tree.node_data["observation"].shape
    assert list(twin.vertices(key_type="path")) == list(tree.vertices(key_type="path"))


def test_load_in_place(tree, tmp_path):
    twin = tree.clone()
    twin.count.add_(3)
    twin.save(tmp_path)
    assert tree.load_memmap_(tmp_path) is tree and tree.count.item() == 3 and same(twin, tree)
    again = twin.clone()
    again.count.zero_()
    with pytest.warns(DeprecationWarning, match="load_"):
        assert again.load_(tmp_path).count.item() == 3


def test_refresh(tree, tmp_path):
    there = tree.memmap(tmp_path)
    changed = tree.clone()
    changed.count.add_(6)
    changed.memmap(tmp_path)
    assert there.memmap_refresh_() is there and there.count.item() == 6 and same(changed, there)
    with pytest.raises(RuntimeError, match="no path associated"):
        tree.memmap_refresh_()


def test_state_dict(tree):
    found = tree.state_dict()
    assert set(found) == {"_tensordict", "_non_tensordict", "__batch_size"}
    assert found["_non_tensordict"] == {"hash": tree.hash, "node_id": tree.node_id}
    assert list(found["_tensordict"]["subtree"]) == [str(place) for place in range(tree.num_children)]
    assert found["_tensordict"]["subtree"]["1"]["_non_tensordict"]["node_id"] == tree.subtree[1].node_id
    there: dict = {"epoch": 3}
    assert tree.state_dict(there, prefix="tree.") is there and {"epoch", "tree._tensordict"} <= set(there)
    flat = tree.state_dict(flatten=True)
    assert torch.equal(flat["_tensordict.subtree.1._tensordict.count"], tree.subtree[1].count)
    tree.wins = torch.ones((), requires_grad=True)
    assert tree.state_dict(keep_vars=True)["_tensordict"]["wins"].requires_grad
    assert not tree.state_dict()["_tensordict"]["wins"].requires_grad


def test_load_state_dict(tree):
    wanted = tree.clone()
    for node in wanted.vertices(key_type="path").values():
        node.count.add_(4)
    count = tree.count
    assert tree.load_state_dict(wanted.state_dict()) is tree
    assert tree.count is count and count.item() == 4 and same(wanted, tree)
    given = wanted.state_dict()
    assert tree.load_state_dict(given, assign=True).count is given["_tensordict"]["count"]
    empty = Tree(batch_size=[])
    assert same(wanted, empty.load_state_dict(wanted.state_dict(flatten=True), from_flatten=True, strict=False))
    assert empty.count is not wanted.count


def test_load_state_dict_of_something_else(tree):
    before = tree.clone()
    node = Tree.make_node(state(1))
    with pytest.raises(RuntimeError) as error:
        node.load_state_dict(page_forest().get_tree(state(0)).state_dict())
    assert str(error.value) == (
        "Node and state have different fields: the node lacks 'hash', 'index', 'node_id', 'subtree'. "
        "Fix: tree.load_state_dict(state, strict=False), which loads the fields that the state has."
    )
    assert node.hash is None and node.num_children == 0
    with pytest.raises(RuntimeError) as error:
        tree.load_state_dict({"count": torch.tensor(1)})
    assert str(error.value) == (
        'The state of a node must have the entries "_tensordict", "_non_tensordict" and "__batch_size", got: '
        "'count'. Fix: pass a dictionary from tree.state_dict(), with from_flatten=True if it was made with "
        "flatten=True."
    )
    with pytest.raises(RuntimeError, match="from_flatten=True"):
        tree.load_state_dict(tree.state_dict(flatten=True))
    assert same(before, tree)


def test_state_dict_keeps_strings():
    node = Tree.make_node(TensorDict({"fen": "8/8", "inner": {"a": torch.zeros(1)}}))
    twin = Tree.make_node(TensorDict({"fen": "none", "inner": {"a": torch.ones(1)}}))
    twin.load_state_dict(node.state_dict())
    assert twin.node_data["fen"] == "8/8" and twin.node_data["inner", "a"].item() == 0


def test_made_from_other_things(tmp_path):
    count, wins = torch.tensor([1, 2]), torch.tensor([0.5, 1.5])
    Pair = namedtuple("Pair", ["count", "wins"])

    @dataclasses.dataclass
    class Data:
        count: torch.Tensor
        wins: torch.Tensor

    with h5py.File(tmp_path / "tree.h5", "w") as file:
        file["count"], file["wins"] = count.numpy(), wins.numpy()
    struct = np.array([(1, 0.5), (2, 1.5)], dtype=[("count", "i8"), ("wins", "f4")])
    made = {
        "from_any": Tree.from_any({"count": count, "wins": wins}),
        "from_dataclass": Tree.from_dataclass(Data(count, wins)),
        "from_namedtuple": Tree.from_namedtuple(Pair(count, wins)),
        "from_pytree": Tree.from_pytree({"count": count, "wins": wins}),
        "from_struct_array": Tree.from_struct_array(struct),
        "from_h5": Tree.from_h5(str(tmp_path / "tree.h5")),
    }
    for name, tree in made.items():
        assert tree.get("count").tolist() == [1, 2] and tree.get("wins").tolist() == [0.5, 1.5], name
    assert Tree.fromkeys(["count", "wins"], 3).count.item() == 3
    with pytest.raises(ValueError, match="0"):
        Tree.from_tuple((count,))  # a Tree has no field of the name "0"
    assert callable(Tree.from_modules) and callable(Tree.from_remote_init)


def test_with_specs(tmp_path):
    from rlnb.data import MCTSForest

    env = TicTacToeEnv()
    forest = MCTSForest()
    forest.get_keys_from_env(env)
    rollout = env.rollout(3)
    forest.extend(rollout)
    tree = forest.get_tree(rollout[0], compact=False)
    tree.save(tmp_path)
    loaded = Tree.load(tmp_path, allow_pickle=True)
    assert loaded.specs == env.specs and loaded.subtree[0].full_action_spec == env.full_action_spec
    assert tree.clone().specs == env.specs


def test_a_lazy_stack_of_states_is_a_root_with_children():
    root = Tree.make_node(state(0))
    root.subtree = Tree.from_tensordict(lazy_stack([node.to_tensordict() for node in leaves(2)]))
    assert root.num_children == 2 and root.subtree[1].parent.node_data["observation"].item() == 0
    dense = Tree.make_node(state(0))
    dense.subtree = Tree.stack(leaves(2))
    assert dense.subtree[1].parent.node_data["observation"].item() == 0 and dense.num_vertices() == 3
    dense.rollout = make_rollout([3, 0])
    assert dense.prev_action.item() == 0

"""HashToInt, QueryModule and TensorDictMap: the documented examples, collisions, and errors."""

from __future__ import annotations

import importlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from rlnb.data import (
    HashToInt,
    LazyTensorStorage,
    ListStorage,
    QueryModule,
    RandomProjectionHash,
    SipHash,
    TensorDictMap,
)
from rlnb.data.map import TensorMap
from rlnb.envs import GymEnv


def rows(*values: float, **more) -> TensorDict:
    entries = {name: torch.tensor(column)[:, None] for name, column in more.items()}
    return TensorDict({"a": torch.tensor(values)[:, None], **entries}, [len(values)])


def zero(entry: torch.Tensor) -> torch.Tensor:
    """A hash that is the same for all."""
    return torch.zeros(len(entry), dtype=torch.int64)


@pytest.mark.parametrize("name", [*importlib.import_module("rlnb.data.map").__all__])
def test_names(name):
    assert getattr(importlib.import_module("rlnb.data"), name) is getattr(
        importlib.import_module("rlnb.data.map"), name
    )


@pytest.mark.parametrize("module", ["rlnb.data", "rlnb.data.map"])
def test_names_that_are_not_there(module):
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'nothing'"):
        importlib.import_module(module).nothing  # noqa: B018 - reading it is what fails


def test_hash_to_int():
    to_int = HashToInt()
    assert to_int(torch.tensor([4])).tolist() == [0] and len(to_int) == 0
    assert to_int(torch.tensor([5, 7, 5]), extend=True).tolist() == [0, 1, 0]
    assert to_int(torch.tensor([7, 9, 11])).tolist() == [1, 2, 2] and len(to_int) == 2
    other = HashToInt()
    other.load_state_dict(to_int.state_dict())
    assert other(torch.tensor([7, 5])).tolist() == [1, 0]
    with pytest.raises(KeyError) as error:
        other.load_state_dict({"hashes": torch.tensor([1])})
    assert error.value.args[0] == (
        "The state of a HashToInt must have one entry, \"keys\", got ['hashes']. "
        "Fix: pass a dictionary from HashToInt.state_dict()."
    )
    other.clear()
    assert len(other) == 0


def test_query_page():
    query_module = QueryModule(in_keys=["key1", "key2"], index_key="index", hash_module=SipHash())
    query = TensorDict(
        {
            "key1": torch.Tensor([[1], [1], [1], [2]]),
            "key2": torch.Tensor([[3], [3], [2], [3]]),
            "other": torch.randn(4),
        },
        batch_size=(4,),
    )
    result = query_module(query)
    assert result is query and result["index"].tolist() == [0, 0, 1, 2]
    assert result["_hash"][0] == result["_hash"][1] and len(set(result["_hash"].tolist())) == 3
    assert query_module.out_keys == ["index", "_hash"] and len(query_module) == 3


def test_query_leaves_its_input_alone():
    data = rows(1.0, 2.0)
    result = QueryModule(["a"], clone=True)(data)
    assert set(data.keys()) == {"a"} and set(result.keys()) == {"a", "_index", "_hash"}
    assert set(QueryModule(["a"], clone=True)(data, clone=False, write_hash=False).keys()) == {"a", "_index"}
    assert data["_index"].tolist() == [0, 1]


@pytest.mark.parametrize("batch", [[], [1], [6], [2, 3]])
def test_query_of_any_batch(batch):
    data = TensorDict({"a": torch.arange(6).reshape(2, 3)[..., None] % 4}, [2, 3]).reshape(-1)[
        : max(1, torch.Size(batch).numel())
    ]
    found = QueryModule(["a"])(data.reshape(batch))["_index"]
    assert found.shape == torch.Size(batch) and found.reshape(-1).tolist() == [0, 1, 2, 3, 0, 1][: found.numel()]


def test_unknown_data_is_one_past_the_last():
    query = QueryModule(["a"])
    query(rows(1.0, 2.0))
    assert query(rows(2.0, 3.0, 4.0), extend=False)["_index"].tolist() == [1, 2, 2] and len(query) == 2


@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=5), max_size=6), st.booleans())
def test_collisions_merge_nothing(blocks, known):
    """With a hash that is the same for all, places are those of a dictionary."""
    query, model = QueryModule(["a"], hash_module=zero), {}
    for block in blocks:
        if not known:
            before = [model.get(value, len(model)) for value in block]
            assert query(rows(*map(float, block)), extend=False)["_index"].tolist() == before
        expected = [model.setdefault(value, len(model)) for value in block]
        assert query(rows(*map(float, block)))["_index"].tolist() == expected


def test_a_hash_that_shall_merge():
    coarse = QueryModule(["a"], hash_module=lambda entry: entry[:, 0].long(), compare=False)
    assert coarse(rows(1.1, 1.9, 2.5))["_index"].tolist() == [0, 0, 1]
    assert QueryModule(["a"], hash_module=lambda entry: entry[:, 0].long())(rows(1.1, 1.9))["_index"].tolist() == [0, 1]


def test_query_modules():
    two = QueryModule(["a", "b"], hash_module=[SipHash(), zero], aggregator=SipHash())
    assert two(rows(1.0, 1.0, b=[1.0, 2.0]))["_index"].tolist() == [0, 1]
    one = QueryModule(["a"], hash_to_int=(to_int := HashToInt()))
    one(rows(1.0, 2.0))
    assert len(to_int) == 2
    with pytest.raises(ValueError) as error:
        QueryModule(["a"], hash_module=[SipHash(), SipHash()])
    assert str(error.value) == (
        "A list of hash modules must have one module for each of in_keys, got 2 for 1 keys. "
        "Fix: pass one for each key, or a single module for all keys."
    )
    with pytest.raises(ValueError) as error:
        QueryModule([])
    assert str(error.value) == (
        "QueryModule needs the keys of the entries that identify a row, got none. "
        'Fix: QueryModule(in_keys=["observation"]).'
    )


def test_query_of_what_is_not_there():
    with pytest.raises(KeyError) as error:
        QueryModule(["b"])(rows(1.0))
    assert error.value.args[0] == (
        "QueryModule reads the entry 'b', which is missing. The entries are: 'a'. "
        "Fix: add it, or choose other entries with QueryModule(in_keys=...)."
    )
    with pytest.raises(TypeError) as error:
        QueryModule(["n"])(TensorDict({"n": {"a": torch.zeros(1)}}, [1]))
    assert str(error.value) == (
        "QueryModule hashes tensors, but the entry 'n' is a TensorDict. "
        "Fix: name the tensors in it, such as in_keys=[('agents', 'observation')]."
    )


def test_map_page():
    storage = TensorDictMap(
        query_module=QueryModule(in_keys=["key1", "key2"], index_key="index"), storage={"out": LazyTensorStorage(1000)}
    )
    index = TensorDict(
        {"key1": torch.Tensor([[-1], [1], [3], [-3]]), "key2": torch.Tensor([[0], [2], [4], [-4]])}, batch_size=(4,)
    )
    value = TensorDict({"out": torch.Tensor([[10], [20], [30], [40]])}, batch_size=(4,))
    storage[index] = value
    assert storage[index]["out"].tolist() == [[10], [20], [30], [40]] and storage[index].batch_size == torch.Size([4])
    assert torch.sum(storage.contains(index)).item() == 4 and index in storage and isinstance(storage, TensorMap)
    more = index.clone(True)
    more["key3"] = torch.Tensor([[4], [5], [6], [7]])
    assert (storage[more] == value).all()
    more["key1"][0] = 9
    assert storage.contains(more).tolist() == [False, True, True, True] and more not in storage
    assert len(storage) == 4 and storage.max_size == 1000
    assert storage.in_keys == ["key1", "key2"] and storage.out_keys == ["out"]


def test_map_from_a_rollout():
    env = GymEnv("CartPole-v1")
    env.set_seed(0)
    rollout = env.rollout(30)
    source, dest = rollout.exclude("next"), rollout.get("next")
    storage = TensorDictMap.from_tensordict_pair(source, dest, in_keys=["observation", "action"])
    storage[source] = dest
    assert source["_index"].tolist() == list(range(len(rollout)))
    assert (storage[source] == dest).all() and set(storage[source].keys()) == set(dest.keys())
    assert storage[source[3]]["reward"].shape == (1,)
    some = TensorDictMap.from_tensordict_pair(source, dest, ["observation"], out_keys=["reward"], max_size=50)
    some[source] = dest
    assert list(some[source].keys()) == ["reward"] and some.max_size == 50


def test_map_of_wide_rows():
    source = TensorDict({"pixels": torch.rand(5, 3, 32, 32)}, [5])
    dest = TensorDict({"value": torch.arange(5.0)}, [5])
    storage = TensorDictMap.from_tensordict_pair(source, dest, in_keys=["pixels"])
    assert type(storage.query_module.hash_modules[0]) is RandomProjectionHash
    storage[source] = dest
    assert storage[source.flip(0)]["value"].tolist() == [4, 3, 2, 1, 0]


@given(st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 99)), min_size=1, max_size=4), max_size=6))
def test_a_map_is_a_dictionary(blocks):
    storage = TensorDictMap(query_module=QueryModule(["a"]), storage={"out": LazyTensorStorage(10)})
    model: dict[int, int] = {}
    for block in blocks:
        keys, values = zip(*block, strict=True)
        storage[rows(*map(float, keys))] = TensorDict({"out": torch.tensor(values)}, [len(block)])
        model.update(block)
        assert len(storage) == len(model)
        known = rows(*map(float, model))
        assert storage[known]["out"].tolist() == list(model.values())
    storage.clear()
    assert len(storage) == 0 and not storage.contains(rows(0.0, 1.0)).any()


def test_write_fn_and_collate_fn():
    calls = []

    def add(new, old):
        calls.append((len(new), None if old is None else len(old)))
        return new if old is None else TensorDict({"out": new["out"] + old["out"]}, new.batch_size)

    storage = TensorDictMap(
        query_module=QueryModule(["a"]),
        storage={"out": LazyTensorStorage(9)},
        write_fn=add,
        collate_fn=lambda column: column * 10,
    )
    for keys in ([1.0, 2.0], [2.0, 3.0, 3.0]):
        storage[rows(*keys)] = TensorDict({"out": torch.ones(len(keys))}, [len(keys)])
    assert storage[rows(1.0, 2.0, 3.0)]["out"].tolist() == [10, 20, 10]
    assert calls == [(2, None), (1, None), (1, 1)]


def test_faults_of_maps():
    storage = TensorDictMap(
        query_module=QueryModule(["a"]), storage={"out": LazyTensorStorage(3), "more": ListStorage(3)}, out_keys=["out"]
    )
    value = TensorDict({"out": torch.ones(2), "more": torch.zeros(2)}, [2])
    storage[rows(1.0, 2.0)] = value

    def fails(call, kind, text):
        with pytest.raises(kind) as error:
            call()
        assert error.value.args[0] == text
        assert len(storage) == 2 and len(storage.query_module) == 2 and storage[rows(1.0)]["out"].item() == 1

    fails(
        lambda: storage[rows(1.0, 5.0)],
        KeyError,
        "1 of 2 rows are not in the map. Fix: check map.contains(item) first, or store them with map[item] = value.",
    )
    fails(
        lambda: storage.__setitem__(rows(7.0, 8.0), value + 4),
        ValueError,
        "The map is limited to 3 rows and holds 2, but got 2 new ones. "
        "Fix: use larger storages, such as LazyTensorStorage(100_000), or call map.clear().",
    )
    fails(
        lambda: storage.__setitem__(rows(1.0, 3.0), (value + 4).exclude("more")),
        KeyError,
        "The value must have the entries 'out', 'more', but lacks 'more'. Fix: add the missing entries.",
    )
    fails(
        lambda: storage.__setitem__(rows(1.0), value),
        ValueError,
        "Keys and values must have the same batch size, got [1] and [2]. Fix: give both the same batch size.",
    )
    with pytest.raises(TypeError) as error:
        TensorDictMap(query_module=QueryModule(["a"]), storage=LazyTensorStorage(3))
    assert str(error.value) == (
        "storage must be a dictionary with a storage for each entry, got LazyTensorStorage. "
        'Fix: storage={"value": LazyTensorStorage(1000)}.'
    )
    with pytest.raises(KeyError) as error:
        TensorDictMap(query_module=QueryModule(["a"]), storage={"out": LazyTensorStorage(3)}, out_keys=["x"])
    assert error.value.args[0] == (
        "out_keys names 'x', for which there is no storage. The storages are for: 'out'. "
        "Fix: add a storage for each of out_keys."
    )

"""Each claim of TorchRL's page on TensorDict, with the current names and behaviour.

The loop over two processes is in tests/envs/test_shared_box.py, and SavedTensorDict in test_saved.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from exercises.tensordict_page import PAGE_ROWS, page_table
from tensordict.nn import TensorDictModule

import rlnb.data
from rlnb.data import (
    LazyStackedTensorDict,
    LazyTensorStorage,
    ListStorage,
    MemoryMappedTensor,
    SavedTensorDict,
    TensorDict,
    TensorDictBase,
    TensorDictReplayBuffer,
    lazy_stack,
)
from rlnb.envs import GymEnv, step_mdp


def make(batch: tuple[int, ...] = (3, 4)) -> TensorDict:
    return TensorDict(source={"a": torch.rand(*batch, 5)}, batch_size=[*batch])


def keys(td: Any, *flags: bool) -> list[Any]:
    return list(td.keys(*flags))


# Names ----------------------------------------------------------------------------------------------------------------


def test_the_names_are_those_of_tensordict() -> None:
    import tensordict

    for name in ("TensorDict", "LazyStackedTensorDict", "TensorDictBase", "MemoryMappedTensor", "lazy_stack"):
        assert getattr(rlnb.data, name) is getattr(tensordict, name) and name in rlnb.data.__all__
    assert "SavedTensorDict" in rlnb.data.__all__


# Properties -----------------------------------------------------------------------------------------------------------


def test_key_value_pairs() -> None:
    td = TensorDict(source={"a": torch.zeros(3, 4), "b": {"c": torch.ones(3, 4, 2)}}, batch_size=[3, 4])
    assert [key for key, _ in td.items()] == ["a", "b"]
    plain = td.to_dict()
    assert type(plain) is dict and type(plain["b"]) is dict and torch.equal(plain["b"]["c"], torch.ones(3, 4, 2))


def test_the_batch_size_is_given_and_not_inferred() -> None:
    assert TensorDict({"a": torch.zeros(3, 4)}).batch_size == torch.Size([])
    td = make()
    assert td.batch_size == torch.Size([3, 4]) and td.batch_dims == 2
    td.batch_size = [3]
    assert td.batch_size == (3,) and td.batch_dims == 1
    with pytest.raises(RuntimeError):
        td.batch_size = [5]
    assert td.batch_size == (3,)
    with pytest.raises(RuntimeError):
        TensorDict({"a": torch.zeros(3, 4)}, batch_size=[4])


def test_items_differ_in_dtype_and_in_shape_behind_the_batch() -> None:
    td = TensorDict({"a": torch.zeros(3, 2), "b": torch.zeros(3, dtype=torch.bool)}, [3], device="cpu")
    assert td.device == torch.device("cpu") and {value.device.type for value in td.values()} == {"cpu"}


def test_set_and_get() -> None:
    td = make()
    a = td["a"]
    td.set("b", torch.zeros(3, 4, dtype=torch.int64)).set("a", torch.ones(3, 4, 7))
    assert td.get("a").shape == (3, 4, 7) and td.get("a") is not a and td.get("none", "default") == "default"
    b = td["b"]
    td.set_("b", torch.ones(3, 4))
    assert td["b"] is b and b.sum() == 12 and b.dtype is torch.int64
    with pytest.raises(KeyError):
        td.set_("c", torch.zeros(3, 4))
    with pytest.raises(RuntimeError):
        td.set_("a", torch.zeros(3, 4, 2))
    with pytest.raises(RuntimeError):
        td.set("c", torch.zeros(3, 5))
    assert keys(td) == ["a", "b"]
    with pytest.raises(KeyError):
        td["c"]


def test_indexing_along_the_batch() -> None:
    td = make()
    assert td[0].batch_size == (4,) and td[:, 2].batch_size == (3,) and td[1, 2].batch_size == ()
    mask = torch.zeros(3, 4, dtype=torch.bool)
    mask[0, :3] = True
    assert td[mask].batch_size == (3,) and torch.equal(td[mask]["a"], td["a"][0, :3])
    with pytest.raises(RuntimeError):
        TensorDict({"a": torch.zeros(3)}, [])[0]


def test_writing_into_an_index() -> None:
    td = make()
    a = td["a"]
    td[:, 0] = TensorDict({"a": torch.full((3, 5), 7.0)}, [3])
    assert td["a"] is a and a[:, 0].eq(7).all() and a[:, 1:].le(1).all()
    with pytest.raises(RuntimeError):
        td[:, 0] = TensorDict({"a": torch.zeros(3, 7)}, [3])
    td.set_at_("a", torch.full((4, 5), 9.0), 1)
    assert td["a"] is a and a[1].eq(9).all()
    with pytest.raises(RuntimeError):
        td.set_at_("a", torch.zeros(7), 1)


def test_operations_that_follow_the_batch_size() -> None:
    td = make()
    assert torch.cat([td, td], 1).batch_size == (3, 8) and len(td.unbind(1)) == 4 and td.unbind(1)[0].batch_size == (3,)
    assert td.view(-1).batch_size == (12,) and td.view(2, 6)["a"].shape == (2, 6, 5)
    assert td.unsqueeze(1).batch_size == (3, 1, 4) and td.unsqueeze(1).squeeze(1).batch_size == (3, 4)
    assert td.expand(2, 3, 4)["a"].shape == (2, 3, 4, 5) and TensorDict({}, [3, 4]).view(-1).batch_size == (12,)
    with pytest.raises(RuntimeError):
        TensorDict(source={"a": torch.randn(3, 4, 2)}, batch_size=[3, 4]).view(24)
    with pytest.raises(RuntimeError):
        td.view(-1).unsqueeze(3)  # the tensors have a dimension more


def test_reshaped_tensordicts_need_no_memory_and_write_to_the_original() -> None:
    t = TensorDict({"a": torch.randn(3, 4)}, [3])
    for view in (t.view(-1), t.unsqueeze(0), t.squeeze(), t.expand(2, 3), t.unbind(0)[0]):
        assert view["a"].untyped_storage().data_ptr() == t["a"].untyped_storage().data_ptr()
    t.view(-1).fill_("a", 0.0)
    assert not t["a"].any()
    t.fill_("a", 2.0)
    assert t["a"].eq(2).all() and not t.zero_()["a"].any()


def test_selecting_renaming_and_deleting() -> None:
    td = TensorDict({"a": torch.zeros(2), "b": {"c": torch.zeros(2), "d": torch.zeros(2)}}, [2])
    assert keys(td.select("a")) == ["a"] and keys(td.select(("b", "c")), True, True) == [("b", "c")]
    assert keys(td.exclude("a", ("b", "c")), True, True) == [("b", "d")] and keys(td) == ["a", "b"]
    assert keys(td.del_("a")) == ["b"]
    with pytest.raises(KeyError):
        td.select("a")


def test_casting() -> None:
    td = make()
    for device in ("cpu", torch.device("cpu")):
        moved = td.to(device)
        assert moved.device == torch.device("cpu") and moved.to(device) is moved
    for key, item in td.items():
        td.set(key, item.to(torch.float64), inplace=False)
    assert td["a"].dtype is torch.float64
    td.set("a", td["a"].to(torch.float32), inplace=True)
    assert td["a"].dtype is torch.float64, "in place, the old tensor keeps its dtype"


# Shared memory --------------------------------------------------------------------------------------------------------


def test_shared_memory() -> None:
    td = make().share_memory_()
    assert td.is_shared() and td["a"].is_shared() and td[0].is_shared() and td[0]["a"].is_shared()
    assert not td.clone().is_shared() and not td.clone()["a"].is_shared()
    td[1].set_("a", torch.ones(4, 5))
    assert td["a"][1].eq(1).all()
    with pytest.raises(RuntimeError, match="lock"):  # a new entry would be in the memory of one process alone
        td[1].set("b", torch.ones(4))


# Stacks ---------------------------------------------------------------------------------------------------------------


def test_lazy_stacks() -> None:
    tds = [make() for _ in range(10)]
    stack = lazy_stack(tds, dim=1)
    assert type(stack) is LazyStackedTensorDict and stack.batch_size == (3, 10, 4)
    assert all(stack[:, i] is tds[i] for i in range(10))
    assert stack.get("a").shape == (3, 10, 4, 5) and torch.equal(
        stack.get("a"), torch.stack([td["a"] for td in tds], 1)
    )
    assert type(LazyStackedTensorDict.lazy_stack(tds, 1)) is LazyStackedTensorDict


def test_lazy_stacks_share() -> None:
    tds = [TensorDict(source={"a": torch.randn(3, 4)}, batch_size=[3]) for _ in range(5)]
    stack = lazy_stack(tds, 1)
    stack.set("b", torch.arange(15.0).view(3, 5, 1))
    assert all(torch.equal(tds[i]["b"], torch.arange(15.0).view(3, 5, 1)[:, i]) for i in range(5))
    for td in tds:
        td.set("c", torch.ones(3, dtype=torch.bool))
    assert stack.get("c").shape == (3, 5) and stack["c"].all()
    tds[0].set("d", torch.zeros(3, dtype=torch.double))
    assert keys(stack) == ["a", "b", "c"]
    tds[2]["a"].fill_(7.0)
    assert stack["a"][:, 2].eq(7).all() and not stack["a"][:, 1].eq(7).any()


def test_a_stack_is_copied_into_shared_memory_at_once() -> None:
    tds = [make((3,)) for _ in range(4)]
    box = TensorDict({"a": torch.zeros(4, 3, 5)}, [4, 3]).share_memory_()
    a = box["a"]
    box.copy_(lazy_stack(tds, 0))
    assert box["a"] is a and box.is_shared() and torch.equal(a, torch.stack([td["a"] for td in tds]))


def test_cat_copies() -> None:
    td = make()
    out = torch.cat([td, td], 0)
    assert type(out) is TensorDict and torch.equal(out["a"], torch.cat([td["a"], td["a"]], 0))
    out["a"].zero_()
    assert td["a"].any()


@pytest.mark.parametrize("storage", [ListStorage, LazyTensorStorage])
def test_steps_in_a_buffer_with_priorities(storage: Any) -> None:
    """The page's loop: a trajectory is stacked, added, sampled, and its priorities are updated."""
    env = GymEnv("Pendulum-v1")
    policy = TensorDictModule(lambda obs: obs[..., :1], in_keys=["observation"], out_keys=["action"])
    td, trajectory = env.reset(), []
    for _ in range(6):
        policy(td)
        env.step(td)
        trajectory.append(td.clone())
        td = step_mdp(td)
    buffer = TensorDictReplayBuffer(storage=storage(10), batch_size=16, priority_key="td_error")
    buffer.extend(lazy_stack(trajectory, 0))
    assert len(buffer) == 6
    sample = buffer.sample()
    assert sample.batch_size == (16,) and sample["next", "reward"].all()
    sample["td_error"] = torch.rand(16)
    buffer.update_tensordict_priority(sample)


# Loops ----------------------------------------------------------------------------------------------------------------


def test_the_policy_and_the_env_write_into_one_tensordict() -> None:
    env = GymEnv("Pendulum-v1")
    td, out = env.reset(seed=0), []
    for _ in range(5):
        td["action"] = td["observation"][:1]
        env.step(td)
        out.append(td.clone())
        td = step_mdp(td)
    data = torch.stack(out, 0)
    assert data.batch_size == (5,) and torch.equal(data["next", "observation"][:-1], data["observation"][1:])


def test_what_the_policy_reads_and_writes_alone_is_moved() -> None:
    def call_policy(shared: TensorDictBase, policy: Any, device: str) -> None:
        inputs = shared.select(*policy.in_keys).to(device)
        policy(inputs)
        shared.update(inputs.select(*policy.out_keys), inplace=True)

    policy = TensorDictModule(lambda x: x + 1, in_keys=["observation"], out_keys=["action"])
    shared = TensorDict({"observation": torch.zeros(2, 3), "action": torch.zeros(2, 3), "x": torch.zeros(2)}, [2])
    shared.share_memory_()
    action = shared["action"]
    call_policy(shared, policy, "cpu")
    assert shared["action"] is action and action.eq(1).all() and action.is_shared() and keys(shared) == [*shared.keys()]


def test_a_loop_over_envs_writes_rows() -> None:
    """The page's first loop: ``tensordict[i] = env(tensordict[i])``."""
    envs = [GymEnv("Pendulum-v1") for _ in range(3)]
    td = torch.stack([env.rand_step(env.reset()) for env in envs], 0)
    for i, env in enumerate(envs):
        td[i] = env(td[i].exclude("next"))
    assert td.batch_size == (3,) and td["next", "reward"].all()


# On disk --------------------------------------------------------------------------------------------------------------


def test_a_saved_stack() -> None:
    stack = lazy_stack([TensorDict(source={"a": torch.rand(3, 4, 100)}, batch_size=[3, 4]) for _ in range(10)], 0)
    saved = SavedTensorDict(source=stack, batch_size=[10, 3, 4])
    filename = saved.filename
    torch.testing.assert_close(saved.get("a"), stack.get("a"))
    assert type(saved._load()) is LazyStackedTensorDict and saved.batch_size == (10, 3, 4)
    assert os.path.isfile(filename)
    del saved
    assert not os.path.isfile(filename)


def test_memory_maps(tmp_path: Path) -> None:
    td = TensorDict(source={"a": torch.rand(3, 4, 100), "b": {"c": torch.zeros(3, 4)}}, batch_size=[3, 4])
    mapped = td.clone().memmap_()
    assert mapped.is_memmap() and mapped.is_locked and type(mapped.get("a")) is MemoryMappedTensor
    torch.testing.assert_close(td.get("a"), mapped.get("a").clone())
    assert type(mapped.clone()["a"]) is torch.Tensor and not mapped.clone().is_memmap()
    named = td.memmap(tmp_path)
    assert named.get("a").filename == str(tmp_path / "a.memmap") and (tmp_path / "meta.json").is_file()
    loaded = TensorDict.load_memmap(tmp_path)
    assert (loaded == td).all() and loaded.batch_size == (3, 4)
    assert loaded[:, 1:3]["a"].untyped_storage().data_ptr() == loaded["a"].untyped_storage().data_ptr(), (
        "a range is a view"
    )
    named["a"][0, 0].fill_(5.0)
    assert TensorDict.load_memmap(tmp_path)["a"][0, 0].eq(5).all(), "writes reach the file"


def test_metadata_of_memory_maps_without_reading(tmp_path: Path) -> None:
    make().memmap(tmp_path)
    meta = TensorDict.load_memmap(tmp_path, device="meta")
    assert meta["a"].is_meta and meta["a"].shape == (3, 4, 5) and meta["a"].dtype is torch.float32


# What moved: one check for each row of the table that the lesson shows ------------------------------------------------

MOVED: dict[str, Callable[[], Any]] = {}


def moved(page: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def keep(check: Callable[[], Any]) -> Callable[[], Any]:
        MOVED[page] = check
        return check

    return keep


@moved("torch.stack(tds, 1) is lazy")
def _() -> None:
    tds = [make() for _ in range(3)]
    assert type(torch.stack(tds, 1)) is TensorDict and type(lazy_stack(tds, 1)) is LazyStackedTensorDict


@moved("stack.clone() is one block")
def _() -> None:
    stack = lazy_stack([make() for _ in range(3)], 1)
    assert type(stack.clone()) is LazyStackedTensorDict and type(stack.contiguous()) is TensorDict


@moved("td.to(SavedTensorDict)")
def _() -> None:
    with pytest.raises(TypeError, match=r"Fix: SavedTensorDict\(td\)"):
        make().to(SavedTensorDict)
    assert SavedTensorDict(make()).batch_size == (3, 4)


@moved("saved shows file=...")
def _() -> None:
    saved = SavedTensorDict(make())
    assert os.path.isfile(saved.filename) and os.path.dirname(saved.filename) not in repr(saved)


@moved("d._get_meta(key)")
def _() -> None:
    assert not hasattr(make(), "_get_meta")
    meta = SavedTensorDict(make()).get_meta("a")
    assert (meta.shape, meta.dtype, meta.device) == ((3, 4, 5), torch.float32, torch.device("cpu"))


@moved("d._items_meta()")
def _() -> None:
    assert [key for key, _ in SavedTensorDict(make()).items_meta()] == ["a"]


@moved("MemmapTensor")
def _() -> None:
    assert not hasattr(rlnb.data, "MemmapTensor") and issubclass(MemoryMappedTensor, torch.Tensor)


@moved("td.memmap_().get(key).filename")
def _() -> None:
    with pytest.raises(RuntimeError, match="no file"):
        _ = make().memmap_().get("a").filename


@moved("memmap of a tensor that requires grad fails")
def _() -> None:
    td = TensorDict({"a": torch.ones(2, requires_grad=True)})
    assert not td.memmap_like(None)["a"].requires_grad and not td.memmap_()["a"].requires_grad
    with pytest.raises(RuntimeError, match="require grad"):
        SavedTensorDict(TensorDict({"a": torch.ones(2, requires_grad=True)}))


@moved("td.view(-1).set(key, value)")
def _() -> None:
    td = TensorDict({"a": torch.randn(3, 4)}, [3, 4])
    td.view(-1).set("b", torch.arange(12))
    assert keys(td) == ["a"]
    with td.view(-1) as view:
        view.set("b", torch.arange(12))
    assert torch.equal(td["b"], torch.arange(12).view(3, 4))


@moved("td.rename_key(a, b)")
def _() -> None:
    assert not hasattr(make(), "rename_key") and keys(make().rename_key_("a", "b")) == ["b"]


@moved("td.rename(a, b)")
def _() -> None:
    td = make()
    assert keys(td.rename("a", "b")) == ["a"] and td.rename("a", "b").names == ["a", "b"]


@moved("td.update(other) writes in place")
def _() -> None:
    other = TensorDict({"a": torch.ones(3, 4, 5), "b": torch.ones(3, 4, 10)}, [3, 4])
    for inplace in (False, True):
        td = make()
        a = td["a"]
        td.update(other, inplace=inplace)
        assert keys(td) == ["a", "b"] and td["a"].eq(1).all() and (td["a"] is a) == inplace
    td.update(TensorDict({"a": torch.ones(3, 4, 1)}, [3, 4]))
    assert td["a"].shape == (3, 4, 1)


@moved("update(inplace=True) refuses another shape")
def _() -> None:
    td, one = make(), TensorDict({"a": torch.full((3, 4, 1), 7.0)}, [3, 4])
    td.update(one, inplace=True)
    assert td["a"].shape == (3, 4, 5) and td["a"].eq(7).all()
    for write in (lambda new: td.update(new, inplace=True), td.update_):
        with pytest.raises(RuntimeError):
            write(TensorDict({"a": torch.ones(3, 4, 7)}, [3, 4]))
    with pytest.raises(RuntimeError):
        one.update_(make())


@moved("update_ of an unknown key fails")
def _() -> None:
    td = make()
    a = td["a"]
    td.update_(TensorDict({"a": torch.ones(3, 4, 5), "b": torch.ones(3, 4, 10)}, [3, 4]))
    assert keys(td) == ["a"] and td["a"] is a and a.eq(1).all()
    both = TensorDict({"a": torch.zeros(3, 4, 5), "b": torch.ones(3, 4)}, [3, 4])
    both.update_(td)
    assert both["a"].eq(1).all() and both["b"].eq(1).all()


@moved("td.to(dtype) fails")
def _() -> None:
    assert make().to(torch.float64)["a"].dtype is torch.float64


@moved("td + 1 fails")
def _() -> None:
    td = make()
    assert torch.equal((td + 1)["a"], td["a"] + 1) and torch.equal((-td / 2)["a"], -td["a"] / 2)


@moved("td[:, :, 2] fails, batch [3, 4]")
def _() -> None:
    td = make()
    assert torch.equal(td[:, :, 2]["a"], td["a"][:, :, 2]) and td[:, 2].batch_size == (3,)


@moved("permute, transpose, reshape, ... planned")
def _() -> None:
    td = make()
    shapes = [td.permute(1, 0), td.transpose(0, 1), td.reshape(12), td.repeat(2, 1), td.flatten(0, 1)]
    assert [list(each.batch_size) for each in shapes] == [[4, 3], [4, 3], [12], [6, 4], [12]]


@moved('"next_observation"')
def _() -> None:
    env = GymEnv("Pendulum-v1")
    td = env.rand_step(env.reset())
    assert "next_observation" not in keys(td)
    assert torch.equal(step_mdp(td)["observation"], td["next", "observation"])


@moved("_TensorDict")
def _() -> None:
    assert isinstance(make(), TensorDictBase) and isinstance(lazy_stack([make()]), TensorDictBase)
    assert not isinstance(SavedTensorDict(make()), TensorDictBase)


@moved("torch.testing.assert_allclose")
def _() -> None:
    torch.testing.assert_close(make()["a"], make()["a"], rtol=0, atol=1)


@pytest.mark.filterwarnings("ignore:Defining your `__torch_function__`")
@pytest.mark.filterwarnings("ignore:An index runs past the batch dims")
@pytest.mark.parametrize("page", [row[0] for row in PAGE_ROWS])
def test_what_moved(page: str) -> None:
    MOVED[page]()


def test_the_table_has_a_row_for_each_check() -> None:
    assert list(MOVED) == [row[0] for row in PAGE_ROWS]
    shown = page_table().data
    assert shown.count("<tr>") == len(PAGE_ROWS) + 1 and "with td.view(-1) as v" in shown

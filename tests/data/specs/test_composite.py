"""A Composite as a dictionary, and what it does to all of its entries."""

from __future__ import annotations

import pytest
import torch
from tensordict import LazyStackedTensorDict, NonTensorData, TensorDict

from rlnb.data import Bounded, Categorical, Composite, NonTensor, OneHot, StackedComposite, Unbounded


@pytest.fixture
def spec():
    return Composite(
        a=Bounded(-1, 1, shape=(3,)), b=Composite(c=OneHot(4), e=None), d=None, t=NonTensor((), example_data="x")
    )


def test_keys_come_in_the_order_in_which_they_were_set(spec):
    assert spec.keys() == ["a", "b", "d", "t"]
    assert list(spec) == ["a", "b", "d", "t"]
    assert spec.keys(True) == ["a", ("b", "c"), ("b", "e"), "b", "d", "t"]
    assert spec.keys(True, True) == ["a", ("b", "c"), ("b", "e"), "d", "t"]
    assert spec.keys(False, True) == ["a", "d", "t"]
    assert len(spec) == 4
    assert [key for key, _ in spec.items()] == spec.keys()
    assert [part is spec[key] for key, part in spec.items(True, True)] == [True] * 5
    assert list(spec.values(True, True)) == [spec["a"], spec["b", "c"], None, None, spec["t"]]


def test_reading_follows_nested_keys(spec):
    assert spec["b", "c"] == OneHot(4)
    assert spec["b"]["c"] is spec["b", "c"] is spec[("b", ("c",))]
    assert spec["d"] is None
    assert spec.get("zz") is None
    assert spec.get(("a", "zz"), 7) == 7
    assert "a" in spec and ("b", "c") in spec and "d" in spec
    assert "zz" not in spec and ("b", "zz") not in spec and ("a", "c") not in spec


def test_a_nested_key_makes_the_composites_on_the_way():
    spec = Composite({("x", "y", "z"): Unbounded((2, 3))}, shape=(2,))
    assert spec["x", "y"].shape == torch.Size([2])
    spec["x", "w"] = Categorical(3, shape=(2,))
    assert spec.keys(True, True) == [("x", "y", "z"), ("x", "w")]
    spec["x"] = {"v": Unbounded((2,))}
    assert spec.keys(True, True) == [("x", "v")]


@pytest.mark.parametrize("key", ["new", ("b", "new"), ("new", "deep")])
@pytest.mark.parametrize("part", [Unbounded(3), {"x": Unbounded(3)}, 3])
def test_a_write_that_fails_changes_nothing(key, part):
    spec = Composite(a=Unbounded((2, 1)), b=Composite(c=Unbounded((2, 1)), shape=(2,)), shape=(2,))
    before = spec.clone()
    with pytest.raises((ValueError, TypeError)):
        spec.set(key, part)
    with pytest.raises((ValueError, TypeError)):
        spec.update({"a": Unbounded((2, 5)), key: part})
    assert spec == before


def test_updating_merges_nested_composites(spec):
    assert spec.update({"b": {"f": Unbounded(2)}, "a": None}) is spec
    assert spec.keys(True, True) == ["a", ("b", "c"), ("b", "e"), ("b", "f"), "d", "t"]
    assert spec["a"] is None
    spec.update(Composite(b=Composite(c=Categorical(2))))
    assert spec["b", "c"] == Categorical(2)
    assert spec["b", "f"] == Unbounded(2)


def test_deleting_and_popping(spec):
    part = spec["b", "c"]
    assert spec.pop(("b", "c")) is part
    del spec["a"]
    assert spec.keys(True, True) == [("b", "e"), "d", "t"]
    assert spec.pop("zz", 5) == 5


def test_selecting_and_excluding_give_copies_in_the_specs_own_order(spec):
    chosen = spec.select("t", ("b", "c"))
    assert chosen.keys(True, True) == [("b", "c"), "t"]
    assert spec.select("b").keys(True) == [("b", "c"), ("b", "e"), "b"]
    assert spec.select("zz", strict=False).is_empty()
    left = spec.exclude("a", ("b", "e"), "zz")
    assert left.keys(True, True) == [("b", "c"), "d", "t"]
    chosen["b", "c"] = None
    assert spec["b", "c"] == OneHot(4)


def test_emptiness():
    assert Composite().is_empty()
    nested = Composite(b=Composite())
    assert not nested.is_empty()
    assert nested.is_empty(recurse=True)
    assert not Composite(a=None).is_empty(recurse=True)
    assert Composite()


def test_a_clone_is_independent_and_unlocked(spec):
    copy = spec.lock_().clone()
    assert not copy.is_locked and not copy["b"].is_locked
    copy["b", "c"] = Unbounded(1)
    copy["a"].low.fill_(-9.0)
    assert spec["b", "c"] == OneHot(4)
    assert spec["a"] == Bounded(-1, 1, shape=(3,))
    assert spec["b"].is_locked
    assert not spec.unlock_()["b"].is_locked


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
@pytest.mark.parametrize("make", ["rand", "zero", "one"])
def test_values_have_the_batch_size_of_the_spec(spec, make, lead):
    batched = spec.expand(5)
    data = getattr(batched, make)(lead)
    assert isinstance(data, TensorDict)
    assert data.batch_size == data["b"].batch_size == torch.Size((*lead, 5))
    assert data["b", "c"].shape == torch.Size((*lead, 5, 4))
    assert isinstance(data.get("t"), NonTensorData)
    assert data["t"] == "x"
    assert set(data.keys()) == {"a", "b", "t"} and set(data["b"].keys()) == {"c"}
    fill = {"zero": 0, "one": 1}.get(make)
    assert fill is None or bool((data["a"] == fill).all() and (data["b", "c"] == fill).all())


def test_zero_gives_fresh_memory_each_time(spec):
    first, second = spec.zero(), spec.zero()
    first["a"].fill_(5)
    assert bool((second["a"] == 0).all() and (spec.zero()["a"] == 0).all())


def test_a_composite_draws_leaf_by_leaf():
    spec = Composite(a=Unbounded(2), b=Categorical(9))
    torch.manual_seed(3)
    data = spec.rand((4,))
    torch.manual_seed(3)
    assert torch.equal(data["a"], spec["a"].rand((4,)))
    assert torch.equal(data["b"], spec["b"].rand((4,)))


def test_projecting_is_in_place_and_keeps_what_the_spec_does_not_know(spec):
    data = spec.rand((2,)).set("other", torch.full((2,), 9.0))
    assert spec.project(data) is data
    data["a"][0, 1] = 5.0
    data["b", "c"] = torch.ones(2, 4, dtype=torch.bool)
    nested, tensor = data["b"], data["a"]
    fixed = spec.project(data)
    assert fixed is data
    assert spec.is_in(fixed)
    assert fixed["a"][0, 1] == 1
    assert bool((fixed["other"] == 9).all())
    assert data["b"] is nested
    assert tensor[0, 1] == 5  # the tensor belongs to whoever wrote it
    assert fixed.batch_size == torch.Size([2])


def test_a_projection_that_fails_changes_nothing():
    spec = Composite(n={"a": Bounded(0, 1, (2,))}, z=Bounded(0, 1, (2,)))
    data = TensorDict({"n": {"a": torch.full((2,), 3.0)}, "z": torch.zeros(3)})
    with pytest.raises(ValueError, match=r"^z: BoundedContinuous\.project: value: expected shape \[2\], got \[3\]"):
        spec.project(data)
    assert data["n", "a"].tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="locked"):
        spec.project(data.set("z", torch.zeros(2)).lock_())
    assert data["n", "a"].tolist() == [3, 3]


def test_extra_keys_do_not_matter_and_missing_ones_do(spec):
    data = spec.rand()
    assert spec.is_in(data.set("other", torch.zeros(1)))
    spec.assert_is_in(data)
    assert not spec.is_in(data.exclude(("b", "c")))
    assert not spec.is_in({"a": torch.zeros(3)})
    assert spec.is_in(data.exclude("d"))


def test_leaves_must_share_the_leading_dims_of_the_tensordict():
    spec = Composite(a=Unbounded(3), b=Unbounded(()))
    good = TensorDict({"a": torch.zeros(4, 3), "b": torch.zeros(4)}, batch_size=[4])
    assert spec.is_in(good)
    assert not spec.is_in(TensorDict({"a": torch.zeros(4, 3), "b": torch.zeros(4)}, batch_size=[]))
    assert not spec.is_in(TensorDict({"a": torch.zeros(4, 3), "b": torch.zeros(4, 1)}, batch_size=[4]))
    assert not spec.expand(5).is_in(good)


@pytest.mark.parametrize("batch_size", [[], [3], [2, 3]])
def test_the_batch_size_counts_even_where_there_is_no_tensor(batch_size):
    spec = Composite(n=None, shape=(2,))
    assert not spec.is_in(TensorDict({}, batch_size=batch_size))
    assert spec.is_in(TensorDict({}, batch_size=[2]))
    assert spec.is_in(TensorDict({}, batch_size=[5, 2]))


def test_a_lazy_stack_is_checked_too(spec):
    lazy = LazyStackedTensorDict(*[spec.rand() for _ in range(3)], stack_dim=0)
    assert spec.is_in(lazy)
    lazy.get("a").fill_(0)
    bad = LazyStackedTensorDict(spec.rand(), spec.rand().set("a", torch.full((3,), 2.0)), stack_dim=0)
    assert not spec.is_in(bad)
    assert [v.index for v in spec.violations(bad)] == [(1, 0)]


def test_a_device_is_imposed_on_all_entries(spec):
    moved = Composite(a=Unbounded(3), b={"c": OneHot(3)}, device="meta")
    assert moved["a"].device == moved["b"].device == moved["b", "c"].device == torch.device("meta")
    assert moved.zero().device == torch.device("meta")
    assert spec.device is None
    there = spec.exclude("a").to("meta")
    assert there.device == there["b", "c"].device == torch.device("meta")
    assert there.set("n", Unbounded(2))["n"].device == torch.device("meta")
    assert spec["b", "c"].device == torch.device("cpu")


def test_a_dtype_changes_floating_entries_only(spec):
    wide = spec.to(torch.float64)
    assert wide["a"] == Bounded(-1, 1, shape=(3,), dtype=torch.float64)
    assert wide["b", "c"] == OneHot(4)
    assert wide.to(torch.float32) == spec


def test_shape_operations_reach_all_entries(spec):
    big = spec.expand(2, 3)
    assert big.batch_size == big["b"].shape == torch.Size([2, 3])
    assert big["b", "c"].shape == torch.Size([2, 3, 4])
    assert big[0].shape == torch.Size([3])
    assert big[:, 1]["a"].shape == torch.Size([2, 3])
    assert big[..., 0]["b", "c"].shape == torch.Size([2, 4])
    assert big[torch.tensor([True, False])].shape == torch.Size([1, 3])
    assert big[1, 2] == spec
    assert spec.unsqueeze(0).unsqueeze(-1).squeeze() == spec
    assert big.expand(4, -1, -1).shape == torch.Size([4, 2, 3])
    assert big.squeeze(0) is big


def test_stacking_goes_key_by_key(spec):
    stacked = torch.stack([spec, spec, spec], -1)
    assert stacked == spec.expand(3)
    other = spec.clone()
    other["a"] = Bounded(-2, 2, shape=(3,))
    assert isinstance(torch.stack([spec, other]), StackedComposite)
    assert torch.stack([big := spec.expand(2), big], 1).shape == torch.Size([2, 2])


def test_tuples_encode_and_come_back_as_tuples():
    spec = Composite({"0": Categorical(3), "1": Unbounded(2)})
    data = spec.encode((2, [0.5, 1.5]))
    assert data["0"] == 2
    back = spec.to_numpy(data)
    assert isinstance(back, tuple)
    assert back[0] == 2 and back[1].tolist() == [0.5, 1.5]
    assert isinstance(spec.exclude("0").to_numpy(data), dict)


def test_entries_without_tensors_take_the_leading_dims_of_the_others():
    spec = Composite(t=NonTensor((), example_data="x"), e=Composite(n=None), a=Unbounded(2))
    data = spec.encode({"a": [[0, 1], [2, 3]], "t": "left", "e": {}})
    assert data.batch_size == data["e"].batch_size == data.get("t").batch_size == torch.Size([2])
    assert data["t"] == "left"
    assert list(data.keys()) == ["t", "e", "a"]
    assert spec.is_in(data)


def test_type_check_of_one_entry_and_of_all(spec):
    spec.type_check(spec.rand())
    spec.type_check(torch.zeros(3), "a")
    with pytest.raises(TypeError, match=r"^c: expected dtype torch\.bool \(OneHot\), got torch\.int64\."):
        spec.type_check(spec.rand().set(("b", "c"), torch.zeros(4, dtype=torch.int64)))
    with pytest.raises(TypeError, match=r"^a: expected"):
        spec.type_check(torch.zeros(3, dtype=torch.int64), "a")


def test_the_text_of_a_composite(spec):
    assert repr(spec.expand(2)) == (
        "Composite(\n"
        "    a: BoundedContinuous(\n"
        "        shape=torch.Size([2, 3]),\n"
        "        space=ContinuousBox(\n"
        "            low=Tensor(shape=torch.Size([2, 3]), device=cpu, dtype=torch.float32, contiguous=True),\n"
        "            high=Tensor(shape=torch.Size([2, 3]), device=cpu, dtype=torch.float32, contiguous=True)),\n"
        "        device=cpu,\n"
        "        dtype=torch.float32,\n"
        "        domain=continuous),\n"
        "    b: Composite(\n"
        "        c: OneHot(\n"
        "            shape=torch.Size([2, 4]),\n"
        "            space=CategoricalBox(n=4),\n"
        "            device=cpu,\n"
        "            dtype=torch.bool,\n"
        "            domain=discrete),\n"
        "        e: None,\n"
        "        device=None,\n"
        "        shape=torch.Size([2])),\n"
        "    d: None,\n"
        "    t: NonTensor(\n"
        "        shape=torch.Size([2]),\n"
        "        space=None,\n"
        "        device=None,\n"
        "        dtype=None,\n"
        "        domain=None,\n"
        "        example_data='x'),\n"
        "    device=None,\n"
        "    shape=torch.Size([2]))"
    )
    assert repr(Composite()) == "Composite(device=None, shape=torch.Size([]))"

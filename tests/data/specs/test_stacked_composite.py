"""StackedComposite: different composites in one stack, with exclusive keys."""

from __future__ import annotations

import re

import pytest
import torch
from tensordict import LazyStackedTensorDict, TensorDict, lazy_stack, tensorclass

from rlnb.data import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    NonTensor,
    OneHot,
    StackedComposite,
    Unbounded,
)


def raises(kind, text):
    return pytest.raises(kind, match="^" + re.escape(text) + "$")


def walker():
    return Composite(x=Bounded(-1, 1, (3,)), gone=Unbounded(2), n=Composite(p=Unbounded(5), q=Binary(2)))


def flyer():
    return Composite(x=Bounded(-1, 1, (4,)), high=Categorical(3), n=Composite(q=Binary(2)))


@pytest.fixture
def spec():
    return torch.stack([walker(), flyer()])


def test_exclusive_keys_are_read_from_the_member(spec):
    assert isinstance(spec, StackedComposite) and isinstance(spec, Composite)
    assert (spec.shape, spec.batch_size, spec.stack_dim) == (torch.Size([2]), torch.Size([2]), 0)
    assert spec.keys() == list(spec) == ["x", "n"]
    assert spec.keys(True) == ["x", ("n", "q"), "n"]
    assert spec.keys(True, True) == ["x", ("n", "q")]
    assert spec.exclusive_keys() == [["gone"], ["high"]]
    assert "x" in spec and ("n", "q") in spec and "gone" not in spec and ("n", "p") not in spec
    assert spec.get("gone", 7) == 7
    assert spec[0] == walker() and spec[1]["high"] == Categorical(3)
    assert [key for key, _ in spec.items(True, True)] == spec.keys(True, True)
    assert next(iter(spec.values())) == spec["x"]
    assert len(spec) == 2


def test_entries_are_stacks_of_the_members_entries(spec):
    assert spec["x"] == torch.stack([Bounded(-1, 1, (3,)), Bounded(-1, 1, (4,))])
    assert spec["n", "q"] == Binary(shape=(2, 2))
    assert isinstance(spec["n"], StackedComposite)


def test_an_entry_of_different_kinds_is_listed_and_read_from_the_members():
    spec = torch.stack([Composite(a=OneHot(3), b=None), Composite(a=Unbounded(3), b=None)])
    assert spec.keys() == ["a", "b"]
    assert spec["b"] is None
    text = (
        "'a' has specs of different kinds in the members (OneHot, UnboundedContinuous), which cannot be stacked. "
        "Read it from a member: spec[0]['a']."
    )
    with raises(ValueError, text):
        spec["a"]
    assert "a: <OneHot, UnboundedContinuous>" in repr(spec)
    assert spec.is_in(spec.rand((3,)))


@pytest.mark.parametrize("lead", [(), (4,), (2, 3)])
@pytest.mark.parametrize("make", ["rand", "zero", "one"])
def test_values_of_a_composite_stack_are_lazy_stacks(spec, make, lead):
    for each, size in ((spec, (2,)), (spec.expand(5, 2), (5, 2)), (spec.unsqueeze(1), (2, 1))):
        value = getattr(each, make)(lead)
        assert isinstance(value, LazyStackedTensorDict)
        assert value.batch_size == torch.Size((*lead, *size))
        member = value.unbind(len(lead) + each.stack_dim)[1]
        assert set(member.keys()) == {"x", "high", "n"}
        if make == "rand":
            assert each.is_in(value)
            assert each.violations(value, leading=len(lead)) == []
            assert each.project(value) is value


@tensorclass
class Pose:
    """Some data."""

    position: torch.Tensor


def test_members_of_a_tensorclass_give_instances_of_it():
    spec = torch.stack([Composite(position=Unbounded(n), data_cls=Pose) for n in (2, 3)])
    value = spec.rand((4,))
    assert isinstance(value, Pose) and spec.is_in(value) and spec.violations(value) == []
    assert [part.position.shape[1] for part in value.unbind(1)] == [2, 3]
    assert isinstance(spec.encode(spec.to_numpy(value)), Pose)
    mixed = torch.stack([Composite(position=Unbounded(2), data_cls=Pose), Composite(position=Unbounded(2))])
    assert isinstance(mixed, StackedComposite) and mixed.is_in(mixed.rand((4,)))


def test_what_is_wrong_in_a_member_names_it(spec):
    value = spec.rand((4,))
    parts = list(value.unbind(1))
    parts[1] = parts[1].clone()
    parts[1]["x"][2, 0] = 5.0
    del parts[1]["high"]
    bad = lazy_stack(parts, 1)
    assert not spec.is_in(bad)
    assert [str(v) for v in spec.violations(bad)] == [
        "x in member 1: 5 at index (2, 0) is outside [-1, 1]. Clip it with spec.project(value), or widen the bounds of "
        "the spec.",
        "high in member 1: missing, expected a tensor of shape [4] and dtype torch.int64. Write it before returning "
        "the data.",
    ]
    assert [v.member for v in spec.violations(bad)] == [(1,), (1,)]
    with pytest.raises(AssertionError, match="in member 1"):
        spec.assert_is_in(bad)
    with pytest.raises(KeyError, match="no key 'high' in the data"):
        spec.project(bad)
    parts[1]["high"] = torch.zeros(4, dtype=torch.int64)
    assert spec.is_in(spec.project(bad))
    (found,) = spec.violations(TensorDict({}, batch_size=[3]))
    assert str(found) == (
        "value: expected shape (batch size) [2], got [3]. Stack one TensorDict for each member: "
        "tensordict.lazy_stack([...], dim)."
    )


def test_the_time_dim_of_a_rollout_sits_behind_the_stack(spec):
    steps = [spec.rand() for _ in range(5)]
    rollout = lazy_stack(steps, 1)
    assert spec.violations(rollout, time_dim=True) == []
    rollout[1]["x"][3, 2] = 9.0
    bad = lazy_stack([step.clone() for step in rollout.unbind(1)], 1)
    assert not spec.violations(bad, time_dim=True)
    bad = lazy_stack([lazy_stack([m, n.set("x", torch.full((4,), 9.0))]) for m, n in (s.unbind(0) for s in steps)], 1)
    assert {(v.key, v.member) for v in spec.violations(bad, time_dim=True)} == {(("x",), (1,))}


def test_encoding_takes_one_dictionary_for_each_member(spec):
    value = spec.rand((3,))
    back = spec.to_numpy(value)
    assert isinstance(back, tuple) and set(back[1]) == {"x", "high", "n"}
    again = spec.encode(back)
    assert spec.is_in(again)
    assert all(bool((a == b).all()) for a, b in zip(value.unbind(1), again.unbind(1), strict=True))
    spec.type_check(value)
    with pytest.raises(TypeError, match=r"^x: expected dtype"):
        spec.type_check(lazy_stack([part.to(torch.float64) for part in value.unbind(1)], 1))


def test_writing_reaches_the_members():
    first, second = walker(), flyer()
    spec = torch.stack([first, second])
    spec["n", "z"] = Unbounded((2, 3))
    assert first["n", "z"] == second["n", "z"] == Unbounded(3)
    spec["n"].set("k", torch.stack([OneHot(2), OneHot(4)]))
    assert second["n", "k"] == OneHot(4)
    spec.update({"n": {"w": Categorical(2, (2,))}, "new": None})
    assert first["n", "w"] == Categorical(2) and first["new"] is None
    assert spec.pop(("n", "z")) == Unbounded((2, 3))
    del spec["x"]
    assert spec.keys(True, True) == [("n", "q"), ("n", "k"), ("n", "w"), "new"]
    assert "x" not in first and ("n", "z") not in second
    assert first["gone"] == Unbounded(2)


@pytest.mark.parametrize("part", [Unbounded((3, 2)), Unbounded(()), 3])
def test_a_write_that_does_not_fit_changes_no_member(spec, part):
    before = spec.clone()
    for key in ("new", ("n", "new"), "x"):
        with pytest.raises((TypeError, ValueError)):
            spec.set(key, part)
    assert spec == before


def test_a_locked_member_keeps_the_whole_stack_as_it_is(spec):
    spec[1]["n"].lock_()
    before = spec.clone()
    with pytest.raises(RuntimeError, match="this Composite is locked"):
        spec.set(("n", "new"), Unbounded((2, 1)))
    assert spec == before
    assert spec.lock_().is_locked and spec[0].is_locked and spec["n"].locked
    with pytest.raises(RuntimeError, match="this Composite is locked"):
        del spec["x"]
    assert not spec.unlock_()[1]["n"].is_locked


def test_selecting_and_setting_the_batch_size_or_device(spec):
    assert spec.select("x").keys() == ["x"]
    assert spec.exclude("gone", "high").exclusive_keys() == [[], []]
    assert spec.empty().is_empty() and not spec.is_empty()
    moved = spec.separates("x", "zz")
    assert moved.keys() == ["x"] and spec.keys() == ["n"]
    big = spec.expand(5, 2)
    big.batch_size = (5, 2)
    with raises(ValueError, "expected a batch size with 2 at dim 1, where the members are stacked, got [5]."):
        big.batch_size = (5,)
    spec.device = "meta"
    assert spec[0]["gone"].device == torch.device("meta")


def test_stacks_of_stacks(spec):
    other = torch.stack([flyer(), walker()])
    pair = torch.stack([spec, other])
    assert pair.shape == torch.Size([2, 2])
    assert pair.keys(True) == ["x", ("n", "q"), "n"]
    assert pair[1, 0] == flyer()
    assert pair[:, 1] == torch.stack([flyer(), walker()])
    assert pair.is_in(pair.rand((3,)))
    inside = Composite(agents=spec, shape=(2,))
    assert inside.is_in(inside.rand((3,)))
    assert inside.keys(True, True) == [("agents", "x"), ("agents", "n", "q")]
    assert inside.encode(inside.to_numpy(inside.rand((3,)))).batch_size == torch.Size([3, 2])


def test_a_ragged_entry_of_a_plain_composite():
    spec = Composite(a=torch.stack([Unbounded(3), Unbounded(4)]), b=Unbounded(1))
    value = spec.rand()
    assert value["a"].is_nested and spec.is_in(value)
    back = spec.encode(spec.to_numpy(value))
    assert spec.is_in(back) and torch.equal(back["b"], value["b"])


def test_the_text_of_stacks(spec):
    assert repr(spec["x"]) == (
        "StackedBoundedContinuous(\n    shape=torch.Size([2, -1]), device=cpu, dtype=torch.float32, domain=continuous)"
    )
    pair = torch.stack([Composite(t=NonTensor(())), Composite(t=NonTensor(()), n=None)])
    assert repr(pair) == (
        "StackedComposite(\n"
        "    fields={\n"
        "        t: NonTensor(\n"
        "            shape=torch.Size([2]),\n"
        "            space=None,\n"
        "            device=None,\n"
        "            dtype=None,\n"
        "            domain=None,\n"
        "            example_data=None)},\n"
        "    exclusive_fields={\n"
        "        1 ->\n"
        "            n: None},\n"
        "    device=None,\n"
        "    shape=torch.Size([2]),\n"
        "    stack_dim=0)"
    )


def test_a_missing_key_says_which_member_has_it(spec):
    with raises(KeyError, "no key 'gone' in the spec, which has 'x', ('n', 'q'), 'n'. Only the members [0] have it: "
                          "spec[0]['gone']."):  # fmt: skip
        spec["gone"]
    assert {spec: 1}[spec] == 1


@pytest.mark.parametrize("batch", [(), (2,)])
def test_a_time_dim_in_front_of_the_stack(batch):
    leaf = torch.stack([Bounded(0, 1, (3,)), Bounded(5, 6, (3,))])
    spec = Composite(a=leaf.expand(*batch, 2, 3), shape=batch)
    rollout = torch.stack([spec.rand() for _ in range(4)], len(batch))
    assert rollout["a"].shape == torch.Size([*batch, 4, 2, 3])
    assert spec.violations(rollout, time_dim=True) == []
    rollout["a"][..., 3, 1, 2] = 0.5
    (found,) = spec.violations(rollout, time_dim=True)
    assert (found.member, found.index) == ((1,), (*(0 for _ in batch), 3, 2))


def test_a_lazy_stack_behind_the_time_dim():
    agents = Composite(a=Bounded(0, 1, (2, -1)), b=Bounded([[0.0], [5.0]], [[1.0], [6.0]]), shape=(2,))
    spec = Composite(agents=agents)
    rows = [TensorDict({"a": torch.zeros(3, n), "b": torch.full((3, 1), low)}, [3]) for n, low in ((4, 0.5), (6, 5.5))]
    rollout = TensorDict({"agents": lazy_stack(rows, 1)}, batch_size=[3])
    assert spec.violations(rollout, time_dim=True) == []
    rows[1]["b"][2] = 0.5
    (found,) = spec.violations(rollout, time_dim=True)
    assert (found.key, found.member, found.expected) == (("agents", "b"), (1,), "[5, 6]")


def test_a_write_that_one_member_refuses_reaches_none():
    first, second = Composite(n=Composite()), Composite(n=Composite(shape=(3,)))
    spec = torch.stack([first, second])
    with pytest.raises(ValueError, match=r"^\('n', 'z'\): expected a shape that begins with \[3\]"):
        spec.set(("n", "z"), Unbounded((2,)))
    assert ("n", "z") not in first and ("n", "z") not in second

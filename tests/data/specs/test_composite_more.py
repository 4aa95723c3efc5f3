"""Composite, continued: tensorclasses, locks, batch size and device setters, counting, close matches of names."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict, lazy_stack, tensorclass

from rlnb.data import Bounded, Categorical, Composite, NonTensor, OneHot, Unbounded
from rlnb.envs import GymEnv, check_env_specs


@pytest.fixture
def spec():
    return Composite(
        a=Bounded(-1, 1, shape=(3,)), b=Composite(c=OneHot(4), e=None), d=None, t=NonTensor((), example_data="x")
    )


@tensorclass
class Pose:
    """A tensorclass that values of a spec may be instances of."""

    position: torch.Tensor
    angle: torch.Tensor


@pytest.fixture
def pose():
    return Composite(position=Bounded(-1, 1, (2,)), angle=Unbounded(1), data_cls=Pose)


@pytest.mark.parametrize("lead", [(), (4,)])
def test_values_are_instances_of_the_tensorclass(pose, lead):
    for value in (pose.rand(lead), pose.zero(lead), pose.one(lead), pose.expand(3).rand(lead), pose.clone().rand(lead)):
        assert isinstance(value, Pose)
    value = pose.rand(lead)
    assert value.batch_size == torch.Size(lead)
    assert pose.is_in(value) and pose.violations(value) == []
    assert isinstance(pose.encode(pose.to_numpy(value)), Pose)
    value.position += 5
    assert not pose.is_in(value)
    fixed = pose.project(value)
    assert isinstance(fixed, Pose) and pose.is_in(fixed)
    assert isinstance(Composite(robot=pose).rand(lead)["robot"], Pose)
    assert pose.data_cls is Pose and repr(pose).endswith("    data_cls=Pose)")
    assert pose != Composite(position=pose["position"], angle=pose["angle"])


def test_a_value_of_another_class_is_not_in_a_spec_of_a_tensorclass(pose):
    plain = TensorDict({"position": torch.zeros(2), "angle": torch.zeros(1)})
    assert not pose.is_in(plain)
    assert [str(v) for v in pose.violations(plain)] == [
        "value: expected type Pose, got TensorDict. Make it one: Pose.from_tensordict(td), or Pose(..., "
        "batch_size=...)."
    ]
    assert pose.is_in(Pose.from_tensordict(plain))
    loose = Composite(position=pose["position"])
    assert loose.is_in(plain) and loose.is_in(Pose.from_tensordict(plain))
    assert Composite(data_cls=TensorDict).data_cls is None
    before = pose.clone()
    with pytest.raises(KeyError) as caught:
        pose.set("angel", None)
    text = "no key 'angel' in the tensorclass Pose, which has 'position', 'angle'. Did you mean 'angle'?"
    assert str(caught.value) == text and pose == before
    with pytest.raises(TypeError, match=r"^data_cls must be a tensorclass, got <class 'int'>\. Decorate the class"):
        Composite(data_cls=int)


def test_separating_moves_keys_into_a_new_spec(spec):
    moved = spec.separates("a", ("b", "c"), "zz")
    assert moved.keys(True, True) == ["a", ("b", "c")]
    assert spec.keys(True, True) == [("b", "e"), "d", "t"]
    assert spec.separates("zz") is None
    assert spec.separates("zz", "d", default=Unbounded(1)).keys() == ["zz", "d"]
    assert spec.empty().is_empty() and spec.empty().shape == spec.shape
    with pytest.raises(RuntimeError, match=r"^cannot separate 't' from it: this Composite is locked"):
        spec.lock_().separates("t")
    assert "t" in spec


def test_locking_this_level_only(spec):
    spec.lock_(recurse=False)
    assert spec.locked and not spec["b"].locked
    spec["b"].set("new", None)
    with pytest.raises(RuntimeError, match="cannot set 'new'"):
        spec.set("new", None)
    assert not spec.unlock_(recurse=False).is_locked


def test_a_write_under_a_locked_composite_is_refused_whole(spec):
    spec["b"].lock_()
    before = spec.clone()
    for write in (
        lambda: spec.set(("b", "new", "deep"), Unbounded(1)),
        lambda: spec.pop(("b", "c")),
        lambda: spec.separates("a", ("b", "c")),
    ):
        with pytest.raises(RuntimeError, match="this Composite is locked"):
            write()
        assert spec == before


def test_setting_the_batch_size_keeps_the_entries():
    spec = Composite(a=Unbounded((3, 2)), n=Composite(b=Unbounded((3, 4)), t=None))
    spec.batch_size = 3
    assert spec.shape == spec["n"].shape == torch.Size([3])
    assert spec["a"].shape == torch.Size([3, 2])
    spec["n"].shape = (3, 4)
    spec.shape = ()
    assert spec["n"].batch_size == torch.Size([3, 4])
    before = spec.clone()
    text = (
        r"^\('n', 'b'\): expected a shape that begins with \[3, 2\], the new batch size of the Composite, got "
        r"\[3, 4\]\. Set a batch size with which the shapes of all entries begin, or expand the "
        r"Composite: spec\.expand\(\.\.\.\)\.$"
    )
    with pytest.raises(ValueError, match=text):
        spec.batch_size = (3, 2)
    with pytest.raises(RuntimeError, match="cannot set its batch size"):
        spec.lock_().batch_size = ()
    assert spec == before


def test_setting_the_device_moves_the_entries(spec):
    del spec["a"]
    spec.device = "meta"
    assert spec.device == spec["b"].device == spec["b", "c"].device == torch.device("meta")
    spec.clear_device_()
    assert spec.device is None and spec["b"].device is None
    assert spec["b", "c"].device == torch.device("meta")
    with pytest.raises(RuntimeError, match="cannot set its device to cpu"):
        spec.lock_().device = "cpu"
    assert spec["b", "c"].device == torch.device("meta")


def test_reshaping_lays_out_the_batch_dims_of_all_entries(spec):
    big = spec.expand(2, 3)
    flat = big.flatten(0, 1)
    assert flat.shape == flat["b"].shape == torch.Size([6])
    assert flat["a"].shape == torch.Size([6, 3]) and flat["b", "c"].shape == torch.Size([6, 4])
    assert flat.unflatten(0, (2, -1)) == big == flat.reshape(2, 3) == flat.view(2, -1)
    assert [part.shape for part in big.unbind(1)] == [torch.Size([2])] * 3
    assert big.unbind(0)[1] == spec.expand(3)


def test_counting_and_listing_the_values():
    spec = Composite(a=Categorical(2), b=Composite(c=Categorical(3, start=5), n=None))
    assert spec.cardinality() == 6
    every = spec.enumerate()
    assert every["a"].tolist() == [0, 0, 0, 1, 1, 1]
    assert every["b", "c"].tolist() == [5, 6, 7, 5, 6, 7]
    assert spec.is_in(every) and spec["b"].is_in(every["b"])
    assert spec.set("x", Unbounded(1)).cardinality() == float("inf")
    with pytest.raises(ValueError, match="a Composite has infinitely many values"):
        spec.enumerate()


@pytest.mark.parametrize(
    ("key", "meant"),
    [("obsrvation", "'observation'"), (("agent", "acton"), "('agent', 'action')"), ("action", "('agent', 'action')")],
)
def test_a_key_that_is_nearly_right_is_named(key, meant):
    spec = Composite(observation=Unbounded(3), agent=Composite(action=Unbounded(1)))
    legal = "'observation', ('agent', 'action'), 'agent'"
    for read in (lambda: spec[key], lambda: spec.pop(key), lambda: spec.select(key)):
        with pytest.raises(KeyError) as caught:
            read()
        assert str(caught.value) == f"no key {key!r} in the spec, which has {legal}. Did you mean {meant}?"


def test_a_slip_in_the_data_is_named_with_its_place():
    spec = Composite(agent=Composite(action=OneHot(2)))
    for call, text in (
        (lambda: spec.encode({"agent": {"acton": 1}}), "agent: no key 'acton' in the spec, which has 'action'. Did you "
         "mean 'action'?"),
        (lambda: spec.project(TensorDict({"agent": {"acton": torch.zeros(2)}})), "agent: no key 'action' in the data, "
         "which has 'acton'. Did you mean 'acton'?"),
    ):  # fmt: skip
        with pytest.raises(KeyError) as caught:
            call()
        assert str(caught.value) == text


def test_a_composite_is_a_key_by_identity_and_equal_by_value():
    spec, same = Composite(a=Unbounded(1)), Composite(a=Unbounded(1))
    assert spec == same
    assert {spec: "one", same: "two"}[spec] == "one"
    found = {spec: 1}
    spec["b"] = Unbounded(2)  # it is found though it has changed
    assert found[spec] == 1


def test_rows_of_a_lazy_stack_without_a_common_form_are_checked_one_by_one():
    ragged = lazy_stack([TensorDict({"a": torch.full((size,), 2.0)}) for size in (3, 4)], 0)
    assert Composite(a=Unbounded((-1,))).is_in(ragged)
    assert Composite(a=Unbounded((2, -1)), shape=(2,)).is_in(ragged)
    assert Composite(a=Unbounded((-1,))).violations(ragged, time_dim=True) == []
    (found,) = Composite(a=Unbounded(3)).violations(ragged)
    assert str(found) == "a in member 1: expected shape [3], got [4]. Change the data, or the shape of the spec."
    fixed = Composite(a=Bounded(0, 1, (-1,))).project(ragged)
    assert [row["a"].tolist() for row in fixed.unbind(0)] == [[1.0] * 3, [1.0] * 4]


def test_a_wrong_spec_fails_the_check_of_an_env():
    env = GymEnv("CartPole-v1")
    check_env_specs(env)
    env.observation_spec = Composite(observation=Bounded(-0.001, 0.001, (4,)))
    with pytest.raises(AssertionError, match=r"\[-0.001, 0.001\]"):
        check_env_specs(env)
    env.observation_spec = Composite(observation=Unbounded((3,)))
    with pytest.raises(AssertionError, match=r"\[3\]"):
        check_env_specs(env)

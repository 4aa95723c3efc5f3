"""Specs of every Gymnasium space, spaces of every spec, and conversion of values."""

from __future__ import annotations

import copy
import pickle
import re

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from tensordict import NonTensorData, NonTensorStack

from rlnb.data import (
    Binary,
    Bounded,
    Categorical,
    Choice,
    Composite,
    NonTensor,
    OneHot,
    Unbounded,
    space_from_spec,
    spec_from_space,
)


def raises(kind, text):
    return pytest.raises(kind, match="^" + re.escape(text) + "$")


SPACES = [
    spaces.Box(-1, 1, (2,)),
    spaces.Box(0, 255, (2, 2), dtype=np.uint8),
    spaces.Discrete(3, start=-1),
    spaces.MultiDiscrete([[2, 3], [4, 5]]),
    spaces.MultiBinary(4),
    spaces.MultiBinary([4]),
    spaces.MultiBinary([2, 3]),
    spaces.Tuple(()),
    spaces.Tuple((spaces.Discrete(2), spaces.Tuple(()))),
    spaces.Dict({}),
    spaces.Dict({"0": spaces.Discrete(2), "1": spaces.Discrete(3)}),
    spaces.Dict({"0": spaces.Tuple((spaces.MultiBinary(2),))}),
    spaces.Text(5, charset="abc"),
    spaces.Text(3, min_length=0),
    spaces.Sequence(spaces.Discrete(3)),
    spaces.Sequence(spaces.Box(-1, 1, (2,)), stack=True),
    spaces.Sequence(spaces.Dict(a=spaces.Text(2))),
    spaces.Graph(spaces.Box(-1, 1, (2,)), spaces.Discrete(3)),
    spaces.Graph(spaces.Discrete(3), None),
    spaces.OneOf((spaces.Discrete(3), spaces.Box(-1, 1, (2,)), spaces.Text(4), spaces.Dict(a=spaces.MultiBinary(2)))),
    spaces.Dict(a=spaces.OneOf((spaces.Discrete(3), spaces.Tuple((spaces.Discrete(2),)))), b=spaces.Text(3)),
    spaces.Tuple((spaces.Sequence(spaces.Discrete(2)), spaces.Box(0, 1, ()))),
]
ids = [f"{i}-{type(space).__name__}" for i, space in enumerate(SPACES)]


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize("space", SPACES, ids=ids)
def test_a_space_survives_the_way_to_a_spec_and_back(space, categorical):
    spec = spec_from_space(space, categorical=categorical)
    back = space_from_spec(spec)
    assert back == space
    assert spec_from_space(back, categorical=categorical) == spec
    for other in (spec.clone(), pickle.loads(pickle.dumps(spec)), spec.expand(2, *spec.shape)[0]):
        assert other == spec
        assert space_from_spec(other) == space


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize("space", SPACES, ids=ids)
def test_samples_encode_into_the_spec_and_come_back(space, categorical):
    space = copy.deepcopy(space)
    spec = spec_from_space(space, categorical=categorical)
    for seed in range(8):
        space.seed(seed)
        sample = space.sample()
        value = spec.encode(sample)
        assert spec.is_in(value) and spec.violations(value) == []
        assert spec.project(value) is value
        back = spec.to_numpy(value)
        assert space.contains(back)
        np.testing.assert_equal(back, sample)


@pytest.mark.parametrize("space", SPACES, ids=ids)
def test_draws_of_the_spec_are_in_the_space(space):
    spec = spec_from_space(space)
    for _ in range(8):
        assert space.contains(spec.to_numpy(spec.rand()))
    rows = spec.rand((3,))
    assert rows.shape[:1] == torch.Size([3])
    assert spec.is_in(rows) and spec.violations(rows, leading=1) == []


simple = st.one_of(
    st.builds(spaces.Discrete, st.integers(1, 4)),
    st.builds(lambda n: spaces.Box(-1, 1, (n,)), st.integers(0, 3)),
    st.builds(spaces.MultiBinary, st.integers(1, 3)),
    st.builds(lambda n: spaces.Text(n, charset="xyz"), st.integers(1, 3)),
)
every_space = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2).map(spaces.Tuple),
        st.dictionaries(st.sampled_from(["0", "1", "a"]), inner, max_size=3).map(spaces.Dict),
        st.lists(inner, min_size=1, max_size=3).map(spaces.OneOf),
        inner.map(spaces.Sequence),
    ),
    max_leaves=5,
)


@given(every_space, st.booleans(), st.integers(0, 2**31 - 1))
def test_nested_spaces_and_their_samples_survive(space, categorical, seed):
    spec = spec_from_space(space, categorical=categorical)
    assert space_from_spec(spec) == space
    space.seed(seed)
    sample = space.sample()
    value = spec.encode(sample)
    assert spec.is_in(value)
    np.testing.assert_equal(spec.to_numpy(value), sample)


def test_what_tells_spaces_apart_is_kept():
    assert spec_from_space(spaces.MultiBinary(4)) == spec_from_space(spaces.MultiBinary([4])) == Binary(4)
    by_name = spec_from_space(spaces.Dict({"0": spaces.MultiBinary(1)}))
    in_a_row = spec_from_space(spaces.Tuple((spaces.MultiBinary(1),)))
    assert by_name != in_a_row == Composite({"0": Binary(1)})
    assert isinstance(by_name.to_numpy(by_name.rand()), dict) and isinstance(in_a_row.to_numpy(in_a_row.rand()), tuple)
    assert spec_from_space(spaces.Tuple(())).encode(()).is_empty()


def test_a_one_of_is_a_choice_of_numbered_members():
    spec = spec_from_space(spaces.OneOf((spaces.Discrete(3), spaces.Box(-1, 1, (2,)))), categorical=True)
    assert isinstance(spec, Choice)
    value = spec.encode((1, [0.5, 0.5]))
    assert (value["0"], value["1"].tolist()) == (1, [0.5, 0.5])
    assert not spec.is_in(value.set("0", torch.tensor(0)))
    with pytest.raises(ValueError, match=r"^Choice\.encode: none of the 2 choices accepts the value"):
        spec.encode((2, 0))


# ----------------------------------------------------------------------------------- data that is not a tensor


def test_text_keeps_what_the_space_says():
    spec = NonTensor((), space=spaces.Text(3, charset="ab"))
    assert spec.space == spaces.Text(3, charset="ab")
    assert spec.space.contains(spec.example_data) and spec.zero().data == spec.one().data == spec.example_data
    assert spec.is_in("aba") and spec.is_in(NonTensorData("b", batch_size=[4])) and not spec.is_in("abab")
    rows = NonTensorStack("a", "abc", "ab", "x")
    assert not spec.is_in(rows)
    (found,) = spec.violations(rows)
    assert (found.index, str(found)) == (
        (1,),
        "value: 'abc' at index (1,) (and 1 more) is outside Text(1, 3, charset=ab). Check how the data is created, "
        "or describe it with another space.",
    )
    for call in (spec.encode, spec.project, spec.to_numpy):
        with pytest.raises(ValueError, match=r"^NonTensor\.\w+: value: 'abc' at index"):
            call(rows)


def test_text_is_drawn_row_by_row_from_torchs_generator():
    spec = NonTensor((), space=spaces.Text(20))
    torch.manual_seed(1)
    together = spec.rand((2, 3)).tolist()
    torch.manual_seed(1)
    apart = [[spec.rand().data for _ in range(3)] for _ in range(2)]
    assert together == apart
    assert len({text for row in together for text in row}) == 6
    assert spec.rand((0,)).batch_size == torch.Size([0])


def test_the_space_of_a_spec_is_its_own():
    space = spaces.Text(4)
    space.seed(3)
    expected = copy.deepcopy(space).sample()
    spec = NonTensor((), space=space)
    spec.rand()
    space_from_spec(spec).sample()
    assert space.sample() == expected


def test_example_data_of_arrays_can_be_compared():
    one, other = (NonTensor((), example_data={"a": (np.zeros(2), [n])}) for n in (1, 2))
    assert one == one.clone() == NonTensor((), example_data={"a": (np.zeros(2), [1])})
    assert one != other


REFUSED = [
    (
        lambda: spec_from_space(spaces.Dict({1: spaces.Discrete(2), "1": spaces.Discrete(3)})),
        "there is no spec for a Dict space in which two keys become '1': the keys of a Composite are strings. "
        "Rename one of them.",
    ),
    (
        lambda: space_from_spec(Unbounded((3, -1))),
        "there is no Gymnasium space for a UnboundedContinuous of shape [3, any]: a space has no dims of variable "
        "size. Give the dim its largest size, and pad the data to it.",
    ),
    (
        lambda: space_from_spec(NonTensor((2,), space=spaces.Text(3))),
        "there is no Gymnasium space for a NonTensor that is of shape [2]: index a row. Describe the data of one row: "
        "NonTensor(shape=(), space=gymnasium.spaces.Text(...)).",
    ),
    (
        lambda: space_from_spec(Choice([Categorical(3), Categorical(4)])),
        "there is no Gymnasium space for this Choice: a OneOf value also contains the number of its member. Make "
        'each choice a Composite of shape () with the keys "0" and "1": '
        'Composite({"0": Categorical(1, start=0), "1": spec}).',
    ),
]


@pytest.mark.parametrize(("call", "text"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_carried_over_says_so(call, text):
    with raises(TypeError, text):
        call()


def test_a_lazy_stack_is_the_tuple_of_its_members():
    spec = torch.stack([Composite(a=Bounded(-1, 1, (3,))), Composite(b=OneHot(2))])
    space = space_from_spec(spec)
    assert space == spaces.Tuple((spaces.Dict(a=spaces.Box(-1, 1, (3,))), spaces.Dict(b=spaces.Discrete(2))))
    assert space.contains(spec.to_numpy(spec.rand()))
    leaf = torch.stack([Bounded(-1, 1, (3,)), Bounded(-1, 1, (2,))])
    assert space_from_spec(leaf).contains(leaf.to_numpy(leaf.rand()))

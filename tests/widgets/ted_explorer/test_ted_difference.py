"""Comparison of two TEDs."""

from __future__ import annotations

import pytest
import torch
from rlnb_widgets.ted_explorer import Finding, ted_model
from tensordict import NonTensorStack, TensorDict, lazy_stack


def found(td, other):
    return {row.path: row.differences for row in ted_model(td, other=other).rows if row.differences}


def test_a_ted_does_not_differ_from_its_copy(ted):
    td = ted(5, (2,), {2: "truncated"})
    td["next", "observation"][0, 1] = float("nan")
    assert found(td, td.clone()) == {}


def test_the_first_differing_value_on_each_side(ted):
    td, other = ted(), ted()
    other["observation"][2, 1] = 70
    other["next", "observation"][4, 0] = float("nan")
    other["next", "observation"][5, 0] = 0
    assert found(td, other) == {
        ("observation",): (
            Finding("root", "value", "70", "5", (2, 1)),
            Finding("next", "value", "nan", "10", (4, 0)),
        )
    }


def test_keys_only_in_one(ted):
    td, other = ted(), ted()
    td["agents", "x"] = torch.zeros(6, 3)
    del td["next", "reward"]
    assert found(td, other) == {
        ("agents",): (Finding("root", "only here", "nothing", "a nested TensorDict"),),
        ("agents", "x"): (Finding("root", "only here", "nothing", "float32 [6, 3]"),),
        ("reward",): (Finding("next", "only in the other", "float32 [6, 1]", "nothing"),),
    }


def test_an_entry_only_in_the_other_has_a_row(ted):
    td, other = ted(), ted()
    other["next", "deep", "er"] = torch.zeros(6)
    model = ted_model(td, other=other)
    assert not model.row("deep").leaf
    row = model.row("deep", "er")
    assert (row.leaf, row.root, row.next) == (True, None, None)
    assert row.differences[0].text() == "next: only in the other: float32 [6]"


@pytest.mark.parametrize(
    ("value", "finding"),
    [
        (torch.zeros(6, 3), Finding("root", "shape", "[6, 3]", "[6, 2]")),
        (torch.zeros(6, 2, dtype=torch.int32), Finding("root", "dtype", "int32 [6, 2]", "float32 [6, 2]")),
        (TensorDict({}, [6]), Finding("root", "dtype", "a nested TensorDict", "float32 [6, 2]")),
    ],
)
def test_shape_and_dtype(ted, value, finding):
    td, other = ted(), ted()
    other["observation"] = value
    assert found(td, other)["observation",] == (finding,)


def test_objects_and_lazy_stacks():
    td = TensorDict({"s": NonTensorStack("a", "b")}, [2])
    other = TensorDict({"s": NonTensorStack("a", "c")}, [2])
    assert found(td, other)["s",] == (Finding("root", "value", "['a', 'c']", "['a', 'b']"),)
    one = lazy_stack([TensorDict({"x": torch.zeros(2)}), TensorDict({"x": torch.zeros(3)})])
    two = lazy_stack([TensorDict({"x": torch.zeros(2)}), TensorDict({"x": torch.tensor([0.0, 0.0, 9.0])})])
    assert found(one, one.clone()) == {}
    assert found(one, two)["x",] == (Finding("root", "value", "9", "0", (1, 2)),)
    three = lazy_stack([TensorDict({"x": torch.zeros(2)}), TensorDict({"x": torch.zeros(4)})])
    assert found(one, three)["x",] == (Finding("root", "shape", "[[2], [4]]", "[[2], [3]]"),)


def test_another_that_is_no_tensordict_is_refused(ted):
    with pytest.raises(TypeError, match=r"^other must be a TensorDict such as env.rollout\(...\) returns, got list\.$"):
        ted_model(ted(), other=[1])

"""The model: the tree, shapes, domains, Gymnasium spaces, and the differences of two specs."""

from __future__ import annotations

import math

import gymnasium as gym
import pytest
import torch
from rlnb_widgets._core.dims import Dim
from rlnb_widgets._core.spec_domain import NORMAL, TAIL
from rlnb_widgets.spec_explorer import Domain, Lane, domain_of, spec_model
from rlnb_widgets.spec_explorer.schema import Difference

from rlnb.data import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    NonTensor,
    OneHot,
    TensorSpec,
    Unbounded,
    UnboundedDiscrete,
    spec_from_space,
)
from rlnb.envs.libs.gym import GymEnv

INF = math.inf
I64 = (float(-(2**63)), float(2**63 - 1))

DOMAINS = {
    "interval": (
        Bounded(-1, 1, shape=(3,)),
        Domain("interval", "[-1, 1]", (Lane("line", low=-1.0, high=1.0, view=(-1.0, 1.0)),)),
    ),
    "open above": (
        Bounded(0, INF, shape=(2,)),
        Domain("interval", "[0, inf)", (Lane("line", low=0.0, high=None, view=(0.0, TAIL)),)),
    ),
    "open below": (
        Bounded(-INF, 2, shape=()),
        Domain("interval", "(-inf, 2]", (Lane("line", low=None, high=2.0, view=(2.0 - TAIL, 2.0)),)),
    ),
    "open": (Unbounded((2,)), Domain("any", "any float32", (Lane("line", view=(-NORMAL, NORMAL)),))),
    "any integer": (UnboundedDiscrete((2,)), Domain("any", "any int64", (Lane("line", view=I64, whole=True),))),
    "any bool": (Unbounded((2,), dtype=torch.bool), Domain("any", "any bool", (Lane("choices", n=2),))),
    "a single number": (
        Bounded(2, 2, shape=(1,)),
        Domain("interval", "[2, 2]", (Lane("line", low=2.0, high=2.0, view=(1.0, 3.0)),)),
    ),
    "few integers": (
        Bounded(-1, 1, shape=(2,), dtype=torch.int64),
        Domain("interval", "{-1, 0, 1}", (Lane("choices", n=3, start=-1),)),
    ),
    "many integers": (
        Bounded(0, 255, shape=(8, 8), dtype=torch.uint8),
        Domain("interval", "{0, ..., 255}", (Lane("line", low=0, high=255, view=(0.0, 255.0), whole=True),)),
    ),
    "an interval each, one scale": (
        Bounded(torch.tensor([0.0, -1.0]), torch.tensor([2.0, 1.0])),
        Domain(
            "interval",
            "2 intervals: [0, 2], [-1, 1]",
            (
                Lane("line", "[0]", 0.0, 2.0, (-1.0, 2.0), elements=(0,)),
                Lane("line", "[1]", -1.0, 1.0, (-1.0, 2.0), elements=(1,)),
            ),
        ),
    ),
    "an interval each, one scale, one open": (
        Bounded(torch.tensor([-4.0, -torch.inf]), torch.tensor([4.0, torch.inf])),
        Domain(
            "interval",
            "2 intervals: [-4, 4], (-inf, inf)",
            (
                Lane("line", "[0]", -4.0, 4.0, (-4.0, 4.0), elements=(0,)),
                Lane("line", "[1]", view=(-4.0, 4.0), elements=(1,)),
            ),
        ),
    ),
    "an interval each, each on its own scale": (
        Bounded(torch.tensor([-4.0, -0.5]), torch.tensor([4.0, 0.5])),
        Domain(
            "interval",
            "2 intervals: [-4, 4], [-0.5, 0.5]",
            (
                Lane("line", "[0]", -4.0, 4.0, (-4.0, 4.0), elements=(0,)),
                Lane("line", "[1]", -0.5, 0.5, (-0.5, 0.5), elements=(1,)),
            ),
        ),
    ),
    "an interval each, far apart": (
        Bounded(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 1e6])),
        Domain(
            "interval",
            "2 intervals: [0, 1], [0, 1e+06]",
            (
                Lane("line", "[0]", 0.0, 1.0, (0.0, 1.0), elements=(0,)),
                Lane("line", "[1]", 0.0, 1e6, (0.0, 1e6), elements=(1,)),
            ),
        ),
    ),
    "choices": (Categorical(3, start=5), Domain("choices", "{5, 6, 7}", (Lane("choices", n=3, start=5),))),
    "flag": (Categorical(2, dtype=torch.bool), Domain("choices", "{False, True}", (Lane("choices", n=2),))),
    "many choices": (
        Categorical(1000),
        Domain("choices", "{0, ..., 999}", (Lane("line", "", 0.0, 999.0, (0.0, 999.0), whole=True),)),
    ),
    "one-hot": (OneHot(4), Domain("one-hot", "one-hot of 4", (Lane("cells", n=4),))),
    "binary": (Binary(3), Domain("binary", "{0, 1} in each of 3 places", (Lane("bits", n=3),))),
    "multi": (
        MultiCategorical([2, 3]),
        Domain(
            "multi",
            "choices of 2, 3",
            (Lane("choices", "[0]", n=2, elements=(0,)), Lane("choices", "[1]", n=3, elements=(1,))),
        ),
    ),
    "multi one-hot": (
        MultiOneHot([2, 3]),
        Domain("multi", "one-hot of 2 + 3", (Lane("cells", "[0]", n=2), Lane("cells", "[1]", n=3, begin=2))),
    ),
    "non-tensor": (NonTensor(example_data="go"), Domain("non-tensor", "any data, such as 'go'")),
    "nothing": (None, Domain("nothing", "no spec: any value")),
    "no elements": (Bounded(0, 1, shape=(0,)), Domain("interval", "no elements")),
    "masked choices": (
        Categorical(4, mask=torch.tensor([True, False, True, False])),
        Domain("choices", "{0, 2} of 4", (Lane("choices", n=4, barred=(1, 3)),)),
    ),
    "masked one-hot": (
        OneHot(3, mask=torch.tensor([False, True, True])),
        Domain("one-hot", "one-hot of 3: {1, 2} of 3", (Lane("cells", n=3, barred=(0,)),)),
    ),
    "a mask each": (
        Categorical(2, shape=(2,), mask=torch.tensor([[True, False], [False, True]])),
        Domain(
            "choices",
            "2 masks over 2 choices",
            (
                Lane("choices", "[0]", n=2, barred=(1,), elements=(0,)),
                Lane("choices", "[1]", n=2, barred=(0,), elements=(1,)),
            ),
        ),
    ),
    "masked multi": (
        MultiCategorical([2, 2], mask=torch.tensor([True, True, True, False])),
        Domain(
            "multi",
            "choices of 2, 2",
            (Lane("choices", "[0]", n=2, elements=(0,)), Lane("choices", "[1]", n=2, barred=(1,), elements=(1,))),
        ),
    ),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_domains(name):
    spec, expected = DOMAINS[name]
    assert domain_of(spec) == expected


def test_what_repeats_along_leading_dims_is_drawn_once(nested):
    lanes = spec_model(nested).row("agents", "position").cell.domain.lanes
    assert [(lane.label, lane.elements) for lane in lanes] == [("[..., 0]", (0, 2, 4, 6)), ("[..., 1]", (1, 3, 5, 7))]


def test_many_different_elements_are_grouped_and_counted():
    low = torch.zeros(40)
    low[3] = -1
    domain = domain_of(Bounded(low, torch.ones(40)))
    assert [lane.label for lane in domain.lanes] == ["39 of 40", "[3]"] and domain.more == 0
    each = domain_of(Bounded(torch.zeros(40), torch.arange(1.0, 41.0)))
    assert len(each.lanes) == 8 and each.more == 32
    assert each.text == "40 intervals: [0, 1], [0, 2], [0, 3], ..."
    four = domain_of(Bounded(torch.zeros(4), torch.arange(1.0, 5.0)))
    assert four.text == "4 intervals: [0, 1], [0, 2], [0, 3], [0, 4]"


class Odd(TensorSpec):
    """A spec of which nothing is known but the abstract interface."""

    shape = torch.Size([2])
    dtype = torch.float32
    device = torch.device("cpu")
    domain = space = None

    def _nothing(self, *_args, **_kwargs):
        raise NotImplementedError

    rand = zero = one = _accepts = _violations = project = encode = to_numpy = type_check = _nothing
    to = clone = expand = squeeze = unsqueeze = __getitem__ = _stack = _nothing
    __hash__ = None

    def __eq__(self, other):
        return self is other

    def __repr__(self):
        return "Odd(<script>)"


Odd.__abstractmethods__ = frozenset()


def test_a_spec_of_unknown_kind_is_shown_by_its_repr():
    cell = spec_model(Composite(x=Unbounded(1))).row("x").cell
    assert cell.kind == "UnboundedContinuous"
    odd = spec_model(Odd()).row().cell
    assert (odd.kind, odd.shape, odd.dtype) == ("Odd", "[2]", "float32")
    assert odd.domain == Domain("unknown", "no drawing for this kind", note="Odd(<script>)")
    assert odd.space == "" and odd.why.startswith("there is no Gymnasium space for a")


def test_the_rows_are_the_tree_in_its_order(nested):
    model = spec_model(nested)
    assert [row.path for row in model.rows] == [
        (),
        ("agents",),
        *(("agents", key) for key in ("position", "goal", "action", "gears", "keys", "bits", "say")),
        ("step",),
        ("nothing",),
    ]
    assert [row.code for row in model.rows][:3] == ["spec", 'spec["agents"]', 'spec["agents", "position"]']
    assert model.leaves == 9 and not model.row("agents").leaf and model.row("nothing").cell.kind == "None"


def test_batch_nested_and_feature_dimensions_are_told_apart():
    inner = Composite(x=Unbounded((4, 2, 3)), shape=(4, 2))
    model = spec_model(Composite(group=inner, y=Unbounded((4, 5)), shape=(4,)))
    assert model.row().cell.dims == (Dim("batch", 4),)
    assert model.row("group").cell.shape == "[B=4 | N=2]"
    assert model.row("group", "x").cell.shape == "[B=4 | N=2 | 3]"
    assert model.row("y").cell.shape == "[B=4 | 5]"
    assert spec_model(Unbounded((4, 5))).row().cell.shape == "[4,5]"


def test_stacks_and_choices_show_their_members():
    walker, flyer = Composite(o=Bounded(0, 1, shape=(3,))), Composite(o=Bounded(0, 2, shape=(4,)), h=Unbounded(1))
    rows = {row.code: row.cell for row in spec_model(Composite(both=torch.stack([walker, flyer]))).rows}
    assert list(rows) == [
        "spec",
        'spec["both"]',
        'spec["both"][0]',
        'spec["both"][0]["o"]',
        'spec["both"][1]',
        'spec["both"][1]["o"]',
        'spec["both"][1]["h"]',
    ]
    assert rows['spec["both"]'].domain.text == "2 specs along dim 0"
    assert rows['spec["both"][1]["o"]'].domain.text == "[0, 2]"


@pytest.mark.parametrize(
    "space",
    [
        gym.spaces.Box(-1, 1, (2,)),
        gym.spaces.Discrete(4, start=2),
        gym.spaces.MultiDiscrete([2, 3]),
        gym.spaces.MultiBinary(3),
        gym.spaces.Dict(a=gym.spaces.Discrete(2), b=gym.spaces.Box(0, 255, (2, 2), "uint8")),
    ],
    ids=lambda space: type(space).__name__,
)
def test_the_space_is_the_one_that_the_spec_came_from(space):
    cell = spec_model(spec_from_space(space)).row().cell
    assert (cell.space, cell.why) == (" ".join(repr(space).split()), "")


def test_a_spec_without_a_space_says_why(nested):
    model = spec_model(nested)
    for path in ((), ("agents",), ("agents", "say")):
        assert model.row(*path).cell.space == ""
        assert model.row(*path).cell.why.startswith("there is no Gymnasium space for a NonTensor")
    assert model.row("nothing").cell.why == "this entry has no spec, so it is left out"


def test_an_environment_is_shown_by_its_specs():
    model = spec_model(GymEnv("CartPole-v1"))
    assert model.name == "env.specs"
    assert model.row("input_spec", "full_action_spec", "action").code == (
        'env.specs["input_spec", "full_action_spec", "action"]'
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": 1}, "got dict. Wrap the dict: Composite(specs)."),
        (gym.spaces.Discrete(2), "got Discrete. Convert the space: spec_from_space(space)."),
        (3, "got int."),
    ],
)
def test_other_things_are_refused(value, text):
    with pytest.raises(TypeError) as caught:
        spec_model(value)
    assert str(caught.value) == (
        f"spec must be a spec of rlnb.data such as env.observation_spec, or an environment, {text}"
    )
    with pytest.raises(TypeError, match=r"^other must be a spec"):
        spec_model(Unbounded(1), value)


BASE = Bounded(0, 1, shape=(2,))


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (Bounded(0, 1, shape=(2,)), ()),
        (Bounded(0, 2, shape=(2,)), (Difference("domain", "[0, 1]", "[0, 2]"),)),
        (Bounded(0, 1, shape=(3,)), (Difference("shape", "[2]", "[3]"),)),
        (Bounded(0, 1, shape=(2,), dtype=torch.float64), (Difference("dtype", "float32", "float64"),)),
        (
            OneHot(2),
            (
                Difference("class", "BoundedContinuous", "OneHot"),
                Difference("dtype", "float32", "bool"),
                Difference("domain", "[0, 1]", "one-hot of 2"),
            ),
        ),
        (None, (Difference("only here", here="BoundedContinuous float32 [2]"),)),
        # alike in four digits
        (Bounded(0, 1.00001, shape=(2,)), (Difference("details"),)),
    ],
)
def test_differences_of_a_leaf(other, expected):
    there = Composite() if other is None else Composite(x=other)
    model = spec_model(Composite(x=BASE), there)
    assert model.compared and model.row("x").differences == expected
    assert model.row().differences == ()


def test_what_only_the_other_has_stands_beside_its_siblings():
    here = Composite(group={"a": BASE}, last=BASE)
    there = Composite(group={"a": BASE, "b": Unbounded(1)}, last=BASE)
    model = spec_model(here, there)
    assert [row.path for row in model.rows] == [(), ("group",), ("group", "a"), ("group", "b"), ("last",)]
    row = model.row("group", "b")
    assert row.differences == (Difference("only in the other", other="UnboundedContinuous float32 [1]"),)
    assert not row.here and model.leaves == 2


def test_equal_specs_give_equal_models(nested):
    assert spec_model(nested) == spec_model(nested.clone())
    with pytest.raises(KeyError) as caught:
        spec_model(Composite(a=BASE)).row("b")
    assert caught.value.args[0] == "no entry ('b',) in the spec; it has 'a'."

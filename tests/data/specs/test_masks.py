"""Masks of choices: which values are legal at the moment."""

from __future__ import annotations

import pickle
import re

import pytest
import torch

from rlnb.data import Categorical, Composite, MultiCategorical, MultiOneHot, OneHot

M3 = torch.tensor([True, False, True])
M5 = torch.tensor([True, False, True, False, True])

# A spec of each class, and the rows that its mask leaves.
MASKED = [
    (Categorical(3, mask=M3), [0, 2]),
    (Categorical(3, mask=M3, start=4, dtype=torch.int8), [4, 6]),
    (Categorical(2, mask=[False, True], dtype=torch.bool), [True]),
    (OneHot(3, mask=M3), [[1, 0, 0], [0, 0, 1]]),
    (OneHot(3, mask=M3, dtype=torch.float32), [[1, 0, 0], [0, 0, 1]]),
    (MultiCategorical([2, 3], mask=M5), [[0, 0], [0, 2]]),
    (MultiCategorical([2, 3], mask=M5, start=[1, 5]), [[1, 5], [1, 7]]),
    (MultiOneHot([2, 3], mask=M5), [[1, 0, 1, 0, 0], [1, 0, 0, 0, 1]]),
    (MultiOneHot([[2], [3]], mask=M5, dtype=torch.int64), [[1, 0, 1, 0, 0], [1, 0, 0, 0, 1]]),
    (MultiCategorical([[2], [3]], mask=M5), [[[0], [0]], [[0], [2]]]),
]
names = [f"{type(spec).__name__}-{i}" for i, (spec, _) in enumerate(MASKED)]
masked = pytest.mark.parametrize(("spec", "legal"), MASKED, ids=names)


@masked
def test_only_legal_values_are_drawn_each_as_often(spec, legal):
    torch.manual_seed(0)
    rows, counts = spec.rand((2000,)).unique(dim=0, return_counts=True)
    assert sorted(rows.int().tolist()) == sorted(torch.tensor(legal).int().tolist())
    assert counts.min() > 0.9 * 2000 / len(legal)


@masked
def test_only_legal_values_are_in_the_spec_and_projection_goes_to_one(spec, legal):
    free = spec.clone()
    free.update_mask(None)
    assert free.mask is None and spec.mask is not None
    legal = torch.tensor(legal).to(spec.dtype)
    assert spec.enumerate(use_mask=True).tolist() == legal.tolist()
    assert spec.cardinality(use_mask=True) == len(legal)
    assert spec.cardinality() == free.cardinality() == len(spec.enumerate())
    for value in free.enumerate():
        is_legal = any(torch.equal(value, row) for row in legal)
        assert spec.is_in(value) == is_legal
        assert (spec.project(value) is value) == is_legal
        assert spec.is_in(spec.project(value))
        assert (spec.violations(value) == []) == is_legal
        if not is_legal:
            with pytest.raises(ValueError, match="encode"):
                spec.encode(value)
        assert torch.equal(spec.encode(free.to_numpy(value), check=False), value)


@masked
def test_a_mask_survives_copies_and_shapes_and_counts_for_equality(spec, legal):
    free = spec.clone()
    free.update_mask(None)
    assert spec != free and hash(spec) == hash(free)
    batched = spec.expand(4, *spec.shape)
    for copy in (
        spec.clone(),
        pickle.loads(pickle.dumps(spec)),
        batched[2],
        batched[torch.tensor([True, False, False, True])][0],
        torch.stack([spec, spec], 0)[1],
        spec.unsqueeze(0).squeeze(0),
        batched.unflatten(0, (2, 2)).flatten(0, 1)[3],
        Composite(a=spec).expand(3)[0]["a"],
    ):
        assert copy == spec
        assert torch.equal(copy.mask, spec.mask)
        assert repr(copy) == repr(spec)
    assert batched.mask.shape == torch.Size((4, *spec.mask.shape))
    assert batched.is_in(batched.rand((2,)))


@masked
def test_the_encodings_hand_their_mask_on(spec, legal):
    hot, number = spec.to_one_hot_spec(), spec.to_categorical_spec()
    assert torch.equal(hot.mask, spec.mask)
    assert hot.to_categorical_spec().cardinality(True) == number.cardinality(True) == len(legal)
    value = spec.rand()
    assert hot.is_in(spec.to_one_hot(value).to(hot.dtype))
    assert number.is_in(spec.to_categorical(value).to(number.dtype))


@pytest.mark.parametrize("spec", [Categorical(3, mask=M3), OneHot(3, mask=M3)])
def test_a_mask_goes_where_the_spec_goes(spec):
    moved = spec.to("meta")
    assert moved.mask.device == moved.device == torch.device("meta")
    assert spec.mask.device == torch.device("cpu")
    both = Composite(a=spec).to("cpu")
    both["a"].update_mask(None)
    assert spec.mask is not None


def test_an_update_replaces_the_mask_and_leaves_copies_alone():
    spec = Categorical(4, shape=(2,))
    big = spec.expand(3, 2)
    copy = spec.clone()
    given = torch.tensor([True, False, False, True])
    assert spec.update_mask(given) is None
    given.fill_(True)
    spec.mask.fill_(True)
    assert spec.mask.tolist() == [[True, False, False, True]] * 2
    assert copy.mask is None and big.mask is None
    assert not spec.is_in(torch.tensor([0, 1])) and copy.is_in(torch.tensor([0, 1]))
    spec.update_mask([[True, False, False, False], [False, False, False, True]])
    assert spec.rand().tolist() == [0, 3]
    spec.update_mask(None)
    assert spec == copy


def test_rows_of_a_mask_belong_to_rows_of_the_spec():
    mask = torch.tensor([[True, False, False], [False, True, True]])
    spec = Categorical(3, shape=(2,), mask=mask)
    assert spec[0].mask.tolist() == mask[0].tolist()
    assert spec[1].cardinality(True) == 2
    text = r"the mask differs between the rows of shape \[2\], .* of one row: spec\[0\]\.enumerate\(use_mask=True\)\.$"
    with pytest.raises(ValueError, match=text):
        spec.enumerate(use_mask=True)
    with pytest.raises(ValueError, match="differs between the rows"):
        spec.cardinality(use_mask=True)
    assert spec.is_in(torch.tensor([[0, 1], [0, 2]])) and not spec.is_in(torch.tensor([1, 1]))
    grid = MultiCategorical([[2, 3], [4, 5]], mask=torch.arange(14) % 2 == 0)
    assert [grid[i, j].enumerate(True).tolist() for i in (0, 1) for j in (0, 1)] == [[0], [0, 2], [1, 3], [1, 3]]
    assert grid[1].mask.tolist() == [False, True] * 4 + [False]
    assert grid.flatten().mask.tolist() == grid.mask.tolist()


def test_the_nearest_legal_value_is_the_smaller_one_of_two():
    spec = Categorical(6, mask=[False, True, False, False, False, True], start=10)
    assert spec.project(torch.arange(8, 19)).tolist() == [11] * 6 + [15] * 5
    assert spec.project(torch.tensor([12.6, float("nan"), float("inf")])).tolist() == [11, 11, 15]
    assert OneHot(3, mask=M3).project(torch.tensor([0.1, 0.9, 0.2])).tolist() == [False, False, True]
    assert OneHot(3, mask=[False, True, True]).project(torch.full((3,), -torch.inf)).tolist() == [False, True, False]
    both = MultiOneHot([2, 3], mask=M5).project(torch.tensor([0.0, 1.0, 0.0, 5.0, 1.0]))
    assert both.tolist() == [True, False, False, False, True]


def test_conversion_reads_old_data_whatever_the_mask_says_now():
    scores = torch.tensor([1.0, 2.0, 3.0])
    spec, hot = Categorical(3, mask=M3), OneHot(3, mask=M3)
    assert spec.to_one_hot(torch.tensor(1)).tolist() == [False, True, False]
    assert hot.to_categorical(torch.tensor([False, True, False])) == 1
    assert spec.index(torch.tensor(1), scores) == hot.index(torch.tensor([False, True, False]), scores) == 2
    pair = MultiCategorical([2, 3], mask=M5)
    assert pair.index(torch.tensor([1, 1]), torch.arange(5)).tolist() == [1, 3]
    assert pair.to_one_hot_spec().to_categorical(pair.to_one_hot(torch.tensor([1, 1]))).tolist() == [1, 1]


REFUSED = [
    (
        torch.ones(3),
        TypeError,
        "{name}: a mask must be a boolean tensor, True for a legal value, got dtype torch.float32. "
        "Cast it: mask.bool().",
    ),
    (
        torch.ones(7, dtype=torch.bool),
        ValueError,
        "{name}: expected a mask of shape {shape}, one entry for each value, or one that broadcasts to it, got [7].",
    ),
    (
        torch.ones(2, 2, 2, dtype=torch.bool),
        ValueError,
        "{name}: expected a mask of shape {shape}, one entry for each "
        "value, or one that broadcasts to it, got [2, 2, 2].",
    ),
]


@pytest.mark.parametrize(("mask", "kind", "text"), REFUSED)
@masked
def test_a_mask_that_does_not_fit_is_refused_and_the_old_one_stays(spec, legal, mask, kind, text):
    before = spec.clone()
    text = text.format(name=type(spec).__name__, shape=list(spec.mask.shape))
    with pytest.raises(kind, match="^" + re.escape(text) + "$"):
        spec.update_mask(mask)
    assert spec == before
    assert spec.is_in(spec.rand((5,)))


def test_an_object_that_is_not_a_mask_is_rejected():
    with pytest.raises(TypeError, match=r"^Categorical: a mask must be a boolean tensor of shape \[3\], got a str \("):
        Categorical(3, mask="010")


@pytest.mark.parametrize(
    ("spec", "index"),
    [
        (Categorical(2, mask=[False, False]), ""),
        (Categorical(2, shape=(3,), mask=[[True, True], [True, False], [False, False]]), " at index (2,)"),
        (OneHot(2, shape=(2, 2), mask=[[False, False], [True, False]]), " at index (0,)"),
        (MultiCategorical([2, 1], mask=[True, True, False]), " at index (1,)"),
        (MultiOneHot([2, 1], mask=[True, True, False]), " at index (1,)"),
    ],
)
def test_draws_and_projections_fail_where_nothing_is_legal(spec, index):
    name = type(spec).__name__
    text = (
        f"the mask leaves no legal choice{index}: all of its entries are False there. Give it one with "
        "spec.update_mask(mask), or remove it with spec.update_mask(None)."
    )
    with pytest.raises(ValueError, match="^" + re.escape(f"{name}.rand: {text}") + "$"):
        spec.rand()
    with pytest.raises(ValueError, match="^" + re.escape(f"{name}.project: {text}") + "$"):
        spec.project(spec.zero())
    row = spec if index in ("", " at index (1,)") else spec[int(index[-3])]
    assert row.cardinality(use_mask=True) == 0
    assert len(row.enumerate(use_mask=True)) == 0
    assert not spec.is_in(spec.zero())


TAKE = "Choose one of them, or take the nearest: spec.project(value)."


@pytest.mark.parametrize(
    ("spec", "value", "text"),
    [
        (
            Categorical(3, mask=M3),
            [0, 1],
            f"value: 1 at index (1,) is outside {{0, 2}}, the values that the mask leaves. {TAKE}",
        ),
        (
            Categorical(20, mask=torch.arange(20) % 2 == 0),
            1,
            f"value: 1 is outside {{0, 2, 4, 6, 8, 10, 12, 14, ...}}, the values that the mask leaves. {TAKE}",
        ),
        (Categorical(3, mask=M3), 7, f"value: 7 is outside {{0, 2}}, the values that the mask leaves. {TAKE}"),
        (
            OneHot(3, mask=M3),
            [False, True, False],
            "value: [0, 1, 0] is outside the one-hot vectors of length 3 with the 1 "
            f"at {{0, 2}}, as the mask says. {TAKE}",
        ),
        (
            MultiCategorical([2, 3], mask=M5),
            [0, 1],
            f"value: 1 at index (1,) is outside {{0, 2}}, the values that the mask leaves. {TAKE}",
        ),
        (
            MultiOneHot([2, 3], mask=M5),
            [False, True, True, False, False],
            "value: [0, 1, 1, 0, 0] is outside the one-hot "
            f"vectors of lengths [2, 3] in a row with the 1s at {{0}}, {{0, 2}}, as the mask says. {TAKE}",
        ),
    ],
)
def test_a_masked_value_is_explained(spec, value, text):
    with pytest.raises(AssertionError, match="^" + re.escape(text) + "$"):
        spec.assert_is_in(torch.tensor(value))


def test_a_mask_is_printed_where_there_is_one():
    text = (
        "OneHot(\n    shape=torch.Size([3]),\n    space=CategoricalBox(n=3),\n    device=cpu,\n    dtype=torch.bool,\n"
        "    domain=discrete{})"
    )
    assert repr(OneHot(3)) == text.format("")
    mask = ",\n    mask=Tensor(shape=torch.Size([3]), device=cpu, dtype=torch.bool)"
    assert repr(OneHot(3, mask=M3)) == text.format(mask)

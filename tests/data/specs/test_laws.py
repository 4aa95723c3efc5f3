"""Laws of drawing and checking that hold for every spec, over generated specs and values."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlnb.data import Binary, Bounded, Categorical, MultiCategorical, MultiOneHot, OneHot, violations
from tests.data.specs.generators import anything, composites, leads, leaf_and_value, leaves, same


@given(leaves, st.integers(1, 20), st.integers(0, 2**31))
def test_one_draw_of_many_rows_equals_many_draws_of_one_row(spec, rows, seed):
    torch.manual_seed(seed)
    together = spec.rand((rows,))
    torch.manual_seed(seed)
    apart = torch.stack([spec.rand() for _ in range(rows)])
    assert torch.equal(together, apart)


@given(anything, leads)
def test_draws_have_the_shape_and_lie_in_the_spec(spec, lead):
    for value in (spec.rand(lead), spec.sample(lead)):
        assert value.shape == torch.Size((*lead, *spec.shape))
        assert spec.is_in(value)
        assert violations(spec, value, leading=len(lead)) == []
    for blank in (spec.zero(lead), spec.one(lead), spec.zeros(lead), spec.ones(lead)):
        assert blank.shape == torch.Size((*lead, *spec.shape))


@given(leaves)
def test_every_draw_of_a_finite_leaf_is_finite(spec):
    value = spec.rand((50,))
    assert not value.isnan().any()
    if not isinstance(spec, Bounded) or bool(spec.low.isfinite().all() and spec.high.isfinite().all()):
        assert bool(value.isfinite().all())


@pytest.mark.parametrize(
    "spec",
    [Categorical(4), Categorical(3, start=7), OneHot(4), Binary(2), MultiCategorical([3, 4]), MultiOneHot([3, 4])],
    ids=lambda spec: type(spec).__name__,
)
def test_draws_reach_every_choice_about_equally_often(spec):
    torch.manual_seed(0)
    rows, counts = torch.unique(spec.rand((6000,)), dim=0, return_counts=True)
    every = {"Categorical": spec.n if hasattr(spec, "n") else 0, "OneHot": 4, "Binary": 4}.get(type(spec).__name__, 12)
    assert len(rows) == every
    assert counts.min() > 0.8 * 6000 / every


@given(leaf_and_value())
def test_projecting_gives_a_value_of_the_spec_and_leaves_such_values_alone(case):
    spec, value = case
    projected = spec.project(value)
    assert spec.is_in(projected)
    assert (projected is value) == spec.is_in(value)
    if not spec.is_in(value):
        assert not same(projected, value)


@given(leaf_and_value())
def test_a_value_is_in_the_spec_exactly_when_there_is_no_violation(case):
    spec, value = case
    found = violations(spec, value)
    assert spec.is_in(value) == (not found)
    for violation in found:
        assert str(violation).startswith("value: ")
        assert violation.key == ()
        if violation.kind == "domain" and violation.value is not None:
            got = value[violation.index].item()
            assert got == violation.value or np.isnan(got)


@given(composites(), leads, st.randoms(use_true_random=False))
def test_a_damaged_tensordict_is_not_in_the_spec_and_the_violation_names_the_key(spec, lead, random):
    data = spec.rand(lead)
    keys = [key for key in data.keys(True, True) if isinstance(data[key], torch.Tensor)]
    if not keys:
        return
    key = random.choice(keys)
    path = key if isinstance(key, tuple) else (key,)
    damaged = data.clone()
    if random.random() < 0.5:
        del damaged[key]
        kinds = {"missing"}
    else:
        damaged.set(key, torch.zeros((*data[key].shape, 7), dtype=data[key].dtype))
        kinds = {"shape"}
    assert not spec.is_in(damaged)
    found = violations(spec, damaged)
    assert {(v.key, v.kind) for v in found} == {(path, kind) for kind in kinds}
    with pytest.raises(AssertionError, match=r"missing|shape"):
        spec.assert_is_in(damaged)

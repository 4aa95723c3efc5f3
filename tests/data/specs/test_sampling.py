"""Corner cases of random draws that a seed rarely reaches."""

from __future__ import annotations

import pytest
import torch

from rlnb.data.specs import sampling


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("extreme", [0.0, 1 - 2**-24])
def test_a_normal_draw_is_finite_at_both_ends_of_the_uniform(monkeypatch, dtype, extreme):
    monkeypatch.setattr(torch, "rand", lambda size, dtype, device: torch.full(size, extreme, dtype=dtype))
    drawn = sampling.draw_normal(dtype, torch.device("cpu"), torch.Size([4]))
    assert bool(drawn.isfinite().all())
    assert bool((drawn.sign() == (1 if extreme else -1)).all())


def test_wide_integers_reach_both_ends_and_nothing_else():
    torch.manual_seed(0)
    low, high = torch.tensor([0, 5, -3]), torch.tensor([1, 5, -1])
    drawn = sampling.draw_wide_integers(low, high, torch.Size([200, 3]))
    assert [sorted(set(column.tolist())) for column in drawn.T] == [[0, 1], [5], [-3, -2, -1]]


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2**-24])
def test_a_draw_between_huge_bounds_neither_overflows_nor_leaves_them(monkeypatch, uniform):
    high = torch.tensor(torch.finfo(torch.float32).max)
    monkeypatch.setattr(torch, "rand", lambda size, dtype, device: torch.full(size, uniform, dtype=dtype))
    drawn = sampling.sampler_between(-high, high)(torch.Size([2]))
    assert bool(drawn.isfinite().all() and (drawn.abs() <= high).all())


def test_a_choice_never_reaches_its_count(monkeypatch):
    monkeypatch.setattr(torch, "rand", lambda size, dtype, device: torch.full(size, 1 - 2.0**-53, dtype=dtype))
    nvec = torch.arange(1, 5001).double()
    drawn = sampling.draw_choices(nvec, None, torch.int64, nvec.shape)
    assert torch.equal(drawn, nvec.long() - 1)

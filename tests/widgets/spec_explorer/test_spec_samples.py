"""Samples: the same for one seed, none that are masked, and no effect on global generators."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from rlnb_widgets import SpecExplorer
from rlnb_widgets.spec_explorer import Lane, domain_of
from rlnb_widgets.spec_explorer.samples import BINS, BUDGET, LEVELS, Samples, draw_samples, positions

from rlnb.data import Binary, Bounded, Categorical, Composite, MultiOneHot, NonTensor, OneHot, Unbounded

SPECS = {
    "interval": Bounded(-1, 1, shape=(2,)),
    "tail": Bounded(0, torch.inf, shape=(2,)),
    "open": Unbounded(3),
    "widest": Bounded(-3.4e38, 3.4e38, shape=(2,)),
    "half": Bounded(-1, 1, shape=(2,), dtype=torch.bfloat16),
    "integers": Unbounded(2, dtype=torch.int64),
    "choices": Categorical(5, start=-2),
    "one-hot": OneHot(4, shape=(2, 4)),
    "binary": Binary(3),
    "wide binary": Binary(100),
    "multi": MultiOneHot([2, 3]),
    "single": Bounded(2, 2, shape=(1,)),
}


@pytest.mark.parametrize("name", SPECS)
def test_every_lane_has_bars_of_bounded_height(name):
    spec = SPECS[name]
    domain = domain_of(spec)
    found = draw_samples(spec, domain, 3)
    assert found.draws == 200 and found.note == "" and len(found.levels) == len(domain.lanes)
    for levels in found.levels:
        assert max(levels) == LEVELS and min(levels) >= 0 and len(levels) <= BINS
    assert found == draw_samples(spec, domain, 3)


def test_the_bars_are_the_counts_of_the_stated_draws():
    spec = Categorical(3)
    torch.manual_seed(7)
    counts = np.bincount(spec.rand((200,)).numpy(), minlength=3)
    expected = tuple(int(c) for c in np.rint(counts * LEVELS / counts.max()))
    assert draw_samples(spec, domain_of(spec), 7).levels == (expected,)


def test_the_bars_of_an_interval_fill_it_evenly():
    spec = Bounded(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 10.0]))
    for levels in draw_samples(spec, domain_of(spec), 0).levels:
        assert min(levels) > 0, "a bar for each part, also of the short interval"


def test_masked_choices_are_never_drawn():
    spec = OneHot(4, mask=torch.tensor([True, False, True, False]))
    levels = draw_samples(spec, domain_of(spec), 0).levels[0]
    assert [level > 0 for level in levels] == [True, False, True, False]


def test_large_leaves_are_drawn_less_often():
    image = Bounded(0, 255, shape=(3, 64, 64), dtype=torch.uint8)
    assert draw_samples(image, domain_of(image), 0).draws == BUDGET // (3 * 64 * 64) == 3


def test_what_has_no_picture_is_not_drawn():
    spec = NonTensor(example_data="x")
    assert draw_samples(spec, domain_of(spec), 0) == Samples(0)


def test_a_leaf_that_cannot_be_drawn_says_why_and_the_others_are_shown():
    spec = Composite(a=Categorical(2, mask=torch.tensor([False, False])), b=Categorical(2))
    explorer = SpecExplorer(spec)
    assert explorer._samples["a",].draws == 0
    assert explorer._samples["a",].note.startswith("cannot be drawn from: Categorical.rand: the mask leaves no legal")
    assert explorer._samples["b",].draws == 200


def test_torch_draws_what_it_would_have_drawn():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    explorer = SpecExplorer(Bounded(0, 1, shape=(2,)))
    explorer.seed = 9
    assert torch.equal(torch.rand(3), expected)


def test_setting_the_seed_draws_anew_and_back_again_gives_the_same():
    explorer = SpecExplorer(Bounded(0, 1, shape=(2,)), seed=4)
    first = explorer.samples
    explorer.seed = 5
    assert explorer.samples != first
    explorer.seed = 4
    assert explorer.samples == first == SpecExplorer(Bounded(0, 1, shape=(2,)), seed=4).samples


def test_positions_of_the_widest_floats_do_not_overflow():
    lane = Lane("line", low=-1.7e308, high=1.7e308, view=(-1.7e308, 1.7e308))
    assert positions(lane, np.array([-1.7e308, 0.0, 1.7e308])).tolist() == [0.0, 0.5, 1.0]


def test_no_number_is_told_for_all_where_large_values_were_drawn_less_often():
    small, large = Bounded(-1, 1, shape=(2,)), Unbounded(shape=(BUDGET // 41,))
    for spec, draws, words in (
        (Composite(small=small), "200 draws", "200 random samples"),
        (Composite(small=small, large=large), "draws", "random samples"),
    ):
        explorer = SpecExplorer(spec)
        assert f"Bars: {draws} of rand() with seed 0" in str(explorer._svg())
        assert json.loads(explorer.samples)["words"] == words

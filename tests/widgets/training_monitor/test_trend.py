"""What a series did, in words: rising, falling, turning, flat, noisy, short and broken series."""

from __future__ import annotations

import numpy as np
import pytest
from rlnb_widgets.training_monitor.model import curve_model, insight
from rlnb_widgets.training_monitor.series import Series
from rlnb_widgets.training_monitor.trend import trend_words

NAN = float("nan")
TIME = np.linspace(0, 1, 1_000)


def series(values):
    made = Series()
    made.extend(np.arange(len(values)), np.asarray(values, dtype=np.float64))
    return made


def words(values):
    return trend_words(series(values).buckets())


def noise(size, n=1_000, seed=0):
    return size * np.random.default_rng(seed).normal(size=n)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([], ""),
        ([NAN, NAN], "no finite value so far"),
        ([NAN, np.inf, 3.0], "3, its only value"),
        ([2.0] * 40, "2 all the time"),
        ([NAN, 2.0, 2.0], "2 all the time"),
        ([1.0, 9.0, 4.0], "went from 1 to 4 in 3 values"),
        (range(9), "went from 0 to 8 in 9 values"),
        (range(10), "rose from 0 to 9, still rising"),
        ([*range(100), *[NAN] * 20], "rose from 0 to 99, still rising"),
        (range(100, 0, -1), "fell from 100 to 1, still falling"),
        ([*range(50), *[50] * 50], "rose from 0 to 50, no clear change in the last 50 values"),
        ([*range(50), *range(50, 0, -1)], "rose from 0 to 50, then fell to 1, still falling"),
        ([*range(50, 0, -1), *range(50)], "fell from 50 to 0, then rose to 49, still rising"),
    ],
)
def test_what_a_series_without_noise_did(values, said):
    assert words(values) == said


@pytest.mark.parametrize(
    ("values", "begins", "ends"),
    [
        (10 + 40 * TIME + noise(3), "rose from about 11.4 to 48.1, ", "still rising"),
        (np.exp(-5 * TIME) + noise(0.05), "fell from about 0.8", "values"),
        (100 * np.minimum(3 * TIME, 1) + noise(5), "rose from about 8.", "values"),
        (np.where(TIME < 0.8, 100 * TIME, 10) + noise(5), "rose from about 3.", "still falling"),
    ],
)
def test_what_a_noisy_series_did(values, begins, ends):
    said = words(values)
    assert said.startswith(begins) and said.endswith(ends)
    assert "then" not in said or "then fell to 8." in said


@pytest.mark.parametrize("n", [20, 50, 200, 1_000])
def test_noise_alone_is_seldom_taken_for_a_change(n):
    found = [words(20 + noise(5, n, seed)) for seed in range(50)]
    assert sum(said.startswith("no clear change, about ") for said in found) >= 46


def test_the_words_do_not_depend_on_how_finely_a_curve_is_drawn():
    made = series(10 + 40 * TIME + noise(3))
    assert len({curve_model("return", made, most=most).trend for most in (160, 40)}) == 1


def test_the_best_value_is_the_lowest_of_a_loss_and_none_of_a_constant():
    assert insight([curve_model("loss", series([3.0, 1.0, 2.0]))]) == "loss: went from 3 to 2 in 3 values; best 1."
    assert insight([curve_model("return", series([2.0, 2.0]))]) == "return: 2 all the time."
    assert insight([curve_model("epsilon", series([1.0, 0.5]))]) == "epsilon: went from 1 to 0.5 in 2 values."
    assert insight([curve_model("return", series([NAN]))]) == "return: no finite value so far."
    assert insight([]) == ""

"""The hall of lesson 23 and its figure: known values, drawn on the map."""

from __future__ import annotations

import base64
import math
import re

import pytest
import torch
from exercises.hall import HALL, beside_the_truth, mean_by_cell, true_values, walk
from exercises.value_map import ValueMaps


def svg_of(maps: ValueMaps) -> str:
    found = re.search(r"base64,([A-Za-z0-9+/=]+)", maps._repr_html_())
    assert found
    return base64.b64decode(found[1]).decode()


def test_the_text_has_a_number_for_each_cell_and_letters_for_what_has_none() -> None:
    maps = ValueMaps(["S.#", "G.H"], {"a": [0.5, -0.001, 9.0, 9.0, math.nan, 9.0]})
    assert repr(maps) == "a\n  0.50  0.00     #\n     G     .     H"


def test_the_picture_says_what_the_text_says_and_escapes_titles() -> None:
    svg = svg_of(ValueMaps(["S.G"], {"<one>": [0.5, -1.0, 0.0], "two": [0.25, 1.0, 0.0]}))
    assert "&lt;one&gt;" in svg and "<one>" not in svg
    for word in ("0.50", "-1.00", "0.25", "1.00", ">G<"):
        assert word in svg


def test_all_maps_share_one_scale_and_the_goal_does_not_count() -> None:
    svg = svg_of(ValueMaps(["SG"], {"weak": [0.5, 9.0], "strong": [-1.0, 9.0]}))
    assert re.findall(r'fill-opacity="([\d.]+)"', svg) == ["0.3", "0.6"]
    assert svg.count('class="f-bad"') == 1


def test_a_map_with_too_few_values_is_refused() -> None:
    with pytest.raises(ValueError) as error:
        repr(ValueMaps(["S.G"], {"a": [1.0]}))
    assert str(error.value) == "The map has 3 cells, and there are 1 values of 'a'."


def test_the_true_values_are_the_discounted_returns_of_whole_episodes() -> None:
    for cell in range(31):
        td = walk(20, start=cell, max_steps=None)
        length = int(td["next", "done"].flatten().nonzero()[0]) + 1
        assert true_values(0.5)[cell] == 0.5 ** (length - 1)


def test_means_are_over_the_steps_that_start_in_a_cell() -> None:
    td = walk(400)
    means = mean_by_cell(td, td["observation"].unsqueeze(-1))
    visited = torch.zeros(32, dtype=torch.bool).index_fill(0, td["observation"], True)
    assert torch.equal(means.isfinite(), visited)
    assert torch.equal(means[visited], torch.arange(32.0)[visited])


def test_a_difference_is_drawn_only_if_there_is_one() -> None:
    td = walk(400)
    exact = true_values()[td["observation"]].unsqueeze(-1)
    assert list(beside_the_truth(td, exact, "yours").values) == ["yours", "true values"]
    assert list(beside_the_truth(td, exact + 0.1, "yours").values) == ["yours", "true values", "difference"]
    assert beside_the_truth(td, exact, "yours").desc is HALL

"""The figure of computed curves: its marks and its text."""

from __future__ import annotations

import base64
import math
import re

import pytest
import torch
from exercises.curves import Curves


def svg_of(curves: Curves) -> str:
    found = re.search(r"base64,([A-Za-z0-9+/=]+)", curves._repr_html_())
    assert found
    return base64.b64decode(found[1]).decode()


def paths(svg: str) -> list[list[tuple[float, float]]]:
    """The points of each curve; the key's samples are lines, not paths."""
    found = re.findall(r'<path d="([^"]+)"', svg)
    return [[(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.-]+) ([\d.-]+)", path)] for path in found]


def test_the_text_has_first_and_last_values_and_levels() -> None:
    curves = Curves({"reward": {"a": [0.0, 2.0], "long": torch.tensor([1.0, -0.001])}}, x="episode", first=10, every=5)
    assert repr(curves) == "reward, over episodes 10 to 15\n  a       0.00 ... 2.00\n  long    1.00 ... 0.00"
    assert "; best: 3.00\n" in repr(Curves({"reward": {"a": [0.0]}}, levels={"reward": (3.0, "best")}))


def test_higher_values_are_drawn_higher_on_the_scale_of_their_panel() -> None:
    svg = svg_of(Curves({"one": {"a": [0.0, 1.0, 2.0]}, "two": {"a": [0.0, 100.0, 200.0]}}))
    one, two = paths(svg)
    assert one[0][1] - one[1][1] == pytest.approx(one[1][1] - one[2][1], abs=0.2) and one[1][1] < one[0][1]
    assert [y for _, y in one] == [y for _, y in two]
    assert max(x for x, _ in one) < min(x for x, _ in two)


def test_a_long_curve_is_drawn_as_means_that_reach_both_ends() -> None:
    (short,), (long,) = (paths(svg_of(Curves({"a": {"a": [5.0] * n}}))) for n in (2, 1500))
    assert len(long) == 150
    assert (long[0], long[-1]) == (short[0], short[-1])


def test_values_beyond_the_limits_are_drawn_at_the_edge_and_missing_ones_break_the_line() -> None:
    (line,) = paths(svg_of(Curves({"a": {"a": [0.0, 5.0, math.nan, 0.0, 1.0]}}, limits={"a": (0.0, 1.0)})))
    assert len(line) == 4 and line[1][1] == line[3][1]
    assert repr(Curves({"a": {"a": [math.nan]}})) == "a, over steps 1 to 1\n  a    no number ... no number"


def test_a_curve_has_one_colour_in_all_panels_and_names_are_escaped() -> None:
    svg = svg_of(Curves({"<p>": {"<a>": [1.0, 2.0], "b": [1.0, 2.0]}, "q": {"b": [1.0, 2.0]}}))
    assert "<a>" not in svg and "<p>" not in svg and "&lt;a&gt;" in svg
    assert svg.count('class="s-c0"') == 2 and svg.count('class="s-c1"') == 3


def test_curves_of_one_value_and_of_zeros_are_drawn() -> None:
    for values in ([0.0], [0.0, 0.0], [3.0], [-2.0, -1.0]):
        assert "<svg" in svg_of(Curves({"a": {"a": values}}))

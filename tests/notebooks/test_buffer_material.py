"""The figures of the lessons on buffers: a sum tree with a draw, and times as bars."""

from __future__ import annotations

import base64
import re

import pytest
from exercises.measured_bars import MeasuredBars
from exercises.sum_tree_picture import SumTreePicture


def svg_of(picture: SumTreePicture | MeasuredBars) -> str:
    found = re.search(r"base64,([A-Za-z0-9+/=]+)", picture._repr_html_())
    assert found
    return base64.b64decode(found[1]).decode()


@pytest.mark.parametrize(("mass", "leaf"), [(0.0, 0), (0.99, 0), (1.0, 2), (2.5, 2), (3.9, 3)])
def test_the_tree_says_what_lies_below_a_number(mass: float, leaf: int) -> None:
    picture = SumTreePicture([[4.0], [1.0, 3.0], [1.0, 0.0, 2.0, 1.0]], mass)
    assert repr(picture).endswith(f"lies above leaf {leaf}")


def test_the_leaf_that_was_found_is_marked_and_the_line_is_where_the_number_is() -> None:
    plain, marked = (SumTreePicture([[4.0], [1.0, 3.0]], 2.0, found) for found in (None, 1))
    assert 'class="f-bad"' in svg_of(marked) and 'class="f-bad"' not in svg_of(plain)
    line = re.search(r'<line x1="([\d.]+)"', svg_of(plain))
    assert line and float(line[1]) == 280, "2 of 4 is the middle"


def test_times_are_in_the_picture_only_and_the_picture_says_so() -> None:
    one, two = (MeasuredBars({"sample <x>": {"a list": time, "a tensor": 5.0}}) for time in (80.0, 900.0))
    assert (
        repr(one)
        == repr(two)
        == ("sample <x>: a list, a tensor\nthe times, measured on this machine, are in the picture")
    )
    assert one._repr_html_().startswith('<img data-measured="1" alt="sample &lt;x&gt;')
    assert "80 µs" in svg_of(one) and "900 µs" in svg_of(two) and "sample &lt;x&gt;" in svg_of(one)


def test_ten_times_as_long_is_the_same_piece_longer() -> None:
    bars = MeasuredBars({"a": {"x": 10.0, "y": 100.0, "z": 1000.0}})
    wide = [float(w) for w in re.findall(r'<rect x="190" [^>]*?width="([\d.]+)"', svg_of(bars))]
    assert wide[0] == 0 and wide[2] == pytest.approx(2 * wide[1], abs=0.2)

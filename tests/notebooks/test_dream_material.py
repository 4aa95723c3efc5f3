"""Material of the lesson on dreaming: two rods, and the step at which they diverge."""

from __future__ import annotations

import math
import re

import pytest
import torch
from exercises.dreams import Rods, rods, turn
from hypothesis import given
from hypothesis import strategies as st

angles = st.floats(-math.pi, math.pi)


@given(angles, angles)
def test_two_angles_are_apart_by_the_shorter_way(one: float, other: float) -> None:
    assert turn(one, other) == pytest.approx(turn(other, one), abs=1e-9)
    assert 0 <= turn(one, other) <= math.pi
    assert math.cos(turn(one, other)) == pytest.approx(math.cos(one - other), abs=1e-9)


REAL = torch.tensor([0.0, 0.5, 3.1, -3.1])
DREAM = torch.tensor([0.0, 0.4, -3.1, 1.0])


def test_the_flipbook_has_a_picture_for_each_step_and_marks_where_they_part() -> None:
    book = rods(REAL, DREAM, 3, 0.5)
    assert book.length == 4
    assert repr(book.pictures[1]) == ("step 1: reality at 29 degrees, the dream at 23, 6 apart; they part at step 3")
    assert "178 degrees, the dream at -178, 5 apart" in repr(book.pictures[2])
    pictures = [str(picture._svg()) for picture in book.pictures]
    assert all("they part: step 3" in picture for picture in pictures)
    assert ["apart since step 3" in picture for picture in pictures] == [False, False, False, True]


def test_rods_that_stay_together_have_no_mark() -> None:
    picture = Rods([0.0, 1.0], [0.0, 1.1], 1, 0.5, None)
    assert repr(picture).endswith("they stay together")
    assert "they part" not in str(picture._svg())
    assert "they stay together" in picture._repr_html_()


def test_the_rod_points_up_at_0_and_left_at_a_quarter_turn() -> None:
    ends = {}
    for angle in (0.0, math.pi / 2, math.pi):
        svg = str(Rods([angle], [angle], 0, 0.5, None)._svg())
        (line,) = re.findall(r'<line x1="165" y1="112" x2="([\d.]+)" y2="([\d.]+)"', svg)[:1]
        ends[angle] = tuple(map(float, line))
    assert ends[0.0] == pytest.approx((165, 38), abs=0.1)
    assert ends[math.pi / 2] == pytest.approx((91, 112), abs=0.1)
    assert ends[math.pi] == pytest.approx((165, 186), abs=0.1)

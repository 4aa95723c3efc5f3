"""The figures of the lesson on AlphaZero: curves of a training run, and games won, drawn and lost."""

from __future__ import annotations

import base64
import re

import pytest
from exercises.measured_training import MeasuredCurves, MeasuredGames


def svg_of(picture: MeasuredCurves | MeasuredGames) -> str:
    found = re.search(r"base64,([A-Za-z0-9+/=]+)", picture._repr_html_())
    assert found
    return base64.b64decode(found[1]).decode()


def points(svg: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', svg)]


def test_numbers_are_in_the_pictures_only_and_they_say_so() -> None:
    for one, two, words in (
        (
            MeasuredCurves({"<loss>": [(1, 0.9), (4, 0.4)]}, {"<loss>": (1.0, "a guess")}),
            MeasuredCurves({"<loss>": [(1, 0.8), (4, 0.2)]}, {"<loss>": (1.0, "a guess")}),
            "<loss>: rounds 1 to 4, beside a guess\nthe numbers, measured in this run, are in the picture",
        ),
        (
            MeasuredGames({"<a> against b": (7, 1, 2)}),
            MeasuredGames({"<a> against b": (1, 1, 8)}),
            "<a> against b: 10 games\nwon, drawn and lost, measured in this run, are in the picture",
        ),
    ):
        assert repr(one) == repr(two) == words
        assert one._repr_html_().startswith('<img data-measured="1" alt="&lt;')
        assert svg_of(one) != svg_of(two)
        assert "&lt;" in svg_of(one) and "<loss>" not in svg_of(one) and "<a>" not in svg_of(one)


def test_a_curve_goes_up_with_its_values_on_a_scale_from_0() -> None:
    found = points(svg_of(MeasuredCurves({"a": [(0, 0.0), (1, 1.0), (4, 2.0)]}, high={"a": 2.0})))
    (x0, y0), (x1, y1), (x4, y4) = found
    assert x4 - x0 == pytest.approx(4 * (x1 - x0), abs=0.3)
    assert y0 - y4 == pytest.approx(2 * (y0 - y1), abs=0.3) and y4 < y1 < y0


def test_each_curve_has_its_own_panel_and_scale() -> None:
    found = points(svg_of(MeasuredCurves({"a": [(0, 1.0), (1, 0.5)], "b": [(0, 100.0), (1, 50.0)]})))
    assert [y for _, y in found[:2]] == [y for _, y in found[2:]]
    assert max(x for x, _ in found[:2]) < min(x for x, _ in found[2:])


def test_a_curve_of_one_point_or_of_zeros_is_drawn() -> None:
    assert len(points(svg_of(MeasuredCurves({"a": [(3, 0.0)]})))) == 1


def test_games_are_as_wide_as_they_are_many() -> None:
    svg = svg_of(MeasuredGames({"a": (50, 0, 50), "b": (150, 25, 25)}))
    wide = [float(w) for w in re.findall(r'<rect x="[\d.]+" y="[\d.]+" width="([\d.]+)" height="18"', svg)]
    assert wide[0] == wide[2] and wide[1] == 0
    assert wide[3] + 1 == pytest.approx(6 * (wide[4] + 1), abs=0.7) and wide[4] == wide[5]
    assert ">150<" in svg and ">25<" in svg

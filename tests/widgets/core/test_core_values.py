"""Text helpers and the SVG writer, by value."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rlnb_widgets._core.colors import ROLES
from rlnb_widgets._core.svg import Svg, coordinate, image_tag
from rlnb_widgets._core.text import key_text, number, plural, shorten, sparkline, table

HOSTILE = "<img src=x onerror=alert(1)>\"&'</svg></script>"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (-0.0, "0"), (1e-9, "1e-09"), (True, "True"), (np.int64(3), "3"), (-math.inf, "-inf"), (2.50, "2.5")],
)
def test_number(value, text):
    assert number(value) == text


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), max_size=60), st.integers(1, 20))
def test_sparkline_never_fails_and_has_the_width(values, width):
    assert len(sparkline(values, width)) == min(len(values), width)


def test_sparkline_shows_constants_in_the_middle_and_gaps_as_dots():
    assert sparkline([3, 3, math.nan]) == "▄▄·"
    assert sparkline([]) == ""


@given(st.text(max_size=30), st.integers(1, 10))
def test_shorten_keeps_within_the_width(text, width):
    assert len(shorten(text, width)) <= width


def test_table_aligns_and_has_no_trailing_blanks():
    text = table([["a", 10, ""], ["bb", 2, ""]], ["k", "n", "note"], right=[1])
    assert text.splitlines() == ["k    n  note", "--  --  ----", "a   10", "bb   2"]


def test_key_text_escapes_quotes():
    assert key_text(('a"b', "c")) == '("a\\"b", "c")'
    assert key_text("\u202e\\") == '"\\u202e\\\\"', "as Python would read it"
    assert (plural(1000, "step"), plural(1, "entry", "entries")) == ("1,000 steps", "1 entry")


@given(st.floats(-1e6, 1e6))
def test_coordinate_is_within_a_tenth(x):
    assert abs(float(coordinate(x)) - x) <= 0.0501
    assert re.fullmatch(r"-?\d+(\.[1-9])?", coordinate(x))


def test_svg_is_well_formed_and_escapes_everything():
    svg = Svg(100, 50, title=HOSTILE, desc=HOSTILE)
    svg.text(1, 2, HOSTILE, bold=True)
    svg.rect(0, 0, 10, 5, hint=HOSTILE, data_key=HOSTILE)
    svg.open("translate(1 1)")
    svg.polyline([(0, 0), (1, math.nan), (2, 2), (3, 3)])
    svg.close()
    root = ET.fromstring(str(svg))
    tags = {element.tag.split("}")[1] for element in root.iter()}
    assert tags == {"svg", "title", "desc", "style", "rect", "text", "g", "path"}
    assert [e.text for e in root.iter() if e.tag.endswith("}text")] == [HOSTILE]


def test_svg_polyline_breaks_at_nan():
    svg = Svg(10, 10)
    svg.polyline([(0, 0), (1, 1), (math.nan, 2), (3, 3), (4, 4)])
    assert 'd="M0 0L1 1M3 3L4 4"' in str(svg)


def test_svg_has_both_colour_schemes_and_only_used_roles():
    svg = Svg(10, 10)
    svg.circle(1, 1, 1, fill="good")
    text = str(svg)
    assert f".f-good{{fill:{ROLES['good'][0]}}}" in text
    dark = text.index("@media (prefers-color-scheme:dark)")
    assert text.index(f".f-good{{fill:{ROLES['good'][1]}}}") > dark
    assert "accent" not in text


def test_svg_refuses_an_unknown_role():
    with pytest.raises(ValueError, match=r"^unknown colour role 'pink'; the roles are ink, muted, .*\.$"):
        Svg(10, 10).rect(0, 0, 1, 1, fill="pink")


def test_opacity_is_not_rounded_to_a_tenth():
    svg = Svg(10, 10)
    svg.rect(0, 0, 1, 1, fill_opacity=0.25)
    assert 'fill-opacity="0.25"' in str(svg)


def test_image_tag_cannot_be_escaped_from():
    tag = image_tag("<svg/>", '"><script>')
    assert tag.startswith('<img alt="&quot;&gt;&lt;script&gt;" src="data:image/svg+xml;base64,')

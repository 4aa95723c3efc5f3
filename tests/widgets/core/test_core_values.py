"""Colours, text helpers and the SVG writer, by value."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rlnb_widgets._core.colors import AGENTS, OKABE_ITO, ROLES, agent_role, css_variables
from rlnb_widgets._core.svg import Svg, coordinate, image_tag
from rlnb_widgets._core.text import key_text, number, plural, shorten, sparkline, table

HOSTILE = "<img src=x onerror=alert(1)>\"&'</svg></script>"


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("role", ["ink", "muted", "accent", "good", "bad", "danger", "warn"])
@pytest.mark.parametrize("dark", [False, True])
def test_text_roles_are_readable_on_paper(role, dark):
    a, b = sorted((_luminance(ROLES[role][dark]), _luminance(ROLES["paper"][dark])))
    assert (b + 0.05) / (a + 0.05) >= 4.5


def test_series_are_okabe_ito_and_repeat():
    assert [ROLES[f"c{i}"][0] for i in range(6)] == list(OKABE_ITO[:6])


# What people who lack a kind of cone see (Machado, Oliveira and Fernandes 2009, severity 1), on linear RGB.
_EYES = {
    "all cones": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "no long": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "no medium": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "no short": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}


def _seen(colour: str, eyes: str) -> np.ndarray:
    """CIE Lab, in which a difference of 10 is plain to see."""
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(np.array(_EYES[eyes]) @ linear, 0, 1) / [0.9505, 1.0, 1.0888]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("eyes", _EYES)
@pytest.mark.parametrize("dark", [False, True])
def test_agents_are_told_apart_by_everybody(eyes, dark):
    pairs = [ROLES[agent_role(k)] for k in range(len(AGENTS))]
    seen = [_seen(pair[dark], eyes) for pair in pairs]
    apart = {(i, k): np.linalg.norm(seen[i] - seen[k]) for i in range(len(seen)) for k in range(i)}
    assert min(apart.values()) > 10
    assert min(gap for (i, _), gap in apart.items() if i < 4) > 25
    others = [_seen(ROLES[role][dark], eyes) for role in ("goal", "danger")]
    assert min(np.linalg.norm(agent - other) for agent in seen[:4] for other in others) > 10


@pytest.mark.parametrize("dark", [False, True])
def test_agents_stand_out_from_the_paper(dark):
    for pair in AGENTS:
        a, b = sorted((_luminance(pair[dark]), _luminance(ROLES["paper"][dark])))
        assert (b + 0.05) / (a + 0.05) >= 3


def test_css_has_every_role_in_light_and_dark():
    css = css_variables()
    for role, (light, dark) in ROLES.items():
        for value in (light, dark):
            assert re.search(rf"--rlnb-{role}: [^;]*{value}", css), (role, value)


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
    svg.circle(1, 1, 1, fill="goal")
    text = str(svg)
    assert f".f-goal{{fill:{ROLES['goal'][0]}}}" in text
    dark = text.index("@media (prefers-color-scheme:dark)")
    assert text.index(f".f-goal{{fill:{ROLES['goal'][1]}}}") > dark
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

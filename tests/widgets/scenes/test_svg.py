"""SVG of a frame: well formed, escaped, rounded, and in light and dark."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rlnb_widgets._core.display import Mark
from rlnb_widgets.scenes import ROLES, Part, Scene, box, disc, find_scene, line, polygon, scene_names, scene_svg, text

SVG = "{http://www.w3.org/2000/svg}"


def one(mark: Mark, pose: tuple[float, float, float] = (0, 0, 0), name: str = "part", caption: str = "") -> Scene:
    return Scene(100, 50, (), (Part(name, [mark]),), np.array([[pose]]), lambda _: caption)


def parts_of(scene: Scene) -> str:
    """The SVG of what is drawn, without the group of the whole scene."""
    found = re.search(r'<g transform="translate\(0 0\) scale\(1\.0000\)">(.*)</g></svg>', scene_svg(scene, 0))
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        (
            box(1, 2, 3, 4, "ink"),
            '<rect x="1" y="2" width="3" height="4" fill="#808080" class="f-ink"/>',
        ),
        (
            box(1, 2, 3, 4, stroke="good", width=2, radius=5),
            '<rect x="1" y="2" width="3" height="4" rx="5" fill="none" '
            'stroke="#808080" class="s-good" stroke-width="2"/>',
        ),
        (disc(1.26, -0.04, 3), '<circle cx="1.3" cy="0" r="3" fill="none"/>'),
        (
            line(0, 0, 1.04, 1.06, "ink", 2),
            '<path d="M0 0L1 1.1" fill="none" stroke="#808080" class="s-ink" stroke-width="2" '
            'stroke-linecap="round" stroke-linejoin="round"/>',
        ),
        (polygon([(0, 0), (1, 1), (2, 0)]), '<polygon points="0,0 1,1 2,0" fill="none"/>'),
        (
            text(1, 2, 50, "a & b", "ink"),
            '<text x="1" y="20" font-size="50" text-anchor="middle" font-weight="600" '
            'fill="#808080" class="f-ink">a &amp; b</text>',
        ),
    ],
)
def test_each_kind_of_mark(mark: Mark, expected: str) -> None:
    assert parts_of(one(mark)) == f'<g transform="translate(0 0)">{expected}</g>'


def test_a_pose_moves_and_turns_clockwise() -> None:
    svg = parts_of(one(disc(0, 0, 1), (10.04, -5.06, math.pi / 2)))
    assert 'transform="translate(10 -5.1) rotate(90)"' in svg


@pytest.mark.parametrize("pose", [(np.nan, 0, 0), (0, np.nan, 0), (0, 0, np.inf)])
def test_a_pose_that_is_not_finite_hides_the_part(pose: tuple[float, float, float]) -> None:
    assert parts_of(one(disc(0, 0, 1), pose)) == ""


def test_markup_in_text_names_and_captions_is_text() -> None:
    evil = '<script>alert("1")</script>\''
    scene = one(text(1, 2, 9, evil), name=evil, caption=evil)
    svg = scene_svg(scene, 0)
    assert "<script" not in svg
    root = ET.fromstring(svg)
    assert root.findtext(f"{SVG}title") == evil
    assert root.findtext(f".//{SVG}text") == evil


@given(st.text())
def test_any_text_gives_well_formed_xml(words: str) -> None:
    scene = one(text(1, 2, 9, words), name=words, caption=words)
    ET.fromstring(scene_svg(scene, 0))


def test_a_picture_has_the_size_that_is_asked_for_and_the_colours_of_its_roles() -> None:
    svg = scene_svg(one(disc(0, 0, 1, "good")), 0, width=160)
    root = ET.fromstring(svg)
    assert [root.get(k) for k in ("viewBox", "width", "height", "role")] == ["0 0 160 80", "160", "80", "img"]
    assert "scale(1.6000)" in svg
    light, dark = (root.findtext(f"{SVG}style") or "").split("@media (prefers-color-scheme:dark)")
    for sheet, colour in zip((light, dark), ROLES["good"], strict=True):
        assert f".f-good{{fill:{colour}}}" in sheet


@pytest.mark.parametrize("name", ["Acrobot", "CartPole", "FrozenLake8x8", "MountainCar", "Pendulum", "Taxi"])
def test_a_picture_is_small(name: str) -> None:
    assert name in scene_names()
    spec = find_scene(name)
    assert spec is not None
    width = {"Acrobot": 6, "CartPole": 4, "MountainCar": 2, "Pendulum": 3}.get(name)
    scene = spec.pose(np.zeros((1, width) if width else 1))
    assert len(scene_svg(scene, 0)) < 9_000

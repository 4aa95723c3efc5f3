"""Colour roles: legible in both themes, distinguishable for all readers, and defined in one table."""

from __future__ import annotations

import re

import numpy as np
import pytest
from rlnb_widgets._core.colors import (
    AGENTS,
    MARKS,
    ROLES,
    SERIES,
    SURFACES,
    TEXTS,
    agent_role,
    css_variables,
    letters_on,
    role_of,
)
from rlnb_widgets.spec_explorer.scene import BAR

THEMES = {"light": 0, "dark": 1}


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(role: str, dark: int, on: str = "paper") -> float:
    a, b = sorted((luminance(ROLES[role][dark]), luminance(ROLES[on][dark])))
    return (b + 0.05) / (a + 0.05)


@pytest.mark.parametrize("theme", THEMES)
def test_text_has_a_contrast_of_four_and_a_half_and_marks_of_three(theme: str) -> None:
    ratios = {role: contrast(role, THEMES[theme]) for role in ROLES if role not in SURFACES}
    print(theme, *(f"{role} {ratio:.1f}" for role, ratio in ratios.items()), sep="\n  ")
    assert {role: ratio for role, ratio in ratios.items() if ratio < (4.5 if role in TEXTS else 3)} == {}


@pytest.mark.parametrize("theme", THEMES)
def test_text_is_readable_on_boxes_and_on_what_is_highlighted(theme: str) -> None:
    for surface in ("panel", "highlight", "ice", "ground", "case"):
        assert contrast("ink", THEMES[theme], surface) >= 4.5, surface
    assert contrast("muted", THEMES[theme], "panel") >= 4.5


@pytest.mark.parametrize("theme", THEMES)
def test_letters_on_categories_and_agents_are_readable(theme: str) -> None:
    roles = [*(f"c{i}" for i in range(len(SERIES))), *map(agent_role, range(len(AGENTS)))]
    ratios = {role: contrast(letters_on(role), THEMES[theme], role) for role in roles}
    assert {role: ratio for role, ratio in ratios.items() if ratio < 4.5} == {}


def _over(role: str, share: float, below: np.ndarray, dark: int) -> np.ndarray:
    colour = np.array([int(ROLES[role][dark][i : i + 2], 16) for i in (1, 3, 5)])
    return share * colour + (1 - share) * below


def _hex(colour: np.ndarray) -> str:
    return "#" + "".join(f"{round(part):02x}" for part in colour.tolist())


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(("role", "share"), [("ink", 0.04), ("accent", 0.08), ("accent", 0.15)])
def test_bars_of_samples_are_seen_on_every_row_of_a_tree(theme: str, role: str, share: float) -> None:
    """Bars let some of the row through, which is tinted where it is odd, under the pointer, or selected (tree.css)."""
    dark = THEMES[theme]
    row = _over(role, share, _over("paper", 1, np.zeros(3), dark), dark)
    low, high = sorted(luminance(_hex(colour)) for colour in (row, _over("accent", BAR, row, dark)))
    assert (high + 0.05) / (low + 0.05) >= 3


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


def apart(one: str, other: str, eyes: str, dark: int) -> float:
    return float(np.linalg.norm(_seen(ROLES[one][dark], eyes) - _seen(ROLES[other][dark], eyes)))


@pytest.mark.parametrize("eyes", _EYES)
@pytest.mark.parametrize("theme", THEMES)
def test_colours_that_stand_side_by_side_are_told_apart_by_everybody(theme: str, eyes: str) -> None:
    series = [f"c{i}" for i in range(len(SERIES))]
    agents = [agent_role(k) for k in range(len(AGENTS))]
    least = {(a, b): 12.0 for i, a in enumerate(series) for b in series[:i]}
    least |= {(a, b): 16.5 for i, a in enumerate(series[:4]) for b in series[:i]}
    least |= {(a, b): 10.0 for i, a in enumerate(agents) for b in agents[:i]}
    least |= {(a, b): 25.0 for i, a in enumerate(agents[:4]) for b in agents[:i]}
    least |= {(a, b): 5.0 for a in agents[:4] for b in series}
    least |= {(a, b): 10.0 for a in agents[:4] for b in ("good", "bad")}
    least |= {(a, b): 8.0 for a in (*series, *agents[:1]) for b in ("accent",)}
    least |= {(a, b): 7.0 for a in series for b in ("good", "bad")}
    least |= {("good", "bad"): 20.0, ("accent", "bad"): 20.0, ("accent", "good"): 10.0}
    least |= {("other", b): 15.0 for b in (*series, *agents[:1], "accent", "good", "bad")}
    least |= {("second", b): 10.0 for b in ("accent", "good", "bad", "wood")}
    found = {pair: apart(*pair, eyes, THEMES[theme]) for pair in least}
    assert {pair: round(gap, 1) for pair, gap in found.items() if gap < least[pair]} == {}


@pytest.mark.parametrize("theme", THEMES)
def test_no_two_roles_of_marks_share_a_colour(theme: str) -> None:
    used = [ROLES[role][THEMES[theme]] for role in ("accent", "good", "bad", *MARKS)]
    assert sorted({colour for colour in used if used.count(colour) > 1}) == []


def test_an_unknown_role_is_refused_with_the_list_of_roles() -> None:
    assert [role_of(name) for name in ROLES] == list(ROLES)
    with pytest.raises(ValueError) as error:
        role_of("pink")
    assert str(error.value) == f"unknown colour role 'pink'; the roles are {', '.join(ROLES)}."


def test_css_has_every_role_in_light_and_dark() -> None:
    css = css_variables()
    for role, (light, dark) in ROLES.items():
        for value in (light, dark):
            assert re.search(rf"--rlnb-{role}: [^;]*{value}", css), (role, value)

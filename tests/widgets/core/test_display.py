"""Display lists: what is sent to the page, invalid marks, and the SVG of a list."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rlnb_widgets._core.display import Columns, Display, Param, Sign
from rlnb_widgets._core.display_svg import WIDTH, draw_display, legend_display, legend_payload, stacked
from rlnb_widgets._core.measures import cut_text, spent, text_width, thin
from rlnb_widgets._core.svg import Svg

KINDS = {"u1": "<u1", "i1": "<i1", "u2": "<u2", "i2": "<i2", "i4": "<i4", "f4": "<f4", "f8": "<f8"}


def read(columns):
    """Decode the bytes of columns as the page does."""
    kept, blob = columns.payload()
    found = []
    for kind, start, count, *unit in kept:
        values = np.frombuffer(blob, KINDS[kind], count, start)
        assert start % values.itemsize == 0, "typed arrays of the page need aligned bytes"
        found.append(values * unit[0] if unit else values)
    return found


@given(st.lists(st.lists(st.integers(-(2**40), 2**40), max_size=9), max_size=6))
def test_integers_travel_exactly_in_the_smallest_kind(lists):
    columns = Columns()
    for values in lists:
        columns.add(np.array(values, dtype=np.int64))
    assert [values.tolist() for values in read(columns)] == lists
    assert len(columns.payload()[1]) <= sum(8 * len(values) + 7 for values in lists)


@given(st.lists(st.floats(0, 1e8), min_size=1, max_size=9))
def test_times_travel_as_multiples_of_their_unit(times):
    columns = Columns()
    columns.add(np.array(times), unit=0.1)
    assert np.abs(read(columns)[0] - times).max() <= 0.05 + 1e-6


def test_the_list_is_json_with_parameters_by_name_and_no_unset_style():
    display = Display(30)
    with display.frame(92, 12, (Param("from"), Param("from", 10.0)), clip=True):
        display.rect(Param("t"), Param("t", 1), 0, 8, stroke="ink")
        display.spans([(np.array([0, 4]), np.array([2, 5]), "c0")], 10, 8)
    assert json.loads(json.dumps(display.payload())) == {
        "height": 30,
        "marks": [
            {
                "kind": "group", "left": 92, "right": 12, "clip": True,
                "domain": [{"param": "from"}, {"param": "from", "plus": 10}],
                "marks": [
                    {"kind": "rect", "x": {"param": "t"}, "x2": {"param": "t", "plus": 1}, "y": 0, "h": 8,
                     "stroke": "ink"},
                    {"kind": "spans", "series": [[0, 1, "c0"]], "y": 10, "h": 8},
                ],
            }
        ],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda d: d.rect(0, 1, 0, 1, fill="blue"), "unknown colour role 'blue'; the roles are ink, muted"),
        (lambda d: d.sector(0, 0, 1, 2, 0, 1, stroke="blue"), "unknown colour role 'blue'"),
        (lambda d: d.sectors(0, 0, 1, 2, [0], [1], [{"fill": "ink"}, {"fill": "blue"}]), "unknown colour role 'blue'"),
        (lambda d: d.glyph(0, 0, "star"), "unknown glyph 'star'; the glyphs are up, down"),
        (lambda d: d.axis(0, "percent"), "unknown format 'percent'; the formats are number, duration, count."),
        (lambda d: d.image(0, 0, 1, 1, "https://a/b.png"), "an image is embedded: its source starts with data:image/."),
        (
            lambda d: d.curve(np.zeros((2, 2)), 0, 1, 0, 1, "ink"),
            r"one dimension, got the shape \[2, 2\].",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw, words):
    display = Display(10)
    with pytest.raises(ValueError, match=words):
        draw(display)
    assert display.marks == []


def test_glyphs_lines_and_parts_of_rings_travel_as_what_the_page_draws():
    display = Display(10)
    display.glyph(1, Param("y"), "cross", 4, "bad")
    display.glyphs(np.array([3]), 5, "up", 2)
    display.line(0, 1, Param("x"), 3, dash=(2, 1))
    display.sector(5, 5, 1, 2, Param("a"), 0.5, stroke="ink")
    y, x, a = ({"param": name} for name in "yxa")
    both = [[-2, -2], [2, 2], None, [2, -2], [-2, 2]]
    assert display.payload()["marks"] == [
        {"kind": "poly", "points": both, "x": 1, "y": y, "stroke": "bad", "width": 1.6},
        {"kind": "glyphs", "points": [[-1, 1], [1, 1], [0, -1]], "y": 5, "places": 0, "fill": "ink"},
        {"kind": "poly", "points": [[0, 1], [x, 3]], "stroke": "line", "dash": [2, 1]},
        {
            "kind": "sectors",
            "x": 5,
            "y": 5,
            "r": 1,
            "r2": 2,
            "starts": [a],
            "stops": [0.5],
            "looks": [{"stroke": "ink"}],
        },
    ]


def test_static_pictures_stack_lists_and_legends_and_escape_their_texts():
    display = Display(20)
    display.text(0, 12, "<b>&")
    display.hit(0, 10, 0, 10, tip="a <tip>")
    text = str(stacked("<T>", "about", [display, [("c0", "one < two")]], {}))
    assert "&lt;b&gt;&amp;" in text and "a &lt;tip&gt;" in text and "one &lt; two" in text and "<b>" not in text
    assert float(re.search(r'height="([\d.]+)"', text)[1]) == 40 + 20 + 10 + 16 + 10


def test_a_legend_breaks_into_lines_and_is_nowhere_wider_than_the_picture():
    wide = Sign(80, lambda sign: sign.box(0, 0, 80, 14, "c1"))
    items = [("", "heading"), *[(mark, "word " * n) for n in (1, 5, 60) for mark in ("c0", wide)]]
    display = legend_display(items)
    rights, tops = [], []
    for mark in display.marks:
        x, y, _ = mark["at"]
        text = mark["marks"][-1]
        shown = cut_text(text["text"], text["within"], text["size"])
        rights.append(x + text["x"] + text_width(shown, text["size"]))
        tops.append(y)
    assert len(tops) == len(items) and tops == sorted(tops) and max(rights) <= WIDTH
    assert tops[0] == tops[4] and len({*tops}) == 3 and tops[-1] + 15 == display.height
    assert legend_display([]).height == 0


def test_a_legend_reaches_the_page_as_roles_and_svg_in_its_colours():
    sign = Sign(20, lambda sign: sign.text(3, 11, "<b>", fill="c3"))
    (box, drawn, heading) = legend_payload([("c0", "one <"), (sign, "two"), ("", "three")])
    assert (box, heading) == (["c0", "one <"], ["", "three"])
    assert drawn[0].startswith('<svg width="20" height="14" aria-hidden="true"><text') and "&lt;b&gt;" in drawn[0]
    assert 'fill="var(--rlnb-c3)"' in drawn[0] and "#808080" not in drawn[0] and "<style" not in drawn[0]


def test_an_image_is_part_of_a_static_picture():
    display, svg = Display(10), Svg(100, 10)
    display.image(3, 4, 5, 6, "data:image/png;base64,AA==")
    draw_display(svg, display, margin=0)
    tag = re.search(r"<image[^>]*>", str(svg))[0]
    assert all(part in tag for part in ('x="3"', 'y="4"', 'width="5"', 'height="6"', '"data:image/png;base64,AA=="'))


def test_many_spans_become_shares_that_add_up_to_the_time_they_cover():
    edges = np.linspace(0, 100, 51)
    starts = np.arange(0.0, 100, 0.5)
    assert spent(starts, starts + 0.2, edges).sum() == pytest.approx(40)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=300), st.integers(1, 40))
def test_thinning_keeps_the_highest_and_the_lowest(values, room):
    kept, broken = thin(np.array(values), room)
    assert len(kept) <= max(2 * room, 1) and (np.diff(kept) > 0).all() and broken[0] and not broken[1:].any()
    assert max(np.array(values)[kept]) == max(values) and min(np.array(values)[kept]) == min(values)


def test_cells_of_a_heat_map_join_without_seams_and_gaps_stay_empty():
    display, svg = Display(5), Svg(10, 5)
    display.heat(np.array([0, 9, np.nan, 9, 0, 9]), 2, 0, 10, 0, 5, high=9)
    draw_display(svg, display, margin=0)
    paths = re.findall(r'<path d="([^"]+)"[^>]*opacity="([\d.]+)"', str(svg))
    assert paths == [("M0 0h3v3h-3zM3 3h4v2h-4z", "0.08")]
    assert 'd="M3 0h4v3h-4zM0 3h3v2h-3zM7 3h3v2h-3z"' in str(svg)


def test_a_frame_within_a_frame_has_a_domain_of_its_own():
    display, svg = Display(10), Svg(100, 10)
    with display.frame(10, 10, (0, 4)), display.part(1, 3, (0, 10)):
        display.rect(5, 10, 0, 10, "accent")
    draw_display(svg, display, margin=0)
    assert 'x="50" y="0" width="20"' in str(svg)


def test_bars_stand_on_their_floors_and_are_at_least_a_pixel_high():
    display, svg = Display(10), Svg(10, 10)
    with display.frame(0, 0, (0, 3)):
        display.bars(np.array([10, 5, np.nan]), 0, 10, 10, "accent", np.array([5, 5, 0]), most=2)
    draw_display(svg, display, margin=0)
    assert 'd="M0.7 0h2v5h-2zM4 4h2v1h-2z"' in str(svg)

"""The flipbook: images under one playhead, as text and as a static view."""

from __future__ import annotations

import pytest
from rlnb_widgets import Flipbook
from rlnb_widgets._core.colors import ROLES
from rlnb_widgets._core.svg import Svg


class Dot:
    """A dot, whose radius is in its text."""

    def __init__(self, r: int) -> None:
        self.r = r

    def __repr__(self) -> str:
        return f"radius {self.r}"

    def _svg(self) -> Svg:
        svg = Svg(40, 40)
        svg.circle(20, 20, self.r, fill="accent")
        return svg


def test_text_and_picture_are_those_of_the_playhead():
    book = Flipbook([Dot(r) for r in (3, 5, 7)], captions=["small", "", "large"], unit="size", title="Dots")
    assert repr(book) == "Dots: size 0 of 2\nradius 3\nsmall"
    book.t = 1
    assert repr(book) == "Dots: size 1 of 2\nradius 5"
    assert 'r="5"' in book.to_svg() and "Dots: size 1 of 2" in book._repr_mimebundle_()[0]["text/html"]


def test_a_negative_t_counts_from_the_end_and_one_beyond_is_moved_to_it():
    pages = [Dot(1), Dot(2), Dot(3)]
    assert [Flipbook(pages, t=t).t for t in (-1, -3, 2, 9)] == [2, 0, 2, 2]


class Shared:
    """A square that is drawn once and used: its picture has an id, the same in every such picture."""

    def _svg(self) -> Svg:
        svg = Svg(40, 40)
        with svg.shared("mark"):
            svg.rect(10, 10, 20, 20, fill="good")
        return svg


def test_ids_of_pictures_do_not_reach_the_page(browse):
    """Two flipbooks in one notebook may share something under one name."""

    def act(page):
        fill = page.locator("use").evaluate(
            "use => getComputedStyle(use.getRootNode().querySelector('#mark > *')).fill"
        )
        return fill, page.evaluate("document.getElementById('mark')")

    red, green, blue = bytes.fromhex(ROLES["good"][0][1:])
    assert browse(Flipbook([Shared()]), act) == (f"rgb({red}, {green}, {blue})", None)


def test_the_live_picture_names_roles_and_no_colours():
    svg = Dot(3)._svg()
    assert ".f-accent{fill:var(--rlnb-accent)}" in svg.live() and "prefers-color-scheme" not in svg.live()
    assert ROLES["accent"][1] in str(svg) and "var(" not in str(svg)


def test_explain_says_what_the_playhead_counts():
    assert Flipbook([Dot(1)], unit="sweep").explain() == (
        "1 picture in a row, one for each sweep; the playhead is on 0. "
        "Space plays, the arrow keys move by one, Home and End go to the ends."
    )


def test_bad_input():
    with pytest.raises(ValueError) as error:
        Flipbook([])
    assert str(error.value) == "a flipbook needs at least 1 picture, got none."
    with pytest.raises(ValueError) as error:
        Flipbook([Dot(1), Dot(2)], captions=["one"])
    assert str(error.value) == "captions must hold one line per picture: 2 pictures, got 1."
    with pytest.raises(TypeError, match="Flipbook has no argument 'step'; it takes pictures, captions"):
        Flipbook([Dot(1)], step=2)

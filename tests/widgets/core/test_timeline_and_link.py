"""The timeline widget, the base class, and links between visualizers."""

from __future__ import annotations

import base64
import json
import re
import xml.etree.ElementTree as ET

import pytest
import rlnb_widgets
import traitlets
from rlnb_widgets import Timeline, Visualizer, link


def test_text_face():
    timeline = Timeline(1200, marks={"done": range(0, 100, 10), "reset": []}, t=7)
    assert repr(timeline).splitlines() == [
        "Timeline(t=7 of 1,200 steps)", "  done  10  0, 10, 20, 30, 40, 50, 60, 70, …", "  reset  0",
    ]  # fmt: skip
    assert str(timeline) == repr(timeline)


def test_explain_says_marks_and_keys():
    assert Timeline(5, marks={"done": [4]}).explain() == (
        "A timeline of 5 steps, the playhead is on step 0. 1 mark 'done'. "
        "Space plays, the arrow keys move by one step, Page Up and Page Down by ten."
    )


def test_mimebundle_has_all_three_views():
    data, _ = Timeline(5)._repr_mimebundle_()
    assert data["text/plain"] == "Timeline(t=0 of 5 steps)"
    assert "application/vnd.jupyter.widget-view+json" in data
    found = re.fullmatch(
        r'<img alt="Timeline\(t=0 of 5 steps\)" src="data:image/svg\+xml;base64,([^"]+)">', data["text/html"]
    )
    ET.fromstring(base64.b64decode(found[1]))


@pytest.mark.parametrize(("given", "kept"), [(-3, 0), (4, 4), (99, 9)])
def test_t_stays_in_range(given, kept):
    timeline = Timeline(10)
    timeline.t = given
    assert timeline.t == kept


@pytest.mark.parametrize("speed", [0, -1, float("nan"), float("inf")])
def test_speed_must_be_positive(speed):
    timeline = Timeline(10)
    with pytest.raises(traitlets.TraitError, match=r"^speed must be a positive number, got"):
        timeline.speed = speed
    assert timeline.speed == 1.0


@pytest.mark.parametrize("value", [(0, 11), (3, 3), (-1, 2)])
def test_range_must_lie_within(value):
    timeline = Timeline(10)
    with pytest.raises(
        traitlets.TraitError, match=r"^range must be \(start, stop\) with 0 <= start < stop <= 10, or None"
    ):
        timeline.range = value
    assert timeline.range is None


def test_a_linked_range_is_cut_to_the_shorter():
    long, short = Timeline(100), Timeline(10)
    link(long, short)
    long.range = (5, 50)
    assert (long.range, short.range) == ((5, 50), (5, 10))
    long.range = (20, 50)
    assert (long.range, short.range) == ((20, 50), None)


def test_marks_outside_are_refused():
    with pytest.raises(
        ValueError,
        match=r"^mark 'done' is on step 10, but the timeline has 10 steps \(0 to 9\)\. "
        r"Cut the marks to the range, or give a larger length\.$",
    ):
        Timeline(10, marks={"done": [3, 10]})


def test_unknown_arguments_are_refused_with_the_legal_ones():
    with pytest.raises(
        TypeError, match=r"^Timeline has no argument 'sped'; it takes length, marks, t, fps, speed, loop\.$"
    ):
        Timeline(10, sped=2)


def test_a_timeline_needs_a_step():
    with pytest.raises(ValueError, match=r"^a timeline needs at least 1 step, got length=0\.$"):
        Timeline(0)


def test_to_html_and_to_svg_write_what_they_return(tmp_path):
    timeline = Timeline(5, marks={"</script>": [1]})
    html = timeline.to_html(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == html
    assert "https:" not in html
    assert timeline.to_svg(tmp_path / "a.svg") == (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert '"marks": {"\\u003c/script>": [1]}' in html
    state = json.loads(re.search(r'id="rlnb-state">(.*?)</script>', html)[1])
    assert set(state) == {"_links", "_list", "fps", "length", "loop", "marks", "playing", "range", "speed", "t"}


def test_faces_are_deterministic():
    one, two = (Timeline(5, marks={"a": [1]}) for _ in range(2))
    assert (one.to_html(), one.to_svg(), repr(one)) == (two.to_html(), two.to_svg(), repr(two))


def test_link_moves_both_ways_and_unlinks():
    a, b = Timeline(10, t=2, speed=4), Timeline(10)
    tie = link(a, b)
    assert (b.t, b.speed) == (2, 4)
    b.t = 5
    assert a.t == 5
    a.loop = True
    assert b.loop
    assert a._links == b._links != []
    tie.unlink()
    tie.unlink()
    a.t = 0
    assert (b.t, a._links, b._links) == (5, [], [])
    assert repr(tie) == "Link(Timeline, Timeline; t, playing, speed, loop, range)"


def test_a_shorter_timeline_does_not_pull_the_longer_back():
    long, short = Timeline(100), Timeline(10)
    link(long, short)
    long.t = 50
    assert (long.t, short.t) == (50, 9)


def test_links_can_overlap():
    a, b, c = Timeline(9), Timeline(9), Timeline(9)
    first = link(a, b)
    link(b, c)
    a.t = 4
    assert c.t == 4
    first.unlink()
    c.t = 1
    assert (a.t, b.t) == (4, 1)


class Still(Visualizer):
    """A visualizer without anything to share."""

    _esm = "export default {};"

    def _text(self):
        return "Still"


def test_link_refuses_what_cannot_be_linked():
    with pytest.raises(TypeError, match=r"^link takes visualizers of rlnb_widgets, got int\.$"):
        link(Timeline(3), 3)
    a = Timeline(3)
    with pytest.raises(ValueError, match=r"^link needs at least two different visualizers, got 1\.$"):
        link(a, a)
    with pytest.raises(ValueError, match=r"^Still has no trait in common with the others that can be linked\."):
        link(a, Timeline(3), Still())
    assert a._links == []


def test_a_face_that_is_missing_says_so():
    with pytest.raises(NotImplementedError, match=r"^Still must define _svg\(\)\.$"):
        Still().to_svg()
    with pytest.raises(TypeError, match=r"^Still has no trait 'x'\.$"):
        Still(x=1)


def test_package_names():
    with pytest.raises(AttributeError, match=r"^module 'rlnb_widgets' has no attribute 'Player'; it has .*Timeline"):
        rlnb_widgets.Player  # noqa: B018 - reading it is the test
    assert set(rlnb_widgets.__all__) <= set(dir(rlnb_widgets))

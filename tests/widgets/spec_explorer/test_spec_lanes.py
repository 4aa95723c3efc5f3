"""The charts of domains: ends, bars, masks, and hit testing."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from rlnb_widgets import SpecExplorer
from rlnb_widgets._core.display import Display
from rlnb_widgets._core.spec_domain import Lane
from rlnb_widgets.spec_explorer.scene import draw_lane, lane_form, lane_height, large_display, rows_display

from rlnb.data import Binary, Bounded, Categorical, Composite, MultiOneHot, OneHot, Unbounded

CHOICES = Lane("choices", n=4, start=2, barred=(1,))


def marks_of(display: Display, kind: str) -> list[dict[str, Any]]:
    """Marks of a kind, however deep in groups, with the last frame that they are in."""
    found: list[dict[str, Any]] = []

    def visit(marks: list[dict[str, Any]], domain: Any) -> None:
        for mark in marks:
            if mark["kind"] == "group":
                visit(mark["marks"], mark.get("domain", domain))
            elif mark["kind"] == kind:
                found.append({**mark, "domain": domain})

    visit(display.marks, None)
    return found


def glyphs_of(display: Display) -> list[dict[str, Any]]:
    """Marks whose points are about a point."""
    return [mark for mark in marks_of(display, "poly") if "x" in mark]


def lines_of(display: Display) -> list[list[tuple[Any, Any]]]:
    """Points of the other ones, which are lines."""
    return [mark["points"] for mark in marks_of(display, "poly") if "x" not in mark]


def drawn(lane: Lane, h: float = 20, strip: float = 8) -> Display:
    display = Display(h)
    with display.frame(0, 0):
        draw_lane(display, lane, "levels0", h, strip)
    return display


def test_closed_ends_are_bars_across_and_open_ends_are_arrows() -> None:
    closed = drawn(Lane("line", low=-1, high=1, view=(-1, 1)))
    assert len(lines_of(closed)) == 3 and glyphs_of(closed) == []
    half = drawn(Lane("line", low=0, view=(-1, 4)))
    (arrow,), whole, end = glyphs_of(half), *lines_of(half)
    tip = arrow["points"][-1]
    assert arrow["x"] == 1 and tip == max(arrow["points"]), "it points to the right"
    assert ([x for x, _ in whole], [x for x, _ in end]) == ([0.2, 1], [0.2, 0.2])


def test_bars_of_samples_lie_between_the_ends() -> None:
    def part(lane: Lane) -> tuple[Any, Any]:
        (frame,) = drawn(lane).marks
        return next((mark["part"], mark["domain"]) for mark in frame["marks"] if "part" in mark)

    assert part(Lane("line", low=0, high=1, view=(-1, 1))) == ([0.5, 1.0], [0, 24])
    # A single legal number has a single bar.
    assert part(Lane("line", low=1, high=1, view=(0, 2))) == ([0.5, 0.5], [0, 1])


def test_masked_choices_are_crossed_out_and_the_others_are_dots() -> None:
    display = drawn(CHOICES)
    assert len(marks_of(display, "disc")) == 3
    (cross,) = glyphs_of(display)
    assert (cross["x"], cross["stroke"]) == (1.5, "bad") and None in cross["points"], "two strokes"
    cells = drawn(Lane("cells", n=3, barred=(0, 2)))
    assert [mark["x"] for mark in glyphs_of(cells)] == [0.5, 2.5]
    assert len(marks_of(cells, "rect")) == 3 and len(marks_of(drawn(Lane("cells", n=60)), "rect")) == 24


def test_bars_stand_above_cells() -> None:
    display = drawn(Lane("cells", n=3), 100, 24)
    (bars,) = marks_of(display, "bars")
    assert bars["y"] + bars["h"] < 76 == marks_of(display, "rect")[0]["y"] - 0.5


@pytest.mark.parametrize(
    ("lane", "domain"),
    [(CHOICES, [0.0, 4.0]), (Lane("cells", n=3), [0.0, 3.0]), (Lane("cells", n=60), [0.0, 24.0])],
)
def test_a_hit_area_has_choices_and_cells_as_its_values(lane: Lane, domain: list[float]) -> None:
    (hit,) = marks_of(large_display(lane, 96), "hit")
    assert hit["domain"] == domain


def test_the_numbers_of_a_line_are_parameters_unless_they_cannot_be_told_apart() -> None:
    lane = Lane("line", low=-1, high=1, view=(-1, 1))
    (hit,), (axis,) = (marks_of(large_display(lane, 96), kind) for kind in ("hit", "axis"))
    assert [end.name for end in hit["domain"]] == [end.name for end in axis["domain"]] == ["low", "high"]
    assert marks_of(large_display(Lane("line", view=(-1.7e308, 1.7e308)), 96), "axis") == []


def test_choices_have_names_but_not_all_where_they_are_many() -> None:
    def names(lane: Lane) -> list[str]:
        return [mark["text"] for mark in marks_of(large_display(lane, 96), "text")]

    assert names(CHOICES) == ["2", "3", "4", "5"]
    assert names(Lane("choices", n=20)) == ["0", "3", "6", "9", "12", "15", "18"]
    assert names(Lane("cells", n=60)) == ["60 places"]


def test_lanes_are_side_by_side_and_a_few_have_more_room_in_the_details() -> None:
    spec = Bounded(torch.zeros(3), torch.tensor([1.0, 2.0, 3.0]))
    explorer = SpecExplorer(spec)
    (frame,) = [mark for mark in _groups(rows_display(explorer.model, {}).marks) if mark.get("domain") == [0, 3]]
    parts = [mark["part"] for mark in frame["marks"]]
    assert [(low, round(high, 2)) for low, high in parts] == [(0, 0.86), (1, 1.86), (2, 2.86)]
    lane = explorer.model.rows[0].cell.domain.lanes[0]
    assert [lane_height([lane] * n) for n in (1, 2, 3, 8)] == [96, 56, 36, 36]
    data = json.loads(explorer.payload)
    same = data["alike"][0]
    # The picture of a row is 20 pixels high; three ends at different places of one scale make three pictures.
    assert [data["pictures"]["lists"][str(i)]["height"] for i in (*same["small"], *same["large"])] == [20.0] * 3 + [
        36.0
    ] * 3
    assert len(set(same["small"])) == 3


def _groups(marks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    groups = [mark for mark in marks if mark["kind"] == "group"]
    return groups + [inner for group in groups for inner in _groups(group["marks"])]


def test_lanes_of_the_same_form_have_the_same_pictures() -> None:
    spec = Composite(
        a=Bounded(0, 1, shape=(1,)), b=Bounded(5, 7, shape=(1,)), c=Unbounded(1), d=OneHot(3), e=MultiOneHot([2, 3]),
        f=Binary(3), g=Categorical(3, mask=torch.tensor([True, False, True])), h=Categorical(3),
        i=Bounded(torch.tensor([0.0, 5.0]), torch.tensor([1.0, 90.0])),
    )  # fmt: skip
    data = json.loads(SpecExplorer(spec).payload)
    rows = {row["path"][0]: {**data["alike"][row["alike"]], **row} for row in data["rows"][1:]}
    small, large = ({key: row[size] for key, row in rows.items()} for size in ("small", "large"))

    def numbers(pictures: dict[str, list[int]]) -> set[int]:
        return {number for found in pictures.values() for number in found}

    assert small["a"] == small["b"] and large["a"] == large["b"]
    # The parts of a domain are drawn once: as that of a whole one in a row, smaller in the details.
    assert small["i"] == [*small["a"]] * 2 and large["i"][0] == large["i"][1] != large["a"][0]
    assert small["e"][1] == small["d"][0] and len(numbers(small)) == 7
    assert len(data["pictures"]["lists"]) == len(numbers(small) | numbers(large))
    assert [rows[key].get("views") for key in "abd"] == [[[0, 1]], [[5, 7]], None]


def test_the_form_of_a_lane_holds_all_that_its_pictures_depend_on() -> None:
    """Lanes of one form give the same lists, and each thing that a list depends on is in the form."""
    lanes = [
        Lane("line", low=0.0, high=1.0), Lane("line", low=5.0, high=7.0, view=(5.0, 7.0)),
        Lane("line", low=0.5, high=1.0), Lane("line", low=0.0), Lane("line", high=1.0), Lane("line"),
        Lane("line", view=(-1.7e308, 1.7e308)), Lane("line", low=3, high=9, view=(3.0, 9.0), whole=True),
        Lane("line", label="[1]", elements=(1,), low=0.0, high=1.0),
        Lane("choices", n=3), Lane("choices", n=4), Lane("choices", n=3, start=1), Lane("choices", n=3, barred=(0,)),
        Lane("cells", n=3), Lane("cells", n=3, barred=(0,)), Lane("cells", n=3, begin=4), Lane("bits", n=3),
    ]  # fmt: skip
    drawn: dict[Any, set[str]] = {}
    for lane in lanes:
        drawn.setdefault(lane_form(lane), set()).add(json.dumps(large_display(lane, 96).payload()))
    assert all(len(lists) == 1 for lists in drawn.values())
    assert len(drawn) == len({text for lists in drawn.values() for text in lists}) == len(lanes) - 4

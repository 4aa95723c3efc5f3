"""The tree is drawn by JavaScript in the live view and by Python in the static one, with the same marks."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rlnb_widgets import TreeExplorer
from rlnb_widgets._core.colors import ROLES
from rlnb_widgets._core.display_svg import WIDTH
from rlnb_widgets._core.measures import text_width
from rlnb_widgets.tree_explorer import scene
from rlnb_widgets.tree_explorer.payload import tree_payload

from rlnb.search import PUCT
from tests.widgets.tree_explorer.conftest import cartpole_search, diamond, endgame_search, learned_search, search_of

SCRIPT = Path(__file__).with_name("tree_marks.mjs")


def _kept() -> Any:
    search = search_of(n=60)
    search.advance(search.best_action)
    return search.run(simulations=20)


TREES: dict[str, Callable[[], Any]] = {
    "two players": lambda: search_of(n=60),
    "priors that differ": lambda: learned_search(PUCT(), n=60),
    "ends": endgame_search,
    "branches that meet": diamond,
    "one player": lambda: cartpole_search(30),
    "a subtree that was kept": _kept,
    "the root alone": lambda: search_of(n=0),
}


@pytest.fixture(scope="module", params=TREES)
def both(request: pytest.FixtureRequest, node: str) -> tuple[Any, dict[str, Any]]:
    """The model of a tree, and what the page's script draws of it at the places of the static view."""
    model = TreeExplorer(TREES[request.param]()).model
    head, columns = tree_payload(model)
    places, _, column = scene._places(model)
    rows = {"tall": scene._ICICLE_ROW, "count": scene._ICICLE_ROWS}
    given = {"head": head, "columns": base64.b64encode(columns).decode(), "places": places}
    asked = json.dumps({**given, "column": column, "rows": rows, "width": WIDTH})
    done = subprocess.run([node, SCRIPT], input=asked, capture_output=True, text=True, timeout=60, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return model, json.loads(done.stdout)


def _rounded(mark: Any) -> Any:
    if isinstance(mark, dict):
        return {name: _rounded(value) for name, value in mark.items() if value is not None}
    if isinstance(mark, (list, tuple)):
        return [_rounded(value) for value in mark]
    return round(float(mark), 2) + 0.0 if isinstance(mark, (int, float)) else mark


def _of(marks: list[dict[str, Any]], *kinds: str) -> list[Any]:
    return [_rounded(mark) for mark in marks if mark["kind"] in kinds]


def _ordered(marks: list[Any]) -> list[Any]:
    return sorted(marks, key=lambda mark: json.dumps(mark, sort_keys=True))


def test_the_same_nodes_are_open_at_first(both: tuple[Any, dict[str, Any]]) -> None:
    model, live = both
    assert sorted(live["open"]) == list(model.open)


def test_lines_have_the_same_way_width_colour_and_dashes(both: tuple[Any, dict[str, Any]]) -> None:
    model, live = both
    static = json.loads(json.dumps(scene.tree_display(model).marks))

    # One more way to a node begins past the text beside its parent, which is not the same in the page.
    def way(line: dict[str, Any]) -> dict[str, Any]:
        return {**line, "points": line["points"][-1:]} if "dash" in line else line

    assert _ordered([way(m) for m in _of(live["lines"], "poly")]) == _ordered([way(m) for m in _of(static, "poly")])


def test_nodes_have_the_same_discs_rings_and_names_of_actions(both: tuple[Any, dict[str, Any]]) -> None:
    model, live = both
    static = json.loads(json.dumps(scene.tree_display(model).marks))
    marks = [mark for node in live["nodes"].values() for mark in node]
    assert _ordered(_of(marks, "disc")) == _ordered(_of(static, "disc"))
    assert _ordered([m for m in _of(marks, "text") if m.get("anchor") == "end"]) == _ordered(
        [m for m in _of(static, "text") if m.get("anchor") == "end"]
    )


def test_the_number_of_visits_stands_at_the_same_place(both: tuple[Any, dict[str, Any]]) -> None:
    model, live = both
    static = [m for m in _of(scene.tree_display(model).marks, "text") if m.get("anchor") != "end" and m["size"] == 11]
    written = [m for node in live["nodes"].values() for m in _of(node, "text") if m.get("anchor") != "end"]
    # The page also writes the value where there is room.
    found = sorted((m["x"], m["y"], m["text"].split(" · ")[0]) for m in written)
    assert found == sorted((m["x"], m["y"], m["text"]) for m in static)


def test_boxes_of_the_icicle_are_as_wide_and_of_the_same_colours(both: tuple[Any, dict[str, Any]]) -> None:
    model, live = both
    rects = [mark for mark in _of(scene.icicle_display(model).marks, "rect") if mark["fill"] != "paper"]
    drawn = [mark for mark in rects if mark["x2"] - mark["x"] >= 1.5]
    static = {(mark["x"], mark["x2"], mark["y"] - 14, mark["fill"], mark.get("opacity")) for mark in drawn}
    boxes = {(m["x"], m["x2"], m["y"], m["fill"], m.get("opacity")) for m in _of(live["icicle"], "rect") if "fill" in m}
    assert static and static <= boxes


def _rgb(role: str, dark: int) -> np.ndarray:
    return np.array([int(ROLES[role][dark][i : i + 2], 16) for i in (1, 3, 5)], float)


def _luminance(colour: np.ndarray) -> float:
    parts = colour / 255
    return float(np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722])


def _contrast(marks: list[dict[str, Any]], at: int, dark: int) -> float:
    """The contrast of a text to what was painted below its middle."""
    text, ground = marks[at], _rgb("paper", dark)
    wide = text_width(text["text"], text.get("size") or 11)
    x, y = text["x"] + (0 if text.get("anchor") == "middle" else wide / 2), text["y"] - 3
    for mark in marks[:at]:
        filled = mark["kind"] == "rect" and mark.get("fill")
        if filled and mark["x"] <= x <= mark["x2"] and mark["y"] <= y <= mark["y"] + mark["h"]:
            share = mark.get("opacity") or 1
            ground = (1 - share) * ground + share * _rgb(mark["fill"], dark)
    return _ratio(_rgb(text.get("fill") or "ink", dark), ground)


def _ratio(colour: np.ndarray, ground: np.ndarray) -> float:
    low, high = sorted((_luminance(ground), _luminance(colour)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [0, 1])
def test_lines_of_the_tree_have_the_contrast_of_marks(both: tuple[Any, dict[str, Any]], dark: int) -> None:
    model, live = both
    paper = _rgb("paper", dark)
    for mark in [*scene.tree_display(model).marks, *live["lines"]]:
        if mark["kind"] == "poly":
            share = mark.get("opacity") or 1
            assert _ratio(share * _rgb(mark["stroke"], dark) + (1 - share) * paper, paper) >= 3
            assert mark["width"] >= 1, "a thinner line has no pixel of its colour"


@pytest.mark.parametrize("dark", [0, 1])
def test_actions_can_be_read_on_every_colour_of_the_icicle(both: tuple[Any, dict[str, Any]], dark: int) -> None:
    model, live = both
    for marks in (json.loads(json.dumps(scene.icicle_display(model).marks)), live["icicle"]):
        ratios = [_contrast(marks, i, dark) for i, mark in enumerate(marks) if mark["kind"] == "text"]
        assert min(ratios, default=21) >= 4.5

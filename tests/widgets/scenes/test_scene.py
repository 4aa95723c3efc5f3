"""The scene model rejects what cannot be drawn, with the reason."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import numpy as np
import pytest
from rlnb_widgets._core.display import Display, Mark
from rlnb_widgets._core.display_svg import draw_display
from rlnb_widgets._core.svg import Svg
from rlnb_widgets.scenes import ROLES, Part, Scene, box, disc, line, polygon, scene_svg, text
from rlnb_widgets.scenes.drawing import STROKE

BALL = Part("ball", [disc(0, 0, 5, "accent")])


def scene(frames: int = 3, **kwargs: object) -> Scene:
    return Scene(100, 50, (), (BALL,), np.zeros((frames, 1, 3)), **kwargs)  # type: ignore[arg-type]


@pytest.mark.parametrize("where", ["fill", "stroke"])
def test_an_unknown_role_lists_the_known_ones(where: str) -> None:
    with pytest.raises(ValueError) as error:
        disc(0, 0, 1, **{where: "pink"})
    assert str(error.value) == f"unknown colour role 'pink'; the roles are {', '.join(ROLES)}."


@pytest.mark.parametrize("shape", [(3, 2, 3), (3, 1, 2), (1, 3)])
def test_poses_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError) as error:
        Scene(1, 1, (), (BALL,), np.zeros(shape))
    expected = f"poses must have shape [N, 1, 3] (frames, parts, (x, y, angle)), got {list(shape)}."
    assert str(error.value) == expected


def test_part_names_are_unique() -> None:
    with pytest.raises(ValueError, match=r"^part names must be unique in a scene, got \['ball', 'ball'\].$"):
        Scene(1, 1, (), (BALL, BALL), np.zeros((1, 2, 3)))


@pytest.mark.parametrize("i", [2, -1])
def test_a_caption_is_that_of_its_frame(i: int) -> None:
    assert scene(caption=lambda k: f"frame {k}").caption_at(i) == "frame 2"
    assert scene().caption_at(i) == ""


@pytest.mark.parametrize("i", [3, -4])
def test_a_frame_that_is_not_there_is_refused(i: int) -> None:
    message = f"frame {i} is out of range: the scene has 3 frames, 0 to 2."
    for read in (Scene.caption_at, scene_svg):
        with pytest.raises(IndexError) as error:
            read(scene(), i)
        assert str(error.value) == message


def test_texts_of_the_background_that_are_too_small_are_left_out() -> None:
    texts = [text(0, 0, size, str(size)) for size in (9, 10)]
    moving = Part("label", texts[:1])
    display = Display(50)
    Scene(100, 50, [*texts, disc(0, 0, 1)], (moving,), np.zeros((1, 1, 3))).draw(display, 0, smallest=10)
    (label, spot, group) = display.marks
    plain = Display(50)
    plain.text(0, 0, "11 pixels, if no size is given")
    for smallest in (11, 12):
        Scene(100, 50, plain.marks, (), np.zeros((1, 0, 3))).draw(there := Display(50), 0, smallest=smallest)
        assert len(there.marks) == (smallest == 11)
    assert (label["text"], spot["kind"], group["marks"][0]["text"]) == ("10", "disc", "9")


def test_to_dict_is_json_with_all_that_stays_the_same() -> None:
    still = [text(1, 2, 50, "<b>", "ink"), line(0, 0, 1, 1, "muted", 2)]
    got = json.loads(json.dumps(Scene(100, 50, still, (BALL,), np.zeros((1, 1, 3))).to_dict()))
    words = {
        "kind": "text",
        "x": 1,
        "y": 20,
        "text": "<b>",
        "fill": "ink",
        "size": 50,
        "anchor": "middle",
        "bold": True,
    }
    stroke = {"kind": "poly", "points": [[0, 0], [1, 1]], "stroke": "muted", "width": 2, "round": True}
    ball = {"kind": "disc", "x": 0, "y": 0, "r": 5, "fill": "accent"}
    part = {"kind": "group", "at": {"param": "ball"}, "marks": [ball]}
    assert got == {"width": 100.0, "height": 50.0, "parts": ["ball"], "marks": [words, stroke, part]}


def test_poses_become_float32() -> None:
    assert scene().poses.dtype == np.float32
    assert len(scene(7)) == 7


def test_parts_that_are_hidden_are_left_out_and_the_svg_holds_the_others_once() -> None:
    shadow = Part("shadow", [disc(0, 0, 6, "muted")])
    both = Scene(100, 50, [box(0, 0, 100, 50, "panel")], (shadow, BALL), np.zeros((2, 2, 3)))
    display, svg = Display(50), Svg(100, 50)
    for i in range(2):
        both.draw(display, i, still="a-still", moving="a-", hidden=[0])
    draw_display(svg, display)
    assert re.findall(r'id="([^"]*)"', str(svg)) == ["a-still", "a-1"]
    assert re.findall(r"<circle .*?class=\"(.*?)\"", str(svg)) == ["f-accent"]


@pytest.mark.parametrize("make", [box, disc, polygon])
def test_the_marks_of_scenes_have_an_outline_of_one_width_only_with_a_stroke(make: Callable[..., Mark]) -> None:
    place = {box: (1, 2, 3, 4), disc: (1, 2, 3), polygon: ([(0, 0), (1, 1), (2, 0)],)}[make]
    assert {"stroke", "width"}.isdisjoint(make(*place, "ink", width=2))
    assert [make(*place, stroke="ink", **width)["width"] for width in ({}, {"width": 2})] == [STROKE, 2]

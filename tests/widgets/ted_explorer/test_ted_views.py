"""Views of the TED explorer: reproducible, bounded, and escaped."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
import traitlets
from rlnb_widgets import TEDExplorer, Timeline, link
from rlnb_widgets._core.display import Display
from rlnb_widgets._core.display_svg import draw_display
from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.text import visible
from rlnb_widgets.ted_explorer import Thumb, ted_model
from rlnb_widgets.ted_explorer.payload import encode_entry
from rlnb_widgets.ted_explorer.scene import draw_thumb, entries_display, thumb_arrays
from rlnb_widgets.ted_explorer.values import pack_values
from tensordict import NonTensorData, NonTensorStack, TensorDict

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><b>",
    "quote\" and '",
    "line\nbreak",
    "nul\x00",
    "a.b",
    "\u202ertl",
    "]]>",
]


def hostile(steps: int = 3) -> TensorDict:
    values = {key: torch.zeros(steps) for key in HOSTILE}
    values["text"] = NonTensorData("<svg onload=alert(2)>", batch_size=[steps])
    return TensorDict({**values, "next": dict(values)}, [steps])


def many(leaves: int) -> TensorDict:
    side = {f"k{i:03d}": torch.full((50, 3), float(i)) for i in range(leaves // 2)}
    return TensorDict({**side, "next": dict(side)}, [50])


def test_the_text(ted):
    td = ted(6, (4,), {2: "terminated"})
    td["next", "observation"][1, 3, 0] = -1
    td["next", "reward"][0, 0] = float("nan")
    td["agents"] = TensorDict({"position": torch.zeros(4, 6, 2, 3)}, [4, 6, 2])
    assert (
        repr(TEDExplorer(td))
        == """\
TEDExplorer(B=4, T=6, 11 leaves, 1.39 kB, 4 episode ends)
key          root[t]                        min / mean / max  step_mdp                       next[t]                  min / mean / max
-----------  -----------------------------  ----------------  -----------------------------  -----------------------  -----------------
observation  float32 [B=4 | T=6 | 2]        0 / 5.5 / 11      carried, differs at [1, 3, 0]  float32 [B=4 | T=6 | 2]  -1 / 173.2 / 1002
action       int64 [B=4 | T=6]              0 / 0 / 0         dropped                        -
terminated   bool [B=4 | T=6 | 1]           0 / 0 / 0         carried, equal                 bool [B=4 | T=6 | 1]     0 / 0.1667 / 1
truncated    bool [B=4 | T=6 | 1]           0 / 0 / 0         carried, equal                 bool [B=4 | T=6 | 1]     0 / 0 / 0
done         bool [B=4 | T=6 | 1]           0 / 0 / 0         carried, equal                 bool [B=4 | T=6 | 1]     0 / 0.1667 / 1
agents       TensorDict [B=4 | T=6 | N=2]                                                    -
  position   float32 [B=4 | T=6 | N=2 | 3]  0 / 0 / 0         kept                           -
reward       -                                                dropped                        float32 [B=4 | T=6 | 1]  1 / 1 / 1, 1 NaN
observation: next[t] == root[t+1] fails first at [1, 3, 0]: -1 in next, 8 in the root one step later.
reward: next: 1 NaN and 0 inf among 24 values
TED rules: 11 of 12 kept; broken: adjacency"""  # noqa: E501
    )


def test_the_text_of_many_leaves_is_bounded():
    text = repr(TEDExplorer(many(200)))
    assert "\n+60 more rows\n" in text and len(text.splitlines()) < 60


def test_the_words(ted):
    assert TEDExplorer(ted(6, (), {2: "truncated"})).explain() == (
        "This is episode data in TED form: 6 steps, 10 leaves of data, 204 B in all. Row t holds one step: the root is "
        'what was known before the step and the action taken, "next" is the result: the reward, the next '
        "observation and the done flags.\n\n"
        "step_mdp carries these from next[t] to root[t+1]: observation, terminated, truncated, done. It drops action, "
        "reward, since each step has its own. Inside every episode next[t] equals root[t+1], as it must.\n\n"
        "1 episode end: 1 truncated (cut short, for example by a time limit). Done is terminated or truncated. After "
        "terminated the value of the next state is zero; after truncated the episode was only cut, so its value is "
        "bootstrapped from the next observation. Where a step is done, root[t+1] is a fresh reset and need not equal "
        "next[t].\n\nTED rules: all 12 kept."
    )


def test_equal_data_give_equal_views(ted):
    one, two = TEDExplorer(ted(6, (2,), {1: "truncated"})), TEDExplorer(ted(6, (2,), {1: "truncated"}))
    for view in ("__repr__", "explain", "to_svg", "to_html"):
        assert getattr(one, view)() == getattr(two, view)(), view
    assert "0x" not in repr(one) + one.explain()


def test_the_picture_has_a_row_for_each_entry_and_a_bounded_height():
    def keys(explorer):
        root = ElementTree.fromstring(explorer.to_svg())
        texts = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]
        return [text for text in texts if re.fullmatch(r"k\d+", text)], float(root.get("height"))

    few, short = keys(TEDExplorer(many(10)))
    assert few == [f"k{i:03d}" for i in range(5)]
    large = TEDExplorer(many(1000))
    lots, high = keys(large)
    assert len(lots) == 40 and short < high < 1250
    assert "+460 more rows" in large.to_svg()


def test_the_picture_shows_the_numbers_of_both_sides(ted):
    model = TEDExplorer(ted(40, (), {2: "terminated", 20: "terminated"})).model
    display = entries_display(model)
    groups = [mark for mark in display.marks if mark["kind"] == "group" and "y" in mark]
    (done,) = [g["marks"] for g in groups if any(mark.get("text") == "done" for mark in g["marks"])]
    spreads = {mark["text"]: mark["x"] for mark in done if " / " in mark.get("text", "")}
    assert list(spreads) == ["0 / 0 / 0", "0 / 0.05 / 1"]
    frames = [mark for mark in done if "domain" in mark and "left" in mark and mark["left"] > 0]
    curves = [display.columns.arrays[frame["marks"][0]["marks"][0]["values"]] for frame in frames]
    # The root is constant; next jumps at the two ends.
    assert [len(np.unique(curve)) for curve in curves] == [1, 2]
    assert np.flatnonzero(curves[1] == curves[1].max()).tolist() == [2, 20]
    assert spreads["0 / 0 / 0"] < frames[0]["left"] < spreads["0 / 0.05 / 1"] < frames[1]["left"]


def test_a_gap_breaks_a_line_and_a_value_between_two_gaps_is_a_dot():
    svg = Svg(40, 20)
    display = Display(20)
    arrays = thumb_arrays(Thumb("spark", 1, (0, 63, -1, 0, -1)))
    with display.frame(0, 0):
        draw_thumb(display, "spark", arrays.__getitem__, 5, 1, 0, 20)
    draw_display(svg, display, margin=0)
    assert 'd="M4 19L12 1M28 19"' in str(svg) and 'cx="28" cy="19"' in str(svg)


def test_nothing_in_the_picture_is_wider_than_it(ted):
    td = ted(300, (64,), {5: "terminated"})
    td["next", "observation"][0, 0, 0] = float("nan")
    td["observation"] = td["observation"] * -1234.567
    svg = ElementTree.fromstring(TEDExplorer(td).to_svg())
    for text in svg.iter("{http://www.w3.org/2000/svg}text"):
        if text.get("class", "").startswith("mono"):
            end = 12 + float(text.get("x")) + 6.05 * len(text.text)
            assert end <= float(svg.get("width")), text.text


def test_the_picture_stays_small(ted):
    td = ted(200, (8,), {50: "terminated"})
    assert len(TEDExplorer(td).to_svg()) < 20_000


@pytest.mark.parametrize("view", ["to_svg", "to_html"])
def test_nothing_from_the_data_becomes_markup(view):
    text = getattr(TEDExplorer(hostile(), other=TensorDict({"<i>only there</i>": torch.zeros(3)}, [3])), view)()
    for markup in ("<img src=x", "<svg onload", "</script><b>", "<i>only"):
        assert markup not in text
    if view == "to_svg":
        shown = [e.text for e in ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}text")]
        assert any(text.startswith("<img src=x onerr") for text in shown) and "line\\nbreak" in shown


def test_the_text_keeps_hostile_keys_on_one_line_each():
    lines = repr(TEDExplorer(hostile())).splitlines()
    assert len([line for line in lines if "float32" in line]) == len(HOSTILE)
    assert all(line.isprintable() for line in lines)
    assert visible("a\tb\x1b\u202e") == "a\\tb\\x1b\\u202e"


def test_the_payload_is_plain_json_with_the_keys_as_they_are():
    data = json.loads(TEDExplorer(hostile()).payload)
    assert [row["path"] for row in data["rows"]][: len(HOSTILE)] == [[key] for key in HOSTILE]
    assert data["rows"][-1]["root"]["values"] == {"texts": ["'<svg onload=alert(2)>'"]}


def test_letters_of_thumbs_are_distinct():
    assert len(set(encode_entry(Thumb("spark", 1, tuple(range(-1, 64)))))) == 65


def read(packed, ref, steps, element, t):
    """What the page does: see values.js."""
    kind = {"f4": np.float32, "f8": np.float64, "u1": np.uint8}[ref["kind"]]
    each = ref["n"] * (2 if ref.get("complex") else 1)
    start = ref["at"] + (element * steps + t) * each * np.dtype(kind).itemsize
    return np.frombuffer(packed, kind, each, start).tolist()


def test_packed_values_are_the_data(ted):
    td = ted(5, (2, 3), {1: "truncated"})
    td["many"] = torch.arange(2 * 3 * 5 * 20).reshape(2, 3, 5, 4, 5)
    td["z"] = torch.full((2, 3, 5), 1 - 2j)
    td["half"] = torch.full((2, 3, 5), 0.5, dtype=torch.bfloat16)
    td["big"] = torch.full((2, 3, 5), 2**30 + 1)
    packed, refs = pack_values(td, td["next"])
    element, t = 4, 3  # batch index (1, 1)
    for (side, path), ref in refs.items():
        data = td.get(("next", *path) if side == "next" else path)[1, 1, t].reshape(-1)
        expected = data[:8].tolist()
        if ref.get("complex"):
            expected = [part for z in expected for part in (z.real, z.imag)]
        assert read(packed, ref, 5, element, t) == expected, path
        assert (ref["of"], ref["at"] % 8) == (data.numel(), 0)
    assert refs["root", ("big",)]["kind"] == "f8" and refs["next", ("done",)]["kind"] == "u1"
    assert refs["next", ("done",)]["bool"] is True


def test_the_budget_leaves_out_the_largest_first(ted):
    td = ted(100)
    td["wide"] = torch.zeros(100, 8)
    packed, refs = pack_values(td, td["next"], 2500)
    assert len(packed) <= 2500
    assert refs["root", ("wide",)] == {"why": "left out of the page, which would get too large"}
    assert "at" in refs["root", ("done",)] and "at" in refs["next", ("reward",)]
    assert pack_values(td, td["next"], 0)[0] == b""


def test_values_that_cannot_travel_say_why():
    side = {
        "none": torch.zeros(2, 0),
        "huge": torch.full((2,), 2**60),
        "texts": NonTensorStack("a", "b"),
    }
    td = TensorDict({**side, "next": TensorDict({}, [2])}, [2])
    refs = pack_values(td, td["next"])[1]
    assert refs["root", ("none",)] == {"why": "no elements"}
    assert refs["root", ("huge",)] == {"why": "these whole numbers are too large for the page"}
    assert refs["root", ("texts",)] == {"texts": ["'a'", "'b'"]}


def test_without_time_nothing_is_packed():
    explorer = TEDExplorer(TensorDict({"x": torch.ones(3)}, [3]))
    assert explorer.values == b"" and explorer.length == 1
    assert json.loads(explorer.payload)["rows"][0]["root"]["preview"] == "[1, 1, 1]"


def test_the_playhead_stays_in_range_and_can_be_linked(ted):
    explorer, timeline = TEDExplorer(ted(6), t=2), Timeline(6)
    tie = link(explorer, timeline)
    assert timeline.t == 2
    timeline.t = 5
    assert explorer.t == 5
    explorer.t = 99
    assert explorer.t == 5
    tie.unlink()


@pytest.mark.parametrize("element", [-1, 6])
def test_an_element_outside_the_batch_is_refused(ted, element):
    with pytest.raises(ValueError) as caught:
        TEDExplorer(ted(4, (2, 3)), element=element)
    assert str(caught.value) == f"element must be in 0..5, a flat index into batch [2, 3]; got {element}."
    explorer = TEDExplorer(ted(4, (2, 3)), element=5)
    with pytest.raises((ValueError, traitlets.TraitError)):
        explorer.element = element
    assert explorer.element == 5


def test_an_unknown_argument_lists_the_legal_ones(ted):
    with pytest.raises(TypeError) as caught:
        TEDExplorer(ted(), tt=3)
    assert str(caught.value) == (
        "TEDExplorer has no argument 'tt'; it takes td, spec, other, t, element, action_keys, reward_keys, budget, "
        "view."
    )


@pytest.mark.parametrize("steps", [0, 1])
def test_short_data_have_all_views(ted, steps):
    explorer = TEDExplorer(ted(steps))
    assert f"T={steps}, " in repr(explorer)
    assert ElementTree.fromstring(explorer.to_svg()) is not None and "ted-explorer" in explorer.to_html()


def test_the_page_needs_no_network(ted):
    text = TEDExplorer(ted()).to_html()
    assert set(re.findall(r"https?://[\w./-]+", text)) == {"http://www.w3.org/2000/svg"}


def test_a_thousand_leaves_stay_small():
    explorer = TEDExplorer(many(1000))
    explorer._repr_mimebundle_()
    assert explorer.model.leaves == 1000 and len(explorer.payload) < 1_000_000 and len(explorer.values) <= 2_000_000


def test_the_model_holds_no_data(ted):
    td = ted()
    model = ted_model(td)
    assert model == ted_model(td.clone())
    td["observation"] += 1
    assert model != ted_model(td)

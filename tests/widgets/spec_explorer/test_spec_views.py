"""Views of the spec explorer: reproducible, bounded, and escaped."""

from __future__ import annotations

import json
import math
import re
from xml.etree import ElementTree

import pytest
import torch
import traitlets
from rlnb_widgets import SpecExplorer
from rlnb_widgets.spec_explorer import Lane
from rlnb_widgets.spec_explorer.ends import lane_text
from rlnb_widgets.spec_explorer.payload import column_widths

from rlnb.data import Binary, Bounded, Categorical, Composite, NonTensor, OneHot, Unbounded

SVG = "{http://www.w3.org/2000/svg}"
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


def hostile() -> Composite:
    parts = {key: Unbounded(1) for key in HOSTILE}
    return Composite({**parts, "text": NonTensor(shape=(), example_data="<svg onload=alert(2)>")})


def many(leaves: int) -> Composite:
    return Composite({f"k{i:04d}": Bounded(0, i + 1, shape=(2,)) for i in range(leaves)})


def test_the_text(nested):
    explorer = SpecExplorer(nested)
    table = [line[:74].rstrip() for line in repr(explorer).splitlines()]
    assert table == [
        "SpecExplorer(Composite, B=4, 9 leaves, cpu)",
        "key           class                dtype    shape      domain",
        "------------  -------------------  -------  ---------  -------------------",
        "spec          Composite            -        [B=4]      3 keys",
        "  agents      Composite            -        [B=4]      7 keys",
        "    position  BoundedContinuous    float32  [B=4 | 2]  2 intervals: [-1, 1",
        "    goal      UnboundedContinuous  float32  [B=4 | 2]  any float32",
        "    action    OneHot               bool     [B=4 | 3]  one-hot of 3",
        "    gears     MultiCategorical     int64    [B=4 | 2]  choices of 2, 3",
        "    keys      MultiOneHot          bool     [B=4 | 5]  one-hot of 2 + 3",
        "    bits      Binary               int8     [B=4 | 2]  {0, 1} in each of 2",
        "    say       NonTensor            -        [B=4]      any data, such as '",
        "  step        Categorical          int64    [B=4 | 1]  {0, ..., 4}",
        "  nothing     None                 -        -          no spec: any value",
    ]


def test_the_text_of_a_difference():
    here = Composite(x=Bounded(0, 1, shape=(2,)), y=OneHot(2))
    there = Composite(x=Bounded(0, 2, shape=(3,)), z=Binary(2))
    assert (
        repr(SpecExplorer(here, there))
        == """\
SpecExplorer(Composite, 2 leaves, cpu, 3 differing entries)
key   class              dtype    shape  domain                      gymnasium space
----  -----------------  -------  -----  --------------------------  ----------------------------
spec  Composite          -        -      2 keys                      Dict
  x   BoundedContinuous  float32  [2]    [0, 1]                      Box(0.0, 1.0, (2,), float32)
  y   OneHot             bool     [2]    one-hot of 2                Discrete(2)
  z   Binary             int8     [2]    {0, 1} in each of 2 places  MultiBinary(2)
x: shape: [2] here, [3] in the other
x: domain: [0, 1] here, [0, 2] in the other
y: only here: OneHot bool [2]
z: only in the other: Binary int8 [2]"""
    )


def test_equal_specs_say_so():
    assert repr(SpecExplorer(OneHot(2), OneHot(2))).endswith("\nother: the same")
    assert SpecExplorer(OneHot(2), OneHot(2)).explain().endswith("The other spec is the same.")


def test_the_words():
    spec = Composite(x=Bounded(0, 1, shape=(2,)), y=Categorical(3, mask=torch.tensor([True, False, True])))
    assert SpecExplorer(spec, Composite(x=Bounded(0, 1, shape=(2,)))).explain() == (
        "A spec says what data look like: shape, dtype, device, and which values are legal (the domain). This one has "
        "2 leaves.\n\n"
        "- x: float32 [2], [0, 1]. Numbers between two bounds, both included; an open side has no bound.\n"
        "- y: int64 [], {0, 2} of 3. One of a few choices, written as an integer. Some are masked out: they are never "
        "drawn, and not legal.\n\n"
        "The whole converts to a gymnasium space: Dict.\n\n"
        "It differs from the other spec:\n- y: only here: Categorical int64 []"
    )


def test_the_text_of_many_leaves_is_bounded():
    text = repr(SpecExplorer(many(200)))
    assert text.endswith("\n+161 more rows") and len(text.splitlines()) < 60


def test_devices_have_a_column_where_there_are_several():
    spec = Composite(a=Unbounded(1), b=Unbounded(1, device="meta"))
    lines = repr(SpecExplorer(spec)).splitlines()
    assert lines[0] == "SpecExplorer(Composite, 2 leaves)"
    assert lines[1].split()[:5] == ["key", "class", "dtype", "device", "shape"]
    assert [line.split()[3] for line in lines[4:6]] == ["cpu", "meta"]


def test_equal_specs_give_equal_views(nested):
    one, two = SpecExplorer(nested), SpecExplorer(nested.clone())
    for view in ("__repr__", "explain", "to_svg", "to_html"):
        assert getattr(one, view)() == getattr(two, view)(), view
    assert "0x" not in repr(one) + one.explain()


def test_the_picture_has_a_row_for_each_entry_and_a_bounded_height():
    def rows(explorer):
        root = ElementTree.fromstring(explorer.to_svg())
        keys = [
            e.text
            for e in root.iter(f"{SVG}text")
            if re.fullmatch(r"spec|k\d+", e.text or "") and e.get("font-size") == "12"
        ]
        return keys, float(root.get("height"))

    few, short = rows(SpecExplorer(many(3)))
    assert few == ["spec", "k0000", "k0001", "k0002"]
    leaf, node = (rows(SpecExplorer(Composite(a=OneHot(2), **more)))[1] - short for more in ({}, {"b": Composite()}))
    assert (leaf, node) == (-2 * 38, -2 * 38 + 24)
    large = SpecExplorer(many(300))
    lots, high = rows(large)
    assert len(lots) == 28 and short < high < 1300
    assert "+273 more rows" in large.to_svg()


def test_the_picture_shows_what_is_masked_and_what_is_open():
    def count(spec, tag, css):
        root = ElementTree.fromstring(SpecExplorer(spec).to_svg())
        return sum(css in (e.get("class") or "") for e in root.iter(f"{SVG}{tag}"))

    masked = Categorical(4, mask=torch.tensor([True, False, True, False]))
    assert count(masked, "path", "s-bad") == 2 and count(Categorical(4), "path", "s-bad") == 0
    arrows = [count(Bounded(low, high, shape=(1,)), "polygon", "f-ink") for low, high in ((0, 1), (0, torch.inf))]
    assert [*arrows, count(Unbounded(1), "polygon", "f-ink")] == [0, 1, 2]


@pytest.mark.parametrize("view", ["to_svg", "to_html"])
def test_nothing_from_the_spec_becomes_markup(view):
    text = getattr(SpecExplorer(hostile(), Composite({"<i>only there</i>": Unbounded(1)})), view)()
    for markup in ("<img src=x", "<svg onload", "</script><b>", "<i>only"):
        assert markup not in text
    if view == "to_svg":
        shown = [e.text for e in ElementTree.fromstring(text).iter(f"{SVG}text")]
        assert any(text.startswith("<img src=x onerr") for text in shown) and "line\\nbreak" in shown


def test_the_text_keeps_hostile_keys_on_one_line_each():
    lines = repr(SpecExplorer(hostile())).splitlines()
    assert len([line for line in lines if "float32" in line and "Unbounded" in line]) == len(HOSTILE)
    assert all(line.isprintable() for line in lines)


def test_the_code_reads_the_entry_whatever_the_key_holds():
    spec = Composite({"group": hostile()})
    for row in SpecExplorer(spec).model.rows:
        assert eval(row.code, {"spec": spec}) == (spec if not row.path else spec[row.path])


def test_the_payload_is_plain_json_with_the_keys_as_they_are():
    explorer = SpecExplorer(hostile())
    data = json.loads(explorer.payload)
    rows = data["rows"]
    assert [row["path"] for row in rows][1 : len(HOSTILE) + 1] == [[key] for key in HOSTILE]
    assert data["name"] == "spec" and data["alike"][rows[0]["alike"]]["node"] is True
    assert rows[-1]["domain"] == "any data, such as '<svg onload=alert(2)>'"
    samples = json.loads(explorer.samples)
    assert samples["words"] == "200 random samples" and len(samples["rows"]) == len(rows)
    assert samples["rows"][0] is None and samples["rows"][1]["n"] == 200


def test_texts_from_the_spec_come_on_one_line_with_what_cannot_be_seen_escaped():
    class Odd:
        def __repr__(self):
            return "a\u202eb\nc"

    row = json.loads(SpecExplorer(Composite(x=NonTensor(example_data=Odd()))).payload)["rows"][1]
    assert row["domain"] == r"any data, such as a\u202eb\nc"


def test_the_page_is_sent_the_code_only_where_keys_alone_do_not_lead():
    stack = torch.stack([Composite(x=OneHot(2)), Composite(x=OneHot(3))])
    data = json.loads(SpecExplorer(Composite(plain=Composite({'a"b': OneHot(2)}), stack=stack)).payload)
    codes = {".".join(row["path"]): row["code"] for row in data["rows"] if "code" in row}
    assert codes["stack.[1].x"] == 'spec["stack"][1]["x"]'
    assert {path.partition(".")[0] for path in codes} == {"stack"} and "stack" not in codes


def test_columns_are_as_wide_as_what_they_hold_within_reason():
    def widths(spec):
        return column_widths(SpecExplorer(spec).model)

    def pixels(letters):
        return math.ceil(7.2 * letters) + 2

    assert widths(Composite(x=OneHot(2))) == {"key": 130, "leaf": 130, "kind": pixels(len("Composite[]"))}
    nested = Composite(output_spec=Composite(full_observation_spec=Unbounded(1)))
    assert widths(nested)["key"] == 18 + 2 * 14 + 8 * len("full_observation_spec")
    assert widths(Composite({"x" * 500: Unbounded(1)}))["key"] == 300
    assert widths(Composite({"a" * 20: Composite(b=OneHot(2))}))["leaf"] == 16 + 6.5 * 20
    assert widths(Composite(x=Unbounded(1)))["kind"] == pixels(len("UnboundedContinuous"))
    assert widths(OneHot(2, shape=(4, 2)))["kind"] == pixels(len("bool [4,2]"))


def test_a_lane_in_the_payload():
    low = torch.tensor([0.0, -torch.inf])
    rows = json.loads(SpecExplorer(Bounded(low, torch.tensor([4.0, 2.0]))).payload)["rows"]
    assert rows[0]["names"] == [["[0]", "[0, 4]"], ["[1]", "(-inf, 2]"]]
    assert rows[0]["views"] == [[-3.5, 4.0], [-3.5, 4.0]] and rows[0]["brief"] == "2 intervals"


@pytest.mark.parametrize(
    ("lane", "text"),
    [
        (Lane("line", low=0.0, high=4.5), "[0, 4.5]"),
        (Lane("line"), "(-inf, inf)"),
        (Lane("line", low=0, high=255, view=(0.0, 255.0), whole=True), "{0, ..., 255}"),
        (Lane("line", view=(-128.0, 127.0), whole=True), "{-128, ..., 127}"),
        (Lane("choices", n=3, start=2), "{2, 3, 4}"),
        (Lane("choices", n=3, start=2, barred=(1,)), "{2, 4} of 3"),
        (Lane("cells", n=3), "one-hot of 3"),
        (Lane("cells", n=3, barred=(0,)), "one-hot of 3: {1, 2} of 3"),
        (Lane("bits", n=2), "{0, 1} in each of 2 places"),
    ],
)
def test_what_a_lane_is_about_in_words(lane, text):
    assert lane_text(lane) == text


def test_it_opens_at_the_first_leaf_that_has_a_picture(nested):
    assert SpecExplorer(nested).selected == ["agents", "position"]
    assert SpecExplorer(Composite(say=NonTensor(shape=()), x=OneHot(2))).selected == ["x"]
    assert SpecExplorer(Composite(x=OneHot(2)), Composite(a=OneHot(2), x=OneHot(2))).selected == ["x"]


def test_it_opens_at_the_top_where_there_are_many_keys_or_no_picture():
    assert SpecExplorer(many(12)).selected == ["k0000"] and SpecExplorer(many(13)).selected == []
    assert SpecExplorer(Composite(say=NonTensor(shape=()))).selected == []
    assert SpecExplorer(OneHot(2)).selected == []


@pytest.mark.parametrize("seed", [-1, 2**31])
def test_a_seed_outside_the_range_is_refused(seed):
    with pytest.raises(traitlets.TraitError):
        SpecExplorer(Unbounded(1), seed=seed)
    explorer = SpecExplorer(Unbounded(1), seed=3)
    with pytest.raises(traitlets.TraitError):
        explorer.seed = seed
    assert explorer.seed == 3


def test_an_unknown_argument_lists_the_legal_ones():
    with pytest.raises(TypeError) as caught:
        SpecExplorer(Unbounded(1), seeds=3)
    assert str(caught.value) == "SpecExplorer has no argument 'seeds'; it takes spec, other, seed."


def test_the_page_needs_no_network(nested):
    text = SpecExplorer(nested).to_html()
    assert set(re.findall(r"https?://[\w./-]+", text)) == {"http://www.w3.org/2000/svg"}


def test_a_thousand_leaves_stay_small():
    explorer = SpecExplorer(many(1000))
    explorer._repr_mimebundle_()
    assert explorer.model.leaves == 1000 and len(explorer.payload) < 130_000 and len(explorer.samples) < 200_000


def test_a_large_spec_of_mostly_composites_opens_at_its_leaves():
    leaf = Composite(full_action_spec=Composite(action=OneHot(2)), full_state_spec=Composite())
    explorer = SpecExplorer(Composite(input_spec=leaf, output_spec=Composite(x=Composite(observation=Unbounded(1)))))
    assert [row.path[-1] for row in explorer.model.opening] == ["action", "observation"]
    assert json.loads(explorer.payload)["leaves"] is True
    root = ElementTree.fromstring(explorer.to_svg())
    texts = [e.text for e in root.iter(f"{SVG}text") if e.get("x") == "0"]
    assert texts == ["key", "action", "input_spec.full_action_spec", "observation", "output_spec.x"]


def test_samples_of_a_single_line_are_labelled_where_they_are_drawn():
    explorer = SpecExplorer(
        Composite(reward=Unbounded(1), pair=Bounded(torch.tensor([0.0, 1]), torch.tensor([1.0, 3])))
    )
    data = json.loads(explorer.payload)
    reward, pair = (data["alike"][row["alike"]] for row in data["rows"][1:])
    assert reward["sampled"] == " · random draws" and "sampled" not in pair
    assert "any float32 · random draws" in explorer.to_svg() and "not data of an environment" in explorer.to_svg()


def test_differences_show_at_the_leaves_too(nested):
    spec = Composite(a=Composite(b=Composite(c=Composite(d=Composite(x=OneHot(2))))))
    other = Composite(a=Composite(b=Composite(c=Composite(d=Composite(x=OneHot(2), e=Composite())))))
    assert [row.path[-1] for row in SpecExplorer(spec, other).model.opening] == ["x", "e"]

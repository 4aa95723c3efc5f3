"""Replies about a value: in code, from the page, and for text that is not a value."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rlnb_widgets import SpecExplorer
from rlnb_widgets._core.spec_domain import Lane
from rlnb_widgets.spec_explorer.answer import as_value, ask
from rlnb_widgets.spec_explorer.clicks import clicked
from rlnb_widgets.spec_explorer.picks import picks_of
from rlnb_widgets.spec_explorer.questions import MAX_TEXT, read_literal, reply_to
from tensordict import TensorDict

from rlnb.data import Bounded, Categorical, Composite, MultiCategorical, NonTensor, OneHot, Unbounded

CLIP = "Clip it with spec.project(value), or widen the bounds of the spec."
BOX = SpecExplorer(Composite(observation=Bounded(-1, 1, shape=(2,)), action=OneHot(3), note=NonTensor(shape=())))


def test_an_answer_in_full():
    assert (
        repr(BOX.try_value("observation", [0.5, 2.0]))
        == f"""\
try_value("observation", [0.5, 2.0])
  value     float32 [2]: [0.5, 2]
  is_in     False
            value: 2 at index (1,) is outside [-1, 1]. {CLIP}
  project   float32 [2]: [0.5, 1]
  encode    ValueError: BoundedContinuous.encode: value: 2 at index (1,) is outside [-1, 1]. {CLIP}
  to_numpy  ValueError: BoundedContinuous.to_numpy: value: 2 at index (1,) is outside [-1, 1]. {CLIP}"""
    )


def test_a_value_that_is_in():
    assert (
        repr(BOX.try_value("action", [False, True, False]))
        == """\
try_value("action", [False, True, False])
  value     bool [3]: [False, True, False]
  is_in     True
  project   bool [3]: [False, True, False]
  encode    bool [3]: [False, True, False]
  to_numpy  int64: 1"""
    )
    answer = BOX.try_value("action", 1)
    assert (answer.is_in, answer.encode.text) == (False, "bool [3]: [False, True, False]")
    assert answer.reasons[0] == (
        "value: expected shape [3], got []. An integer was given where a one-hot vector of length 3 is expected: "
        "spec.encode(value)."
    )


def test_the_whole_and_data_that_are_no_tensor():
    answer = BOX.try_value((), {"observation": [0, 0], "action": [True, False, False]})
    assert answer.reasons == (
        "note: missing, expected non-tensor data of batch size []. Write it before returning the data.",
    )
    full = BOX.try_value((), {"observation": [0, 0], "action": [True, False, False], "note": "go"})
    assert full.is_in and full.to_numpy.ok
    assert full.value == "{'observation': float32 [2]: [0, 0], 'action': bool [3]: [True, False, False], 'note': 'go'}"
    assert BOX.try_value("note", "go").encode.text == "'go'"
    assert BOX.try_value((), 3).reasons == (
        "value: expected type TensorDict, got int. Wrap the tensors: TensorDict({...}, batch_size=...).",
    )


@pytest.mark.parametrize("key", ["missing", ("observation", "x"), 0])
def test_an_unknown_key_lists_the_keys_there_are(key):
    with pytest.raises(KeyError, match="in the spec; it has 'observation', 'action', 'note'"):
        BOX.try_value(key, 1)


def test_a_key_of_the_other_spec_is_no_key():
    with pytest.raises(KeyError, match="is only in the other spec"):
        SpecExplorer(Composite(), Composite(x=Unbounded(1))).try_value("x", 1)


def test_members_of_a_stack_are_asked_by_their_number():
    spec = torch.stack([Bounded(0, 1, shape=(1,)), Bounded(0, 2, shape=(1,))])
    explorer = SpecExplorer(Composite(s=spec))
    assert [explorer.try_value(("s", i), [1.5]).is_in for i in (0, 1)] == [False, True]


@pytest.mark.parametrize(
    ("spec", "value", "dtype"),
    [
        (Bounded(0, 1, shape=()), 1, torch.float32),
        (Bounded(0, 1, shape=(), dtype=torch.float64), 0.1, torch.float64),
        (Bounded(0, 255, shape=(), dtype=torch.uint8), 255, torch.uint8),
        (Bounded(0, 255, shape=(), dtype=torch.uint8), 256, torch.int64),
        (Categorical(3), 1.5, torch.float32),
        (Categorical(2, dtype=torch.bool), 1, torch.bool),
        (Categorical(2, dtype=torch.bool), 2, torch.int64),
        (OneHot(2), 1, torch.int64),
        (OneHot(2), [0, 1], torch.bool),
        (Categorical(3), torch.tensor(1, dtype=torch.int8), torch.int8),
        (Bounded(0, 1, shape=(2,)), np.zeros(2), torch.float32),
        (Bounded(0, 1, shape=(2,)), np.zeros(2, "int16"), torch.float32),
    ],
)
def test_numbers_take_the_dtype_of_the_spec_where_it_holds_them(spec, value, dtype):
    made = as_value(spec, value)
    assert made.dtype == dtype
    assert made.tolist() == (value.tolist() if hasattr(value, "tolist") else value)


SPECS = [
    Bounded(-1, 1, shape=(2,)),
    Unbounded((2, 3)),
    Categorical(4, start=-1),
    OneHot(3),
    MultiCategorical([2, 3]),
    Composite(a=Bounded(0, 1, shape=(2,)), b={"c": OneHot(2)}),
]


@given(st.sampled_from(SPECS), st.integers(0, 50))
def test_what_a_spec_draws_is_in_it_and_every_method_answers(spec, seed):
    torch.manual_seed(seed)
    answer = ask(spec, (), spec.rand())
    assert answer.is_in and answer.reasons == ()
    assert answer.project.ok and answer.to_numpy.ok and answer.project.text == answer.value


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)


@given(st.recursive(SCALARS, st.lists, max_leaves=6))
def test_whatever_is_given_nothing_is_raised(value):
    for spec in SPECS:
        answer = ask(spec, (), value)
        assert answer.is_in == (not answer.reasons)
        assert "0x" not in repr(answer).replace(repr(value), "")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        (" [0.5, -2] ", [0.5, -2]),
        ('{"a": [true, false, null]}', {"a": [True, False, None]}),
        ("[inf, -inf, Infinity]", [math.inf, -math.inf, math.inf]),
        ("'text'", "text"),
        ("(1, 2)", (1, 2)),
    ],
)
def test_literals_of_python_and_json(text, value):
    assert read_literal(text) == value


def test_nan_is_a_word():
    assert math.isnan(read_literal("nan")) and math.isnan(read_literal("-NaN"))


EXPECTED = "type a number, a list such as [0.5, 2.0], a dictionary, or text in quotes."
NO_CODE = f"only literals are read, nothing is run; {EXPECTED}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"nothing was typed; {EXPECTED}"),
        ("[1,", f"this cannot be read ('[' was never closed); {EXPECTED}"),
        ("__import__('os').system('x')", NO_CODE),
        ("exit()", NO_CODE),
        ("go", NO_CODE),
        ("[x for x in (1,)]", NO_CODE),
        ("9**9**9", NO_CODE),
        ("(" * 500 + ")" * 500, None),
        ("1" * (MAX_TEXT + 1), f"{MAX_TEXT + 1:,} characters are more than 10,000; call try_value in code instead."),
    ],
)
def test_text_that_is_no_literal(text, message):
    with pytest.raises(ValueError) as caught:
        read_literal(text)
    assert message is None or str(caught.value) == message


def asked(**question):
    return reply_to({"ask": "a:1", **question}, BOX._specs, BOX.model, 0)


def test_the_page_is_answered():
    reply = asked(path=["observation"], text="[0.5, 2.0]")
    assert reply["answer"] == "a:1" and reply["in"] is False and reply["text"] == "[0.5, 2.0]"
    reason, number = f"value: 2 at index (1,) is outside [-1, 1]. {CLIP}", "float32 [2]: [0.5, 1]"
    error = f"ValueError: BoundedContinuous.encode: {reason}"
    assert reply["lines"][:4] == [
        ["value", ["code", "float32 [2]: [0.5, 2]"]],
        ["is_in", ["no", "✗ False"], ["reason", reason]],
        ["project", ["code", number, number]],
        ["encode", ["raised", "ValueError, for the same reason", error]],
    ]
    assert reply["dots"] == {"legal0": [0.75], "illegal0": [1.03]}
    fits = asked(path=["observation"], text="[0.5, 1]")
    assert fits["in"] is True and fits["lines"][1] == ["is_in", ["yes", "✓ True"]]


def test_errors_come_back_as_text():
    assert asked(path=["observation"], text="exit()") == {"answer": "a:1", "error": NO_CODE}
    assert asked(path=["nowhere"], text="1") == {"answer": "a:1", "error": "this entry is only in the other spec."}
    assert asked(path=["action"], pick="nothing")["error"].startswith("there is no pick 'nothing'; there are sample, ")
    assert reply_to({"other": 1}, {}, BOX.model, 0) is None and reply_to("text", {}, BOX.model, 0) is None


@pytest.mark.parametrize(
    ("path", "text", "dots"),
    [
        (["action"], "[0, 1, 0]", {"legal0": [1.5]}),
        (["action"], "[1, 1, 0]", {"illegal0": [0.5, 1.5]}),
        (["action"], "1", {}),
        (["observation"], "[nan, 0]", {"illegal0": [0.5], "legal0": [0.5]}),
        (["observation"], "[0]", {}),
        (["note"], "'x'", {}),
    ],
)
def test_dots_on_the_picture(path, text, dots):
    assert asked(path=path, text=text)["dots"] == dots


def test_dots_on_choices_and_on_cells_that_stand_for_several():
    spec = Composite(choice=Categorical(4), many=OneHot(48))
    explorer = SpecExplorer(spec)
    ones = str([int(i == 47) for i in range(48)])
    for path, text, dots in (
        ("choice", "3", {"legal0": [3.5]}),
        ("choice", "-5", {"illegal0": [-0.5]}),
        ("many", ones, {"legal0": [23.5]}),
    ):
        reply = reply_to({"ask": 1, "path": [path], "text": text}, explorer._specs, explorer.model, 0)
        assert reply["dots"] == dots


LINE, CHOICES = Lane("line", view=(-1.0, 1.0)), Lane("choices", n=4, start=2, barred=(1,))
CELLS, BITS = Lane("cells", n=3), Lane("bits", n=3)
PARTS = [Lane("line", elements=(0,)), Lane("line", low=3.0, elements=(1,))]
ONES = [Lane("cells", n=2), Lane("cells", n=3, begin=2, barred=(0,))]


@pytest.mark.parametrize(
    ("typed", "shape", "lanes", "lane", "place", "value"),
    [
        (None, (), [LINE], 0, 0.123456, 0.123),
        (None, (), [Lane("line", view=(0.0, 255.0), whole=True)], 0, 127.6, 128),
        (None, (), [CHOICES], 0, 1.9, 3),
        (None, (2,), PARTS, 0, 0.5, [0.5, 3]),
        ([0.5, 3], (2,), PARTS, 1, -1.0, [0.5, -1]),
        ([1, 2, 3], (2,), PARTS, 1, -1.0, [0, -1]),
        ("text", (2,), PARTS, 1, -1.0, [0, -1]),
        (None, (2, 2), [CHOICES], 0, 3.0, [[5, 5], [5, 5]]),
        ([True, False, False], (3,), [CELLS], 0, 2.5, [0, 0, 1]),
        (None, (2, 3), [CELLS], 0, 1.0, [[0, 1, 0], [0, 1, 0]]),
        ([1, 0, 1], (3,), [BITS], 0, 0.0, [0, 0, 1]),
        ([1, 0, 1], (3,), [BITS], 0, 1.2, [1, 1, 1]),
        (None, (5,), ONES, 0, 1.0, [0, 1, 0, 1, 0]),
    ],
)
def test_a_click_sets_what_its_lane_is_about_and_keeps_the_rest(typed, shape, lanes, lane, place, value):
    assert clicked(typed, shape, lanes, lane, place) == value


def test_a_click_on_the_page_is_answered_with_the_value():
    reply = asked(path=["action"], text="", click=[0, 1.4])
    assert (reply["text"], reply["in"], reply["dots"]) == ("[0, 1, 0]", True, {"legal0": [1.5]})
    assert asked(path=["observation"], text="[0.5, 1", click=[0, 0.25])["text"] == "[0.25, 0.25]"


def test_picks_that_are_out_are_out_and_the_others_are_in(nested):
    explorer = SpecExplorer(nested)
    out = {"too high", "wrong shape", "beyond the last", "a fraction", "an integer", "all zeros", "two ones"}
    out |= {"twos", "halves"}
    seen = set()
    for row in explorer.model.rows:
        for name in picks_of(row):
            reply = reply_to({"ask": 1, "path": list(row.path), "pick": name}, explorer._specs, explorer.model, 0)
            if row.cell.domain.kind == "multi" and name == "zeros":
                continue  # a blank: not one-hot
            expected = name not in out and not (row.cell.kind == "NonTensor" and name == "wrong shape")
            assert reply.get("in") is expected, (row.path, name, reply)
            seen.add(name)
    assert seen >= {"sample", "lowest", "highest", "too high", "first", "last", "zeros", "two ones", "twos"}


def test_a_message_of_the_page_is_replied_to(monkeypatch):
    sent = []
    explorer = SpecExplorer(Categorical(3))
    monkeypatch.setattr(explorer, "send", lambda content, buffers=None: sent.append(content))
    explorer._handle_custom_msg({"ask": 7, "path": [], "text": "3"}, [])
    explorer._handle_custom_msg({"hello": 1}, [])
    assert len(sent) == 1 and sent[0]["answer"] == 7 and sent[0]["in"] is False


def test_a_tensordict_is_taken_as_it_is():
    td = TensorDict({"observation": torch.zeros(5, 2), "action": torch.eye(3)[[0] * 5] > 0, "note": "x"}, [5])
    assert BOX.try_value("observation", td["observation"]).is_in


def test_too_high_is_offered_where_one_side_is_closed():
    spec = Bounded(torch.tensor([0.0, 0.0]), torch.tensor([1.0, torch.inf]))
    explorer = SpecExplorer(spec)
    assert picks_of(explorer.model.row()) == ["sample", "lowest", "too high", "wrong shape"]
    reply = reply_to({"ask": 1, "path": [], "pick": "too high"}, explorer._specs, explorer.model, 0)
    assert (reply["text"], reply["in"]) == ("[2.0, 0.0]", False)

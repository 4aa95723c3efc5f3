"""The same data in four forms: byte counts from shapes equal the actual ones, and what each form stores."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rlnb_widgets import TEDExplorer
from rlnb_widgets.ted_explorer.forms import forms_of
from rlnb_widgets.ted_explorer.layouts import layouts_of, runs_of
from tensordict import TensorDict

from tests.widgets.ted_explorer.conftest import make_ted

KINDS = st.sampled_from(["terminated", "truncated"])


@given(st.integers(1, 9), st.sampled_from([(), (2,), (2, 3)]), st.dictionaries(st.integers(0, 8), KINDS, max_size=4))
def test_bytes_from_shapes_are_those_that_are_counted(steps, batch, ends):
    td = make_ted(steps, batch, {t: kind for t, kind in ends.items() if t < steps})
    td["hidden"] = torch.zeros(*batch, steps, 3)
    shapes, counted = forms_of(td, 1), forms_of(td, 1, exact=True)
    assert [form.nbytes for form in shapes[:3]] == [form.nbytes for form in counted[:3]]
    assert shapes[3].nbytes is counted[3].nbytes is None and "'hidden' does not fit" in shapes[3].why
    plain = td.exclude("hidden")
    assert forms_of(plain, 1)[3].nbytes == forms_of(plain, 1, exact=True)[3].nbytes
    trajectories = int((runs := td["next", "done"].squeeze(-1)).sum() + (~runs[..., -1]).sum())
    n = td.numel()
    # root: action 8, hidden 12; next: reward 4, three flags; an observation is 8, once a step and once a trajectory
    assert counted[1].nbytes == n * (8 + 12 + 4 + 3 + 8) + trajectories * 8
    assert counted[2].nbytes == counted[1].nbytes + 2 * 8 * (trajectories + 1)


def test_data_that_break_adjacency_need_at_least_so_much(ted):
    td = ted(6)
    td["next", "observation"][2] = -1
    explorer = TEDExplorer(td, view="forms")
    flat = explorer.forms()[1]
    assert not flat.exact and explorer.forms(exact=True)[1].nbytes > flat.nbytes
    assert f"flat: at least {flat.nbytes} B" in repr(explorer)
    assert explorer.forms()[3].why == "the data breaks the rules of TED: adjacency"


def test_large_data_are_measured(ted):
    steps = 200_000
    done = (torch.arange(steps) % 100 == 99).unsqueeze(-1)
    x = torch.zeros(steps, 64)
    td = TensorDict(
        {"x": x, "action": x[:, :1], "next": {"x": x, "reward": x[:, :1], "done": done, "terminated": done}}, [steps]
    )
    flat = forms_of(td, 1)[1]
    assert flat.nbytes == (steps + 2000) * 256 + steps * (4 + 4 + 2)


def written(line):
    return " ".join(text or "|" for text, kind in line.boxes if kind != "blank")


def test_what_each_form_stores():
    lines = layouts_of(runs_of(torch.tensor([False, True, False, False, False, False, True])))
    text = {
        name: [" ".join(t or "|" for t, kind in line.boxes if kind != "blank") for line in drawn]
        for name, drawn in lines.items()
    }
    assert text["TED"][0] == "s0 s1 | s2 s3 … s6" and text["TED"][2] == "s1 s1' | s3 s4 … s6'"
    assert text["flat"][:2] == ["s0 s1 s1' | s2 s3 … s6 s6'", "a0 a1 | a2 a3 … a6"]
    assert text["nested"] == ["s0 s1 s1'", "a0 a1", "s2 s3 … s6 s6'", "a2 a3 … a6"]
    assert text["tuples"][0] == "s0 | a0 s1 r0 | a1 s1' r1"


def test_no_done_flag_says_why_there_is_no_flat_form():
    td = TensorDict({"x": torch.zeros(3), "next": {"x": torch.zeros(3)}}, [3])
    forms = TEDExplorer(td).forms()
    assert forms[1].nbytes is None and forms[1].why.startswith("No entry ('next', 'done')")


@pytest.mark.parametrize("batch", [(), (2,)])
def test_the_faces_of_the_forms(ted, batch):
    explorer = TEDExplorer(ted(6, batch, {2: "terminated"}), view="forms")
    text, svg = repr(explorer), explorer.to_svg()
    assert "    observation   s0 s1 s2 s2' | s3 s4 s5 s5'\n" in text and "TED2Nested()(data)" in text
    assert svg.count(">s2'<") == 4 and "% of TED" in svg
    assert repr(TEDExplorer(ted(6, batch, {2: "terminated"}), view="forms")) == text

"""The transition from one step to the next: entries carried, dropped, kept and replaced, as step_mdp does."""

from __future__ import annotations

import pytest
import torch
from rlnb_widgets import TEDExplorer
from rlnb_widgets.ted_explorer import ted_model
from rlnb_widgets.ted_explorer.carrying import MOST_ROWS, fates_at
from tensordict import NonTensorStack, TensorDict

from tests.envs.dynamic import EnvWithDynamicSpec


def kinds(td, t, element=0):
    fates = fates_at(td, td["next"], ted_model(td), element, t)
    return {".".join(fate.path): fate.kind for fate in fates}


def with_hidden(ted, steps=6, batch=(), ends=None):
    td = ted(steps, batch, ends or {})
    td["hidden"] = torch.ones(*batch, steps, 2)
    return td


def test_inside_an_episode(ted):
    td = with_hidden(ted)
    found = kinds(td, 2)
    assert {k: found[k] for k in ("observation", "done", "action", "reward", "hidden")} == {
        "observation": "carried", "done": "carried", "action": "left", "reward": "left", "hidden": "kept",
    }  # fmt: skip
    td["hidden"][3] = 5
    assert kinds(td, 2)["hidden"] == "rewritten"
    td["next", "observation"][2] = -1
    assert kinds(td, 2)["observation"] == "differs"


@pytest.mark.parametrize("batch", [(), (2,), (2, 2)])
def test_a_reset_replaces_what_was_carried(ted, batch):
    td = with_hidden(ted, 6, batch, {2: "truncated"})
    element = max(torch.Size(batch).numel() - 1, 0)
    found = kinds(td, 2, element)
    assert (found["observation"], found["reward"], found["hidden"]) == ("replaced", "left", "kept")
    assert kinds(td, 5, element)["observation"] == "waits"


def test_a_step_past_the_end_is_carried_and_not_reset(ted):
    td = ted(6, (), {2: "terminated", 3: "terminated"})
    td["observation"][3] = td["next", "observation"][2]
    for name in ("done", "terminated"):
        td[name][3] = True
    assert kinds(td, 2)["observation"] == "carried"


def test_the_views(ted):
    td = with_hidden(ted, 6, (), {2: "terminated"})
    text = repr(TEDExplorer(td, view="steps", t=2)).splitlines()
    assert text[1].split() == ["key", "root[2]", "next[2]", "step_mdp", "root[3]"]
    assert text[3].split("  ")[0] == "observation" and "[1002, 1002]" in text[3] and "replaced by the reset" in text[3]
    assert repr(TEDExplorer(td, view="steps", t=5)).splitlines()[1].endswith("beyond the data")
    assert "replaced by the reset" in TEDExplorer(td, view="steps", t=2).to_svg()
    assert "Without a time dimension" in repr(TEDExplorer(ted()[0], view="steps"))


def test_many_and_odd_entries_are_bounded_and_written():
    side = {f"k{i:02d}": torch.zeros(3, 40) for i in range(40)}
    side["text"] = NonTensorStack("a", "b", "c")
    td = TensorDict({**side, "next": dict(side)}, [3])
    assert len(kinds(td, 0)) == MOST_ROWS
    (fate,) = fates_at(
        td.select("text", ("next", "text")),
        td["next"].select("text"),
        ted_model(td.select("text", ("next", "text"))),
        0,
        0,
    )
    assert (fate.root, fate.next, fate.then, fate.kind) == ("'a'", "'a'", "'b'", "differs")


def test_what_becomes_of_an_entry_with_a_size_of_its_own_at_each_step():
    rollout = EnvWithDynamicSpec().rollout(4, return_contiguous=False)
    (fate,) = [
        fate for fate in fates_at(rollout, rollout["next"], ted_model(rollout), 0, 0) if fate.path == ("observation",)
    ]
    assert (fate.kind, fate.root, fate.next, fate.then) == (
        "carried", "[0, 0, 0, 0, ... 6 values]", "float32 [3, 2, 2]", "float32 [3, 2, 2]",
    )  # fmt: skip

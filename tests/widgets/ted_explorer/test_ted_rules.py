"""The rules of TED in the explorer: the library's findings by entry, batch element and step, in every view."""

from __future__ import annotations

import json

import pytest
import torch
from rlnb_widgets import TEDExplorer
from rlnb_widgets.ted_explorer import ted_model
from rlnb_widgets.ted_explorer.verdicts import verdicts_of
from tensordict import TensorDict

from rlnb.data import Composite, Unbounded
from rlnb.data.ted import TED_RULES, check_ted


def broken(model) -> list[str]:
    return [verdict.rule for verdict in model.verdicts if not verdict.kept]


def past(ted, batch=()) -> TensorDict:
    """Somebody steps on after an end: the root of step 3 is done itself."""
    td = ted(6, batch, {2: "terminated", 3: "terminated"})
    td["observation"][..., 3, :] = td["next", "observation"][..., 2, :]
    for name in ("done", "terminated"):
        td[name][..., 3, :] = True
    return td


def test_every_rule_of_the_library_has_a_verdict(ted):
    model = ted_model(ted(6, (2,), {2: "truncated"}))
    assert [(v.rule, v.sentence) for v in model.verdicts] == [(rule.name, rule.sentence) for rule in TED_RULES]
    assert broken(model) == []


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_a_finding_knows_its_entry_element_and_step(ted, batch):
    td = ted(6, batch)
    at = (*(size - 1 for size in batch), 4)
    td["next", "observation"][at] = -1
    (place,) = next(v for v in verdicts_of(td) if v.rule == "adjacency").places
    elements = torch.Size(batch).numel()
    assert (place.side, place.path, place.element, place.t) == ("next", ("observation",), elements - 1, 4)
    (finding,) = check_ted(td).findings
    assert finding.index == at and (place.found, place.cause, place.fix) == (finding.found, finding.cause, finding.fix)
    carry = ted_model(td).row("observation").carry
    assert (carry.holds, carry.index[: len(at)]) == (False, at)


def test_the_root_of_a_step_past_the_end_is_a_finding_and_no_reset(ted):
    td = past(ted, (2,))
    model = ted_model(td)
    assert broken(model) == ["root done"] and model.past == ((0, 3), (1, 3))
    text = repr(TEDExplorer(td))
    assert (
        "root done at step 3: rule 'root done': True (and 1 more): a step was taken from a state that had ended" in text
    )
    assert text.endswith("TED rules: 11 of 12 kept; broken: root done")
    assert "At step 3 the root itself is done: somebody stepped past the end of an episode" in model_words(td)


def test_stepping_past_an_end_follows_the_definition_of_an_episode(ted):
    td = ted().exclude("done", "terminated", "truncated")
    flags = torch.zeros(6, 2, 1, dtype=torch.bool)
    flags[4, 0] = True
    td["agents"] = TensorDict({"done": flags}, [6, 2])
    assert ted_model(td).past == ((0, 4),)  # without a root, the first agent ends the episode
    td["done"] = torch.zeros(6, 1, dtype=torch.bool)
    assert ted_model(td).past == ()


def model_words(td) -> str:
    return TEDExplorer(td).explain()


def test_without_next_or_time_there_is_nothing_to_check(ted):
    for td in (ted().exclude("next"), ted()[0]):
        explorer = TEDExplorer(td, view="rules")
        assert explorer.model.verdicts == () and "nothing to check" in repr(explorer)
        assert "TED rules" not in repr(TEDExplorer(td)) and explorer.to_svg()


def test_data_that_cannot_be_checked_say_so_and_are_shown(ted, monkeypatch):
    def fails(td):
        raise RuntimeError("no")

    monkeypatch.setattr("rlnb_widgets.ted_explorer.model.verdicts_of", fails)
    model = ted_model(ted())
    assert model.verdicts == () and "The rules of TED could not be checked: RuntimeError." in model.notes


def test_the_view_of_the_rules_names_cause_and_fix(ted):
    td = past(ted)
    text = repr(TEDExplorer(td, view="rules"))
    assert "\nok      adjacency    Inside an episode, 'next' of a step is the root of the step after it.\n" in text
    assert (
        "broken  root done    No step starts from a state that has ended.\n    root " in text
        and "    root done at step 3: True\n" in text
    )
    assert "      likely cause: a step was taken from a state that had ended: the env was not reset\n" in text
    svg = TEDExplorer(td, view="rules").to_svg()
    assert "TED rules: 11 of 12 kept" in svg and "root done at step 3" in svg


def test_the_page_is_told_where_each_rule_is_broken(ted):
    data = json.loads(TEDExplorer(past(ted)).payload)
    assert data["past"] == {"0": [3]} and data["found"] == {"0": [3]}
    assert data["kinds"] == ["terminated"] and data["ends"]["0"] == {"terminated": [2, 3]}
    places = {rule["name"]: rule["places"] for rule in data["rules"] if rule["places"]}
    assert sorted((p["path"], p["side"], p["element"], p["t"]) for p in places["root done"]) == [
        (["done"], "root", 0, 3),
        (["terminated"], "root", 0, 3),
    ]


def test_what_stands_beside_a_key_and_which_rows_are_findings(ted):
    td = ted(6)
    other = td.clone()
    td["next", "reward"][2] = float("nan")
    rows = {row["path"][-1]: row for row in json.loads(TEDExplorer(td, other=other).payload)["rows"]}
    assert rows["reward"]["badges"] == ["diff", "1 NaN"] and rows["reward"]["flag"] is True
    assert rows["reward"]["findings"][0][0].startswith("other: next: value at [2, 0]: expected ")
    assert "badges" not in rows["action"] and "flag" not in rows["action"]
    td["next", "observation"][3, 0] = -1
    rows = {row["path"][-1]: row for row in json.loads(TEDExplorer(td).payload)["rows"]}
    assert rows["observation"]["mark"] == "→ ✗ at [3]" and rows["observation"]["flag"] is True
    spec = Composite(extra=Unbounded(1))
    rows = {row["path"][-1]: row for row in json.loads(TEDExplorer(ted(6), spec=spec).payload)["rows"]}
    assert (rows["extra"]["badges"], rows["observation"]["badges"]) == (["missing"], ["not in spec"])


def test_hostile_keys_in_a_finding_stay_text(ted):
    td = ted()
    td["<img src=x>"] = torch.zeros(6)
    td["next", "<img src=x>"] = torch.ones(6)
    explorer = TEDExplorer(td, view="rules")
    assert "<img" not in explorer.to_svg() and "next <img src=x> at step 0" in repr(explorer)
    assert "<img src=x" not in explorer.to_html()


def test_an_unknown_view_lists_the_views(ted):
    with pytest.raises(ValueError) as caught:
        TEDExplorer(ted(), view="trees")
    assert str(caught.value) == "there is no view 'trees'; the views are 'entries', 'rules', 'forms', 'steps'."

"""Ends of episodes look the same in all visualizers."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from rlnb_widgets import RolloutPlayer, TEDExplorer
from rlnb_widgets._core.ends import ENDS
from tensordict import TensorDict


def _ended(kind: str) -> TensorDict:
    """Eight steps that end after the fifth one."""
    over = torch.zeros(8, 1, dtype=torch.bool)
    over[4] = True
    flags = {"done": over} if kind == "done" else {"done": over, kind: over}
    return TensorDict({"next": {"reward": torch.ones(8, 1), **flags}}, [8])


def _rules(marks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = [mark for mark in marks if mark["kind"] == "rules"]
    return found + [rule for mark in marks for rule in _rules(mark.get("marks", []))]


@pytest.mark.parametrize("kind", ["terminated", "truncated", "done"])
def test_an_end_has_one_colour_and_one_kind_of_line(kind: str) -> None:
    td = _ended(kind)
    (played,) = _rules(RolloutPlayer(td)._head["list"]["marks"])
    explored = {rule["places"]: rule for rule in _rules(json.loads(TEDExplorer(td).payload)["line"]["marks"])}
    role, dash = ENDS[kind]
    for rule in (played, explored[kind]):
        assert (rule["stroke"], rule.get("dash")) == (role, dash and list(dash))

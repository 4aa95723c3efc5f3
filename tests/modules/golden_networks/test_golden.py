"""Networks against those of torchrl 0.14.1 with the same weights (``golden.json``, by ``make.py``)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from tests.modules.golden_networks.make import results

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())


@cache
def ours():
    return results("rlnb")


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_networks_are_those_of_torchrl(name):
    theirs, mine = GOLDEN[name], ours()[name]
    assert mine["shapes"] == theirs["shapes"]  # a state_dict of one can be loaded into the other
    assert mine["text"].replace("SharedBias", "_SharedBias") == theirs["text"]
    for key, values in {"output": theirs["output"], **theirs["gradients"]}.items():
        found = mine["output"] if key == "output" else mine["gradients"][key]
        assert found[1] == values[1]
        assert found[0] == pytest.approx(values[0], rel=1e-4, abs=1e-5), key

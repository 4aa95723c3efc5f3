"""Losses and their gradients against torchrl 0.14.1 with the same networks (``golden.json``, by ``make.py``)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from tests.objectives.golden.make import results

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())
#: What differs on purpose; see docs/differences.md.
DIFFERENT = {
    "ClipPPOLoss, own advantage": {"explained_variance", "ESS"},  # one number for a batch of several dimensions
    "SACLoss, first version": {"loss_qvalue", "td_error"},  # each network learns from the whole batch
}


@cache
def ours():
    return results("rlnb")


def close(one, other):
    return len(one[0]) == len(other[0]) and all(
        a == pytest.approx(b, rel=1e-4, abs=1e-5) for a, b in zip(one[0], other[0], strict=True)
    )


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_terms_are_those_of_torchrl(name):
    theirs, mine = GOLDEN[name]["terms"], ours()[name]["terms"]
    assert set(theirs) <= set(mine)
    assert {key for key in theirs if not close(theirs[key], mine[key])} <= DIFFERENT.get(name, set())
    # A share of variance for each feature is one number here.
    shapes = {key for key in theirs if theirs[key][1] != mine[key][1]} - {"explained_variance"}
    assert shapes <= DIFFERENT.get(name, set())


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_gradients_are_those_of_torchrl_and_reach_the_same_parameters(name):
    theirs, mine = GOLDEN[name]["gradients"], ours()[name]["gradients"]
    assert set(theirs) == set(mine) and theirs
    for term in set(theirs) - DIFFERENT.get(name, set()):
        assert set(theirs[term]) == set(mine[term])
        assert all(close(theirs[term][key], mine[term][key]) for key in theirs[term]), term


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_of_what_torchrl_writes_into_the_data_the_td_error_is_written(name):
    theirs, mine = GOLDEN[name]["written"], ours()[name]["written"]
    assert set(mine) == set(theirs) & {"td_error"}
    for key in set(mine) - DIFFERENT.get(name, set()):
        assert theirs[key][1] == mine[key][1] and close(theirs[key], mine[key])


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_keys_are_those_of_torchrl(name):
    assert GOLDEN[name]["keys"] == ours()[name]["keys"]

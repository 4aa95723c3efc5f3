"""Transforms compared with torchrl 0.14.1 on the same data (``golden.json``, written by ``make_golden.py``)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from tests.envs.transforms.make_golden import results

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())
#: What differs on purpose, with the entries that do.
DIFFERENT = {
    "binarize, env": {"full_reward_spec.reward", "next.reward"},  # the reward keeps its dtype
    "skip, env": {"next.observation", "next.reward"},  # an ended episode is not stepped further
    "steps, inverse": {"next.done", "next.terminated"},  # the end of what the step leads to
}


@cache
def ours():
    return json.loads(json.dumps(results("rlnb")))


def entries(found):
    return {**found["specs"], **found["data"]} if "specs" in found else found


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_as_torchrl(name):
    assert name in ours(), "this use is refused here"
    want, got = entries(GOLDEN[name]), entries(ours()[name])
    assert set(want) == set(got)
    assert {key for key in want if want[key] != got[key]} == DIFFERENT.get(name, set())

"""World models against those of torchrl 0.14.1 with the same weights (``golden.json``, by ``make.py``)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from tests.modules.golden_model_based.make import results

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())


@cache
def ours():
    return results("rlnb")


def close(one, other):
    # convolutions add their products in the order that is quickest on the machine
    return one[1] == other[1] and one[0] == pytest.approx(other[0], rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("name", sorted(GOLDEN["signatures"]))
def test_arguments_have_the_names_order_and_defaults_of_torchrl(name):
    theirs, mine = GOLDEN["signatures"][name], dict(ours()["signatures"][name])
    if name == "ModelBasedEnvBase":
        assert mine.pop("dtype") == "None"  # its documentation has it
        assert mine.pop("run_type_checks") == "None" and theirs.pop("run_type_checks") == "False"
    assert list(mine.items()) == list(theirs.items())


@pytest.mark.parametrize("what", ["forwards", "homes"])
def test_inputs_and_dotted_paths_are_those_of_torchrl(what):
    assert ours()[what] == GOLDEN[what]


@pytest.mark.parametrize("name", sorted(GOLDEN["networks"]))
def test_networks_are_those_of_torchrl(name):
    theirs, mine = GOLDEN["networks"][name], ours()["networks"][name]
    assert mine["shapes"] == theirs["shapes"]  # a state_dict of one can be loaded into the other
    assert all(close(a, b) for a, b in zip(mine["outputs"], theirs["outputs"], strict=True))


@pytest.mark.parametrize("batch", sorted(GOLDEN["rollout"]["found"]))
def test_the_latent_states_along_a_trajectory_are_those_of_torchrl(batch):
    theirs, mine = GOLDEN["rollout"], ours()["rollout"]
    assert mine["keys"] == theirs["keys"]
    theirs, mine = theirs["found"][batch], mine["found"][batch]
    assert mine["same"] == theirs["same"] and mine["entries"].keys() == theirs["entries"].keys()
    assert [key for key, value in mine["entries"].items() if not close(value, theirs["entries"][key])] == []


@pytest.mark.parametrize("batch", ["rollout []", "rollout [7]"])
def test_imagined_rollouts_are_those_of_torchrl(batch):
    theirs, mine = GOLDEN["envs"][batch], ours()["envs"][batch]
    assert mine.keys() == theirs.keys()
    assert [key for key, value in mine.items() if not close(value, theirs[key])] == []


def test_specs_and_methods_of_imagined_envs_are_those_of_torchrl():
    theirs, mine = dict(GOLDEN["envs"]), dict(ours()["envs"])
    same, picture = mine.pop("decode_obs")
    assert [same, close(picture, theirs["decode_obs"][1])] == [theirs.pop("decode_obs")[0], True]
    assert {key: value for key, value in mine.items() if not key.startswith("rollout")} == {
        key: value for key, value in theirs.items() if not key.startswith("rollout")
    }

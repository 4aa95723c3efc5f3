"""OpenMLEnv over small given tables, and the errors for tables that are not available."""

from __future__ import annotations

import re
import sys
import types

import pytest
import torch

from rlnb.data.datasets.openml import TABLES
from rlnb.envs import OpenMLEnv, check_env_specs

TABLE = torch.arange(12.0).reshape(4, 3), [0, 1, 2, 1]


@pytest.mark.parametrize("batch_size", [(), (5,), (2, 3)])
def test_an_episode_is_one_step_on_one_row(batch_size):
    env = OpenMLEnv("mine", batch_size=batch_size, table=TABLE)
    check_env_specs(env)
    data = env.rollout(50, break_when_any_done=False)
    assert data.batch_size == (*batch_size, 50) and data["next", "terminated"].all()
    assert not data["next", "truncated"].any()
    rows = (data["observation"][..., 0] / 3).long()
    assert torch.equal(data["observation"], TABLE[0][rows]) and torch.equal(data["next", "observation"], TABLE[0][rows])
    assert torch.equal(data["y"], torch.tensor(TABLE[1])[rows])
    assert torch.equal(data["next", "reward"].squeeze(-1), (data["action"] == data["y"]).float())
    assert set(rows.unique().tolist()) == {0, 1, 2, 3}
    assert env.action_spec_unbatched.n == 3


def test_seeds_repeat():
    found = []
    for seed in (3, 3, 4):
        env = OpenMLEnv("mine", batch_size=[50], table=TABLE)
        env.set_seed(seed)
        found.append(env.reset()["y"])
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


def test_some_rows_are_drawn_anew():
    env = OpenMLEnv("mine", batch_size=[100], table=TABLE, seed=0)
    td = env.rand_step(env.reset())["next"].exclude("reward")
    mask = torch.arange(100)[:, None] < 50
    after = env.reset(td.clone().set("_reset", mask))
    assert torch.equal(after["observation"][50:], td["observation"][50:])
    assert not torch.equal(after["observation"][:50], td["observation"][:50])


@pytest.mark.parametrize(
    "table",
    [
        (torch.zeros(3), [0, 1, 2]),
        (torch.zeros(3, 2), [0, 1]),
        (torch.zeros(2, 2), [0.0, 1.0]),
        (torch.zeros(2, 2), [0, -1]),
    ],
)
def test_an_invalid_table_is_rejected(table):
    classes = torch.tensor(table[1])
    text = (
        "A table is a pair of features [rows, features] and classes [rows], integers from 0, and this one has "
        f"features {list(table[0].shape)} and classes {list(classes.shape)} of {classes.dtype}."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        OpenMLEnv("mine", table=table)


def test_unknown_names_propose_near_ones():
    with pytest.raises(ValueError) as caught:
        OpenMLEnv("adult")
    assert str(caught.value) == ("There is no environment 'adult' in OpenML's tables. Did you mean 'adult_num'?")


def test_without_a_network_the_error_says_what_to_do(monkeypatch):
    def fail(**kwargs):
        assert kwargs == {"data_id": 1120, "data_home": "here", "as_frame": True}
        raise OSError("unreachable")

    datasets = types.ModuleType("sklearn.datasets")
    datasets.fetch_openml = fail
    monkeypatch.setitem(sys.modules, "sklearn", types.ModuleType("sklearn"))
    monkeypatch.setitem(sys.modules, "sklearn.datasets", datasets)
    with pytest.raises(RuntimeError) as caught:
        OpenMLEnv("magic", data_home="here")
    assert str(caught.value) == (
        "The table 'magic' could not be downloaded from openml.org (unreachable). Fix: connect to the internet once, "
        "after which it is on disk, or give a table: OpenMLEnv(name, table=(features, classes))."
    )
    assert sorted(TABLES) == OpenMLEnv.available_envs


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)  # as if it could not be found
    assert OpenMLEnv.available_envs == []
    with pytest.raises(ImportError) as caught:
        OpenMLEnv("magic")
    assert str(caught.value) == (
        "OpenMLEnv needs sklearn, which is not installed. Fix: pip install scikit-learn pandas."
    )

"""OpenMLEnv over the tables that scikit-learn ships, and its download with a stand-in for openml.org's answer."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
import torch
from sklearn import datasets, linear_model

from rlnb.data.datasets.openml import TABLES, encode_table
from rlnb.envs import OpenMLEnv, ParallelEnv, check_env_specs
from rlnb.envs.libs import openml
from tests.libs.wrappers import assert_keeps_promises

LOADERS = {"iris": datasets.load_iris, "wine": datasets.load_wine, "digits": datasets.load_digits}


@pytest.mark.parametrize("batch_size", [(), (3,)])
@pytest.mark.parametrize("name", LOADERS)
def test_it_keeps_its_promises(name, batch_size):
    table = LOADERS[name](return_X_y=True)
    data = assert_keeps_promises(lambda: OpenMLEnv(name, batch_size=batch_size, table=table))
    rows = {(*row.tolist(), y) for row, y in zip(np.float32(table[0]), table[1].tolist(), strict=True)}
    for row, y in zip(data["observation"].reshape(-1, table[0].shape[1]), data["y"].flatten(), strict=True):
        assert (*row.tolist(), y.item()) in rows


def test_a_classifier_earns_its_accuracy():
    features, classes = datasets.load_iris(return_X_y=True)
    model = linear_model.LogisticRegression(max_iter=1000).fit(features, classes)
    env = OpenMLEnv("iris", batch_size=[5000], table=(features, classes), seed=0)

    def policy(td):
        return td.set("action", torch.from_numpy(model.predict(td["observation"].numpy())))

    earned = env.rollout(1, policy)["next", "reward"].mean().item()
    assert earned == pytest.approx(model.score(features, classes), abs=0.01)


@pytest.fixture
def frame():
    return pandas.DataFrame({
        "age": [39, 50, 38, None, 28],
        "work": pandas.Categorical(["b", "a", "b", "a", "c"], categories=["a", "b", "c", "never"]),
        "sex": ["m", "f", "m", "f", "f"],
        "hours": [40.5, 13.0, 40.0, 40.0, 40.0],
    }), pandas.Series(["<=50K", ">50K", "<=50K", "<=50K", ">50K"], dtype="category")  # fmt: skip


def test_tables_are_encoded(frame):
    features, classes = encode_table(*frame, one_hot=False)
    assert features.tolist() == [[39, 1, 1, 40.5], [50, 0, 0, 13], [38, 1, 1, 40], [28, 2, 0, 40]]
    assert classes.tolist() == [0, 1, 0, 1] and features.dtype == np.float32
    features, _ = encode_table(*frame, one_hot=True)
    assert features[0].tolist() == [39, 0, 1, 0, 0, 1, 40.5] and features.shape == (4, 7)


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_downloaded_once(monkeypatch, frame, name):
    asked = []

    def fetch_openml(*, data_id, data_home, as_frame):
        asked.append((data_id, data_home, as_frame))
        return type("Bunch", (), {"data": frame[0], "target": frame[1]})

    monkeypatch.setattr(datasets, "fetch_openml", fetch_openml)
    openml._fetch.cache_clear()
    for _ in range(2):
        env = OpenMLEnv(name, batch_size=[2])
        check_env_specs(env)
    assert env.observation_spec["observation"].shape == (2, 7 if name.endswith("onehot") else 4)
    assert asked == [(TABLES[name][0], None, True)]
    openml._fetch.cache_clear()


def test_processes():
    table = datasets.load_wine(return_X_y=True)
    with ParallelEnv(2, lambda: OpenMLEnv("wine", batch_size=[3], table=table)) as env:
        assert env.rollout(5, break_when_any_done=False)["observation"].shape == (2, 3, 5, 13)

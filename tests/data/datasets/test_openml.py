"""OpenMLExperienceReplay, from the interface of openml.org on a local server to samples of rows."""

from __future__ import annotations

import hashlib
import importlib
import json
import sys

import numpy as np
import pytest
import torch

from rlnb.data import SamplerWithoutReplacement
from rlnb.data.datasets.openml import TABLES, OpenMLExperienceReplay, encode_table

ROWS = [
    ("39", "'Private'", "0", "'<=50K'"),
    ("50", "'State-gov'", "2", "'>50K'"),
    ("28", "?", "3", "'>50K'"),
    ("61", "'Private'", "4", "'>50K'"),
    ("44", "'Never-worked'", "5", "'<=50K'"),
]
ARFF = """@RELATION adult
@ATTRIBUTE 'age' NUMERIC
@ATTRIBUTE 'workclass' {'Private', 'State-gov', 'Never-worked', 'Without-pay'}
@ATTRIBUTE 'gain' NUMERIC
@ATTRIBUTE 'class' {'<=50K', '>50K'}
@DATA
""" + "\n".join(",".join(row) for row in ROWS)
FEATURES = [("age", "numeric", []), ("workclass", "nominal", ["Private", "State-gov", "Never-worked", "Without-pay"])]
FEATURES += [("gain", "numeric", []), ("class", "nominal", ["<=50K", ">50K"])]


@pytest.fixture
def openml(server, monkeypatch):
    """The server of openml.org with the table "adult"."""
    module = importlib.import_module("sklearn.datasets._openml")  # the function of the package hides the module
    for name, path in (("_DATA_INFO", "{}"), ("_DATA_FEATURES", "features/{}"), ("_DATA_QUALITIES", "qualities/{}")):
        monkeypatch.setattr(module, name, f"{server.url}/api/v1/json/data/{path}")
    number = TABLES["adult_num"][0]
    features = [
        {
            "index": str(index),
            "name": name,
            "data_type": kind,
            "nominal_value": values,
            "is_target": str(name == "class").lower(),
            "is_ignore": "false",
            "is_row_identifier": "false",
            "number_of_missing_values": str(int(name == "workclass")),
        }
        for index, (name, kind, values) in enumerate(FEATURES)
    ]
    for feature in features:
        if not feature["nominal_value"]:
            del feature["nominal_value"]
    url = server.put("data/v1/download/1/adult.arff", ARFF.encode())
    description = {
        "id": str(number),
        "name": "adult",
        "version": "2",
        "format": "ARFF",
        "status": "active",
        "description": "Adults",
        "url": url,
        "file_id": "1",
        "md5_checksum": hashlib.md5(ARFF.encode()).hexdigest(),
    }
    answers = {
        f"{number}": {"data_set_description": description},
        f"features/{number}": {"data_features": {"feature": features}},
        f"qualities/{number}": {"data_qualities": {"quality": [{"name": "NumberOfInstances", "value": len(ROWS)}]}},
    }
    for path, answer in answers.items():
        server.put(f"api/v1/json/data/{path}", json.dumps(answer).encode())
    return server


@pytest.mark.parametrize("name", ["adult_num", "adult_onehot"])
def test_the_whole_path(openml, tmp_path, name):
    dataset = OpenMLExperienceReplay(name, 3, tmp_path)
    data = dataset[:]
    whole = [row for row in ROWS if "?" not in row]
    assert data["y"].tolist() == [int(row[-1] == "'>50K'") for row in whole]
    kinds = ["'Never-worked'", "'Private'", "'State-gov'"]
    for row, features in zip(whole, data["X"], strict=True):
        kind = kinds.index(row[1])
        middle = [float(kind == k) for k in range(3)] if name == "adult_onehot" else [float(kind)]
        assert features.tolist() == [float(row[0]), *middle, float(row[2])]
    assert data["X"].dtype == torch.float32 and data["y"].dtype == torch.int64
    sample = dataset.sample()
    assert torch.equal(sample["X"], data["X"][sample["index"]]) and len(sample) == 3
    openml.requests.clear()
    again = OpenMLExperienceReplay(name, 2, tmp_path, SamplerWithoutReplacement(), download=False)
    assert openml.requests == []
    assert sorted(torch.cat([batch["index"] for batch in again]).tolist()) == list(range(4))


def test_chunks(openml, tmp_path, monkeypatch):
    monkeypatch.setattr("rlnb.data.datasets.openml.CHUNK_BYTES", 24)
    assert len(OpenMLExperienceReplay("adult_num", root=tmp_path)) == 4


@pytest.mark.filterwarnings("ignore:A network error occurred")
def test_without_a_network(openml, tmp_path, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between the attempts of scikit-learn
    openml.fail(f"api/v1/json/data/{TABLES['adult_num'][0]}", 403, times=99)
    with pytest.raises(OSError) as caught:
        OpenMLExperienceReplay("adult_num", root=tmp_path)
    assert str(caught.value) == (
        "The table 'adult_num' could not be downloaded from openml.org (HTTP Error 403: Forbidden). Fix: connect to "
        "the internet once, after which it is on disk."
    )


@pytest.mark.parametrize("library", ["sklearn", "pandas"])
def test_without_the_libraries(openml, tmp_path, monkeypatch, library):
    OpenMLExperienceReplay("adult_num", root=tmp_path)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError) as caught:
        OpenMLExperienceReplay("adult_onehot", root=tmp_path)
    assert str(caught.value) == (
        f"OpenMLExperienceReplay needs {library}, which is not installed. Fix: pip install 'rlnb[datasets]'."
    )
    assert len(OpenMLExperienceReplay("adult_num", root=tmp_path)) == 4  # it is on disk


def test_names(tmp_path):
    assert set(OpenMLExperienceReplay.available_datasets) == {
        *("adult_num", "adult_onehot", "mushroom_num", "mushroom_onehot", "covertype", "shuttle", "magic")
    }
    with pytest.raises(ValueError, match="Did you mean 'mushroom_num'"):
        OpenMLExperienceReplay("mushrooms", root=tmp_path)
    with pytest.raises(ValueError, match="A table has rows and no trajectories"):
        OpenMLExperienceReplay("magic", root=tmp_path, split_trajs=True)


def test_categories_are_numbered_as_they_occur():
    import pandas

    data = pandas.DataFrame({"a": pandas.Categorical(["x", "z", "x"], ["x", "y", "z"]), "b": [1, 2, 3]})
    features, classes = encode_table(data, pandas.Series(["no", "yes", "no"]), one_hot=False)
    assert np.array_equal(features, [[0, 1], [1, 2], [0, 3]]) and classes.tolist() == [0, 1, 0]

"""The dataset examples of TorchRL's page on data, with files in the original layout from a local server."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from rlnb.data import SamplerWithoutReplacement
from rlnb.data.datasets import D4RLExperienceReplay, RobosetExperienceReplay, d4rl, roboset
from rlnb.envs import RenameTransform
from tests.data.datasets.server import Server
from tests.data.datasets.test_d4rl import h5
from tests.data.datasets.test_roboset import NAME as FK1
from tests.data.datasets.test_roboset import files

LENGTHS = (207, 150, 190, 180, 199, 171, 160, 205, 188, 177)  # of the ten trajectories


@pytest.fixture
def kitchen(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path) -> Server:
    """The file of "kitchen-complete-v0" on the server, and a home without datasets."""
    monkeypatch.setattr(d4rl, "_SERVER", server.url)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rng, steps = np.random.default_rng(0), sum(LENGTHS)
    columns = {
        "observations": rng.normal(size=(steps, 60)).astype("float32"),
        "actions": rng.normal(size=(steps, 9)).astype("float32"),
        "rewards": rng.integers(0, 5, steps).astype("float32"),
        "terminals": np.zeros(steps, bool),
        "timeouts": np.isin(np.arange(steps), np.cumsum(LENGTHS) - 1),
        "infos": np.zeros(steps, "int64"),
    }
    server.put("kitchen/mini_kitchen_microwave_kettle_light_slider-v0.hdf5", h5(columns))
    return server


def test_trajectories_of_the_kitchen(kitchen):
    dataset = D4RLExperienceReplay("kitchen-complete-v0", split_trajs=True, batch_size=10)
    sample = dataset.sample()  # will sample 10 trajectories since split_trajs is set to True
    assert sample.batch_size == (10, 207)
    shapes = {"action": (9,), "observation": (60,), "done": (1,), "index": (), "infos": (), "mask": (), "traj_ids": ()}
    shapes |= {("next", "observation"): (60,), ("next", "reward"): (1,), ("next", "done"): (1,), "timeouts": ()}
    assert {key: tuple(sample[key].shape[2:]) for key in shapes} == shapes
    dataset.append_transform(RenameTransform(["done", ("next", "done")], ["terminal", ("next", "terminal")]))
    renamed = dataset.sample().keys(True)
    assert {"terminal", ("next", "terminal")} <= set(renamed) and not {"done", ("next", "done")} & set(renamed)

    dataset = D4RLExperienceReplay(
        "kitchen-complete-v0", sampler=SamplerWithoutReplacement(drop_last=True), split_trajs=True, batch_size=3
    )
    drawn = [data["mask"].sum(1).tolist() for data in dataset]
    assert [len(batch) for batch in drawn] == [3, 3, 3]
    assert len({length for batch in drawn for length in batch}) == 9  # no trajectory twice


def test_preprocessing_of_roboset(server, monkeypatch, tmp_path):
    monkeypatch.setattr(roboset._FOLDERS, "_files", None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    server.put_hub("jdvakil/RoboSet_Sim", files())
    dataset = RobosetExperienceReplay(FK1, batch_size=32, download="force")

    def func(data):
        return data.set("obs_norm", data.get("observation").norm(dim=-1))

    dataset.preprocess(func, num_workers=max(1, os.cpu_count() - 2), num_chunks=1000, mp_start_method="fork")
    sample = dataset.sample()
    assert torch.allclose(sample["obs_norm"], sample["observation"].norm(dim=-1))
    # Making the dataset again gives the transformed version.
    sample = RobosetExperienceReplay(FK1, batch_size=32).sample()
    assert "obs_norm" in sample.keys()  # noqa: SIM118

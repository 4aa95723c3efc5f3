"""RobosetExperienceReplay: files of RoboHive's logger on the hub."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlnb.data import SliceSampler, check_ted
from rlnb.data.datasets import RobosetExperienceReplay, roboset
from rlnb.envs import ExcludeTransform
from tests.data.datasets.server import Server
from tests.data.datasets.test_d4rl import h5

NAME = "FK1-v4(expert)/FK1_MicroOpenRandom_v2d-v4"
ROWS = {0: (4, 6, *[2] * 9), 1: (5,)}  # by seed: more than ten, whose names do not sort as text


def trajectory(seed: int, number: int, rows: int) -> dict[str, Any]:
    """A group of a file: the last row has no action, and one in the middle is done without an end."""
    rng = np.random.default_rng(100 * seed + number)
    actions = rng.normal(size=(rows, 2))
    actions[-1] = np.nan
    done = np.zeros(rows, bool)
    done[1] = True
    done[-1] = number % 2 == 0
    return {
        "observations": rng.normal(size=(rows, 3)),
        "actions": actions,
        "rewards": rng.normal(size=rows),
        "done": done,
        "time": np.arange(rows) * 0.04,
        "env_infos/solved": rng.random(rows) > 0.5,
        "env_infos/obs_dict/pos": rng.normal(size=(rows, 4)),
        "user_cmt": "fine",
    }


def files() -> dict[str, bytes]:
    found = {}
    for seed, lengths in ROWS.items():
        groups = {
            f"Trial{number}/{name}": value
            for number, rows in enumerate(lengths)
            for name, value in trajectory(seed, number, rows).items()
        }
        found[f"{NAME}/rollouts_seed{seed}.h5"] = h5(groups)
    return found


@pytest.fixture
def hub(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(roboset._FOLDERS, "_files", None)
    other = {"DAPG(human)/door_v2d-v1/a_seed0.h5": b"x", "README.md": b"x"}
    server.put_hub("jdvakil/RoboSet_Sim", {**files(), **other})
    return server


def test_the_whole_path(hub: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlnb.data.datasets.hdf5.CHUNK_BYTES", 200)
    dataset = RobosetExperienceReplay(NAME, 8, root=tmp_path)
    data = dataset[:]
    assert check_ted(data).ok
    start = 0
    for seed, lengths in ROWS.items():
        for number, rows in enumerate(lengths):
            real, part = trajectory(seed, number, rows), data[start : start + rows - 1]
            start += rows - 1
            assert part["seed"].unique().tolist() == [seed] and part["episode"].unique().tolist() == [number]
            for key, values in {
                "observation": real["observations"][:-1],
                ("next", "observation"): real["observations"][1:],
                "action": real["actions"][:-1],
                ("next", "reward"): real["rewards"][1:, None],
                "time": real["time"][:-1],
                ("info", "solved"): real["env_infos/solved"][:-1],
                ("next", "info", "obs_dict", "pos"): real["env_infos/obs_dict/pos"][1:],
            }.items():
                assert torch.equal(part[key], torch.from_numpy(values)), key
            ended = "terminated" if real["done"][-1] else "truncated"
            assert part["next", ended].flatten().tolist() == [False] * (rows - 2) + [True]
            assert part["next", "done"].sum() == 1
    assert start == len(data)
    dataset.append_transform(ExcludeTransform("info", ("next", "info")))
    sample = dataset.sample()
    assert set(sample.keys(True, True)) == {
        *("action", "done", "episode", "index", "observation", "seed", "terminated", "time", "truncated"),
        *(("next", name) for name in ("done", "observation", "reward", "terminated", "truncated")),
    }
    sampler = SliceSampler(slice_len=3, end_key=("next", "done"))
    slices = RobosetExperienceReplay(NAME, 9, root=tmp_path, sampler=sampler).sample().reshape(3, 3)
    assert torch.equal(slices["observation"][:, 1:], slices["next", "observation"][:, :-1])
    split = RobosetExperienceReplay(NAME, root=tmp_path, split_trajs=True)[:]
    assert split["mask"].sum(1).tolist() == [rows - 1 for lengths in ROWS.values() for rows in lengths]


def test_names(hub: Server, tmp_path: Path) -> None:
    assert RobosetExperienceReplay.available_datasets == ["DAPG(human)/door_v2d-v1", NAME]
    text = f"jdvakil/RoboSet_Sim on the hub has no dataset {NAME + '1'!r}. Did you mean {NAME!r}?"
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        RobosetExperienceReplay(NAME + "1", root=tmp_path)
    with pytest.raises(ValueError, match="cannot be read: it was damaged or cut short"):
        RobosetExperienceReplay("DAPG(human)/door_v2d-v1", root=tmp_path)

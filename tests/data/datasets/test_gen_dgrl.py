"""GenDGRLExperienceReplay, from an archive of episodes on a server to slices and whole trajectories."""

from __future__ import annotations

import io
import os
import tarfile

import numpy as np
import pytest
import torch

from rlnb.data import SliceSampler, check_ted
from rlnb.data.datasets.gen_dgrl import GenDGRLExperienceReplay

LENGTHS = (5, 9, 1, 12)


def episode(length, seed, done=True):
    rng = np.random.default_rng(seed)
    return {
        "observations": rng.integers(0, 256, (length + 1, 3, 64, 64)).astype(np.float32),
        "actions": rng.integers(0, 15, (length, 1)),
        "rewards": rng.normal(size=(length, 1)).astype(np.float32),
        "dones": np.arange(length) == (length - 1 if done else length),
    }


def npz(arrays):
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return content.getvalue()


def pickled(arrays):
    content = io.BytesIO()
    np.save(content, np.array(arrays, dtype=object), allow_pickle=True)
    return content.getvalue()


def archive(files, mode="w:xz"):
    content = io.BytesIO()
    options = {"preset": 0} if mode == "w:xz" else {}
    with tarfile.open(fileobj=content, mode=mode, **options) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return content.getvalue()


EPISODES = [episode(length, seed) for seed, length in enumerate(LENGTHS)]


@pytest.fixture
def put(server, monkeypatch):
    monkeypatch.setattr(GenDGRLExperienceReplay, "url", server.url)

    def put(save=npz, episodes=EPISODES, path="1M/expert/bigfish.tar.xz", suffix="npy"):
        names = [f"bigfish/20230101T00_{k}_{len(e['actions'])}_7_1.50.{suffix}" for k, e in enumerate(episodes)]
        server.put(path, archive({name: save(e) for name, e in zip(names, episodes, strict=True)}))

    return put


def check_steps(data, episodes=EPISODES):
    stacked = {key: np.concatenate([e[key][: len(e["actions"])] for e in episodes]) for key in episodes[0]}
    assert np.array_equal(data["observation"].numpy(), stacked["observations"])
    assert np.array_equal(data["action"].numpy(), stacked["actions"][:, 0])
    assert np.array_equal(data["next", "reward"].numpy(), stacked["rewards"])
    assert np.array_equal(data["next", "terminated"].numpy()[:, 0], stacked["dones"])
    after = np.concatenate([e["observations"][1:] for e in episodes])
    after[stacked["dones"]] = 0
    assert np.array_equal(data["next", "observation"].numpy(), after)


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_the_whole_path(put, tmp_path, suffix):
    put(suffix=suffix)
    dataset = GenDGRLExperienceReplay("bigfish-1M_E", batch_size=32, root=tmp_path)
    data = dataset[:]
    check_ted(data).raise_if_broken()
    check_steps(data)
    assert data["observation"].dtype == torch.uint8 and data["action"].dtype == torch.int64
    assert not data["next", "truncated"].any()
    assert dataset.sample()["next", "observation"].shape == (32, 3, 64, 64)
    check_steps(GenDGRLExperienceReplay("bigfish-1M_E", root=tmp_path, download=False)[:])


def test_slices_and_trajectories(put, tmp_path):
    put()
    dataset = GenDGRLExperienceReplay("bigfish-1M_E", 12, root=tmp_path, sampler=SliceSampler(slice_len=4))
    sample = dataset.sample().reshape(3, 4)
    assert (sample["index"].diff(dim=1) == 1).all()
    split = GenDGRLExperienceReplay("bigfish-1M_E", 2, root=tmp_path, split_trajs=True)
    assert split[:]["mask"].sum(-1).tolist() == list(LENGTHS)
    assert split.sample()["observation"].shape == (2, 12, 3, 64, 64)


def test_pickled_episodes_need_to_be_asked_for(put, tmp_path):
    put(pickled)
    with pytest.raises(ValueError, match=r"holds pickled Python objects\. .* pass allow_pickle=True to GenDGRL"):
        GenDGRLExperienceReplay("bigfish-1M_E", root=tmp_path)
    check_steps(GenDGRLExperienceReplay("bigfish-1M_E", root=tmp_path, allow_pickle=True)[:])


class Evil:
    def __reduce__(self):
        return os._exit, (13,)


def test_a_pickle_inside_of_an_npz_is_never_loaded(put, tmp_path):
    put(lambda arrays: npz(arrays | {"dones": np.array([Evil()], dtype=object)}))
    for allow_pickle in (False, True):
        with pytest.raises(ValueError, match="holds pickled Python objects"):
            GenDGRLExperienceReplay("bigfish-1M_E", root=tmp_path, allow_pickle=allow_pickle)


def test_an_episode_that_is_not_done_is_truncated(put, tmp_path):
    episodes = [episode(5, 0, done=False), episode(3, 1)]
    put(episodes=episodes)
    data = GenDGRLExperienceReplay("bigfish-1M_E", root=tmp_path)[:]
    check_ted(data).raise_if_broken()
    check_steps(data, episodes)
    assert data["next", "truncated"].flatten().nonzero().flatten().tolist() == [4]


def test_an_archive_of_all_games(server, tmp_path, monkeypatch):
    monkeypatch.setattr(GenDGRLExperienceReplay, "url", server.url)
    files = {
        f"data/{game}/{k}.npz": npz(e)
        for game in ("maze", "bigfish")
        for k, e in enumerate(EPISODES[: 1 + (game == "maze")])
    }
    server.put("100k_procgen_dataset_40_suboptimal.tar", archive(files, "w"))
    check_steps(GenDGRLExperienceReplay("maze-level_40_S", root=tmp_path)[:], EPISODES[:2])
    with pytest.raises(ValueError) as caught:
        GenDGRLExperienceReplay("heist-level_40_S", root=tmp_path)
    assert str(caught.value) == (
        "100k_procgen_dataset_40_suboptimal.tar has no episodes of heist, which are files with names such as "
        "heist/0.npy. It has: data/maze/0.npz, data/maze/1.npz, data/bigfish/0.npz."
    )


def test_all_addresses():
    names = GenDGRLExperienceReplay.available_datasets
    assert len(names) == 128
    found = {}
    for name in ("bigfish-1M_E", "maze-1M_S", "heist-10M", "ninja-25M", "miner-level_1_E", "leaper-level_40_E"):
        dataset = GenDGRLExperienceReplay.__new__(GenDGRLExperienceReplay)
        dataset.dataset_id = name
        (found[name],) = (file.url.removeprefix(dataset.url) for file in dataset.remote_files())
    assert found == {
        "bigfish-1M_E": "/1M/expert/bigfish.tar.xz",
        "maze-1M_S": "/1M/suboptimal/maze.tar.xz",
        "heist-10M": "/10M/heist.tar.xz",
        "ninja-25M": "/25M/ninja.tar.xz",
        "miner-level_1_E": "/100k_procgen_dataset_1.tar",
        "leaper-level_40_E": "/100k_procgen_dataset_40.tar",
    }


def test_unknown_names(tmp_path):
    with pytest.raises(ValueError, match="Did you mean 'bigfish-1M_E'"):
        GenDGRLExperienceReplay("bigfish-1M-E", root=tmp_path)


@pytest.mark.parametrize(
    ("save", "reason"),
    [
        (lambda e: npz({"observations": e["observations"]}), "has no 'actions'. Its arrays are: observations."),
        (lambda e: npz(e | {"actions": e["actions"][:-2]}), "do not fit together: observations [6, 3, 64, 64]"),
        (lambda e: npz(e)[:-40], "is damaged"),
        (lambda e: npz(e | {"dones": np.array(1)}), "has one number as 'dones', and not an array with a row for each"),
        (lambda e: b"<html>", "is damaged or is not an npy file"),
        (lambda e: pickled([1]), "holds no dictionary of arrays"),
    ],
)
def test_episodes_that_are_something_else(put, tmp_path, save, reason):
    put(save)
    with pytest.raises(ValueError) as caught:
        GenDGRLExperienceReplay("bigfish-1M_E", root=tmp_path, allow_pickle=True)
    assert reason in str(caught.value)


def test_hostile_archives(server, put, tmp_path):
    put()
    server.put("1M/expert/bigfish.tar.xz", archive({"../../bigfish/1.npz": npz(EPISODES[0])}))
    with pytest.raises(ValueError, match="outside of the folder"):
        GenDGRLExperienceReplay("bigfish-1M_E", root=tmp_path)

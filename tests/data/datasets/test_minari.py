"""MinariExperienceReplay: datasets that Minari wrote, in all its formats, from its folder and from the hub."""

from __future__ import annotations

import json
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import minari
import numpy as np
import pytest
import torch
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer
from rlnb_widgets import BufferExplorer, RolloutPlayer

from rlnb.data import SliceSampler, check_ted
from rlnb.data.datasets import MinariExperienceReplay, minari_data
from tests.data.datasets.server import Server

FORMATS = ("hdf5", "arrow", "parquet")
LENGTHS = (3, 5, 12, *[1] * 8, 4)  # more than ten: their names do not sort as text
OBSERVATIONS = spaces.Dict(
    {
        "pos": spaces.Box(-1, 1, (2, 3), np.float64),
        "pair": spaces.Tuple((spaces.Discrete(3), spaces.MultiBinary(2))),
        "mission": spaces.Text(9),
    }
)
ACTIONS = spaces.Dict({"button": spaces.Discrete(2), "stick": spaces.Box(-1, 1, (2,), np.float32)})


def episode(number: int, length: int) -> EpisodeBuffer:
    rng = np.random.default_rng(number)
    last = np.arange(length) == length - 1
    return EpisodeBuffer(
        id=number,
        seed=number,
        observations={
            "pos": list(rng.normal(size=(length + 1, 2, 3))),
            "pair": (
                list(rng.integers(3, size=length + 1)),
                list(rng.integers(2, size=(length + 1, 2), dtype=np.int8)),
            ),
            "mission": ["go there"] * (length + 1),
        },
        actions={"button": list(rng.integers(2, size=length)), "stick": list(rng.random((length, 2), np.float32))},
        rewards=list(rng.normal(size=length)),
        terminations=list(last & (number % 3 == 0)),
        truncations=list(last & (number % 3 == 1)),
        infos={"success": list(rng.random(length + 1) > 0.5), "deep": {"x": list(rng.normal(size=(length + 1, 4)))}},
    )


def create(name: str, episodes: list[EpisodeBuffer], root: Path, **options: Any) -> Path:
    """Let Minari write a dataset, and return its folder."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setenv("MINARI_DATASETS_PATH", str(root))
        warnings.simplefilter("ignore")
        options = {"observation_space": OBSERVATIONS, "action_space": ACTIONS, **options}
        minari.create_dataset_from_buffers(name, episodes, author="me", algorithm_name="random", **options)
    return root / name


@pytest.fixture(scope="module", params=FORMATS)
def made(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The name of a dataset, and the root where Minari has it."""
    root, name = tmp_path_factory.mktemp("minari"), f"toys/maze/{request.param}-v0"
    create(name, [episode(*each) for each in enumerate(LENGTHS)], root, data_format=request.param)
    return name, root


def column(read: Any) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([np.stack(read(episode(*each))) for each in enumerate(LENGTHS)]))


def test_what_minari_wrote(made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, root = made
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(root))
    monkeypatch.setattr(minari_data, "CHUNK_BYTES", 500)  # episodes are cut into several chunks
    dataset = MinariExperienceReplay(name, 8, root=tmp_path, load_from_local_minari=True)
    data = dataset[:]
    assert check_ted(data).ok and len(data) == sum(LENGTHS) and dataset.data_path == tmp_path / name
    for key, found in {
        ("observation", "pos"): column(lambda e: e.observations["pos"][:-1]),
        ("next", "observation", "pos"): column(lambda e: e.observations["pos"][1:]),
        ("observation", "pair", "_index_0"): column(lambda e: e.observations["pair"][0][:-1]),
        ("next", "observation", "pair", "_index_1"): column(lambda e: e.observations["pair"][1][1:]),
        ("action", "button"): column(lambda e: e.actions["button"]),
        ("action", "stick"): column(lambda e: e.actions["stick"]),
        ("next", "reward"): column(lambda e: e.rewards)[:, None],
        ("next", "terminated"): column(lambda e: e.terminations)[:, None],
        ("info", "success"): column(lambda e: e.infos["success"][:-1]),
        ("next", "info", "deep", "x"): column(lambda e: e.infos["deep"]["x"][1:]),
        ("episode",): torch.arange(len(LENGTHS)).repeat_interleave(torch.tensor(LENGTHS)),
    }.items():
        assert data[key].dtype == found.dtype and torch.equal(data[key], found), key
    # Every third episode was stopped in the middle: no step follows its last one.
    assert data["next", "done"].sum() == len(LENGTHS)
    assert ("observation", "mission") not in data.keys(True)
    about = dataset.metadata
    assert about["total_steps"] == sum(LENGTHS) and about["author"] == ["me"]
    assert about["observation_space"]["subspaces"]["pos"]["shape"] == [2, 3]
    sampler = SliceSampler(slice_len=4, traj_key="episode")
    again = MinariExperienceReplay(name, 8, root=tmp_path, sampler=sampler, download=False)
    assert (again.sample()["episode"].reshape(2, 4).diff() == 0).all()
    split = MinariExperienceReplay(name, root=tmp_path, split_trajs=True)[:]
    assert split["mask"].sum(1).tolist() == list(LENGTHS)


def test_widgets_show_it(made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, root = made
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(root))
    dataset = MinariExperienceReplay(name, 8, root=tmp_path, load_from_local_minari=True)
    assert str(len(dataset)) in repr(BufferExplorer(dataset)) and "8 steps" in repr(RolloutPlayer(dataset[:8]))


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_from_the_hub(made: Any, server: Server, tmp_path: Path) -> None:
    name, root = made
    server.put_hub("farama-minari/toys", files_of(root / "toys"))
    dataset = MinariExperienceReplay(name, root=tmp_path)
    assert check_ted(dataset[:]).ok and len(dataset) == sum(LENGTHS) and not list(tmp_path.rglob("*.download"))
    asked = len(server.requests)
    assert len(MinariExperienceReplay(name, root=tmp_path)) == sum(LENGTHS) and len(server.requests) == asked


def test_names_on_the_hub(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = create("plain-v0", [episode(0, 2)], tmp_path / "minari")
    more = files_of(create("toys/maze/easy-v0", [episode(0, 2)], tmp_path / "minari").parents[1])
    server.put_hub("farama-minari/plain-v0", files_of(plain))
    server.put_hub("farama-minari/toys", more)
    server.put("api/datasets", json.dumps([{"id": "farama-minari/toys"}, {"id": "farama-minari/plain-v0"}]).encode())
    monkeypatch.setattr(minari_data._Names, "names", None)
    assert MinariExperienceReplay.available_datasets == ["plain-v0", "toys/maze/easy-v0"]
    assert len(MinariExperienceReplay("plain-v0", root=tmp_path)) == 2
    text = "farama-minari/toys on the hub has no dataset 'toys/maze/esy-v0'. Did you mean 'toys/maze/easy-v0'?"
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        MinariExperienceReplay("toys/maze/esy-v0", root=tmp_path)
    with pytest.raises(OSError, match="There is no such dataset"):
        MinariExperienceReplay("nobody/maze-v0", root=tmp_path)


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("jpeg", [True, False])
def test_images(data_format: str, jpeg: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = spaces.Box(0, 255, (40, 32, 3), np.uint8)
    frames = [np.full(space.shape, 20 * step, np.uint8) for step in range(4)]
    frames[2][:20] = 255  # JPEG files of several lengths
    buffer = EpisodeBuffer(0, None, None, frames, [0] * 3, [1.0] * 3, [False] * 2 + [True], [False] * 3, {})
    options = {"observation_space": space, "action_space": spaces.Discrete(2), "data_format": data_format}
    if not jpeg:
        monkeypatch.setattr("minari.dataset.minari_storage.MinariStorage.jpeg_encoding", False)
        monkeypatch.setattr("minari.dataset._storages.hdf5_storage.is_image_space", lambda space: False)
        monkeypatch.setattr("minari.dataset._storages.arrow_storage.is_image_space", lambda space: False)
    create("images-v0", [buffer], tmp_path, **options)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    data = MinariExperienceReplay("images-v0", root=tmp_path / "out", load_from_local_minari=True)[:]
    found, real = data["next", "observation"], torch.from_numpy(np.stack(frames[1:]))
    assert (
        found.shape == (3, 40, 32, 3)
        and found.dtype == torch.uint8
        and torch.equal(data["action"], torch.zeros(3).long())
    )
    assert torch.equal(found, real) if not jpeg else (found.int() - real.int()).abs().float().mean() < 3


# What is refused ------------------------------------------------------------------------------------------------------


def refused(kind: type[Exception], text: str, name: str, root: Path, **options: Any) -> None:
    with pytest.raises(kind, match=text):
        MinariExperienceReplay(name, root=root / "out", load_from_local_minari=True, **options)
    assert not (root / "out" / name).exists()


def test_what_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    text = (
        f"Minari has no dataset 'a/b-v0' at {str(tmp_path)!r}. Fix: set the environment variable MINARI_DATASETS_PATH "
        "to the folder where it is, or leave load_from_local_minari out to download it."
    )
    refused(FileNotFoundError, f"^{re.escape(text)}$", "a/b-v0", tmp_path)


@pytest.mark.parametrize(("data_format", "package"), [("hdf5", "h5py"), ("arrow", "pyarrow"), ("parquet", "pyarrow")])
def test_missing_packages(data_format: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create("a-v0", [episode(0, 2)], tmp_path, data_format=data_format)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, package, None)
    text = f"MinariExperienceReplay needs {package}, which is not installed. Fix: pip install 'rlnb[datasets]'."
    refused(ImportError, f"^{re.escape(text)}$", "a-v0", tmp_path)


@pytest.mark.parametrize("data_format", FORMATS)
def test_files_that_were_cut_short(data_format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = create("a-v0", [episode(0, 2)], tmp_path, data_format=data_format)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    (file,) = [path for path in (folder / "data").rglob("*") if path.suffix in (".hdf5", ".arrow", ".parquet")]
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    text = f"^The file {re.escape(repr(str(file)))} cannot be read.* Fix: delete the file, and make the dataset again.$"
    refused(ValueError, text, "a-v0", tmp_path)


def test_files_of_another_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import h5py
    import pyarrow as pa
    import pyarrow.parquet

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    folder = create("a-v0", [episode(0, 2)], tmp_path, data_format="parquet")
    (file,) = (folder / "data" / "0").glob("*.parquet")
    pa.parquet.write_table(pa.table({"observations": [1.0], "rewards": [1.0], "names": ["a"]}), file)
    text = (
        f"The episode at {str(file.parent)!r} has no column 'terminations' of numbers; it has 'observations', "
        "'rewards', 'names'. "
        "Fix: look whether it is a dataset of Minari."
    )
    refused(ValueError, f"^{re.escape(text)}$", "a-v0", tmp_path)
    pa.parquet.write_table(pa.table({"observations": [[1.0, 2.0], [1.0]]}), file)
    text = (
        "The column 'observations' holds list<element: double>, not numbers. Fix: write it as numbers, or leave it out."
    )
    refused(ValueError, f"^{re.escape(text)}$", "a-v0", tmp_path)
    folder = create("b-v0", [episode(0, 2)], tmp_path)
    with h5py.File(folder / "data" / "main_data.hdf5", "a") as h5:
        del h5["episode_0/actions/stick"]
        h5["episode_0/actions/stick"] = np.zeros((5, 2))
    text = (
        "('actions', 'stick') of episode 0 has 5 rows; its 2 steps need 2, or 3 with the reset. "
        "Fix: delete the file, and make the dataset again."
    )
    refused(ValueError, f"^{re.escape(text)}$", "b-v0", tmp_path)
    file = folder / "data" / "metadata.json"
    file.write_text("[]")
    refused(
        ValueError, f"^{re.escape(repr(str(file)))} is not the description of a dataset of Minari ", "b-v0", tmp_path
    )

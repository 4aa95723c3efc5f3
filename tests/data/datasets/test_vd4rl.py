"""VD4RLExperienceReplay: npz files with one episode, HDF5 files with many, and images in samples."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rlnb_widgets import BufferExplorer, RolloutPlayer

from rlnb.data import check_ted
from rlnb.data.datasets import VD4RLExperienceReplay, vd4rl
from rlnb.envs import Compose, ToTensorImage
from tests.data.datasets.server import Server
from tests.data.datasets.test_d4rl import h5

SMALL, LARGE = "main/walker_walk/random/64px", "main/walker_walk/random/84px"
ROWS = (5, 4, 6)


def episode(number: int, rows: int) -> dict[str, np.ndarray[Any, Any]]:
    """An episode: each row has the action that led to it; the second one ends because the walker fell."""
    rng = np.random.default_rng(number)
    discount = np.ones(rows, np.float32)
    discount[-1] = number != 1
    return {
        "image": rng.integers(256, size=(rows, 12, 10, 3), dtype=np.uint8),
        "action": rng.normal(size=(rows, 2)).astype(np.float32),
        "reward": rng.normal(size=rows).astype(np.float32),
        "discount": discount,
        "is_first": np.arange(rows) == 0,
        "is_last": np.arange(rows) == rows - 1,
        "is_terminal": discount == 0,
        "height": rng.normal(size=rows).astype(np.float32),
        "orientations": rng.normal(size=(rows, 14)).astype(np.float32),
    }


def npz(arrays: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def joined(*episodes: dict[str, Any]) -> bytes:
    """A file of DrQ-v2's format: the pictures have channels first."""
    step_types = [np.where(each["is_first"], 0, np.where(each["is_last"], 2, 1)) for each in episodes]
    return h5(
        {
            "observation": np.concatenate([each["image"].transpose(0, 3, 1, 2) for each in episodes]),
            "step_type": np.concatenate(step_types).astype(np.int64),
            **{name: np.concatenate([each[name] for each in episodes]) for name in ("action", "reward", "discount")},
        }
    )


EPISODES = [episode(*each) for each in enumerate(ROWS)]


@pytest.fixture
def hub(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(vd4rl._FOLDERS, "_files", None)
    files = {f"{SMALL}/20220201-{number}-{len(each['reward'])}.npz": npz(each) for number, each in enumerate(EPISODES)}
    files |= {
        f"{LARGE}/walker_shard_1.hdf5": joined(*EPISODES[:2]),
        f"{LARGE}/walker_shard_2.hdf5": joined(EPISODES[2]),
    }
    server.put_hub("conglu/vd4rl", files)
    return server


def rows(name: str, which: slice) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([each[name][which] for each in EPISODES]))


@pytest.mark.parametrize("name", [SMALL, LARGE])
@pytest.mark.parametrize("chunk", [1, 1 << 24])
def test_the_whole_path(name: str, chunk: int, hub: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vd4rl, "CHUNK_BYTES", chunk)
    monkeypatch.setattr("rlnb.data.datasets.hdf5.CHUNK_BYTES", chunk)
    dataset = VD4RLExperienceReplay(name, 4, root=tmp_path, num_workers=2)
    data = dataset.storage[:]
    assert check_ted(data).ok and len(data) == sum(ROWS) - len(ROWS)
    before, after = slice(None, -1), slice(1, None)
    assert torch.equal(data["pixels"], rows("image", before)) and data["pixels"].dtype == torch.uint8
    assert torch.equal(data["next", "pixels"], rows("image", after))
    assert torch.equal(data["action"], rows("action", after))
    assert torch.equal(data["next", "reward"][:, 0], rows("reward", after))
    assert torch.equal(data["is_init"], rows("is_first", before))
    assert torch.equal(data["next", "done"][:, 0], rows("is_last", after))
    assert torch.equal(data["next", "terminated"][:, 0], rows("is_terminal", after))
    if name == SMALL:
        assert torch.equal(data["observation", "height"], rows("height", before))
        assert torch.equal(data["next", "observation", "orientations"], rows("orientations", after))
    sample = dataset.sample()
    at = sample["index"]
    assert torch.equal(sample["pixels"], data["pixels"][at].permute(0, 3, 1, 2) / 255)
    assert sample["next", "pixels"].shape == (4, 3, 12, 10)


def test_pictures_in_samples(hub: Server, tmp_path: Path) -> None:
    def sample(**options: Any) -> torch.Tensor:
        return VD4RLExperienceReplay(SMALL, 4, root=tmp_path, **options).sample()["next", "pixels"]

    assert sample(image_size=5).shape == (4, 3, 5, 5) and sample(image_size=[6, 5]).shape == (4, 3, 6, 5)
    plain = sample(totensor=False)
    assert plain.shape == (4, 12, 10, 3) and plain.dtype == torch.uint8
    assert sample(totensor=False, image_size=(6, 5)).shape == (4, 6, 5, 3)
    ours = ToTensorImage(in_keys=["pixels", ("next", "pixels")])
    for transform in (ours, Compose(ours)):  # not twice
        found = sample(transform=transform)
        assert found.shape == (4, 3, 12, 10) and 0.2 < found.max() <= 1

    class Stored:
        takes_channels_last = True

        def __call__(self, data: Any) -> Any:
            return data

    assert sample(transform=Stored()).shape == (4, 12, 10, 3) and sample(transform=lambda d: d).shape == found.shape
    split = VD4RLExperienceReplay(SMALL, root=tmp_path, split_trajs=True, image_size=5)
    assert split[:]["pixels"].shape == (len(ROWS), max(ROWS) - 1, 3, 5, 5)


def test_widgets_show_it(hub: Server, tmp_path: Path) -> None:
    dataset = VD4RLExperienceReplay(SMALL, 4, root=tmp_path)
    assert "12" in repr(BufferExplorer(dataset)) and "pixels" in repr(RolloutPlayer(dataset[:6]))


def test_names_and_files_that_are_refused(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, file = npz(EPISODES[0]), tmp_path / "root" / "a" / ".64px.download" / "a" / "64px" / "x.npz"
    fix = "Fix: delete the file, and make the dataset again."

    def refused(content: bytes, text: str, name: str = "a/64px", **options: Any) -> None:
        monkeypatch.setattr(vd4rl._FOLDERS, "_files", None)
        server.put_hub("conglu/vd4rl", {"a/64px/x.npz": content})
        file.unlink(missing_ok=True)
        with pytest.raises(ValueError, match=text):
            VD4RLExperienceReplay(name, root=tmp_path / "root", **options)

    refused(whole, re.escape("conglu/vd4rl on the hub has no dataset 'a/65px'. Did you mean 'a/64px'?"), "a/65px")
    refused(whole, r"^num_workers must be at least 0, got -1\.$", num_workers=-1)
    refused(whole[: len(whole) // 2], f"^{re.escape(str(file))} is damaged or cut off ")
    refused(npz({**EPISODES[0], "extra": np.array([{}])}), f"^extra.npy in {re.escape(str(file))} holds pickled ")
    for entry, what in ((np.array(["a"]), "<U1 of shape [1]"), (np.array(3.0), "float64 of shape []")):
        text = f"The entry 'reward' of the file {str(file)!r} holds {what}, not a number or more for each row. {fix}"
        refused(npz({**EPISODES[0], "reward": entry}), f"^{re.escape(text)}$")
    text = f"The file {str(file)!r} has no entry 'action'; it has 'image', 'reward'. Fix: look whether it is of V-D4RL."
    refused(npz({name: EPISODES[0][name] for name in ("image", "reward")}), f"^{re.escape(text)}$")
    text = f"The entry 'action' of the file {str(file)!r} has not 5 rows, as the others. {fix}"
    refused(npz({**EPISODES[0], "action": np.zeros((4, 2))}), f"^{re.escape(text)}$")
    monkeypatch.setattr(vd4rl, "_MAX_FILE_BYTES", 1000)
    refused(whole, f"^{re.escape(str(file))} contains more than 1,000 bytes, which is more than it may")
    assert VD4RLExperienceReplay.available_datasets == ["a/64px"]

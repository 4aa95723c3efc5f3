"""LeRobotExperienceReplay: Parquet files and videos of both versions of the format, on the hub; columns in memory."""

from __future__ import annotations

import io
import itertools
import json
import re
import sys
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from PIL import Image

from rlnb.data import check_ted
from rlnb.data.datasets import LeRobotExperienceReplay, lerobot, lerobot_columns_to_tensordict
from tests.data.datasets.server import Server

NAME, CAMERA, HEIGHT, WIDTH, FPS = "lab/pusht", "observation.images.top", 32, 48, 10
LENGTHS = (4, 3, 5)
FRAMES = sum(LENGTHS)
TASKS = ["push the block", "rest"]


def arrays() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    ends = np.cumsum(LENGTHS) - 1
    return {
        "observation.state": rng.normal(size=(FRAMES, 2)).astype(np.float32),
        "action": rng.normal(size=(FRAMES, 3)).astype(np.float32),
        "next.reward": rng.normal(size=FRAMES).astype(np.float32),
        "next.done": np.isin(np.arange(FRAMES), ends),
        "next.success": np.arange(FRAMES) == ends[1],
        "episode_index": np.repeat(np.arange(len(LENGTHS)), LENGTHS),
        "frame_index": np.concatenate([np.arange(length) for length in LENGTHS]),
        "timestamp": np.concatenate([np.arange(length) / FPS for length in LENGTHS]).astype(np.float32),
        "index": np.arange(FRAMES),
        "task_index": np.repeat([0, 1, 0], LENGTHS),
    }


def picture(number: int) -> np.ndarray[Any, Any]:
    """A frame whose brightness is its number: the codec changes it a little."""
    return np.full((HEIGHT, WIDTH, 3), 20 * number + 10, np.uint8)


def mp4(numbers: range) -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=FPS)
        stream.width, stream.height, stream.pix_fmt, stream.bit_rate = WIDTH, HEIGHT, "yuv420p", 4_000_000
        for number in numbers:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture(number), format="rgb24")))
        container.mux(stream.encode())
    return file.getvalue()


def parquet(columns: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    cells = {name: value if isinstance(value, list) else list(value) for name, value in columns.items()}
    pa.parquet.write_table(pa.table(cells), file, row_group_size=5)
    return file.getvalue()


def description(version: str, **features: Any) -> dict[str, Any]:
    found = arrays()
    listed: dict[str, Any] = {
        name: {"dtype": str(value.dtype), "shape": list(value.shape[1:]) or [1], "names": None}
        for name, value in found.items()
    }
    listed[CAMERA] = {"dtype": "video", "shape": [HEIGHT, WIDTH, 3], "names": ["height", "width", "channels"]}
    paths = {
        "v2.1": {
            "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
            "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
        },
        "v3.0": {
            "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
            "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
        },
    }[version]
    info = {"codebase_version": version, "total_episodes": len(LENGTHS), "total_frames": FRAMES, "fps": FPS}
    return {**info, "chunks_size": 1000, **paths, "features": {**listed, **features}}


def files(version: str, extra: dict[str, Any] | None = None, **features: Any) -> dict[str, bytes]:
    """A dataset as LeRobot writes it."""
    found, starts = {**arrays(), **(extra or {})}, np.cumsum((0, *LENGTHS))
    tree = {"meta/info.json": json.dumps(description(version, **features)).encode(), "README.md": b"x" * 200}
    parts = [{name: value[a:b] for name, value in found.items()} for a, b in itertools.pairwise(starts)]
    if version == "v2.1":
        lines = [json.dumps({"task_index": index, "task": task}) for index, task in enumerate(TASKS)]
        tree["meta/tasks.jsonl"] = "\n".join(lines).encode()
        for number, part in enumerate(parts):
            tree[f"data/chunk-000/episode_{number:06d}.parquet"] = parquet(part)
            video = mp4(range(starts[number], starts[number + 1]))
            tree[f"videos/chunk-000/{CAMERA}/episode_{number:06d}.mp4"] = video
        return tree
    tree["meta/tasks.parquet"] = parquet({"task_index": [0, 1], "__index_level_0__": TASKS})
    # The first two episodes share a file, as does their video.
    tree["data/chunk-000/file-000.parquet"] = parquet({name: value[: starts[2]] for name, value in found.items()})
    tree["data/chunk-000/file-001.parquet"] = parquet(parts[2])
    tree[f"videos/{CAMERA}/chunk-000/file-000.mp4"] = mp4(range(starts[2]))
    tree[f"videos/{CAMERA}/chunk-000/file-001.mp4"] = mp4(range(starts[2], FRAMES))
    episodes = {
        "episode_index": [0, 1, 2],
        f"videos/{CAMERA}/chunk_index": [0, 0, 0],
        f"videos/{CAMERA}/file_index": [0, 0, 1],
        f"videos/{CAMERA}/from_timestamp": [0.0, LENGTHS[0] / FPS, 0.0],
    }
    tree["meta/episodes/chunk-000/file-000.parquet"] = parquet(episodes)
    return tree


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
@pytest.mark.parametrize("chunk", [1, 12_000, 1 << 24])
def test_the_whole_path(
    version: str, chunk: int, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.put_hub(NAME, files(version))
    monkeypatch.setattr(lerobot, "CHUNK_BYTES", chunk)
    dataset, found = LeRobotExperienceReplay(NAME, batch_size=6, root=tmp_path), arrays()
    data = dataset.storage[:]
    assert check_ted(data).ok and len(data) == FRAMES
    for name, key in {
        "observation.state": ("observation", "state"),
        "action": "action",
        "episode_index": "episode",
        "frame_index": "frame",
        "timestamp": "timestamp",
        "task_index": "task_index",
    }.items():
        assert torch.equal(data[key], torch.from_numpy(found[name])), key
    assert torch.equal(data["next", "reward"], torch.from_numpy(found["next.reward"])[:, None])
    ends = torch.from_numpy(found["next.done"])
    assert torch.equal(data["next", "done"][:, 0], ends)
    assert data["next", "terminated"][:, 0].tolist() == found["next.success"].tolist()
    frames = data["observation", "image", "top"]
    assert frames.shape == (FRAMES, 3, HEIGHT, WIDTH) and frames.dtype == torch.uint8
    assert (frames.float().mean((1, 2, 3)) - (20 * torch.arange(FRAMES) + 10)).abs().max() < 6
    for key in (("observation", "state"), ("observation", "image", "top")):
        assert torch.equal(data["next", *key][~ends], data[key][1:][~ends[:-1]])
        ended = data["next", "terminated"][:, 0]
        assert not data["next", *key][ended].any() and ended.sum() == 1
        assert torch.equal(data["next", *key][ends & ~ended], data[key][ends & ~ended])
    assert dataset.metadata["fps"] == FPS and dataset.metadata["tasks"] == TASKS
    sample = dataset.sample()
    assert sample.get("language_instruction").tolist() == [TASKS[number] for number in sample["task_index"]]


def test_slices_keys_and_no_videos(server: Server, tmp_path: Path) -> None:
    server.put_hub(NAME, files("v2.1"))
    dataset = LeRobotExperienceReplay(NAME, batch_size=6, slice_len=3, root=tmp_path, decode_video=False)
    sample = dataset.sample().reshape(2, 3)
    assert (sample["episode"].diff() == 0).all() and (sample["frame"].diff() == 1).all()
    assert ("observation", "image") not in sample.keys(True) and not any("mp4" in r.path for r in server.requests)
    keys = {"observation.state": "proprio", "episode_index": ("meta", "episode")}
    other = LeRobotExperienceReplay(
        NAME, batch_size=4, num_slices=2, root=tmp_path, decode_video=False, key_map=keys, strict_length=False
    )
    sample = other.sample()
    assert sample["proprio"].shape[1:] == (2,) and ("meta", "episode") in sample.keys(True)
    assert len({dataset.data_path, other.data_path, tmp_path / NAME}) == 3
    split = LeRobotExperienceReplay(NAME, root=tmp_path, decode_video=False, split_trajs=True)
    assert split[:]["mask"].sum(1).tolist() == list(LENGTHS)
    with pytest.raises(ValueError, match=r"^num_slices and slice_len were both given\. Fix: leave one of them out\.$"):
        LeRobotExperienceReplay(NAME, root=tmp_path, num_slices=2, slice_len=3)


def test_images_in_parquet_files(server: Server, tmp_path: Path) -> None:
    def png(number: int) -> dict[str, Any]:
        file = io.BytesIO()
        Image.fromarray(picture(number)).save(file, "PNG")
        return {"bytes": file.getvalue(), "path": f"{number}.png"}

    feature = {"dtype": "image", "shape": [3, HEIGHT, WIDTH], "names": None}
    tree = files(
        "v2.1", {"observation.image": [png(number) for number in range(FRAMES)]}, **{"observation.image": feature}
    )
    server.put_hub(NAME, tree)
    data = LeRobotExperienceReplay(NAME, root=tmp_path, decode_video=False)[:]
    real = torch.from_numpy(np.stack([picture(number) for number in range(FRAMES)])).movedim(-1, 1)
    assert torch.equal(data["observation", "image"], real)

    tree["data/chunk-000/episode_000000.parquet"] = parquet(
        {**{name: value[: LENGTHS[0]] for name, value in arrays().items()}, "observation.image": [b"no"] * LENGTHS[0]}
    )
    server.put_hub(NAME, tree)
    with pytest.raises(ValueError) as caught:
        LeRobotExperienceReplay(NAME, root=tmp_path, decode_video=False, download="force")
    start, end = "The column 'observation.image' cannot be read: an image cannot be decoded (", f"). {FIX}"
    assert str(caught.value).startswith(start) and str(caught.value).endswith(end)


def test_columns_in_memory() -> None:
    columns = {name: torch.from_numpy(value) for name, value in arrays().items()}
    columns["task"] = ["push"] * FRAMES
    data = lerobot_columns_to_tensordict(columns)
    assert set(data.keys(True, True, is_leaf=lambda kind: not hasattr(kind, "keys"))) >= {"action", "episode", "frame"}
    assert data["next", "reward"].shape == (FRAMES, 1) and data["observation", "state"].shape == (FRAMES, 2)
    rb = LeRobotExperienceReplay.from_columns(columns, slice_len=3, batch_size=6, rehydrate=True)
    assert check_ted(rb[:].exclude("language_instruction")).ok and len(rb) == FRAMES
    sample = rb.sample()
    assert sample.get("language_instruction").tolist() == ["push"] * 6
    part = sample.reshape(2, 3)
    assert torch.equal(part["next", "observation", "state"][:, :-1], part["observation", "state"][:, 1:])
    with pytest.raises(ValueError, match=r"^The columns must have one length, got \{'a': 2, 'b': 3\}\.$"):
        lerobot_columns_to_tensordict({"a": torch.zeros(2), "b": torch.zeros(3)})
    with pytest.raises(ValueError, match=r"^The columns need 'episode_index', got 'action'\.$"):
        LeRobotExperienceReplay.from_columns({"action": torch.zeros(2)})


# What is refused ------------------------------------------------------------------------------------------------------


@pytest.fixture
def refused(server: Server, tmp_path: Path) -> Any:
    folder = tmp_path / "lab" / ".pusht.download"

    def check(kind: type[Exception], text: str, tree: dict[str, bytes], **options: Any) -> None:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
        server.put_hub(NAME, tree)
        with pytest.raises(kind, match=f"^{re.escape(text.format(folder=folder)).replace('ANY', '.*')}$"):
            LeRobotExperienceReplay(NAME, root=tmp_path, **options)
        assert not (tmp_path / NAME).exists()

    return check


FIX = "Fix: delete the file, and make the dataset again."


def test_parquet_files_that_are_not_right(refused: Any) -> None:
    path, tree = "data/chunk-000/episode_000000.parquet", files("v2.1")
    first = {name: value[: LENGTHS[0]] for name, value in arrays().items()}
    others = ", ".join(repr(name) for name in first if name != "action")
    text = (
        "The file '{folder}/" + path + "' has no column 'action', which info.json lists; it has " + f"{others}. {FIX}"
    )
    refused(ValueError, text, {**tree, path: parquet({k: v for k, v in first.items() if k != "action"})})
    text = "The column 'action' of '{folder}/" + path + "' has FOUND in 4 rows, not numbers of the shape [3] "
    text += f"that info.json says. {FIX}"
    for cells, found in ((np.zeros((4, 2)), "8 values of double"), (["a"] * 4, "4 values of string")):
        refused(ValueError, text.replace("FOUND", found), {**tree, path: parquet({**first, "action": cells})})
    text = "The file '{folder}/" + path + f"' cannot be read (ANY). {FIX}"
    refused(ValueError, text, {**tree, path: tree[path][: len(tree[path]) // 2]})


def test_tasks_that_are_not_right(refused: Any) -> None:
    for version, path in (("v2.1", "meta/tasks.jsonl"), ("v3.0", "meta/tasks.parquet")):
        tree = files(version)
        text = "'{folder}/" + path + f"' gives a task the number NUMBER, and not one from 0 to 1,048,575. {FIX}"
        for number in (-1, 1 << 60):
            rows = {"task_index": [0, number], "task": TASKS}
            lines = [json.dumps({"task_index": index, "task": "a"}) for index in rows["task_index"]]
            content = parquet(rows) if version == "v3.0" else "\n".join(lines).encode()
            refused(ValueError, text.replace("NUMBER", f"{number:,}"), {**tree, path: content})
        text = "'{folder}/" + path + f"' is not a list of tasks of LeRobot (ANY). {FIX}"
        content = parquet({"task_index": [0]}) if version == "v3.0" else b'{"task": "a"}'
        refused(ValueError, text, {**tree, path: content})
    data = "data/chunk-000/episode_000001.parquet"
    text = "The file '{folder}/" + data + f"' has steps of task 1, and there are 1 tasks. {FIX}"
    refused(ValueError, text, {**files("v2.1"), "meta/tasks.jsonl": b'{"task_index": 0, "task": "a"}'})


def test_videos_that_are_not_right(refused: Any) -> None:
    path, tree = f"videos/chunk-000/{CAMERA}/episode_000001.mp4", files("v2.1")
    text = "The video '{folder}/" + path + f"' ends after 2 of 3 frames of an episode. {FIX}"
    refused(ValueError, text, {**tree, path: mp4(range(2))})
    text = "The video '{folder}/" + path + f"' cannot be read (ANY). {FIX}"
    refused(ValueError, text, {**tree, path: tree[path][:100]})
    feature = {"dtype": "video", "shape": [3, HEIGHT, 2 * WIDTH], "names": None}
    first = path.replace("000001", "000000")
    text = "The video '{folder}/" + first + f"' cannot be read (it has 32 x 48 pixels, not (3, 32, 96)). {FIX}"
    refused(ValueError, text, files("v2.1", **{CAMERA: feature}))
    for template in ("{episode}.mp4", "{video_key:09d}.mp4"):
        info = {**description("v2.1"), "video_path": template}
        text = f"info.json has no path of videos that can be filled in (ANY). {FIX}"
        refused(ValueError, text, {**tree, "meta/info.json": json.dumps(info).encode()})
    info = {**description("v2.1"), "video_path": "{episode_index:9999999999d}.mp4"}  # as many digits would be asked for
    text = "The video '{folder}/" + "{{episode_index:9999999999d}}.mp4" + f"' cannot be read (ANY). {FIX}"
    refused(ValueError, text, {**tree, "meta/info.json": json.dumps(info).encode()})
    info = {**description("v2.1"), "video_path": "../../../{episode_index}.mp4"}
    text = "info.json names a video outside of the dataset: '../../../0.mp4'. Fix: do not use the dataset."
    refused(ValueError, text, {**tree, "meta/info.json": json.dumps(info).encode()})


def test_descriptions_and_packages(refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, path = files("v2.1"), "'{folder}/meta/info.json'"
    text = (
        f"{path} says that the format is 'v1.6'; v2.0, v2.1 and v3.0 are known. Fix: convert it with LeRobot's scripts."
    )
    info = {**description("v2.1"), "codebase_version": "v1.6"}
    refused(ValueError, text, {**tree, "meta/info.json": json.dumps(info).encode()})
    text = f"{path} is not the description of a dataset of LeRobot (ANY). {FIX}"
    refused(ValueError, text, {**tree, "meta/info.json": b"{}"})
    for package in ("av", "pyarrow"):
        monkeypatch.setitem(sys.modules, package, None)
        text = f"LeRobotExperienceReplay needs {package}, which is not installed. Fix: pip install 'rlnb[datasets]'."
        refused(ImportError, text, tree)

"""D4RLExperienceReplay: files in the original layout, from a server to samples; ends, and invalid files."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from rlnb.data import SliceSampler, check_ted
from rlnb.data.datasets import D4RLExperienceReplay, d4rl
from rlnb.envs import ObservationNorm
from tests.data.datasets.server import Server

NAME, FILE = "halfcheetah-medium-v2", "gym_mujoco_v2/halfcheetah_medium-v2.hdf5"
LENGTHS = (4, 3, 1, 5)  # terminated, cut off, cut off, unfinished at the end of the file
STEPS = sum(LENGTHS)


def arrays() -> dict[str, Any]:
    """What the file holds, by name."""
    rng = np.random.default_rng(0)
    stops = np.cumsum(LENGTHS) - 1
    step = np.arange(STEPS)
    return {
        "observations": rng.normal(size=(STEPS, 3)).astype(np.float32),
        "actions": rng.normal(size=(STEPS, 2)).astype(np.float32),
        "rewards": rng.normal(size=STEPS).astype(np.float32),
        "terminals": step == stops[0],
        "timeouts": np.isin(step, stops[1:3]),
        "infos/qpos": rng.normal(size=(STEPS, 4)),
        "infos/action_log_probs": rng.normal(size=STEPS),
        "metadata/algorithm": "SAC",
        "metadata/iteration": 600,
        "metadata/policy/fc0/weight": np.eye(2),
    }


def h5(entries: dict[str, Any]) -> bytes:
    """A file with these entries."""
    file = io.BytesIO()
    with h5py.File(file, "w") as group:
        for name, value in entries.items():
            group[name] = value
    return file.getvalue()


@pytest.fixture
def serve(server: Server, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(d4rl, "_SERVER", server.url)
    return lambda entries: server.put(FILE, entries if isinstance(entries, bytes) else h5(entries))


def test_the_whole_path(serve: Any, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(found := arrays())
    monkeypatch.setattr("rlnb.data.datasets.hdf5.CHUNK_BYTES", 300)  # a few rows
    dataset = D4RLExperienceReplay(NAME, 4, root=tmp_path)
    data = dataset[:]
    assert check_ted(data).ok and len(data) == STEPS
    assert torch.equal(data["observation"], torch.from_numpy(found["observations"]))
    assert torch.equal(data["action"], torch.from_numpy(found["actions"]))
    assert torch.equal(data["next", "reward"], torch.from_numpy(found["rewards"])[:, None])
    assert torch.equal(data["infos", "qpos"], torch.from_numpy(found["infos/qpos"]))
    assert torch.equal(data["timeouts"], torch.from_numpy(found["timeouts"]))
    assert data["traj_ids"].tolist() == np.repeat(np.arange(4), LENGTHS).tolist()
    assert data["next", "terminated"].nonzero()[:, 0].tolist() == [3]
    assert data["next", "truncated"].nonzero()[:, 0].tolist() == [6, 7, 12]  # the file ends in the middle of an episode
    ends = data["next", "done"][:, 0]
    assert torch.equal(data["next", "observation"][~ends], data["observation"][1:][~ends[:-1]])
    assert not data["next", "observation"][ends].any()
    assert dataset.metadata == {"algorithm": "SAC", "iteration": 600, "policy": {"fc0": {"weight": [[1, 0], [0, 1]]}}}
    sample = dataset.sample().exclude("infos")
    assert set(sample.keys(True, True)) == {
        *("action", "done", "index", "observation", "terminated", "timeouts", "traj_ids", "truncated"),
        *(("next", name) for name in ("done", "observation", "reward", "terminated", "truncated")),
    }
    assert D4RLExperienceReplay(NAME, root=tmp_path, download=False).metadata["iteration"] == 600
    assert len(server.asked(FILE)) == 1 and not list(tmp_path.glob(".*download"))


def test_transforms_as_on_the_page(serve: Any, tmp_path: Path) -> None:
    serve(found := arrays())
    data = D4RLExperienceReplay(NAME, 128, root=tmp_path)
    data.append_transform(ObservationNorm(loc=-1, scale=1.0, in_keys=["observation"]))
    for sample in data:
        assert torch.equal(sample["observation"], torch.from_numpy(found["observations"])[sample["index"]] - 1)
        break


def test_trajectories(serve: Any, tmp_path: Path) -> None:
    serve(arrays())
    split = D4RLExperienceReplay(NAME, root=tmp_path, split_trajs=True)[:]
    assert split["mask"].sum(1).tolist() == list(LENGTHS)
    sampler = SliceSampler(slice_len=3, traj_key="traj_ids", strict_length=True)
    slices = D4RLExperienceReplay(NAME, 6, root=tmp_path, sampler=sampler).sample().reshape(2, 3)
    assert (slices["traj_ids"] == slices["traj_ids"][:, :1]).all()


@pytest.mark.parametrize("terminate_on_end", [None, True, False])
@pytest.mark.parametrize("chunk", [1, 200, 1 << 24])
def test_what_becomes_of_the_last_step(
    terminate_on_end: bool | None, chunk: int, serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(found := arrays())
    monkeypatch.setattr("rlnb.data.datasets.hdf5.CHUNK_BYTES", chunk)
    data = D4RLExperienceReplay(NAME, root=tmp_path, terminate_on_end=terminate_on_end)[:]
    assert check_ted(data).ok
    where = {key: data["next", key].nonzero()[:, 0].tolist() for key in ("terminated", "truncated")}
    if terminate_on_end is None:
        assert where == {"terminated": [3], "truncated": [6, 7, 12]}
    elif terminate_on_end:
        assert where == {"terminated": [3, 6, 7, 12], "truncated": [6, 7, 12]}
    else:
        kept = [0, 1, 2, 3, 4, 5, 8, 9, 10, 11]
        assert torch.equal(data["observation"], torch.from_numpy(found["observations"][kept]))
        assert where == {"terminated": [3], "truncated": [5, 9]}
        following = torch.from_numpy(found["observations"][[6, 12]])
        assert torch.equal(data["next", "observation"][[5, 9]], following)


def test_options_have_folders_of_their_own(serve: Any, tmp_path: Path) -> None:
    serve(arrays())
    only = D4RLExperienceReplay(NAME, root=tmp_path, use_truncated_as_done=False)
    both = D4RLExperienceReplay(NAME, root=tmp_path)
    assert only.data_path != both.data_path == tmp_path / NAME
    data = only[:]
    assert ("next", "truncated") not in data.keys(True) and check_ted(data).broken() == ["episodes"]
    assert data["next", "done"].nonzero()[:, 0].tolist() == [3] and data["timeouts"].sum() == 2


def test_files_with_next_observations_and_without_timeouts(serve: Any, tmp_path: Path) -> None:
    found = arrays()
    del found["timeouts"]
    found["next_observations"] = np.random.default_rng(1).normal(size=(STEPS, 3))
    serve(found)
    data = D4RLExperienceReplay(NAME, root=tmp_path)[:]
    assert torch.equal(data["next", "observation"], torch.from_numpy(found["next_observations"]))
    assert data["next", "truncated"].nonzero()[:, 0].tolist() == [STEPS - 1] and "timeouts" not in data.keys()  # noqa: SIM118


def test_names() -> None:
    names = D4RLExperienceReplay.available_datasets
    assert len(names) > 150 and list(names) == sorted(names) and len(set(d4rl._files().values())) == len(names)
    paths = {
        "maze2d-umaze-v1": "maze2d/maze2d-umaze-sparse-v1.hdf5",
        "kitchen-complete-v0": "kitchen/mini_kitchen_microwave_kettle_light_slider-v0.hdf5",
        "walker2d-medium-replay-v0": "gym_mujoco/walker_mixed.hdf5",
        "hopper-full-replay-v2": "gym_mujoco_v2/hopper_full_replay-v2.hdf5",
        "pen-cloned-v0": "hand_dapg/pen-demos-v0-bc-combined.hdf5",
        "antmaze-large-play-v2": "ant_maze_v2/Ant_maze_hardest-maze_noisy_multistart_True_multigoal_False_"
        "sparse_fixed.hdf5",
    }
    assert {name: d4rl._files()[name] for name in paths} == paths


@pytest.mark.deep
def test_a_file_ten_times_as_large_as_the_memory(tmp_path: Path, missing: Any) -> None:
    if sys.platform != "linux":
        missing("Linux", "the anonymous memory of a process is read from /proc")
    program = f"""
import h5py, numpy as np, pathlib, threading, time
from rlnb.data.datasets import D4RLExperienceReplay
root = pathlib.Path({str(tmp_path)!r})
folder = root / ".{NAME}.download"
folder.mkdir()
with h5py.File(folder / "halfcheetah_medium-v2.hdf5", "w") as file:
    steps = 1_500_000
    seen = file.create_dataset("observations", (steps, 100), "f4")
    for start in range(0, steps, 100_000):
        seen[start : start + 100_000] = np.random.default_rng(start).random((100_000, 100), "f4")
    file["actions"], file["rewards"] = np.zeros((steps, 6), "f4"), np.zeros(steps, "f4")
    file["terminals"], file["timeouts"] = np.zeros(steps, bool), np.arange(steps) % 1000 == 999
del seen
def anonymous():
    (line,) = [line for line in open("/proc/self/status") if line.startswith("RssAnon")]
    return int(line.split()[1]) >> 10
before, most, done = anonymous(), 0, False
def watch():
    global most
    while not done:
        most = max(most, anonymous())
        time.sleep(0.005)
thread = threading.Thread(target=watch)
thread.start()
dataset = D4RLExperienceReplay("{NAME}", 256, root=root)
done = True
thread.join()
assert len(dataset) == steps
print(most - before)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) < 64, done.stdout  # of 645 MB


def test_a_download_that_breaks_off_goes_on_where_it_was(serve: Any, server: Server, tmp_path: Path) -> None:
    serve(whole := h5(arrays()))
    server.cut(FILE, after=5_000)
    assert len(D4RLExperienceReplay(NAME, root=tmp_path)) == STEPS
    first, second = server.asked(FILE)
    assert "Range" not in first.headers and second.headers["Range"] == "bytes=5000-" and len(whole) > 5_000


def test_a_file_that_is_gone_can_be_put_there_by_hand(serve: Any, server: Server, tmp_path: Path) -> None:
    folder = tmp_path / f".{NAME}.download"
    with pytest.raises(OSError, match=re.escape(str(folder / "halfcheetah_medium-v2.hdf5"))) as caught:
        D4RLExperienceReplay(NAME, root=tmp_path)
    assert "HTTP 404" in str(caught.value) and "Fix: download" in str(caught.value)
    (folder / "halfcheetah_medium-v2.hdf5").write_bytes(h5(arrays()))
    assert len(D4RLExperienceReplay(NAME, root=tmp_path)) == STEPS


# What is refused ------------------------------------------------------------------------------------------------------


def refused(kind: type[Exception], text: str, root: Path, **options: Any) -> None:
    with pytest.raises(kind, match=text):
        D4RLExperienceReplay(NAME, root=root, **options)
    assert not (root / NAME).exists()


def test_what_needs_d4rl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "{} needs d4rl, which is not installed. Fix: leave it out, since the files are downloaded without it; or "
    text += "pip install git+https://github.com/Farama-Foundation/d4rl@master#egg=d4rl."
    for argument in ({"from_env": True}, {"direct_download": False}):
        (pair,) = argument.items()
        refused(ImportError, f"^{re.escape(text.format('{}={}'.format(*pair)))}$", tmp_path, **argument)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    text = (
        "from_env=True reads the data through an env of the library gym, which does not run beside Gymnasium. "
        "Fix: leave it out, since the files are downloaded without it."
    )
    refused(NotImplementedError, f"^{re.escape(text)}$", tmp_path, from_env=True)


def test_without_h5py(serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(arrays())
    monkeypatch.setitem(sys.modules, "h5py", None)
    text = "D4RLExperienceReplay needs h5py, which is not installed. Fix: pip install 'rlnb[datasets]'."
    refused(ImportError, f"^{re.escape(text)}$", tmp_path)


def test_a_file_that_was_cut_short_and_one_of_another_kind(serve: Any, tmp_path: Path) -> None:
    file = tmp_path / f".{NAME}.download" / "halfcheetah_medium-v2.hdf5"
    fix = "Fix: delete the file, and make the dataset again."
    whole = h5(arrays())
    serve(whole[: len(whole) // 2])
    start = re.escape(f"The file {str(file)!r} cannot be read: it was damaged or cut short (")
    refused(ValueError, f"^{start}.*truncated.*{re.escape(fix)}$", tmp_path)
    file.unlink()
    serve(b"<html>Gone</html>")
    refused(ValueError, f"^{start}.*{re.escape(fix)}$", tmp_path)
    file.unlink()
    serve({name: value for name, value in arrays().items() if name != "terminals"})
    text = (
        f"The file {str(file)!r} has no entry 'terminals' of numbers; it has 'actions', ('infos', 'action_log_probs'), "
        "('infos', 'qpos'), ('metadata', 'policy', 'fc0', 'weight'), 'observations', 'rewards', 'timeouts'. "
        "Fix: look whether it is the file that it should be."
    )
    refused(ValueError, f"^{re.escape(text)}$", tmp_path)
    file.unlink()
    serve(whole)  # what is right is downloaded and read
    assert len(D4RLExperienceReplay(NAME, root=tmp_path)) == STEPS


def test_columns_of_different_lengths(serve: Any, tmp_path: Path) -> None:
    serve({**arrays(), "actions": np.zeros((STEPS - 1, 2))})
    file = tmp_path / f".{NAME}.download" / "halfcheetah_medium-v2.hdf5"
    text = (
        f"The entry 'actions' of the file {str(file)!r} has {STEPS - 1} rows, and others have {STEPS}. "
        "Fix: look whether the file is complete."
    )
    refused(ValueError, f"^{re.escape(text)}$", tmp_path)

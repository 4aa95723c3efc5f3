"""BaseDatasetExperienceReplay: its location, one conversion for all processes, and its use as a buffer."""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import (
    ReplayBufferEnsemble,
    SamplerWithoutReplacement,
    SliceSampler,
    TensorDictReplayBuffer,
    check_ted,
)
from rlnb.data.datasets import BaseDatasetExperienceReplay, common, conversion
from rlnb.envs import Compose, ExcludeTransform, RenameTransform, SelectTransform
from tests.data.datasets.toys import LENGTHS, STEPS, Walks, same, walks


def words(text: str) -> str:
    """A pattern for exactly this text."""
    return f"^{re.escape(text)}$"


# Where it is ----------------------------------------------------------------------------------------------------------


def test_a_dataset_is_made_once_and_then_only_opened(tmp_path: Path) -> None:
    Walks.made = 0
    first = Walks("short-v0", root=tmp_path)
    assert first.data_path == first.data_path_root == tmp_path / "short-v0" and first._is_downloaded()
    again = Walks("short-v0", root=str(tmp_path), download=False)
    assert Walks.made == 1 and len(again) == STEPS
    assert same(again[:], walks()) and check_ted(again[:]).ok
    assert same(TensorDict.load_memmap(tmp_path / "short-v0"), walks())
    assert isinstance(first, TensorDictReplayBuffer) and again.metadata == {"author": "nobody", "version": 1}
    assert {path.name for path in tmp_path.iterdir()} == {"short-v0", ".short-v0.lock"}


def test_force_makes_it_again_and_who_has_the_old_one_keeps_it(tmp_path: Path) -> None:
    Walks.made = 0
    old = Walks("short-v0", root=tmp_path)
    new = Walks("short-v0", root=tmp_path, download="force")
    assert Walks.made == 2 and new.metadata["version"] == 2
    assert same(old[:], new[:])


def test_the_default_root_is_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Walks("short-v0").data_path == tmp_path / "rlnb" / "walks" / "short-v0"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert common._default_root("walks") == Path.home() / ".cache" / "rlnb" / "walks"


def test_a_dataset_without_a_list_takes_any_name(tmp_path: Path) -> None:
    class Free(Walks):
        available_datasets = None

    assert Free("a/b", root=tmp_path).data_path == tmp_path / "a" / "b"


def test_a_dataset_that_is_there_needs_no_list(tmp_path: Path) -> None:
    class Listed(Walks):
        @property
        def available_datasets(self) -> Any:
            raise ConnectionError

    Walks("short-v0", root=tmp_path)
    assert len(Listed("short-v0", root=tmp_path)) == STEPS
    with pytest.raises(ConnectionError):
        Listed("short-v1", root=tmp_path)


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("short-v2", ValueError, "Walks has no dataset 'short-v2'. Did you mean 'short-v1', 'short-v0'?"),
        ("xyz", ValueError, "Walks has no dataset 'xyz'. Walks.available_datasets lists all."),
        ("", TypeError, "Walks needs the name of a dataset, got ''. Walks.available_datasets lists all."),
        (None, TypeError, "Walks needs the name of a dataset, got None. Walks.available_datasets lists all."),
        *(
            (
                name,
                ValueError,
                f"The name of a dataset is a relative path without '..', got {name!r}. "
                "Walks.available_datasets lists all.",
            )
            for name in ("../x", "/x", "a//b", "a/./b", "a\\b")
        ),
    ],
)
def test_names_that_are_refused(name: Any, kind: type[Exception], text: str, tmp_path: Path) -> None:
    with pytest.raises(kind, match=words(text)):
        Walks(name, root=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_other_arguments_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words("download must be True, False or \"force\", got 'yes'.")):
        Walks("short-v0", root=tmp_path, download="yes")
    text = (
        f"The dataset 'short-v0' is not in {str(tmp_path / 'none')!r}, and download is False. "
        'Fix: Walks("short-v0", download=True), or the root where it is.'
    )
    with pytest.raises(FileNotFoundError, match=words(text)):
        Walks("short-v0", root=tmp_path / "none", download=False)
    assert not (tmp_path / "none").exists()
    with pytest.raises(RuntimeError, match="read-only"):
        Walks("short-v0", root=tmp_path).extend(walks())


def test_a_class_must_say_how_its_files_are_read(tmp_path: Path) -> None:
    text = (
        "Nothing does not say how its files are read. Fix: def read(self, folder): yield TED data, chunk after chunk."
    )

    class Nothing(BaseDatasetExperienceReplay):
        pass

    with pytest.raises(NotImplementedError, match=words(text)):
        Nothing("x", root=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} <= {".x.lock", ".x.download"}


def test_a_folder_of_somebody_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "long").mkdir()
    Walks("long/steep-v0", root=tmp_path)

    class Free(Walks):
        available_datasets = None

    text = (
        f"{str(tmp_path / 'long')!r} is there already, and is not a dataset, which would replace it. "
        "Fix: give another folder, or delete it if you do not need it."
    )
    with pytest.raises(ValueError, match=words(text)):
        Free("long", root=tmp_path)
    inside, around = tmp_path / "long" / "steep-v0" / "inner", tmp_path / "long" / "steep-v0"
    text = f"{str(inside)!r} would be inside of the dataset at {str(around)!r}. Fix: give another root."
    with pytest.raises(ValueError, match=words(text)):
        Free("long/steep-v0/inner", root=tmp_path)
    assert len(Walks("long/steep-v0", root=tmp_path, download=False)) == STEPS


def test_delete(tmp_path: Path) -> None:
    dataset = Walks("short-v0", root=tmp_path, split_trajs=True)
    other = Walks("short-v1", root=tmp_path)
    dataset.delete()
    assert not dataset._is_downloaded() and not dataset.data_path_root.exists() and not dataset.data_path.exists()
    assert dataset.sample(2).batch_size == (2, max(LENGTHS)) and other._is_downloaded()
    with pytest.raises(FileNotFoundError):
        Walks("short-v0", root=tmp_path, download=False)


# A buffer like the others ---------------------------------------------------------------------------------------------


def test_split_trajs_makes_items_of_trajectories(tmp_path: Path) -> None:
    Walks.made = 0
    Walks("short-v0", root=tmp_path)
    split = Walks("short-v0", batch_size=3, root=tmp_path, split_trajs=True)
    assert Walks.made == 1 and split.data_path != split.data_path_root
    data = split[:]
    assert data.batch_size == (len(LENGTHS), max(LENGTHS)) and data["mask"].sum(1).tolist() == list(LENGTHS)
    assert same(data[data["mask"]].exclude("mask"), walks())
    assert not data["next", "observation"][~data["mask"]].any()
    assert split.sample().batch_size == (3, max(LENGTHS)) and split.metadata["author"] == "nobody"
    shutil.rmtree(split.data_path)
    again = Walks("short-v0", root=tmp_path, split_trajs=True, download=False)  # what it is made of is there
    assert Walks.made == 1 and same(again[:], data)
    whole = Walks("short-v0", root=tmp_path)
    assert len(whole) == STEPS and "mask" not in whole[:].keys()  # noqa: SIM118


def test_slices_of_trajectories(tmp_path: Path) -> None:
    sampler = SliceSampler(slice_len=2, traj_key="episode")
    dataset = Walks("short-v0", batch_size=8, root=tmp_path, sampler=sampler)
    sample = dataset.sample().reshape(4, 2)
    assert (sample["episode"][:, 0] == sample["episode"][:, 1]).all()
    assert torch.equal(sample["observation"][:, 1], sample["next", "observation"][:, 0])


def test_each_item_once_in_an_epoch(tmp_path: Path) -> None:
    sampler = SamplerWithoutReplacement(drop_last=True)
    dataset = Walks("short-v0", batch_size=4, root=tmp_path, sampler=sampler)
    seen = torch.cat([batch["index"] for batch in dataset])
    assert len(seen) == STEPS // 4 * 4 and len(seen.unique()) == len(seen)


def test_transforms_of_samples(tmp_path: Path) -> None:
    names = ["done", ("next", "done")], ["terminal", ("next", "terminal")]
    dataset = Walks("short-v0", batch_size=4, root=tmp_path, transform=ExcludeTransform("episode"))
    dataset.append_transform(RenameTransform(*names))
    sample = dataset.sample()
    assert ("next", "terminal") in sample.keys(True) and ("next", "done") not in sample.keys(True)
    assert "episode" not in sample.keys() and "done" in Walks("short-v0", root=tmp_path)[:].keys()  # noqa: SIM118
    few = Compose(SelectTransform("action", ("next", "reward"), keep_dones=False))
    sample = Walks("short-v0", batch_size=4, root=tmp_path, transform=few).sample()
    assert set(sample.keys(True, True)) - {"index"} == {"action", ("next", "reward")}


def test_an_ensemble_of_datasets(tmp_path: Path) -> None:
    both = ReplayBufferEnsemble(
        *(Walks(name, root=tmp_path) for name in ("short-v0", "short-v1")), p=[0.5, 0.5], batch_size=10
    )
    sample = torch.cat([both.sample() for _ in range(20)], 1)
    assert sample.batch_size == (2, 100) and set(sample["index", "buffer_ids"].flatten().tolist()) == {0, 1}


def test_a_generator_repeats_the_samples(tmp_path: Path) -> None:
    def draw() -> list[int]:
        dataset = Walks("short-v0", batch_size=8, root=tmp_path, generator=torch.Generator().manual_seed(3))
        return dataset.sample()["index"].tolist()

    assert draw() == draw()


# Several processes, and processes that are killed ---------------------------------------------------------------------


class Slow(Walks):
    """It takes its time, and writes down who makes it."""

    def read(self, folder: Path) -> Any:
        with (self.root / "log").open("a") as log:
            print(os.getpid(), file=log)
        for chunk in walks().split(4):
            time.sleep(0.1)
            yield chunk


def _open_slow(root: Path, results: Any) -> None:
    results.put(len(Slow("short-v0", root=root)))


def test_of_two_processes_one_makes_it_and_the_other_waits(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork" if hasattr(os, "fork") else "spawn")
    results = context.Queue()
    both = [context.Process(target=_open_slow, args=(tmp_path, results)) for _ in range(2)]
    for process in both:
        process.start()
    found = [results.get(timeout=60) for _ in both]
    for process in both:
        process.join(60)
    assert found == [STEPS, STEPS] and len((tmp_path / "log").read_text().split()) == 1


@pytest.mark.parametrize("moment", ["write_text", "rename"])
@pytest.mark.parametrize("how", ["download", "force"])
def test_a_process_killed_while_it_makes_a_dataset(moment: str, how: str, tmp_path: Path, missing: Any) -> None:
    if not hasattr(os, "fork"):
        missing("fork", "a process is killed while it makes a dataset")
    if how == "force":
        Walks("short-v0", root=tmp_path)
    for step in range(3):
        if not (child := os.fork()):
            kill_at(moment, step)
            Walks("short-v0", root=tmp_path, download="force" if how == "force" else True)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if not os.WIFSIGNALED(status):
            break
        # An old dataset is still there, also where the process had already moved it away.
        if how == "force":
            assert same(Walks("short-v0", root=tmp_path, download=False)[:], walks())
    assert step > 0
    assert same(Walks("short-v0", root=tmp_path)[:], walks())
    assert {path.name for path in tmp_path.iterdir()} == {"short-v0", ".short-v0.lock"}


def kill_at(name: str, step: int) -> None:
    """Kill this process before a function is called for the time number ``step``."""
    owner: Any = os if hasattr(os, name) else Path
    call, left = getattr(owner, name), step

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **kwargs)

    setattr(owner, name, wrapped)


def test_a_dataset_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    class Broken(Walks):
        def read(self, folder: Path) -> Any:
            yield walks()[:4]
            raise ValueError("the file is damaged")

    Walks("short-v0", root=tmp_path)
    with pytest.raises(ValueError, match="the file is damaged"):
        Broken("short-v0", root=tmp_path, download="force")
    assert same(Walks("short-v0", root=tmp_path, download=False)[:], walks())
    assert not conversion.beside(tmp_path / "short-v0", "new").exists()
    shutil.rmtree(tmp_path / "short-v0")
    with pytest.raises(ValueError, match="the file is damaged"):
        Broken("short-v0", root=tmp_path)
    assert not (tmp_path / "short-v0").exists()

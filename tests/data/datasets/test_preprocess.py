"""preprocess: a function over a whole dataset, in several processes, resumed where it stopped."""

from __future__ import annotations

import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rlnb.data.datasets.conversion import beside
from tests.data.datasets.toys import STEPS, Walks, same, walks

#: The fastest one; other tests leave threads behind, beside which the default would be slower.
FORK = {"mp_start_method": "fork" if hasattr(os, "fork") else "spawn"}


def double(data: Any) -> Any:
    return data.set("action", data["action"] * 2)


def add_noise(data: Any) -> Any:
    return data.set("action", data["action"] + torch.rand_like(data["action"]))


@pytest.fixture
def dataset(tmp_path: Path) -> Walks:
    return Walks("short-v0", batch_size=4, root=tmp_path)


def actions(dataset: Walks) -> list[float]:
    return dataset[:]["action"].flatten().tolist()


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": 0, "chunksize": 4},
        {"num_workers": 0, "num_chunks": 3},
        {"num_workers": 0, "chunksize": 0},
        {"num_workers": 2, "chunksize": 3, **FORK},
        pytest.param(
            {"num_workers": 2, "chunksize": 0, "max_tasks_per_child": 8, "mp_start_method": "forkserver"},
            marks=pytest.mark.deep,  # its workers import torch for seconds
        ),
        {"num_workers": 0, "pbar": True, "index_with_generator": True},
    ],
    ids=str,
)
def test_it_replaces_the_dataset(dataset: Walks, options: Any, tmp_path: Path) -> None:
    storage = dataset.preprocess(double, **options)
    assert actions(dataset) == [2.0] * STEPS == storage[:]["action"].flatten().tolist()
    assert same(dataset[:].exclude("action"), walks().exclude("action")) and dataset.sample()["action"].unique() == 2
    assert actions(Walks("short-v0", root=tmp_path)) == [2.0] * STEPS and dataset.metadata["author"] == "nobody"
    assert actions(Walks("short-v0", root=tmp_path, download="force")) == [1.0] * STEPS
    assert not beside(dataset.data_path, "parts").exists()


def test_functions_of_a_notebook_and_pools(dataset: Walks) -> None:
    factor = 3
    dataset.preprocess(lambda data: data.set("action", data["action"] * factor), num_workers=2, chunksize=5, **FORK)
    with ThreadPoolExecutor(2) as pool:
        dataset.preprocess(double, pool=pool, chunksize=5)
    assert actions(dataset) == [6.0] * STEPS


def test_a_function_may_change_the_number_of_rows_and_the_entries(dataset: Walks) -> None:
    dataset.preprocess(
        lambda data: data[data["next", "reward"][:, 0] > 10].select("action"), num_workers=0, chunksize=4
    )
    assert len(dataset) == int((walks()["next", "reward"] > 10).sum()) and set(dataset[:].keys()) == {"action", "index"}


def test_whole_trajectories(tmp_path: Path) -> None:
    split = Walks("short-v0", root=tmp_path, split_trajs=True)
    split.preprocess(
        lambda item: item.set("return", item["next", "reward"].sum(0).expand(len(item))), num_workers=0, chunksize=0
    )
    first = walks()[:3]["next", "reward"].sum()
    assert split[:]["return"][0, 0] == first and "return" not in Walks("short-v0", root=tmp_path)[:].keys()  # noqa: SIM118
    Walks("short-v0", root=tmp_path).preprocess(double, num_workers=0)
    again = Walks("short-v0", root=tmp_path, split_trajs=True)  # of the steps that it has now
    assert "return" not in again[:].keys() and again[0]["action"].max() == 2  # noqa: SIM118


def test_another_folder_and_the_first_items(dataset: Walks, tmp_path: Path) -> None:
    storage = dataset.preprocess(double, num_frames=5, dest=tmp_path / "try", num_workers=0, chunksize=2)
    assert len(storage) == 5 and actions(dataset) == [1.0] * STEPS
    assert TensorDict.load_memmap(tmp_path / "try")["action"].unique() == 2
    dataset.preprocess(double, num_frames=99, dest=str(tmp_path / "try"), num_workers=0)
    assert len(TensorDict.load_memmap(tmp_path / "try")) == STEPS


def test_a_generator_repeats_a_random_function(dataset: Walks, tmp_path: Path) -> None:
    found = []
    state = torch.get_rng_state()
    for place, workers in (("a", 0), ("b", 2)):
        generator = torch.Generator().manual_seed(7)
        storage = dataset.preprocess(
            add_noise, num_workers=workers, chunksize=4, generator=generator, dest=tmp_path / place, **FORK
        )
        found.append(storage[:]["action"])
    assert torch.equal(*found) and len(found[0].unique()) == STEPS
    assert torch.equal(torch.get_rng_state(), state)


# Interrupted ----------------------------------------------------------------------------------------------------------


def test_chunks_that_are_done_are_kept(dataset: Walks, tmp_path: Path) -> None:
    calls, broken = tmp_path / "calls", tmp_path / "broken"
    broken.touch()

    def fragile(data: Any) -> Any:
        with calls.open("a") as file:
            print(int(data["episode"][0]), file=file)
        if broken.exists() and data["episode"][0] == 2:
            raise RuntimeError("no memory")
        return double(data)

    with pytest.raises(RuntimeError, match="no memory") as caught:
        dataset.preprocess(fragile, num_workers=0, chunksize=4)
    assert caught.value.__notes__ == ["This was raised by the function that preprocesses the items 8 to 11."]
    assert actions(dataset) == [1.0] * STEPS == actions(Walks("short-v0", root=tmp_path, download=False))
    broken.unlink()
    dataset.preprocess(fragile, num_workers=0, chunksize=4)
    assert actions(dataset) == [2.0] * STEPS and calls.read_text().split() == ["0", "1", "2", "2", "3"]


def test_chunks_of_another_function_or_dataset_are_not_used(dataset: Walks, tmp_path: Path) -> None:
    def until(stop: int, factor: int) -> Any:
        def fragile(data: Any) -> Any:
            if data["episode"][0] >= stop:
                raise RuntimeError
            return data.set("action", data["action"] * factor)

        return fragile

    with pytest.raises(RuntimeError):
        dataset.preprocess(until(2, 5), num_workers=0, chunksize=4)
    dataset.preprocess(double, num_workers=0, chunksize=4)
    assert actions(dataset) == [2.0] * STEPS
    other = tmp_path / "other"
    with pytest.raises(RuntimeError):
        dataset.preprocess(until(2, 5), num_workers=0, chunksize=4, dest=other)
    Walks("short-v0", root=tmp_path, download="force")
    Walks("short-v0", root=tmp_path).preprocess(until(9, 5), num_workers=0, chunksize=4, dest=other)
    assert TensorDict.load_memmap(other)["action"].unique() == 5


def test_a_process_killed_in_the_middle(dataset: Walks, tmp_path: Path, missing: Any) -> None:
    if not hasattr(os, "fork"):
        missing("fork", "a process is killed in the middle")

    def deadly(data: Any) -> Any:
        if (tmp_path / "deadly").exists() and data["episode"][0] == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        (tmp_path / f"saw{int(data['episode'][0])}").touch(exist_ok=False)
        return double(data)

    (tmp_path / "deadly").touch()
    if not (child := os.fork()):
        dataset.preprocess(deadly, num_workers=0, chunksize=4)
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1]) and (tmp_path / "saw1").exists()
    assert actions(Walks("short-v0", root=tmp_path)) == [1.0] * STEPS
    (tmp_path / "deadly").unlink()
    Walks("short-v0", root=tmp_path).preprocess(deadly, num_workers=0, chunksize=4)  # what was done is not done again
    assert actions(Walks("short-v0", root=tmp_path)) == [2.0] * STEPS


def test_a_worker_that_is_killed(dataset: Walks, tmp_path: Path) -> None:
    def deadly(data: Any) -> Any:
        if data["episode"][0] == 2:
            os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
        return double(data)

    text = (
        "A process that preprocessed the dataset died, perhaps because the memory was full. The chunks that were done "
        "are kept. Fix: call preprocess again with the same function and fewer workers."
    )
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        dataset.preprocess(deadly, num_workers=2, chunksize=4, **FORK)
    assert actions(Walks("short-v0", root=tmp_path)) == [1.0] * STEPS


# Bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"dim": 1}, "A dataset is cut into chunks along its first dimension, got dim=1. Fix: dim=0."),
        (
            {"num_frames": 3},
            "num_frames=3 would replace the dataset by its first items. "
            "Fix: dest=folder, to try the function; or leave num_frames out.",
        ),
        (
            {"chunksize": 2, "num_chunks": 2},
            "chunksize and num_chunks were both given. Fix: leave one of them out.",
        ),
        ({"chunksize": -1}, "chunksize must be at least 0, got -1."),
        ({"num_chunks": 0}, "num_chunks must be at least 1, got 0."),
        ({"num_workers": -1}, "num_workers must be at least 0, got -1."),
    ],
)
def test_arguments_that_are_refused(dataset: Walks, options: Any, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        dataset.preprocess(double, **options)
    assert actions(dataset) == [1.0] * STEPS


def test_results_and_folders_that_are_refused(dataset: Walks, tmp_path: Path) -> None:
    text = (
        "The function that preprocesses a dataset must return a TensorDict, got NoneType for the items 0 to 3. "
        "Fix: return data."
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        dataset.preprocess(lambda data: None, num_workers=0, chunksize=4)
    with pytest.raises(ValueError, match=r"^'action' in the chunk behind row 4 is"):
        dataset.preprocess(
            lambda data: data.set("action", data["action"].double() if data["episode"].all() else data["action"]),
            num_workers=0,
            chunksize=4,
        )
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="is there already, and is not a dataset"):
        dataset.preprocess(double, num_workers=0, dest=tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").exists() and actions(dataset) == [1.0] * STEPS

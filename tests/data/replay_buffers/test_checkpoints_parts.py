"""Checkpoints of components and ensembles, with hooks; and the memory that checkpoints need."""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import NonTensorStack, TensorDict

from rlnb.data import (
    Flat2TED,
    LazyMemmapStorage,
    LazyTensorStorage,
    Nested2TED,
    ReplayBuffer,
    ReplayBufferEnsemble,
    StorageCheckpointerBase,
    StorageEnsembleCheckpointer,
    TED2Flat,
    TED2Nested,
    TensorDictPrioritizedReplayBuffer,
    TensorDictReplayBuffer,
    TensorStorageCheckpointer,
)
from tests.data.replay_buffers.checkpoint_worlds import (
    filled,
    first_of,
    no_disk,  # noqa: F401 - a fixture for the whole module
)
from tests.data.replay_buffers.worlds import as_tensordict, numbers_of


def drawn(rb: Any, count: int = 4) -> list[Any]:
    """What a buffer gives from one seed."""
    torch.manual_seed(1)
    return [rb.sample(6)["observation"].tolist() for _ in range(count)]


# The parts and their names --------------------------------------------------------------------------------------------


def test_parts_are_saved_on_their_own(tmp_path: Path) -> None:
    rb, other = (
        TensorDictPrioritizedReplayBuffer(alpha=1.0, beta=0.5, storage=LazyTensorStorage(9), batch_size=6)
        for _ in range(2)
    )
    index = rb.extend(as_tensordict(torch.arange(7)))
    rb.update_priority(index, torch.arange(7.0))
    for name in ("storage", "writer", "sampler"):
        getattr(rb, name).dumps(tmp_path / name)
        getattr(other, name).loads(tmp_path / name)
    assert drawn(other) == drawn(rb)
    with pytest.raises(ValueError, match="missing"):
        rb.sampler.loads(tmp_path / "storage")


@pytest.mark.parametrize("save", ["dumps", "dump", "save"])
@pytest.mark.parametrize("load", ["loads", "load"])
def test_the_names_of_the_methods(save: str, load: str, tmp_path: Path) -> None:
    rb, other = (ReplayBuffer(storage=LazyTensorStorage(5)) for _ in range(2))
    rb.extend(torch.arange(3))
    getattr(rb, save)(str(tmp_path / "a"))
    getattr(other, load)(str(tmp_path / "a"))
    getattr(rb.storage, save)(tmp_path / "b")
    getattr(other.storage, load)(tmp_path / "b")
    assert other[:].tolist() == [0, 1, 2]


def test_the_checkpointer_can_be_set() -> None:
    mine = TensorStorageCheckpointer()
    storage = LazyTensorStorage(5)
    assert isinstance(storage.checkpointer, TensorStorageCheckpointer)
    assert ReplayBuffer(storage=storage, checkpointer=mine).storage.checkpointer is mine
    assert isinstance(
        ReplayBuffer(storage=storage, checkpointer=TensorStorageCheckpointer).storage.checkpointer, type(mine)
    )
    storage.checkpointer = None
    assert isinstance(storage.checkpointer, StorageCheckpointerBase) and storage.checkpointer is not mine
    with pytest.raises(TypeError) as caught:
        storage.checkpointer = "h5"  # type: ignore[assignment]  # that is the mistake
    assert str(caught.value) == (
        "checkpointer must be a StorageCheckpointerBase or a function that makes one, got a str. "
        "Fix: checkpointer=TensorStorageCheckpointer()."
    )
    storage.checkpointer = StorageEnsembleCheckpointer()
    with pytest.raises(TypeError, match=r"saves the storages of an ensemble, and the storage is a LazyTensorStorage"):
        storage.dumps("nowhere-to-be-made")
    assert not Path("nowhere-to-be-made").exists()


# Hooks ----------------------------------------------------------------------------------------------------------------


def rollout(first: int, steps: int, envs: int | None = None) -> TensorDict:
    """TED data of one or several envs, with episodes of four steps."""
    time = torch.arange(first, first + steps)
    numbers = time if envs is None else time + 1000 * torch.arange(envs)[:, None]
    done = (time % 4 == 3).expand(numbers.shape)[..., None].clone()
    after = torch.where(done, -numbers[..., None], numbers[..., None] + 1).float()
    below = TensorDict({"observation": after, "reward": after * 2, "done": done}, numbers.shape)
    root = {"observation": numbers[..., None].float(), "action": torch.rand(*numbers.shape, 2), "done": done & False}
    return TensorDict({**root, "next": below}, numbers.shape)


@pytest.mark.parametrize("ndim", [1, 2])
def test_hooks(ndim: int, tmp_path: Path) -> None:
    rb, other = (ReplayBuffer(storage=LazyTensorStorage(20, ndim=ndim)) for _ in range(2))
    save, load = TED2Flat(), Flat2TED()
    rb.register_save_hook(save)
    other.register_load_hook(load)
    for turn in range(5):
        rb.extend(rollout(7 * turn, 7, None if ndim == 1 else 2))
        rb.dumps(tmp_path)
        other.loads(tmp_path)
        assert (other[:] == rb[:]).all() and other.writer._cursor == rb.writer._cursor
    assert save.is_full and save.shift == rb.writer._cursor > 0


def test_a_load_hook_can_combine_nested_tensors_of_equally_long_rows(tmp_path: Path) -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(20))
    found: list[TensorDict] = []
    rb.register_save_hook(TED2Nested())
    rb.register_load_hook(lambda data: found.append(data) or Nested2TED()(data))
    rb.extend(rollout(0, 10))
    before = rb[:].clone()
    rb.dumps(tmp_path)
    rb.loads(tmp_path)
    assert (rb[:] == before).all()
    product = found[0]["reward"] * found[0]["action"]
    torch.testing.assert_close(product.values(), before["next", "reward"] * before["action"])


def test_hooks_are_called_in_order_with_time_last(tmp_path: Path) -> None:
    rb, other = (ReplayBuffer(storage=LazyTensorStorage(20, ndim=2)) for _ in range(2))
    seen: list[Any] = []
    rb.register_save_hook(lambda data: seen.append(data["a"].tolist()) or data.select("a"))
    rb.register_save_hook(lambda data: {"twice": data["a"] * 2, "note": ("text", 3)})
    other.register_load_hook(lambda data: {"a": data["twice"] // 2, "note": data["note"]})
    other.register_load_hook(lambda data: seen.append(data["note"]) or TensorDict({"a": data["a"]}, data["a"].shape))
    rb.extend(TensorDict({"a": torch.arange(6).reshape(2, 3)}, [2, 3]))
    rb.dumps(tmp_path)
    other.loads(tmp_path)
    assert seen == [[[0, 1, 2], [3, 4, 5]], ("text", 3)]
    assert other[:]["a"].tolist() == [[0, 3], [1, 4], [2, 5]]


# Ensembles ------------------------------------------------------------------------------------------------------------


def ensemble() -> ReplayBufferEnsemble:
    kinds = [
        TensorDictReplayBuffer(storage=LazyTensorStorage(10)),
        TensorDictPrioritizedReplayBuffer(alpha=1.0, beta=0.5, storage=LazyMemmapStorage(8)),
    ]
    return ReplayBufferEnsemble(*kinds, sample_from_all=True, batch_size=8)


def test_ensembles_are_saved_through_their_members(tmp_path: Path) -> None:
    rb, other = ensemble(), ensemble()
    assert isinstance(rb.storage.checkpointer, StorageEnsembleCheckpointer)
    rb[0].extend(as_tensordict(torch.arange(12)))
    index = rb[1].extend(as_tensordict(torch.arange(5)))
    rb[1].update_priority(index, torch.arange(5.0))
    rb.dumps(tmp_path)
    other.loads(tmp_path)
    for one, two in zip((rb[0], rb[1]), (other[0], other[1]), strict=True):
        assert (one[:] == two[:]).all() and one.writer._cursor == two.writer._cursor
    assert drawn(other[1]) == drawn(rb[1])
    both = []
    for each in (rb, other):
        torch.manual_seed(0)
        both.append(each.sample(8)["observation"])
    assert torch.equal(*both)


def test_a_damaged_member_leaves_all_members_as_they_were(tmp_path: Path) -> None:
    rb, other = ensemble(), ensemble()
    for member in (0, 1):
        rb[member].extend(as_tensordict(torch.arange(4)))
        other[member].extend(as_tensordict(torch.arange(50, 52)))
    rb.dumps(tmp_path)
    file = tmp_path / "storage" / "1" / "observation.memmap"
    file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:])
    with pytest.raises(ValueError, match="altered or damaged"):
        other.loads(tmp_path)
    assert [numbers_of(other[member][:].exclude("index")).tolist() for member in (0, 1)] == [[50, 51]] * 2


# Memory ---------------------------------------------------------------------------------------------------------------

MEASURE = """
import sys, torch
from tensordict import NonTensorStack, TensorDict
from rlnb import data

torch.set_num_threads(1)

def grown(call):
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # forget the peak
    start = peak()
    call()
    return peak() - start

def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) >> 10

def measure(name, shape, where):
    def make():
        storage = data.LazyTensorStorage(3000, ndim=len(shape))
        return data.ReplayBuffer(storage=storage, checkpointer=getattr(data, name + "StorageCheckpointer"))

    picture = torch.arange(3000, dtype=torch.uint8).reshape(*shape, 1, 1).expand(*shape, 100, 100).clone()
    done = torch.zeros(*shape, 1, dtype=torch.bool)
    done[..., ::100, :] = True
    td = TensorDict({"picture": picture, "next": {"picture": picture + 1, "done": done}}, shape)
    small, rb = make(), make()
    small.extend(td[..., :9])
    small.dumps(where + "/small")  # whatever is made once is made now
    make().loads(where + "/small")
    rb.extend(td)
    del td, picture, done
    found = [grown(lambda: rb.dumps(where))]
    del rb
    other = make()
    return [*found, grown(lambda: other.loads(where)), grown(lambda: other.loads(where))]

for name in ("Tensor", "Flat", "Nested", "H5"):
    for shape in ([3000], [3, 1000]):
        print(name, len(shape), *measure(name, shape, f"{sys.argv[1]}/{name}{len(shape)}"))
"""


@pytest.mark.deep
def test_no_second_copy_of_the_data_is_made(tmp_path: Path, missing: Any) -> None:
    if not Path("/proc/self/clear_refs").exists():
        missing("/proc", "Linux says there how much memory was used")
    call = [sys.executable, "-c", MEASURE, str(tmp_path)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 8
    for line in lines:
        dumps, loads, again = map(int, line.split()[2:])
        assert dumps <= 12 and loads <= 57 + 12 and again <= 12, line  # MiB; the data has 57


# Files of others ------------------------------------------------------------------------------------------------------


def test_files_of_others_with_names_like_ours_stay(tmp_path: Path) -> None:
    theirs = {"rlnb-checkpoint-7/notes.txt": "mine", "storage-8": "a file", ".rlnb-new-1/a": "b"}
    for name, text in theirs.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    filled(70).dumps(outside)
    (tmp_path / "rlnb-link").symlink_to(outside)
    for first in (0, 20, 40):
        filled(first).dumps(tmp_path)
    assert {name: (tmp_path / name).read_text() for name in theirs} == theirs
    assert first_of(tmp_path) == 40 and first_of(outside) == 70 and first_of(tmp_path / "rlnb-link") == 70


def test_what_a_crash_left_is_deleted(tmp_path: Path) -> None:
    filled(0).dumps(tmp_path)
    for crash in ({}, {".rlnb": "", "storage/0.memmap": "x"}):  # right after the folder was made, and later
        (tmp_path / ".rlnb-new" / "storage").mkdir(parents=True) if crash else (tmp_path / ".rlnb-new").mkdir()
        for name, text in crash.items():
            (tmp_path / ".rlnb-new" / name).write_text(text)
        assert first_of(tmp_path) in (0, 20)
        filled(20).dumps(tmp_path)
        assert first_of(tmp_path) == 20
        assert {path.name for path in tmp_path.iterdir()} == {".lock", "checkpoint.json", "state", "storage"}


@pytest.mark.parametrize("moved", [(), ("storage",), ("storage", "state"), ("storage", "state", "checkpoint.json")])
@pytest.mark.parametrize("first", [False, True])
def test_an_exchange_that_was_cut_off_is_finished(moved: tuple[str, ...], first: bool, tmp_path: Path) -> None:
    """By the next load, with some of the parts in place, and the next one partly deleted."""
    path, new = tmp_path / "it", tmp_path / "new"
    filled(100).dumps(new)
    if not first:
        filled(50).dumps(path)
        for name in ("storage", "state")[len(moved) :][:1]:
            next((path / name).glob("*.json")).unlink()
    path.mkdir(exist_ok=True)
    ready = path / ".rlnb-ready"
    ready.mkdir()
    (ready / ".rlnb").touch()
    for name in ("storage", "state", "checkpoint.json"):
        target = path if name in moved else ready
        if (target / name).is_dir():
            shutil.rmtree(target / name)
        os.replace(new / name, target / name)
    assert first_of(path) == 100
    assert {each.name for each in path.iterdir()} - {".lock"} == {"checkpoint.json", "state", "storage"}
    filled(0).dumps(path)
    assert first_of(path) == 0


@pytest.mark.parametrize("storage", [LazyTensorStorage, LazyMemmapStorage])
@pytest.mark.parametrize("ndim", [1, 2])
def test_tensordict_reads_the_files(storage: Any, ndim: int, tmp_path: Path) -> None:
    """What is filled, with the batch size of each nested TensorDict; non-tensor data is left out."""
    rb = ReplayBuffer(storage=storage(12, ndim=ndim))
    data = rollout(0, 5, None if ndim == 1 else 2)
    data["agents"] = TensorDict(
        {"x": torch.rand(*data.shape, 3, 2), "none": TensorDict({}, data.shape)}, [*data.shape, 3][: ndim + 1]
    )
    for _ in range(2):
        rb.extend(data)
        rb.dumps(tmp_path / "rb")
        rb.storage.dumps(tmp_path / "storage")
        for path in (tmp_path / "rb", tmp_path / "storage"):
            found = TensorDict.load_memmap(path / "storage", allow_pickle=False)
            assert found.batch_size == rb[:].batch_size and found["agents"].batch_size == rb[:]["agents"].batch_size
            assert (found == rb[:]).all() and set(found.keys(True, True)) == set(rb[:].keys(True, True))
    labelled = ReplayBuffer(storage=LazyTensorStorage(4))
    labelled.extend(TensorDict({"a": torch.arange(3), "b": {"label": NonTensorStack("x", "y", "z")}}, [3]))
    labelled.dumps(tmp_path / "labelled")
    found = TensorDict.load_memmap(tmp_path / "labelled" / "storage", allow_pickle=False)
    assert list(found.keys(True, True)) == ["a"] and found["a"].tolist() == [0, 1, 2]
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".pickle", ".pkl", ".pt")]


@pytest.mark.parametrize(
    "key", ["a/b", "..", "x" * 300, "", "\ud800", "meta.json", "storage.json", "a.memmap", ".rlnb", "a b", "\0", "a.b"]
)
def test_any_key_is_saved(key: str, tmp_path: Path) -> None:
    """Keys that cannot be names of files, and branches that have the name of another file."""
    rb, other = (ReplayBuffer(storage=LazyTensorStorage(5)) for _ in range(2))
    rb.extend(TensorDict({key: {key: torch.arange(3), "b": torch.ones(3)}, "a": torch.zeros(3)}, [3]))
    rb.dumps(tmp_path)
    other.loads(tmp_path)
    assert (other[:] == rb[:]).all()
    found = TensorDict.load_memmap(tmp_path / "storage")
    assert any(torch.equal(value, torch.arange(3)) for value in found.values(True, True))
    assert key not in ("a/b", "a b", "a.b") or found[key, key].tolist() == [0, 1, 2]


def test_a_file_in_the_place_of_the_pointer_is_not_replaced(tmp_path: Path) -> None:
    pointer = tmp_path / "checkpoint.json"
    pointer.write_text('{"epoch": 3}')
    with pytest.raises(FileExistsError, match=r"that is not of a checkpoint.*Fix: give dumps a folder of its own"):
        filled(0).dumps(tmp_path)
    assert pointer.read_text() == '{"epoch": 3}' and not list(tmp_path.glob("st*"))
    pointer.unlink()
    filled(0).dumps(tmp_path)
    for damage in (b"", b"\0" * 50):  # of ours: what lies beside it shows that it was
        pointer.write_bytes(damage)
        filled(20).dumps(tmp_path)
        assert first_of(tmp_path) == 20


@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_a_lock_that_is_not_a_file_does_not_block(kind: str, tmp_path: Path, missing: Any) -> None:
    if not hasattr(os, "mkfifo"):
        missing("pipes", "one lies where the lock should be")
    lock = tmp_path / ".lock"
    elsewhere = tmp_path / "elsewhere"
    {"pipe": lambda: os.mkfifo(lock), "folder": lock.mkdir, "link": lambda: lock.symlink_to(elsewhere)}[kind]()
    with pytest.raises(OSError, match="Fix:"):
        filled(0).dumps(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {".lock"}
    lock.rmdir() if kind == "folder" else lock.unlink()
    filled(0).dumps(tmp_path)
    lock.unlink()
    {"pipe": lambda: os.mkfifo(lock), "folder": lock.mkdir, "link": lambda: lock.symlink_to(elsewhere)}[kind]()
    assert first_of(tmp_path) == 0
    assert not elsewhere.exists()


def test_generators_of_members_are_saved(tmp_path: Path) -> None:
    def make() -> ReplayBufferEnsemble:
        own = [torch.Generator().manual_seed(1), None, torch.Generator().manual_seed(2)]
        members = [ReplayBuffer(storage=LazyTensorStorage(50), generator=generator) for generator in own]
        for member in members:
            member.extend(torch.arange(50))
        return ReplayBufferEnsemble(*members, batch_size=12, generator=torch.Generator().manual_seed(3))

    rb, loaded, stated = make(), make(), make()
    for _ in range(3):
        rb.sample()
    rb.dumps(tmp_path)
    state = copy.deepcopy(rb.state_dict())
    expected = [rb.sample().tolist() for _ in range(3)]
    loaded.loads(tmp_path)
    assert [loaded.sample().tolist() for _ in range(3)] == expected
    stated.load_state_dict(state)
    assert [stated.sample().tolist() for _ in range(3)] == expected
    with pytest.raises(ValueError, match="Nothing was changed"):
        stated.load_state_dict({**state, "_rng": [torch.zeros(3)]})

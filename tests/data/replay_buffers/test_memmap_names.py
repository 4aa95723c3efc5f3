"""Memory-mapped files: names that a file system rejects, colliding names, and disks that are nearly full."""

from __future__ import annotations

import copy
import errno
import multiprocessing
import os
import pickle
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import LazyMemmapStorage, ReplayBuffer
from rlnb.data.replay_buffers.storages import lazy_memmap
from tests.pairwise import few

NAMES: list[Any] = [
    "a b",
    "a/b",
    "a:b",
    "a%b",
    "a%20b",
    "a\\b",
    "a?",
    "",
    ".",
    "..",
    "%",
    ("a", "b"),
    ("../x", "."),
    "é",
]
METHODS = [method for method in ("fork", "spawn") if method in multiprocessing.get_all_start_methods()]


def named(numbers: torch.Tensor) -> TensorDict:
    """Steps with an entry for each name, all of them different."""
    data = TensorDict(batch_size=numbers.shape)
    for position, name in enumerate(NAMES):
        data[name] = numbers + 100 * position
    return data


def agree(found: Any, numbers: list[int]) -> bool:
    return all(found[name].tolist() == [n + 100 * position for n in numbers] for position, name in enumerate(NAMES))


def test_names_with_any_characters(tmp_path: Path) -> None:
    rb = ReplayBuffer(storage=LazyMemmapStorage(6, scratch_dir=tmp_path / "rb"))
    rb.extend(named(torch.arange(4)))
    sent, copied = pickle.loads(pickle.dumps(rb)), copy.deepcopy(rb)
    sent.extend(named(torch.arange(4, 8)))
    assert agree(rb[:], [6, 7, 2, 3, 4, 5]) and agree(sent[:], [6, 7, 2, 3, 4, 5]) and agree(copied[:], [0, 1, 2, 3])
    assert agree(TensorDict.load_memmap(rb.storage.scratch_dir), [6, 7, 2, 3, 4, 5])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rb"]


@pytest.mark.parametrize("method", few(METHODS))
def test_a_worker_writes_entries_of_any_name(method: str) -> None:
    rb = ReplayBuffer(storage=LazyMemmapStorage(6))
    rb.extend(named(torch.arange(4)))
    worker = multiprocessing.get_context(method).Process(target=rb.extend, args=(named(torch.arange(4, 8)),))
    worker.start()
    worker.join()
    assert worker.exitcode == 0 and agree(rb[:], [6, 7, 2, 3, 4, 5])


def test_a_file_in_the_way_is_found_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "a%20b.memmap").write_text("mine")
    rb = ReplayBuffer(storage=LazyMemmapStorage(6, scratch_dir=tmp_path))
    with pytest.raises(FileExistsError, match=r"a%20b\.memmap exists already"):
        rb.extend(TensorDict({"a b": torch.arange(3)}, [3]))
    assert (tmp_path / "a%20b.memmap").read_text() == "mine" and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("data", "one", "other"),
    [
        ({1: 1, "1": 2}, "1", "'1'"),
        ({1: 1, "1": {"x": 2}}, "('1', 'x')", "1"),
        ({"1": {"x": 2}, 1: 1}, "('1', 'x')", "1"),
        ({"a": {1: 1, "1": 2}}, "('a', 1)", "('a', '1')"),
        ({"a": 1, "a.memmap": {"x": 2}}, "('a.memmap', 'x')", "'a'"),
        ({"meta.json": {"x": 2}}, "('meta.json', 'x')", "meta.json, which the storage needs,"),
        ({"ring.log": {"x": 2}}, "('ring.log', 'x')", "ring.log, which the storage needs,"),
    ],
)
def test_names_that_meet_are_refused(data: Any, one: str, other: str, tmp_path: Path) -> None:
    rb = ReplayBuffer(storage=LazyMemmapStorage(6, scratch_dir=tmp_path / "rb"))
    with pytest.raises(ValueError) as caught:
        rb.add(torch.utils._pytree.tree_map(torch.tensor, data))
    assert str(caught.value) == (
        f"{one} and {other} would be the same file. Nothing was written. "
        "Fix: rename one of them, or use LazyTensorStorage, which needs no files."
    )
    assert not rb.storage.initialized and not list(tmp_path.iterdir())
    rb.add({"a": torch.tensor(1), "a.memmap": torch.tensor(2), "meta.json": torch.tensor(3)})
    sent = pickle.loads(pickle.dumps(rb))
    assert [value.item() for value in sent[0].values()] == [1, 2, 3]


# Room -----------------------------------------------------------------------------------------------------------------


class Disk:
    """A disk with room for so many bytes; what a file has, it keeps."""

    def __init__(self, room: int, tells: bool) -> None:
        self.room, self.tells, self.ends = room, tells, dict[str, int]()

    def take(self, path: Path, begin: int, length: int) -> None:
        more = max(begin + length - self.ends.get(path.name, 0), 0)
        if more > self.room:
            raise OSError(errno.ENOSPC, "No room on the disk")
        self.room, self.ends[path.name] = self.room - more, begin + length

    def usage(self, _: Any) -> Any:
        return SimpleNamespace(free=self.room if self.tells else 10**12)


@pytest.mark.parametrize("tells", [True, False], ids=["it says so", "it says so too late"])
def test_a_disk_is_filled_to_the_last_row(tells: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(16 * 5 + 7, tells)
    monkeypatch.setattr(lazy_memmap, "reserve_bytes", disk.take)
    monkeypatch.setattr(shutil, "disk_usage", disk.usage)
    rb = ReplayBuffer(storage=LazyMemmapStorage(1000, scratch_dir=tmp_path))
    row = {"a": torch.tensor(1), "b": torch.tensor(2)}
    for _ in range(5):
        rb.add(row)
    with pytest.raises(OSError, match="No room on the disk") as caught:
        rb.add(row)
    assert caught.value.errno == errno.ENOSPC and len(rb) == 5
    disk.room += 16
    rb.add(row)
    assert len(rb) == 6


def test_where_the_first_data_has_no_room_other_data_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(100, tells=False)
    monkeypatch.setattr(lazy_memmap, "reserve_bytes", disk.take)
    rb = ReplayBuffer(storage=LazyMemmapStorage(1000, scratch_dir=tmp_path))
    for write in (rb.extend, rb.add):
        with pytest.raises(OSError, match="No room on the disk"):
            write({"frames": {"left": torch.zeros(2, 10_000)}})
        assert not rb.storage.initialized and len(rb) == 0 and not os.listdir(tmp_path)
    rb.extend({"a": torch.arange(3)})
    assert rb[:]["a"].tolist() == [0, 1, 2] and list(TensorDict.load_memmap(tmp_path).keys()) == ["a"]
    disk.room = 0
    with pytest.raises(OSError, match="No room on the disk"):
        rb.extend({"a": torch.arange(300)})
    assert rb[:]["a"].tolist() == [0, 1, 2]


def test_a_full_disk_takes_no_files_from_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rb = ReplayBuffer(storage=LazyMemmapStorage(10, scratch_dir=tmp_path))
    rb.extend(torch.empty(0, dtype=torch.int64))
    sent = pickle.loads(pickle.dumps(rb))
    disk = Disk(0, tells=False)
    monkeypatch.setattr(lazy_memmap, "reserve_bytes", disk.take)
    with pytest.raises(OSError, match="No room on the disk"):
        sent.extend(torch.arange(3))
    disk.room = 1000
    rb.extend(torch.arange(3))
    assert sent[:].tolist() == [0, 1, 2]

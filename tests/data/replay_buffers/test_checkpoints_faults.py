"""Checkpoints under faults: processes killed at every step, full disks, damaged and malicious files."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlnb.data import (
    LazyMemmapStorage,
    LazyTensorStorage,
    ReplayBuffer,
)
from rlnb.data.replay_buffers.checkpointers import files, folder
from tests.data.replay_buffers.checkpoint_worlds import (
    MAKERS,
    buffer,
    filled,
    first_of,
    no_disk,  # noqa: F401 - a fixture for the whole module
    refused,
)
from tests.data.ted.generators import same
from tests.pairwise import few

NAMES = {".lock", "checkpoint.json", "state", "storage"}

# Crashes --------------------------------------------------------------------------------------------------------------


def at_each_step(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Call something before whatever a checkpoint does to the disk, and in the middle of what it writes."""
    write = files._write

    def write_half(file: Any, data: memoryview) -> None:
        act()
        write(file, data[: len(data) // 2])
        act()
        write(file, data[len(data) // 2 :])

    monkeypatch.setattr(files, "_write", write_half)
    monkeypatch.setattr(folder, "sync", lambda path: act())
    for name in ("mkdir", "rename", "replace", "unlink", "rmdir", "listdir"):
        monkeypatch.setattr(os, name, _before(getattr(os, name), act))
    monkeypatch.setattr(Path, "open", _before(Path.open, act))
    monkeypatch.setattr(Path, "write_text", _before(Path.write_text, act))
    monkeypatch.setattr(shutil, "rmtree", _before(shutil.rmtree, act))


def _before(call: Callable[..., Any], act: Callable[[], None]) -> Callable[..., Any]:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        act()
        return call(*args, **kwargs)

    return wrapped


@pytest.mark.parametrize(("name", "every"), few([("tensor", 8), ("tensor", 1), ("h5", 1)]))
def test_a_process_killed_at_any_step_leaves_a_checkpoint(name: str, every: int, tmp_path: Path, missing: Any) -> None:
    if not hasattr(os, "fork"):
        missing("fork", "a process is ended in the middle of a checkpoint")
    path = tmp_path / "it"
    new = filled(100, name)
    left = 0

    def die_at(step: int) -> bool:
        nonlocal left
        child = os.fork()
        if not child:
            left = step

            def act() -> None:
                nonlocal left
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

            with pytest.MonkeyPatch.context() as patch:
                at_each_step(patch, act)
                new.dumps(path)
                os._exit(0)
        status = os.waitpid(child, 0)[1]
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
        return os.WIFSIGNALED(status)

    seen: list[float] = []
    filled(50, name).dumps(path)
    for step in range(0, 1000, every):
        if not die_at(step):
            break
        seen.append(first_of(path, name))
        if seen[-1] == 100:  # back to the old one, so that each crash has something to spoil
            filled(50, name).dumps(path)
    assert step > 30
    assert set(seen) == {50, 100} and seen == sorted(seen)
    assert first_of(path, name) == 100
    new.dumps(path)
    assert {each.name for each in path.iterdir()} == NAMES  # what the crashes left is gone


@pytest.mark.parametrize(("name", "every"), few([("tensor", 3), ("tensor", 1), ("flat", 1), ("h5", 1)]))
def test_a_full_disk_at_any_step_leaves_the_checkpoint(name: str, every: int, tmp_path: Path) -> None:
    path = tmp_path / "it"
    new = filled(100, name)
    filled(50, name).dumps(path)
    found: list[str] = []
    for step in range(0, 1000, every):
        left = step

        def act() -> None:
            nonlocal left
            left -= 1
            if left == -1:
                raise OSError(errno.ENOSPC, "No space left on device")

        with pytest.MonkeyPatch.context() as patch:
            at_each_step(patch, act)
            try:
                new.dumps(path)
            except OSError as error:
                assert error.errno == errno.ENOSPC
                found.append(str(error))
        if left >= 0:
            break
        if first_of(path, name) == 100:
            filled(50, name).dumps(path)
    assert step > 30
    assert first_of(path, name) == 100
    assert found[0] == (
        f"[Errno 28] The checkpoint in {str(path)!r} could not be written: No space left on device. A checkpoint that "
        "was there before is still there. Fix: free some space, or give a folder that can be written to."
    )


def test_a_file_that_may_not_grow(tmp_path: Path, missing: Any) -> None:
    try:
        import resource
    except ImportError:
        missing("resource", "the size of files is limited")
    rb = ReplayBuffer(storage=LazyTensorStorage(1000))
    rb.extend(torch.zeros(1000, 1000))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(OSError) as caught:
            rb.dumps(tmp_path / "new")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.errno == errno.EFBIG
    assert not (tmp_path / "new").exists()


def test_what_is_written_is_on_the_disk_before_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file and folder, in this order."""
    calls: list[str] = []
    monkeypatch.setattr(folder, "sync", lambda path: calls.append(path.name))
    rename, delete = os.rename, folder._delete
    monkeypatch.setattr(os, "rename", lambda one, two: calls.append("counts") or rename(one, two))
    monkeypatch.setattr(folder, "_delete", lambda path: calls.append("delete") or delete(path))
    filled(50).dumps(tmp_path)
    calls.clear()
    filled(0).dumps(tmp_path)
    before = calls[calls.index("delete") + 1 : calls.index("counts")]
    there = [path.name for path in tmp_path.rglob("*") if path.name not in (".lock", ".rlnb")]
    assert sorted(before) == sorted([*there, ".rlnb-new"]) and before[-1] == ".rlnb-new"
    assert calls[calls.index("counts") :][:3] == ["counts", tmp_path.name, "delete"]


def test_tensors_are_written_as_they_are_in_memory(tmp_path: Path) -> None:
    """All rows, or those at an index, in several pieces; and read from any place."""
    numbers = torch.arange(5_000_001).remainder(251).to(torch.uint8)
    for index in (None, torch.arange(7, 4_500_000, 3)):
        files.write_tensor(tmp_path / "it", numbers, index)
        assert (tmp_path / "it").read_bytes() == numbers[slice(None) if index is None else index].numpy().tobytes()
    turned = torch.arange(2_000_000).reshape(1000, 2000).t()
    files.write_tensor(tmp_path / "turned", turned)
    found = torch.empty(1000, 2000, dtype=torch.int64).t()
    files.read_tensor(tmp_path / "turned", found)
    assert torch.equal(found, turned)
    part = torch.empty(1999, 1000, dtype=torch.int64)
    files.read_tensor(tmp_path / "turned", part, 8000)
    assert torch.equal(part, turned[1:])
    with pytest.raises(ValueError, match="turned' of the checkpoint was altered or damaged"):
        files.read_tensor(tmp_path / "turned", part, 8008)


def test_several_save_and_load_at_once(tmp_path: Path) -> None:
    filled(0).dumps(tmp_path)
    failures: list[BaseException] = []

    def work(call: Callable[[], Any]) -> None:
        try:
            for _ in range(15):
                call()
        except BaseException as error:
            failures.append(error)

    one, two = filled(10), filled(20)
    calls = [lambda: one.dumps(tmp_path), lambda: two.dumps(tmp_path), lambda: first_of(tmp_path)]
    threads = [threading.Thread(target=work, args=(call,)) for call in (*calls, calls[-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == [] and first_of(tmp_path) in (10, 20)


def test_what_is_not_of_a_checkpoint_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "rlnb-checkpoint-mine").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    for _ in range(3):
        filled(0).dumps(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {*NAMES, "notes.txt", "rlnb-checkpoint-mine"}


# Damage ---------------------------------------------------------------------------------------------------------------


def flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0x20]) + content[middle + 1 :]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "flipped": flip,
    "cut": lambda content: content[:-1],
    "halved": lambda content: content[: len(content) // 2],
    "emptied": lambda content: b"",
    "longer": lambda content: content + b"\0",
    "zeros": lambda content: bytes(len(content)),
}


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("name", MAKERS)
def test_every_damage_to_every_file_is_refused(name: str, known: bool, tmp_path: Path) -> None:
    filled(0, name).dumps(tmp_path)
    rb = filled(30, name) if known else buffer(name)
    names = [path for path in tmp_path.rglob("*") if path.is_file() and path.name not in (".lock", ".rlnb")]
    assert len(names) >= 5
    for path in names:
        content = path.read_bytes()
        for damage in DAMAGE.values():
            if not content or damage(content) == content:
                continue
            path.write_bytes(damage(content))
            if path.name == "checkpoint.json" and json_of(path) == json.loads(content):
                continue  # white space
            text = refused(rb, tmp_path)
            assert path.name in text and "Nothing was changed. Fix: load another copy, or save" in text
        path.unlink()
        if path.name == "checkpoint.json":
            with pytest.raises(FileNotFoundError, match="There is no checkpoint in"):
                rb.loads(tmp_path)
        else:
            assert "The checkpoint is not complete: " in refused(rb, tmp_path)
        path.write_bytes(content)
    rb.loads(tmp_path)
    same(rb[:], filled(0)[:])


def json_of(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except ValueError:
        return None


def test_the_texts_of_damage(tmp_path: Path) -> None:
    rb = filled(0)
    rb.dumps(tmp_path)
    file = tmp_path / "storage" / "observation.memmap"
    content = file.read_bytes()
    file.write_bytes(content[:10])
    assert refused(rb, tmp_path) == (
        "The file 'storage/observation.memmap' of the checkpoint has 10 bytes, and had 96 when it was written. It was "
        "cut short or altered. Nothing was changed. Fix: load another copy, or save the buffer again with dumps."
    )
    file.write_bytes(flip(content))
    assert refused(rb, tmp_path) == (
        "The file 'storage/observation.memmap' of the checkpoint was altered or damaged: its content does not fit its "
        "checksum. Nothing was changed. Fix: load another copy, or save the buffer again with dumps."
    )


def test_words_that_change_places_are_noticed(tmp_path: Path) -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(100_000))
    rb.extend(torch.arange(100_000))
    rb.dumps(tmp_path)
    file = tmp_path / "storage" / "data.memmap"
    words = np.fromfile(file, dtype=np.int64)
    for one, two in ((0, 1), (5, 40_000), (32_767, 32_768), (1, 1 + 32_768)):
        words[[one, two]] = words[[two, one]]
        words.tofile(file)
        with pytest.raises(ValueError, match="altered or damaged"):
            rb.loads(tmp_path)
        words[[one, two]] = words[[two, one]]
    words.tofile(file)
    rb.loads(tmp_path)


def test_folders_without_a_checkpoint(tmp_path: Path) -> None:
    rb = filled(0)
    with pytest.raises(FileNotFoundError) as caught:
        rb.loads(tmp_path / "none")
    assert str(caught.value) == (
        f"There is no checkpoint in {str(tmp_path / 'none')!r}: there is no such folder. Nothing was changed."
    )
    (tmp_path / "buffer_metadata.json").write_text("{}")
    with pytest.raises(FileNotFoundError) as other:
        rb.loads(tmp_path)
    assert str(other.value) == (
        f"There is no checkpoint in {str(tmp_path)!r}: a checkpoint has a file 'checkpoint.json', and the folder has "
        "'buffer_metadata.json'. Nothing was changed. Fix: give the folder that dumps was given."
    )
    (tmp_path / "checkpoint.json").write_text(json.dumps({"format": "of-others-7", "checksum": "", "content": {}}))
    assert refused(rb, tmp_path) == (
        f"The file '{tmp_path.name}/checkpoint.json' has the format 'of-others-7', and this version reads "
        "'rlnb-checkpoint-3' only. Nothing was changed. "
        "Fix: load it with the version that wrote it, or save the buffer again with dumps."
    )
    (tmp_path / "a file").write_text("")
    with pytest.raises(OSError, match="could not be written"):
        rb.dumps(tmp_path / "a file")


@pytest.mark.parametrize("storage", [LazyTensorStorage, LazyMemmapStorage])
def test_a_disk_that_fails_after_all_was_checked(storage: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rb, other = filled(0, storage=storage), filled(0, storage=storage)
    rb.dumps(tmp_path)
    fresh = buffer(storage=storage)

    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(files, "read_tensor", fail)
    with pytest.raises(OSError) as caught:
        other.storage.checkpointer.loads(other.storage, tmp_path / "storage")
    assert str(caught.value) == (
        "The checkpoint was checked and could then not be read ([Errno 5] Input/output error). The storage had been "
        "written to, so it was emptied. Fix: load again, or look after the disk."
    )
    assert len(other) == 0
    with pytest.raises(OSError, match="Input/output error"):
        fresh.storage.checkpointer.loads(fresh.storage, tmp_path / "storage")
    assert fresh.storage.form is None
    monkeypatch.undo()
    for each in (other, fresh):
        each.loads(tmp_path)
        same(each[:], rb[:])

"""Checkpoints and Ctrl+C, concurrent saves, and folders with unexpected contents."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from rlnb.data import H5StorageCheckpointer, LazyTensorStorage, ReplayBuffer
from rlnb.data.replay_buffers.checkpointers import files, folder
from tests.data.replay_buffers.checkpoint_worlds import (
    buffer,
    filled,
    first_of,
    no_disk,  # noqa: F401 - a fixture for the whole module
    refused,
    steps_of,
)
from tests.data.replay_buffers.interrupting import interrupted
from tests.pairwise import covering, few

NAMES = {".lock", "checkpoint.json", "state", "storage"}


def names(path: Path) -> set[str]:
    return {each.name for each in path.iterdir()}


def has_checkpoint(path: Path) -> bool:
    return (path / "checkpoint.json").exists() or (path / ".rlnb-ready").exists()


def rename_and(error: Callable[[], BaseException], before: bool) -> Callable[..., None]:
    """Make the renaming after which the new checkpoint counts fail, before it is done or after."""
    real = os.rename

    def rename(one: Any, two: Any) -> None:
        if not before:
            real(one, two)
        raise error()

    return rename


# Ctrl+C ---------------------------------------------------------------------------------------------------------------

CODES = {
    name: getattr(call, "__wrapped__", call).__code__
    for name, call in vars(folder).items()
    if getattr(call, "__module__", None) == folder.__name__ and name not in ("loading", "verify", "sync")
}
EXCHANGE = ["saving", "_alone", "_finish", "_delete"]


@pytest.mark.parametrize("before", [True, False])
def test_ctrl_c_beside_the_exchange(before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "it"
    filled(50).dumps(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", rename_and(KeyboardInterrupt, before))
        with pytest.raises(KeyboardInterrupt):
            filled(100).dumps(path)
        assert first_of(path) == (50 if before else 100)
        with pytest.raises(KeyboardInterrupt):
            filled(100).dumps(tmp_path / "new")
        assert (tmp_path / "new").exists() != before
    for each in (path, tmp_path / "new"):  # nobody has finished the exchange of the second one
        filled(150).dumps(each)
        assert first_of(each) == 150 and names(each) == NAMES


@pytest.mark.parametrize(
    ("name", "first"),
    # What only looks at files does the same in the first checkpoint of a folder.
    few([*itertools.product(CODES, [False]), *itertools.product(EXCHANGE, [True])], [("_finish", False)]),
)
def test_ctrl_c_in_any_line(name: str, first: bool, tmp_path: Path) -> None:
    new, seen = filled(100), []
    for at in range(1000):
        path = tmp_path / str(at)
        if not first:
            filled(50).dumps(path)
        reached = interrupted(lambda path=path: new.dumps(path), CODES[name], at)
        there = has_checkpoint(path)
        assert there or first
        seen.append(first_of(path) if there else 50)
        new.dumps(path)  # nobody holds the lock
        assert first_of(path) == 100 and names(path) == NAMES
        if not reached:
            break
    assert at < 999 and (at > 0) == (name != "_foreign")
    assert set(seen) <= {50, 100} and seen[-1] == 100


@pytest.mark.parametrize(
    ("name", "before", "first"),
    # Each pair of a place, a moment and a folder.
    few(
        [(EXCHANGE[i], not j, bool(k)) for i, j, k in covering([len(EXCHANGE), 2, 2])],
        [("_delete", False, True)],
    ),
)
def test_ctrl_c_twice(name: str, before: bool, first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = filled(100)
    for at in range(40):
        path = tmp_path / str(at)
        if not first:
            filled(50).dumps(path)
        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", rename_and(KeyboardInterrupt, before))
            assert interrupted(lambda path=path: new.dumps(path), CODES[name], at)
        there = has_checkpoint(path)
        assert there or first
        assert not there or first_of(path) in ((50,) if before else (50, 100))
        new.dumps(path)
        assert first_of(path) == 100 and names(path) == NAMES


def test_ctrl_c_does_not_keep_the_lock(tmp_path: Path) -> None:
    """Not even if the error is kept, as Jupyter does."""

    def interrupt(data: Any) -> Any:
        raise KeyboardInterrupt

    rb = filled(0)
    rb.register_save_hook(interrupt)
    with pytest.raises(KeyboardInterrupt) as kept:
        rb.dumps(tmp_path)
    thread = threading.Thread(target=filled(50).dumps, args=(tmp_path,), daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive() and first_of(tmp_path) == 50 and kept.value.__traceback__ is not None


def test_all_is_written_to_the_disk_by_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl+C among others leaves locks that nobody opens, and a process that waits for ever."""
    threads: set[threading.Thread] = set()
    monkeypatch.setattr(folder, "sync", lambda path: threads.add(threading.current_thread()))
    filled(0).dumps(tmp_path)
    assert threads == {threading.current_thread()}


# What the disk says when the new one counts ---------------------------------------------------------------------------


def test_a_disk_that_fails_when_the_new_one_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        f"[Errno 5] The checkpoint in {str(tmp_path)!r} was written and is what loads reads, and the system could not "
        "confirm that it is on the disk: Input/output error. Fix: look after the disk, and save again with dumps."
    )

    def fault() -> OSError:
        return OSError(errno.EIO, "Input/output error")

    def sync(path: Path) -> None:
        if path == tmp_path:
            raise fault()

    for first, (target, name, value) in enumerate(((folder, "sync", sync), (os, "rename", rename_and(fault, False)))):
        with monkeypatch.context() as patch:
            patch.setattr(target, name, value)
            with pytest.raises(OSError) as caught:
                filled(first).dumps(tmp_path)
        assert str(caught.value) == text
        # The one before stays until another is known to be on the disk.
        assert names(tmp_path) == ({".lock", ".rlnb-ready"} if not first else {*NAMES, ".rlnb-ready"})
        assert first_of(tmp_path) == first and names(tmp_path) == NAMES
    filled(9).dumps(tmp_path)
    assert first_of(tmp_path) == 9 and names(tmp_path) == NAMES


# Several at once ------------------------------------------------------------------------------------------------------


def needs_locks(missing: Any) -> None:
    try:
        import fcntl  # noqa: F401 - Windows has none
    except ImportError:
        missing("fcntl", "several save at once")


def test_who_waits_for_a_first_checkpoint_that_fails(tmp_path: Path, missing: Any) -> None:
    needs_locks(missing)
    path, begun, go = tmp_path / "it", threading.Event(), threading.Event()

    def fail(data: Any) -> Any:
        begun.set()
        go.wait()
        raise RuntimeError("a hook")

    bad, failures = filled(0), []
    bad.register_save_hook(fail)

    def save(rb: ReplayBuffer) -> None:
        try:
            rb.dumps(path)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=save, args=(rb,)) for rb in (bad, filled(100), filled(100))]
    threads[0].start()
    begun.wait()
    for thread in threads[1:]:
        thread.start()
    time.sleep(0.1)  # until they wait for the lock
    go.set()
    for thread in threads:
        thread.join()
    assert [str(error) for error in failures] == ["a hook"]
    assert first_of(path) == 100 and names(path) == NAMES


def test_one_saves_at_a_time_though_some_fail(tmp_path: Path, missing: Any) -> None:
    needs_locks(missing)
    inside, failures = [0], []

    def alone(data: Any) -> Any:
        inside[0] += 1
        assert inside == [1]
        time.sleep(0.001)
        inside[0] -= 1
        return data

    def fail(data: Any) -> Any:
        raise RuntimeError("a hook")

    def save(path: Path, hooks: list[Any], wait: threading.Barrier) -> None:
        rb = filled(100)
        for hook in hooks:
            rb.register_save_hook(hook)
        wait.wait()
        try:
            rb.dumps(path)
        except BaseException as error:
            failures.append(error)

    for i in range(10):
        path, wait = tmp_path / str(i), threading.Barrier(5)
        every = ([alone, fail], [alone, fail], [alone], [alone], [fail])
        threads = [threading.Thread(target=save, args=(path, hooks, wait)) for hooks in every]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [str(error) for error in failures] == ["a hook"] * 3
        assert first_of(path) == 100 and names(path) == NAMES
        failures.clear()


# What nobody expects --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [[], "folder", 3, None, {}, {"folder": 3}, {"format": 3}])
def test_an_invalid_manifest_is_rejected(content: Any, tmp_path: Path) -> None:
    filled(0).dumps(tmp_path)
    files.write_values(tmp_path / "checkpoint.json", content)
    text = refused(buffer(), tmp_path)
    if content == {"format": 3}:
        assert "has the format '3'" in text
    else:
        assert text.startswith(f"'{tmp_path.name}/checkpoint.json' of the checkpoint does not read as one (")
        assert text.endswith("Nothing was changed. Fix: load another copy, or save the buffer again with dumps.")
    filled(50).dumps(tmp_path)
    assert first_of(tmp_path) == 50


def test_a_checkpoint_of_the_first_format_is_refused(tmp_path: Path) -> None:
    """As it was written before: a file that names the folder that counts."""
    old = {"format": "rlnb-checkpoint-1", "checksum": "66ae42ff6bb0d4c8", "content": {"folder": "rlnb-checkpoint-1"}}
    files.write_values(tmp_path / "checkpoint.json", old)
    (tmp_path / "rlnb-checkpoint-1").mkdir()
    (tmp_path / "rlnb-checkpoint-1" / ".rlnb").touch()
    assert refused(buffer(), tmp_path) == (
        f"The file '{tmp_path.name}/checkpoint.json' has the format 'rlnb-checkpoint-1', and this version reads "
        "'rlnb-checkpoint-3' only. Nothing was changed. "
        "Fix: load it with the version that wrote it, or save the buffer again with dumps."
    )
    filled(0).dumps(tmp_path)
    assert first_of(tmp_path) == 0 and names(tmp_path) == {*NAMES, "rlnb-checkpoint-1"}


@pytest.mark.parametrize("name", ["storage", "state", ".rlnb-new", ".rlnb-ready"])
@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_what_somebody_else_keeps_under_the_name_of_a_part(name: str, kind: str, tmp_path: Path) -> None:
    path, mine = tmp_path / "it", tmp_path / "mine"
    path.mkdir()
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")
    if kind == "folder":
        mine.rename(path / name)
    elif kind == "file":
        (path / name).write_text("mine")
    else:
        (path / name).symlink_to(mine)
    for _ in range(2):
        with pytest.raises(FileExistsError, match=rf"'{name}' in .* that is not of a checkpoint.*Fix: give dumps a fo"):
            filled(0).dumps(path)
    kept = path / name if kind == "file" else path / name / "notes.txt"
    assert kept.read_text() == "mine" and names(path) == {".lock", name}


def test_a_folder_in_place_of_a_file(tmp_path: Path) -> None:
    filled(0).dumps(tmp_path)
    (tmp_path / "checkpoint.json").unlink()
    (tmp_path / "checkpoint.json").mkdir()
    for _ in range(2):
        with pytest.raises(FileExistsError, match="that is not of a checkpoint"):
            filled(0).dumps(tmp_path)
    assert names(tmp_path) == NAMES


# HDF5 -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 0.999])
def test_an_hdf5_file_that_may_not_grow(share: float, tmp_path: Path, missing: Any) -> None:
    """In a process of its own, as HDF5 may not survive it."""
    try:
        import resource
    except ImportError:
        missing("resource", "the size of files is limited")
    rb = ReplayBuffer(storage=LazyTensorStorage(1000), checkpointer=H5StorageCheckpointer())
    rb.extend(steps_of([[t % 4 == 3 for t in range(1000)]])[0])
    rb.dumps(tmp_path)
    limit = int(next(tmp_path.rglob("*.h5")).stat().st_size * share)
    child = os.fork()
    if not child:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        try:
            rb.dumps(tmp_path)
        except OSError as error:
            os._exit(error.errno or 1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == errno.EFBIG
    assert names(tmp_path) == NAMES
    rb.loads(tmp_path)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("info/reward", "'/' divides the parts of a key"),
        (("info", "a/b"), "'/' divides the parts of a key"),
        (".", "'.' is the group itself"),
        ("", "a name has at least one letter"),
        ("a\0b", "a name ends before the character 0"),
        ("\ud800", "a name is text that can be encoded in UTF-8"),
    ],
)
def test_keys_that_hdf5_takes_for_others(key: Any, reason: str, tmp_path: Path) -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(8), checkpointer=H5StorageCheckpointer())
    rb.extend(steps_of([[t % 4 == 3 for t in range(8)]])[0].set(key, torch.arange(8)))
    with pytest.raises(ValueError) as caught:
        rb.dumps(tmp_path / "it")
    assert str(caught.value) == (
        f"The key {key!r} cannot be written to an HDF5 file, where {reason}. Fix: fill the buffer with data whose key "
        f"was renamed with data.rename_key_({key!r}, ...), or storage.checkpointer = TensorStorageCheckpointer(), "
        "which saves any key."
    )
    assert not (tmp_path / "it").exists()
    rb.storage.checkpointer = None
    rb.dumps(tmp_path / "it")

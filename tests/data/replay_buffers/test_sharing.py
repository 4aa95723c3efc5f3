"""Memory-mapped buffers shared by processes: one length, one cursor, and no lost rows."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import shutil
import tempfile
import threading
from multiprocessing.context import set_spawning_popen
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import (
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    ReplayBuffer,
    ReplayBufferEnsemble,
    Storage,
    TensorDictReplayBuffer,
    TensorStorage,
)
from rlnb.data.replay_buffers.shared_ring import SharedRing
from tests.data.replay_buffers.killing import start
from tests.pairwise import few

METHODS = [method for method in ("fork", "spawn") if method in multiprocessing.get_all_start_methods()]


def rows(numbers: torch.Tensor) -> TensorDict:
    return TensorDict({"a": numbers, "b": numbers[:, None].expand(-1, 50).clone()}, numbers.shape)


def write_ones(rb: TensorDictReplayBuffer) -> None:
    rb.extend(TensorDict({"a": torch.ones(10)}, [10]))


def write_many(rb: TensorDictReplayBuffer, first: int) -> None:
    for number in range(first, first + 300, 3):
        rb.extend(rows(torch.arange(number, number + 3)))


@pytest.mark.parametrize("method", few(METHODS))
def test_what_a_worker_writes_is_seen(method: str) -> None:
    context = multiprocessing.get_context(method)
    rb = TensorDictReplayBuffer(storage=LazyMemmapStorage(21))
    rb.extend(TensorDict({"a": torch.zeros(10)}, [10]))
    worker = context.Process(target=write_ones, args=(rb,))
    worker.start()
    worker.join()
    assert len(rb) == 20
    assert (rb["_data", "a"][:10] == 0).all() and (rb["_data", "a"][10:20] == 1).all()
    assert rb.add(TensorDict({"a": torch.tensor(2.0)})) == 20


def test_rows_of_several_writers_are_all_there_and_whole() -> None:
    context = multiprocessing.get_context(METHODS[0])
    rb = TensorDictReplayBuffer(storage=LazyMemmapStorage(2000), batch_size=64)
    rb.extend(rows(torch.arange(100)))
    workers = [context.Process(target=write_many, args=(rb, first)) for first in (1000, 2000, 3000)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        sample = rb.sample()
        assert (sample["b"] == sample["a"][:, None]).all()
    expected = [*range(100), *range(1000, 1300), *range(2000, 2300), *range(3000, 3300)]
    assert rb[:]["a"].sort().values.tolist() == expected
    assert rb.write_count == 1000


@pytest.mark.parametrize("hold", ["lock", "reading"])
@pytest.mark.parametrize("sent", ["before", "meanwhile"])
def test_a_held_ring_blocks_other_writers(hold: str, sent: str, tmp_path: Path) -> None:
    ring = SharedRing(10, tmp_path / "ring")
    other = pickle.loads(pickle.dumps(ring)) if sent == "before" else None
    entered = []

    def write() -> None:
        assert other is not None
        with other.lock:
            entered.append(True)

    thread = threading.Thread(target=write)
    with getattr(ring, hold):
        other = other or pickle.loads(pickle.dumps(ring))
        thread.start()
        thread.join(0.2)
        assert not entered and thread.is_alive()
    thread.join(10)
    assert entered


def test_a_storage_that_may_only_be_read_is_read_and_not_written(missing) -> None:
    if not hasattr(os, "fork"):
        missing("fork", "a process gives its rights away in a forked one")
    folder = Path(tempfile.mkdtemp())  # not below tmp_path, which only its owner may enter
    rb = TensorDictReplayBuffer(storage=LazyMemmapStorage(10, scratch_dir=folder), batch_size=3)
    rb.extend(rows(torch.arange(12)))
    folder.chmod(0o755)
    for path in folder.iterdir():
        path.chmod(0o444)
    sent, text = (
        pickle.dumps(rb),
        (
            f"This process may only read the files of the storage, which are in {folder}. Nothing was written. "
            "Fix: write in a process that may write there, or copy what is there into a buffer of your own: "
            "other.extend(buffer[:])."
        ),
    )

    def read() -> None:
        if os.geteuid() == 0:
            os.setuid(65534)  # nobody
        other = pickle.loads(sent)
        assert other[:]["a"].tolist() == [10, 11, *range(2, 10)] and len(other.sample()) == 3
        row, several = rows(torch.arange(1))[0], rows(torch.arange(2))
        for write in (
            lambda: other.add(row),
            lambda: other.extend(several),
            lambda: other.__setitem__(0, row),
            lambda: other.__setitem__([0, 1], several),
            other.empty,
            lambda: other.load_state_dict(rb.state_dict()),
        ):
            with pytest.raises(PermissionError) as caught:
                write()
            assert str(caught.value) == text
        os.write(go, b".")
        assert os.read(wait_there, 1) == b"."
        assert other[3]["a"] == 42 and other[torch.tensor([3])]["b"][0, 7] == 42  # what others write is seen
        rb.storage.ring._state[1] = 1  # as if a writer had ended: the memory is that of the parent
        with pytest.raises(PermissionError, match="was killed while it wrote"):
            other.sample()
        rb.storage.ring._state[1] = 0

    (wait, go), (wait_there, go_there) = os.pipe(), os.pipe()
    child = start(read)
    assert os.read(wait, 1) == b"."
    rb[3] = rows(torch.tensor([42]))[0]
    os.write(go_there, b".")
    assert os.waitpid(child, 0)[1] == 0
    assert rb[:]["a"].tolist() == [10, 11, 2, 42, *range(4, 10)]
    shutil.rmtree(folder)


# What cannot be shared ------------------------------------------------------------------------------------------------


class Starting:
    """What multiprocessing keeps while it pickles what a new process is given."""

    def __enter__(self) -> None:
        set_spawning_popen(self)

    def __exit__(self, *raised: object) -> None:
        set_spawning_popen(None)


def filled(storage: Storage) -> ReplayBuffer:
    rb = ReplayBuffer(storage=storage, batch_size=2)
    rb.extend(torch.arange(3))
    return rb


NOT_SHARED: dict[str, Any] = {
    "an empty list": (lambda: ReplayBuffer(storage=ListStorage(5)), "ListStorage"),
    "a list": (lambda: filled(ListStorage(5)), "ListStorage"),
    "memory": (lambda: filled(LazyTensorStorage(5)), "LazyTensorStorage"),
    "memory not made": (lambda: ReplayBuffer(storage=LazyTensorStorage(5)), "LazyTensorStorage"),
    "memory given": (lambda: ReplayBuffer(storage=TensorStorage(torch.zeros(5))), "TensorStorage"),
    "files not made": (lambda: ReplayBuffer(storage=LazyMemmapStorage(5)), "LazyMemmapStorage"),
    "a member": (
        lambda: ReplayBufferEnsemble(filled(LazyMemmapStorage(5)), filled(LazyTensorStorage(5)), batch_size=2),
        "LazyTensorStorage",
    ),
}


@pytest.mark.parametrize("kind", NOT_SHARED)
def test_a_new_process_gets_no_private_copy(kind: str) -> None:
    make, name = NOT_SHARED[kind]
    rb = make()
    with Starting(), pytest.raises(RuntimeError, match=f"Cannot share a (storage of type )?{name} between.*Fix: "):
        ForkingPickler.dumps(rb)
    same_kind = pickle.loads(pickle.dumps(rb)), copy.deepcopy(rb)  # a copy that is asked for
    assert all(type(other.storage) is type(rb.storage) and len(other) == len(rb) for other in same_kind)


def write_first(rb: ReplayBuffer) -> None:
    rb[0] = torch.tensor(7.0)


@pytest.mark.deep
def test_memory_that_is_shared_is_shared() -> None:
    rb = ReplayBuffer(storage=TensorStorage(torch.zeros(5).share_memory_()))
    worker = multiprocessing.get_context("spawn").Process(target=write_first, args=(rb,))
    worker.start()
    worker.join()
    assert rb[:].tolist() == [7.0, 0.0, 0.0, 0.0, 0.0]
    with pytest.raises(RuntimeError, match="Cannot share a storage of type LazyTensorStorage"):
        multiprocessing.get_context("spawn").Process(target=write_first, args=(filled(LazyTensorStorage(5)),)).start()

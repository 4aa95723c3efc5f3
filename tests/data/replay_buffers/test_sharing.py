"""Memory-mapped buffers between processes: one length, one cursor, no lost rows, and writers that are killed."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import LazyMemmapStorage, TensorDictReplayBuffer
from rlnb.data.replay_buffers.shared_ring import SharedRing

METHODS = [method for method in ("fork", "spawn") if method in multiprocessing.get_all_start_methods()]


def rows(numbers: torch.Tensor) -> TensorDict:
    return TensorDict({"a": numbers, "b": numbers[:, None].expand(-1, 50).clone()}, numbers.shape)


def write_ones(rb: TensorDictReplayBuffer) -> None:
    rb.extend(TensorDict({"a": torch.ones(10)}, [10]))


def write_many(rb: TensorDictReplayBuffer, first: int) -> None:
    for start in range(first, first + 300, 3):
        rb.extend(rows(torch.arange(start, start + 3)))


def write_for_ever(rb: TensorDictReplayBuffer, first: int) -> None:
    for start in range(first, 10**9, 7):
        rb.extend(rows(torch.arange(start, start + 7)))


@pytest.mark.parametrize("method", METHODS)
def test_what_a_worker_writes_is_seen(method: str) -> None:  # RB-16
    context = multiprocessing.get_context(method)
    rb = TensorDictReplayBuffer(storage=LazyMemmapStorage(21))
    rb.extend(TensorDict({"a": torch.zeros(10)}, [10]))
    worker = context.Process(target=write_ones, args=(rb,))
    worker.start()
    worker.join()
    assert len(rb) == 20
    assert (rb["_data", "a"][:10] == 0).all() and (rb["_data", "a"][10:20] == 1).all()
    assert rb.add(TensorDict({"a": torch.tensor(2.0)})) == 20


def test_rows_of_several_writers_are_all_there_and_whole() -> None:  # RB-16
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


def test_a_killed_writer_blocks_nobody_and_leaves_no_torn_row() -> None:  # RB-16
    context = multiprocessing.get_context(METHODS[0])
    rb = TensorDictReplayBuffer(storage=LazyMemmapStorage(50))
    rb.extend(rows(torch.arange(50)))
    for turn in range(4):
        worker = context.Process(target=write_for_ever, args=(rb, 1000 * turn))
        worker.start()
        time.sleep(0.05 + 0.013 * turn)
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
        rb.extend(rows(torch.arange(5)))
        data = rb[:]
        assert (data["b"] == data["a"][:, None]).all() and len(rb) >= 5


@pytest.mark.parametrize(
    ("cursor", "length", "claimed", "left"),
    [
        (4, 4, 3, (4, 4)),  # behind what is filled: nothing is torn
        (4, 10, 3, (4, 4)),  # over old rows: they are forgotten, with those behind
        (8, 10, 5, (0, 0)),  # over the end
    ],
)
def test_the_next_writer_forgets_rows_that_may_be_torn(  # RB-16
    tmp_path: Path, cursor: int, length: int, claimed: int, left: tuple[int, int]
) -> None:
    ring = SharedRing(10, tmp_path / "ring")
    ring.jump(cursor, length)
    ring.claim(claimed)  # and the process ends here
    other = pickle.loads(pickle.dumps(ring))
    with other.lock:
        assert (other.cursor, other.length) == left
        other.claim(2)
        other.advance(2)
    assert (ring.cursor, ring.length) == (left[0] + 2, left[1] + 2)


@pytest.mark.parametrize("read", [lambda rb: rb[:], lambda rb: rb.sample(500)])
def test_a_reader_sees_no_torn_row_either(read: Callable[[TensorDictReplayBuffer], TensorDict]) -> None:  # RB-16
    rb = TensorDictReplayBuffer(storage=LazyMemmapStorage(10))
    rb.extend(rows(torch.arange(16)))
    rb.storage.ring.claim(2)
    rb.storage.column("a").tensor[6] = -1  # half of a row, and the process ends here
    data = read(rb)
    assert (data["b"] == data["a"][:, None]).all()
    assert sorted(set(data["a"].tolist())) == list(range(10, 16)) and len(rb) == 6


def test_a_ring_that_is_held_lets_nobody_else_write(tmp_path: Path) -> None:  # RB-16
    ring = SharedRing(10, tmp_path / "ring")
    other = pickle.loads(pickle.dumps(ring))
    entered = []

    def write() -> None:
        with other.lock:
            entered.append(True)

    thread = threading.Thread(target=write)
    with ring.lock:
        thread.start()
        thread.join(0.2)
        assert not entered and thread.is_alive()
    thread.join(10)
    assert entered
    with ring.reading, other.reading:  # readers do not wait for one another
        pass

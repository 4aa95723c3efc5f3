"""Forks while other threads use a buffer: the child finds it consistent, and nothing hangs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from rlnb.data import (
    ImmutableDatasetWriter,
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    ReplayBuffer,
    Storage,
    TensorStorage,
)
from rlnb.data.replay_buffers.process_lock import ProcessLock
from tests.data.replay_buffers.killing import start, status_of
from tests.data.replay_buffers.worlds import as_tensordict, numbers_of

SIZE = 20


@pytest.fixture(autouse=True)
def _forks(missing):
    if not hasattr(os, "fork"):
        missing("fork", "a process is forked while threads are busy")


@pytest.mark.parametrize("make", [LazyTensorStorage, LazyMemmapStorage, ListStorage])
def test_a_fork_among_busy_threads_finds_whole_rows(make: Callable[[int], Storage]) -> None:
    rb = ReplayBuffer(storage=make(SIZE))
    rb.extend(as_tensordict(torch.arange(SIZE)))
    stop = threading.Event()

    def write() -> None:
        number = 1000
        while not stop.is_set():
            rb.extend(as_tensordict(torch.arange(number, number := number + 7)))

    def read() -> None:
        while not stop.is_set():
            numbers_of(rb.sample(8))

    def use() -> None:
        for number in range(10):
            numbers_of(rb.sample(8))
            numbers_of(rb[list(range(SIZE))])
            rb.add(as_tensordict(torch.tensor(number)))

    threads = [threading.Thread(target=act) for act in (write, write, read)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(4):
            time.sleep(0.003)
            assert status_of(start(use), 20) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    numbers_of(rb[list(range(SIZE))])


@pytest.mark.parametrize("alone", [True, False])
def test_a_fork_does_not_hold_what_its_parent_holds(tmp_path: Path, alone: bool) -> None:
    path = tmp_path / "lock"
    path.touch()
    lock = ProcessLock(path, alone)

    def use() -> None:
        assert lock.depth == 0
        with lock:  # waits for the parent
            assert released.exists()

    released = tmp_path / "released"
    with lock:
        child = start(use)
        time.sleep(0.1)
        released.touch()
    assert status_of(child, 20) == 0


def test_a_fork_does_not_wait_for_ever() -> None:
    """A thread that holds the buffer may wait for the one that forks, as here: the transform of its batch forks."""
    rb = ReplayBuffer(storage=LazyTensorStorage(SIZE), batch_size=4, prefetch=1)
    rb.extend(torch.arange(SIZE))
    children: list[int] = []

    def forking(batch: Any) -> Any:
        children.append(start(lambda: rb.extend(torch.arange(3))))
        return batch

    rb.append_transform(forking)
    assert len(rb.sample()) == 4
    assert len(children) == 1 and status_of(children[0], 20) == 0
    assert len(rb.extend(torch.arange(3))) == 3
    rb.shutdown()


def test_a_thread_that_reads_leaves_no_lock_to_a_child() -> None:
    storage, reading, go_on = TensorStorage(torch.arange(SIZE)), threading.Event(), threading.Event()
    rb = ReplayBuffer(storage=storage, writer=ImmutableDatasetWriter(), batch_size=4, prefetch=1)

    def read() -> None:
        with storage.ring.reading:
            reading.set()
            go_on.wait(20)

    thread = threading.Thread(target=read)
    thread.start()
    reading.wait()
    child = start(lambda: storage.gather(torch.arange(3)))
    assert status_of(child, 20) == 0
    go_on.set()
    thread.join()
    rb.shutdown()

"""Writers of shared buffers killed during a write: the write is complete or absent."""

from __future__ import annotations

import os
import pickle
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import LazyMemmapStorage, ReplayBuffer, TensorDictReplayBuffer
from rlnb.data.replay_buffers.columns import Column
from rlnb.data.replay_buffers.storages.lazy_memmap import LOG_FILE
from tests.data.replay_buffers.killing import (
    Files,
    die,
    files_at_every_step,
    in_child,
    killed_at,
    put_files,
    start,
    status_of,
)
from tests.pairwise import few

SIZE = 8


@pytest.fixture(autouse=True)
def _forks(missing):
    if not hasattr(os, "fork"):
        missing("fork", "a process is ended in the middle of a forked write")


def rows(numbers: Any, dims: int = 1) -> TensorDict:
    """Rows whose leaves all carry the row's number, so that a torn one is seen."""
    numbers = torch.as_tensor(numbers)
    numbers = numbers if numbers.ndim == dims or not numbers.ndim else numbers[None].expand(2, -1)
    wide = numbers[..., None].expand(*numbers.shape, 50).clone()
    return TensorDict({"a": numbers.clone(), "b": wide, "next": {"c": wide.double()}}, numbers.shape)


def numbers_in(data: TensorDict) -> list[Any]:
    assert (data["b"] == data["a"][..., None]).all() and (data["next", "c"] == data["b"]).all(), "a torn row"
    return data["a"].tolist()


def filled(count: int, ndim: int = 1) -> ReplayBuffer:
    """A buffer of 8 rows, known to other processes, to which so many were written: 0, 1, 2, ..."""
    rb = ReplayBuffer(storage=LazyMemmapStorage(SIZE * ndim, ndim=ndim))
    rb.extend(rows(torch.arange(count), ndim))
    rb.storage.ring.share()
    return rb


def content(rb: ReplayBuffer) -> tuple[Any, ...]:
    """All that is to be seen of a buffer; reading comes first, for it is what a reader does."""
    ring = rb.storage.ring
    with ring.reading:
        data = numbers_in(rb[:]) if len(rb) else []
        return data, ring.cursor, ring.length, ring.written


# What is written, to how many rows that are there.
WRITES: dict[str, tuple[int, Callable[[ReplayBuffer], Any]]] = {
    "extend free places": (3, lambda rb: rb.extend(rows(torch.arange(100, 104)))),
    "extend over the end": (6, lambda rb: rb.extend(rows(torch.arange(100, 105)))),
    "extend over old rows": (11, lambda rb: rb.extend(rows(torch.arange(100, 103)))),
    "extend with more than fits": (11, lambda rb: rb.extend(rows(torch.arange(100, 121)))),
    "extend with a list": (11, lambda rb: rb.extend([rows(100), rows(101)])),
    "add": (11, lambda rb: rb.add(rows(100))),
    "set one": (11, lambda rb: rb.__setitem__(4, rows(100))),
    "set a slice": (11, lambda rb: rb.__setitem__(slice(2, 5), rows(torch.arange(100, 103)))),
    "set a list": (5, lambda rb: rb.__setitem__([4, 0], rows(torch.arange(100, 102)))),
    "empty": (11, lambda rb: rb.empty()),
}


def outcomes_of(name: str) -> list[Any]:
    """What is there before a write, and after it."""
    there, write = WRITES[name]
    after = filled(there)
    write(after)
    outcomes = [content(filled(there)), content(after)]
    assert outcomes[0] != outcomes[1]
    return outcomes


@pytest.mark.parametrize("name", few(WRITES, 3))
def test_whenever_a_write_is_cut_off_it_is_whole_or_not_there(name: str) -> None:
    there, write = WRITES[name]
    rb, outcomes = filled(there), outcomes_of(name)
    found = []
    for files in files_at_every_step(rb, lambda: write(rb)):
        other = filled(there)
        put_files(other, files)
        found.append(outcomes.index(content(other)))  # and no third one
        other.extend(rows(torch.arange(200, 202)))  # it goes on, as if nothing had been
        again = filled(there)
        if found[-1]:
            write(again)
        again.extend(rows(torch.arange(200, 202)))
        assert content(other) == content(again)
    assert found == sorted(found) and set(found) == {0, 1} and len(found) >= 3


def test_rows_of_several_envs_are_whole_or_not_there() -> None:
    rb, after = filled(6, 2), filled(6, 2)
    after.extend(rows(torch.arange(100, 105), 2))
    outcomes = [content(filled(6, 2)), content(after)]
    found = []
    for files in files_at_every_step(rb, lambda: rb.extend(rows(torch.arange(100, 105), 2))):
        other = filled(6, 2)
        put_files(other, files)
        found.append(outcomes.index(content(other)))
    assert found == sorted(found) and set(found) == {0, 1}


def test_who_finishes_a_write_can_be_cut_off_as_well() -> None:
    there, write = WRITES["extend over the end"]
    rb, outcomes = filled(there), outcomes_of("extend over the end")
    steps = files_at_every_step(rb, lambda: write(rb))
    announced = next(files for files in steps if finished(there, files) == outcomes[1])
    reader = filled(there)
    put_files(reader, announced)
    again = files_at_every_step(reader, lambda: reader.sample(3))
    assert len(again) > 5
    for files in again:
        assert finished(there, files) == outcomes[1]


def finished(there: int, files: Files) -> Any:
    rb = filled(there)
    put_files(rb, files)
    return content(rb)


def test_a_load_that_is_cut_off_leaves_nothing_torn() -> None:
    state = filled(11).state_dict()
    rb, outcomes = filled(3), [content(filled(3)), ([], 0, 0, 0), content(filled(11))]
    steps = files_at_every_step(rb, lambda: rb.load_state_dict(state))
    found = [outcomes.index(finished(3, files)) for files in steps]
    assert found == sorted(found) and set(found) == {0, 1, 2}


# Processes that are killed --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", few(["extend over the end", "extend free places", "extend over old rows", "set a slice"])
)
def test_a_writer_that_is_killed_leaves_its_write_whole_or_not_there(name: str) -> None:
    there, write = WRITES[name]
    outcomes, source = outcomes_of(name), random.Random(name)
    for step in sorted(source.sample(range(1800), 8)):
        rb = filled(there)
        killed = killed_at(step, lambda rb=rb: write(rb))
        assert content(rb) in outcomes[0 if killed else 1 :]
        assert len(rb.extend(rows([5]))) == 1  # and nobody is blocked


def test_a_fork_waits_for_the_write_under_way_which_the_child_then_finds_whole() -> None:
    rb = ReplayBuffer(storage=LazyMemmapStorage(SIZE))
    rb.extend(rows(torch.arange(11)))
    put, begun, go_on = Column.put, threading.Event(), threading.Event()

    def put_slowly(self: Column, start: int, values: torch.Tensor) -> None:
        put(self, start, values)
        begun.set()
        go_on.wait(0.2)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Column, "put", put_slowly)
        writer = threading.Thread(target=lambda: rb.extend(rows(torch.arange(100, 103))))
        writer.start()
        begun.wait()
        child = start(lambda: numbers_in(rb[:]).index(102))
    writer.join()
    assert os.waitpid(child, 0)[1] == 0


def test_only_a_storage_that_others_know_of_keeps_a_log() -> None:
    rb = ReplayBuffer(storage=LazyMemmapStorage(SIZE))
    rb.extend(rows(torch.arange(11)))
    rb[2] = rows(5)
    log = rb.storage.scratch_dir / LOG_FILE
    assert not log.exists()
    assert not in_child(lambda: rb.add(rows(100)))
    assert log.exists()
    sent = ReplayBuffer(storage=LazyMemmapStorage(SIZE))
    sent.extend(rows(torch.arange(11)))
    pickle.dumps(sent)
    sent.add(rows(100))
    assert (sent.storage.scratch_dir / LOG_FILE).exists()


def test_a_killed_parent_does_not_leave_its_lock_to_its_children() -> None:
    rb = filled(11)
    wait, go = os.pipe()

    def fork_and_die() -> None:
        rb.extend(rows([100]))  # its own hold on the file
        start(lambda: (os.close(go), os.read(wait, 1)))  # it lives until the test ends
        os.close(go)
        rb.storage.ring.lock.__enter__()
        die()

    assert in_child(fork_and_die)
    assert status_of(start(lambda: rb.extend(rows([101]))), 20) is not None
    os.close(go)
    assert 101 in content(rb)[0]


# Readers and writers at the same time ---------------------------------------------------------------------------------

BATCH = 7


def write_for_ever(rb: ReplayBuffer, first: int) -> None:
    for number in range(first, 10**9, BATCH):
        rb.extend(rows(torch.arange(number, number + BATCH)))


def read_for_ever(rb: ReplayBuffer, stop: int) -> None:
    """Look for torn rows until the pipe is closed; a torn one ends the process with an error."""
    os.set_blocking(stop, False)
    while True:
        numbers_in(rb.sample(64).exclude("index"))
        numbers_in(rb[list(range(0, len(rb), 3))].exclude("index"))
        try:
            os.read(stop, 1)
            return
        except BlockingIOError:
            pass


@pytest.mark.deep
def test_readers_see_no_torn_row_while_writers_are_killed_at_random() -> None:
    rb = TensorDictReplayBuffer(storage=LazyMemmapStorage(60))
    rb.extend(rows(torch.arange(60)))
    stop, go = os.pipe()
    readers = [start(lambda: (os.close(go), read_for_ever(rb, stop))) for _ in range(2)]
    source = random.Random(1)
    for turn in range(1, 9):
        writers = [start(lambda first=turn * 2 + which: write_for_ever(rb, first * 10**6)) for which in range(2)]
        for writer in writers:
            time.sleep(source.uniform(0.02, 0.06))
            os.kill(writer, 9)
            os.waitpid(writer, 0)
        batches_are_whole(rb)
    os.close(go)
    os.close(stop)
    assert [os.waitpid(reader, 0)[1] for reader in readers] == [0, 0]
    assert len(rb) == 60 and rb.write_count > 100


def test_readers_do_not_keep_a_writer_out() -> None:
    rb = TensorDictReplayBuffer(storage=LazyMemmapStorage(3000))
    rb.extend(rows(torch.arange(3000)))
    stop, go = os.pipe()
    readers = [start(lambda: (os.close(go), read_for_ever(rb, stop))) for _ in range(5)]
    done = status_of(start(lambda: [rb.extend(rows(torch.arange(5))) for _ in range(20)]), 60) is not None
    os.close(go)
    os.close(stop)
    assert [os.waitpid(reader, 0)[1] for reader in readers] == [0] * 5
    assert done


def batches_are_whole(rb: ReplayBuffer) -> None:
    """From the oldest row on, every batch but the first, which is being written over, is there as a whole."""
    numbers, cursor, length, _ = content(rb)
    order = numbers[cursor:] + numbers[:cursor]
    assert length == 60
    if min(order) < 60:
        return  # rows from the beginning are left
    begin = next(i for i, number in enumerate(order) if number % 10**6 % BATCH == 0)
    for at in range(begin, len(order) - len(order[begin:]) % BATCH, BATCH):
        batch = order[at : at + BATCH]
        assert batch == list(range(batch[0], batch[0] + BATCH))
    assert len(order[begin:]) % BATCH == 0

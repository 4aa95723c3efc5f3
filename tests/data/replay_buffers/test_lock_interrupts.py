"""Ctrl+C around the locks, the log and the first files of a shared storage: the storage stays usable."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

from rlnb.data import LazyMemmapStorage, ReplayBuffer
from rlnb.data.replay_buffers import process_lock, shared_ring
from rlnb.data.replay_buffers.shared_ring import SharedRing, WriteLog
from rlnb.data.replay_buffers.storages import TensorStorage
from tests.data.replay_buffers.interrupting import interrupted
from tests.pairwise import sampled

FILES = {__file__, process_lock.__file__, shared_ring.__file__, contextlib.__file__}
POINTS = 200  # more than there are


@pytest.fixture(autouse=True)
def _system_locks(missing):
    if not hasattr(os, "fork"):
        missing("flock", "locks between processes")


def interrupted_where_python_looks(act: Callable[[], Any], at: int) -> bool:
    """Act, with Ctrl+C the n-th time that Python would let it in; whether there is such a time.

    That is where a function of Python begins, and after a call.
    """
    left = at

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal left
        if frame.f_code.co_filename not in FILES or frame.f_code is here:
            return
        if event in ("call", "c_return"):
            left -= 1
            if left < 0:
                sys.setprofile(None)
                raise KeyboardInterrupt

    here = sys._getframe().f_code
    sys.setprofile(profile)
    try:
        act()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


def is_free_for_threads(ring: SharedRing) -> bool:
    """Whether another thread of this process would get the lock at once."""

    def take() -> bool:
        taken = ring._process_lock._threads.acquire(blocking=False)
        if taken:
            ring._process_lock._threads.release()
        return taken

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(take).result()


def is_free(ring: SharedRing) -> bool:
    """Whether another thread, and another process, would get the lock at once."""
    import fcntl

    free = is_free_for_threads(ring)
    file = os.open(ring._path, os.O_RDWR)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        free = False
    finally:
        os.close(file)
    return free and not ring._process_lock.depth


def one(ring: SharedRing) -> None:
    with ring.reading:
        pass


def another(ring: SharedRing) -> None:
    with ring.lock:
        pass


def nested(ring: SharedRing) -> None:
    with ring.lock:
        with ring.reading:
            pass
        with ring.lock, ring.reading:
            pass


def shared_within(ring: SharedRing) -> None:
    with ring.reading, ring.lock:
        ring.share()


BLOCKS = {one: 1, another: 1, nested: 4, shared_within: 2}


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "shared"])
@pytest.mark.parametrize("act", BLOCKS, ids=lambda act: act.__name__)
def test_after_an_interrupt_the_thread_can_take_the_lock(
    act: Callable[[SharedRing], None], alone: bool, tmp_path: Path
) -> None:
    held = 0
    for at in range(POINTS):
        ring = SharedRing(5, tmp_path / f"ring{at}")
        if not alone:
            ring.share()
        reached = interrupted_where_python_looks(lambda ring=ring: act(ring), at)
        nested(ring)
        held += not is_free(ring)
        if not reached:
            break
    assert 3 < at < POINTS - 1
    assert held <= 2 * BLOCKS[act]  # the instants in which a block begins and ends


def test_the_lock_is_held_as_long_as_it_should(tmp_path: Path) -> None:
    ring = SharedRing(5, tmp_path / "ring")
    with ring.lock:
        with ring.reading:
            ring.share()
            assert ring._process_lock.depth and not is_free(ring)
        assert ring._process_lock.depth and not is_free(ring)
    assert is_free(ring)
    with pytest.raises(KeyError), ring.reading:
        raise KeyError
    with pytest.raises(KeyError), ring.lock, ring.lock:
        raise KeyError
    assert is_free(ring)


@pytest.mark.parametrize("hold", [lambda ring: ring.reading, lambda ring: ring.lock], ids=["reading", "lock"])
def test_no_interrupt_loses_a_write_that_is_finished_for_another(
    hold: Callable[[SharedRing], AbstractContextManager[Any]], tmp_path: Path
) -> None:
    def act(ring: SharedRing) -> None:
        with hold(ring):
            pass

    for at in range(POINTS):
        rb = ReplayBuffer(storage=LazyMemmapStorage(4, scratch_dir=tmp_path / str(at)))
        rb.extend(torch.arange(4))
        ring: Any = rb.storage.ring
        ring.share()
        with ring.lock:  # what a process leaves that ends here
            rb.storage._announce(torch.tensor([1, 2]).numpy(), [torch.tensor([10, 20])], 0)
        reached = interrupted_where_python_looks(lambda ring=ring: act(ring), at)
        act(ring)
        assert rb.storage.columns[()].tensor.tolist() == [0, 10, 20, 3]
        assert rb[:].tolist() == [0, 10, 20, 3]
        if not reached:
            break
    assert 3 < at < POINTS - 1


@pytest.fixture
def alarm(missing: Callable[[str, str], None]) -> Iterator[Callable[[float], None]]:
    """Lets Ctrl+C come after so many seconds."""
    if not hasattr(signal, "setitimer"):
        missing("setitimer", "interrupts at any time")

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.deep
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "shared"])
def test_after_interrupts_at_any_time_a_buffer_goes_on(
    alone: bool, tmp_path: Path, alarm: Callable[[float], None]
) -> None:
    def make(name: str) -> ReplayBuffer:
        rb = ReplayBuffer(storage=LazyMemmapStorage(12, scratch_dir=tmp_path / name), batch_size=4)
        rb.extend(torch.zeros(12, 2, dtype=torch.int64))
        if not alone:
            rb.storage.ring.share()
        return rb

    rb, times, interrupts, stuck, numbers = make("first"), random.Random(1), 0, 0, iter(range(1, 10**9))
    for turn in range(3000):
        try:
            alarm(times.uniform(1e-4, 5e-4))
            while True:
                rb.extend(torch.tensor([[next(numbers)] * 2 for _ in range(5)]))
                rb.sample()
        except KeyboardInterrupt:
            interrupts += 1
        seen = rb[:]
        assert len(seen) == 12 and (seen[:, 0] == seen[:, 1]).all()
        rb.add(torch.tensor([next(numbers)] * 2))
        if not is_free(rb.storage.ring):
            rb, stuck = make(str(turn)), stuck + 1
    assert interrupts == 3000 and stuck < 300  # a tight loop spends some 2 % of its time in the instants that matter


@pytest.mark.parametrize("act", [one, another], ids=lambda act: act.__name__)
def test_an_interrupt_while_another_process_has_the_lock(
    act: Callable[[SharedRing], None], tmp_path: Path, alarm: Callable[[float], None]
) -> None:
    import fcntl

    ring = SharedRing(5, tmp_path / "ring")
    ring.share()
    with (tmp_path / "ring").open("r+b") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(KeyboardInterrupt):
            alarm(0.02)
            act(ring)
    assert is_free(ring)
    act(ring)
    assert is_free(ring)


def test_no_interrupt_confuses_the_log(tmp_path: Path) -> None:
    for at in range(POINTS):
        rb = ReplayBuffer(storage=LazyMemmapStorage(6, scratch_dir=tmp_path / str(at)))
        rb.extend(torch.arange(6))
        rb.storage.ring.share()
        rb.extend(torch.arange(3))
        reached = interrupted(lambda rb=rb: rb.add(torch.tensor(9)), WriteLog._open.__code__, at)
        rb.extend(torch.arange(10, 13))
        rb.add(torch.tensor(13))
        rb.extend(torch.arange(14, 17))
        assert set(range(11, 17)) <= set(rb[:].tolist())
        if not reached:
            break
    assert 3 < at < POINTS - 1


NAMED = {"a folder": True, "a temporary folder": False}
DEEPER = [LazyMemmapStorage._adopt, TensorStorage._initialize, TensorStorage._adopt, tempfile.mkdtemp]


@pytest.mark.parametrize(
    ("code", "named"),
    [
        *sampled({"LazyMemmapStorage._allocate": LazyMemmapStorage._allocate}, NAMED),  # it makes the files
        *sampled({code.__qualname__: code for code in DEEPER}, NAMED, strength=1),
    ],
)
def test_an_interrupted_first_write_leaves_no_files_and_can_be_repeated(
    code: Any, named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    data = {"a": torch.arange(3), "b": {"c": torch.arange(3)}}
    for at in range(POINTS):
        folder = tmp_path / f"given-{at}" if named else None
        rb = ReplayBuffer(storage=LazyMemmapStorage(6, scratch_dir=folder))
        reached = interrupted(lambda rb=rb: rb.extend(data), code.__code__, at)
        if code is LazyMemmapStorage._allocate and not rb.storage._paths:
            assert not list(tmp_path.glob("rlnb-*")) and not (folder and list(folder.glob("*")))
        if at % 2:
            rb.extend({"z": torch.arange(2)} if not len(rb) and not rb.storage.initialized else data)
        del rb
        if not reached:
            break
    gc.collect()
    assert not list(tmp_path.glob("rlnb-*"))
    assert at < POINTS - 1 and (at > 1 or code is tempfile.mkdtemp)

"""Interrupted writes: the contents of files at every step of a write, and processes killed in the middle."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest
import torch

from rlnb.data import ReplayBuffer
from rlnb.data.replay_buffers import columns
from rlnb.data.replay_buffers.storages.lazy_memmap import LOG_FILE

_HOME = str(Path(columns.__file__).parent)


class Files(NamedTuple):
    """All that is shared of a buffer: what another process finds when the one that writes is gone."""

    ring: bytes
    log: bytes
    leaves: tuple[bytes, ...]


def files_of(rb: ReplayBuffer) -> Files:
    path = rb.storage.scratch_dir / LOG_FILE
    return Files(
        bytes(rb.storage.ring._state),
        path.read_bytes() if path.exists() else b"",
        tuple(_bytes_of(column.tensor).tobytes() for column in rb.storage.columns.values()),
    )


def put_files(rb: ReplayBuffer, files: Files) -> None:
    """Make a buffer of the same form find these files."""
    (rb.storage.scratch_dir / LOG_FILE).write_bytes(files.log)
    for column, content in zip(rb.storage.columns.values(), files.leaves, strict=True):
        _bytes_of(column.tensor)[:] = memoryview(content)
    for i, value in enumerate(memoryview(files.ring).cast("q")):
        rb.storage.ring._state[i] = value


def _bytes_of(tensor: torch.Tensor) -> Any:
    return tensor.reshape(-1).view(torch.uint8).numpy()


def files_at_every_step(rb: ReplayBuffer, act: Callable[[], Any]) -> list[Files]:
    """Act, and look at the files before every instruction, and in the middle of every copy; without repetitions."""
    found = [files_of(rb)]

    def look() -> None:
        files = files_of(rb)
        if files != found[-1]:
            found.append(files)

    def trace(frame: FrameType, kind: str, argument: Any) -> Any:
        if kind == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            return trace if frame.f_code.co_filename.startswith(_HOME) else None
        look()
        return trace

    with _halves(look):
        sys.settrace(trace)
        try:
            act()
        finally:
            sys.settrace(None)
    look()
    return found


@contextmanager
def _halves(look: Callable[[], None]) -> Iterator[None]:
    """Let every copy into memory come in two halves."""
    put, fill, scatter = columns.Column.put, columns.Column.fill, columns.Column.scatter

    def put_half(self: columns.Column, start: int, values: torch.Tensor) -> None:
        place, half = self.tensor[start : start + len(values)].reshape(-1), values.numel() // 2
        place[:half] = values.reshape(-1)[:half]
        look()
        put(self, start, values)

    def fill_half(self: columns.Column, values: torch.Tensor) -> None:
        self.tensor.reshape(-1)[: values.numel() // 2] = values.reshape(-1)[: values.numel() // 2]
        look()
        fill(self, values)

    def scatter_half(self: columns.Column, index: torch.Tensor, values: torch.Tensor) -> None:
        scatter(self, index[: len(index) // 2], values[: len(index) // 2])
        look()
        scatter(self, index, values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns.Column, "put", put_half)
        patch.setattr(columns.Column, "fill", fill_half)
        patch.setattr(columns.Column, "scatter", scatter_half)
        yield


# Processes ------------------------------------------------------------------------------------------------------------


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def in_child(act: Callable[[], Any]) -> bool:
    """Act in a forked process; say whether it was killed."""
    status = os.waitpid(start(act), 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the child failed"
    return os.WIFSIGNALED(status)


def start(act: Callable[[], Any]) -> int:
    """Act in a forked process; return its number."""
    child = os.fork()
    if not child:
        try:
            act()
            os._exit(0)
        except BaseException as error:
            print("in a child:", repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    return child


def status_of(child: int, seconds: float) -> int | None:
    """Wait for a process; return how it ended, None if it did not in time and was killed."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def killed_at(step: int, act: Callable[[], Any]) -> bool:
    """Act in a process that ends before an instruction, counted from 0; False if there are fewer."""

    def act_and_die() -> None:
        left = step

        def trace(frame: FrameType, kind: str, argument: Any) -> Any:
            nonlocal left
            if kind == "call":
                frame.f_trace_opcodes, frame.f_trace_lines = True, False
                return trace if frame.f_code.co_filename.startswith(_HOME) else None
            left -= 1
            if left < 0:
                die()
            return trace

        sys.settrace(trace)
        act()

    return in_child(act_and_die)

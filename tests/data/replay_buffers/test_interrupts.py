"""Writes interrupted by Ctrl+C leave no item half written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rlnb.data import ReplayBuffer
from rlnb.data.replay_buffers.columns import Column, RowArrays
from rlnb.data.replay_buffers.ring import Ring
from rlnb.data.replay_buffers.shared_ring import SharedRing
from rlnb.data.replay_buffers.storages import Storage
from tests.data.replay_buffers.interrupting import interrupted
from tests.data.replay_buffers.worlds import FORMS, Make, make_storage, numbers_of

SIZE, WRITTEN = 8, 11
WRITES: dict[str, Callable[[ReplayBuffer, Make], Any]] = {
    "add": lambda rb, make: rb.add(make(torch.tensor(100))),
    "extend": lambda rb, make: rb.extend(make(torch.arange(100, 103))),
    "extend over the end": lambda rb, make: rb.extend(make(torch.arange(100, 107))),
    "extend with more than fits": lambda rb, make: rb.extend(make(torch.arange(100, 121))),
    "set one": lambda rb, make: rb.__setitem__(4, make(torch.tensor(100))),
    "set a slice": lambda rb, make: rb.__setitem__(slice(1, 4), make(torch.arange(100, 103))),
    "set a list": lambda rb, make: rb.__setitem__([4, 0, 2], make(torch.arange(100, 103))),
}


def filled(kind: str, make: Make, folder: Path) -> ReplayBuffer:
    rb = ReplayBuffer(storage=make_storage(kind, SIZE, 1, make, folder))
    rb.extend(make(torch.arange(WRITTEN)))
    return rb


def half_done(method: Callable[..., None], calls: Iterator[int], at: int) -> Callable[..., None]:
    """A method that one of its calls leaves with an interrupt, when half of the work is done."""

    def half(self: Any, place: Any, values: Any) -> None:
        if next(calls) != at:
            method(self, place, values)
            return
        count = len(values) // 2
        if isinstance(self, RowArrays):
            method(SimpleNamespace(_arrays=self._arrays[:count]), place, values[:count])
        elif count:
            method(self, place if isinstance(place, int) else place[:count], values[:count])
        raise KeyboardInterrupt

    return half


@pytest.mark.parametrize("kind", ["given", "lazy", "memmap", "shared memmap"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("write", WRITES)
def test_an_interrupted_write_is_done_as_a_whole(kind: str, form: str, write: str, tmp_path: Path) -> None:
    make, interrupts = FORMS[form], 0
    after = filled(kind.removeprefix("shared "), make, tmp_path / "after")
    WRITES[write](after, make)
    for at in range(4):
        rb = filled(kind.removeprefix("shared "), make, tmp_path / str(at))
        if kind == "shared memmap":
            rb.storage.ring.share()
        calls = iter(range(10**6))
        with pytest.MonkeyPatch.context() as patch:
            for owner, name in ((Column, "put"), (Column, "scatter"), (RowArrays, "put")):
                patch.setattr(owner, name, half_done(getattr(owner, name), calls, at))
            try:
                WRITES[write](rb, make)
            except KeyboardInterrupt:
                interrupts += 1
        assert numbers_of(rb[:]).tolist() == numbers_of(after[:]).tolist()
        assert (rb.storage.ring.cursor, rb.write_count) == (after.storage.ring.cursor, after.write_count)
    assert interrupts


@pytest.mark.parametrize("kind", ["list", "lazy", "memmap", "shared memmap"])
@pytest.mark.parametrize("code", [Storage.append, Ring.advance, SharedRing.advance], ids=lambda code: code.__qualname__)
@pytest.mark.parametrize("write", ["add", "extend", "extend with more than fits"])
def test_an_interrupt_beside_the_copying_leaves_before_or_after(
    kind: str, code: Any, write: str, tmp_path: Path
) -> None:
    make, found = FORMS["tensor"], []

    def looks(rb: ReplayBuffer) -> tuple[Any, ...]:
        with rb.storage.ring.reading:
            return numbers_of(rb[:]).tolist(), rb.storage.ring.cursor, rb.write_count

    for at in range(30):
        rb = filled(kind.removeprefix("shared "), make, tmp_path / str(at))
        if kind == "shared memmap":
            rb.storage.ring.share()
        before = looks(rb)
        reached = interrupted(lambda rb=rb: WRITES[write](rb, make), code.__code__, at)
        found.append(looks(rb))
        if not reached:
            break
    assert at < 29 and (at > 0) == (code is Storage.append or (code is SharedRing.advance) == ("memmap" in kind))
    assert all(look in (before, found[-1]) for look in found) and before != found[-1]

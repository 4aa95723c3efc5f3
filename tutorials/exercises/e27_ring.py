"""Exercise of lesson 27 on the ring buffer: read all items in the order they were written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from rlnb_widgets import BufferExplorer
from tensordict import TensorDict, TensorDictBase

from rlnb.data import LazyTensorStorage, TensorDictReplayBuffer

from .asking import ask, fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .verdict import Outcome

ROOM = 10
#: How many rows are written each time: wrapped once, part filled, just full, wrapped several times.
WRITES = ([7, 6], [4, 3], [6, 4], [9, 9, 9, 9])

OLDEST_FIRST = """
    def oldest_first(buffer):
        data = buffer[:]
        cursor = buffer.write_count % buffer.storage.max_size
        return torch.cat([data[cursor:], data[:cursor]])
"""


@exercise(
    title="Oldest first",
    prompt="""
        Write `oldest_first(buffer)`: return everything the buffer holds as one TensorDict, in the order it was written,
        oldest item first. The buffer has one dimension. It may be partly filled, exactly full, or overwritten several
        times. Do not change it.
    """,
    stub="""
        def oldest_first(buffer):
            # buffer[:] holds the items by index
            # buffer.write_count: number of items ever written;
            # buffer.storage.max_size: capacity of the buffer
            ...
    """,
    hints=[
        "Where is the seam? The oldest item is where the next one would be written. The items before that place are "
        "newer than those after it.",
        "`write_count` only grows, while the cursor wraps around. After 23 items in a buffer of 10, where is it?",
        "With `cursor = buffer.write_count % buffer.storage.max_size`, put `data[cursor:]` and `data[:cursor]` "
        "together with `torch.cat`. While the buffer is partly filled, `data[cursor:]` is empty, which is fine.",
    ],
    solution=OLDEST_FIRST,
    wrong=[
        WrongAnswer("def oldest_first(buffer): return buffer[:]", says="by index"),
        instead(OLDEST_FIRST, of="data[cursor:], data[:cursor]", put="data[:cursor], data[cursor:]", says="by index"),
        instead(OLDEST_FIRST, of="torch.cat([data[cursor:], data[:cursor]])", put="data[cursor:]", says="7 of the 10"),
        instead(
            OLDEST_FIRST,
            of="torch.cat([data[cursor:], data[:cursor]])",
            put="torch.cat([data[cursor:], data[:cursor]]).flip(0)",
            says="The newest item comes first",
        ),
        instead(OLDEST_FIRST, of="% buffer", put="- buffer", says="is there a seam yet"),
        instead(
            OLDEST_FIRST,
            of="buffer.write_count % buffer.storage.max_size",
            put="max(buffer.write_count - buffer.storage.max_size, 0)",
            says="wrapped around more than once",
        ),
        instead(OLDEST_FIRST, of="% buffer.storage.max_size", put="// 2", says="seam is elsewhere"),
        instead(
            OLDEST_FIRST,
            of="% buffer.storage.max_size",
            put="% buffer.storage.max_size - 1",
            says="one item too early",
        ),
        instead(
            OLDEST_FIRST,
            of="% buffer.storage.max_size",
            put="% buffer.storage.max_size + 1",
            says="one item too late",
        ),
        instead(
            OLDEST_FIRST,
            of="data[cursor:], data[:cursor]",
            put="data[-cursor:], data[:-cursor]",
            says="as many items from the end",
        ),
        WrongAnswer(
            "def oldest_first(buffer): return buffer.sample(len(buffer))",
            says="A sample draws some items twice",
        ),
        WrongAnswer(
            """
            def oldest_first(buffer):
                data = buffer[:]
                cursor = buffer.write_count % buffer.storage.max_size
                rest = buffer.storage.max_size - cursor
                buffer.extend(data[:rest])
                return buffer[:]
            """,
            says="changed the buffer",
        ),
        WrongAnswer(
            "def oldest_first(buffer): return buffer[:]['number'].sort().values", says="Expected a TensorDict"
        ),
    ],
    setup="import torch",
)  # fmt: skip
def oldest_first(oldest_first: Callable[..., Any]) -> Outcome:
    """Check buffers in every state; each item carries the number of its write."""
    for writes in WRITES:
        buffer = _written(writes)
        before = buffer[:].clone(), buffer.write_count
        got = ask(oldest_first, buffer, may_change=True)
        require(
            buffer.write_count == before[1] and bool((buffer[:] == before[0]).all()),
            "It changed the buffer. Only read from it.",
        )
        require(isinstance(got, TensorDictBase), f"Expected a TensorDict, got {kind_of(got)}.")
        _compare(got, buffer, writes)
    buffer = _written(WRITES[0])
    return right(
        "An item's index is its place; the cursor tells its age. The picture shows the chronological order, which you "
        "get with the key `o` in the explorer.",
        BufferExplorer(buffer, order="chronological"),
    )


def _written(writes: list[int]) -> TensorDictReplayBuffer:
    """A buffer filled by writes of these sizes."""
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(ROOM))
    number = torch.arange(sum(writes))
    for part in number.split(writes):
        buffer.extend(TensorDict({"number": part}, [len(part)]))
    return buffer


def _compare(got: TensorDictBase, buffer: TensorDictReplayBuffer, writes: list[int]) -> None:
    """Name the mistake behind a wrong order of items."""
    total, held, by_index = sum(writes), len(buffer), buffer[:]["number"].tolist()
    wanted = list(range(total - held, total))
    require("number" in got, 'The result has no entry `"number"`. Return whole items.')
    numbers: list[int] = got["number"].flatten().tolist()
    if numbers == wanted:
        return
    cursor = total % ROOM
    state = f"{total} items, numbered in order, were written into a buffer with room for {ROOM}. "
    said = f"{state}It gave {', '.join(map(str, numbers))}. "
    picture = BufferExplorer(buffer)
    if len(numbers) != held:
        fail(f"{said}These are {len(numbers)} of the {held} items that it holds.", picture)
    if len(set(numbers)) != held:
        fail(f"{said}A sample draws some items twice, and others not at all.", picture)
    if numbers == wanted[::-1]:
        fail(f"{said}The newest item comes first.", picture)
    if total < ROOM:
        fail(f"{said}This buffer is only partly filled: is there a seam yet?", picture)
    known = {
        "It starts one item too early: is the item before the cursor the oldest?": (cursor - 1) % held,
        "It starts one item too late: is the item after the cursor the oldest?": (cursor + 1) % held,
        "They are ordered by index. Where is the seam?": 0,
    }
    if len(writes) > 2 and numbers == by_index:
        fail(f"{said}This buffer has wrapped around more than once. Where is its cursor now?", picture)
    for what, first in known.items():
        if numbers == by_index[first:] + by_index[:first]:
            fail(said + what, picture)
    if numbers == by_index[-cursor:] + by_index[:-cursor]:
        fail(f"{said}It takes as many items from the end as there are before the cursor.", picture)
    fail(f"{said}The seam is elsewhere.", picture)

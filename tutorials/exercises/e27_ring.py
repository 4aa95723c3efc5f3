"""Exercise of lesson 27 on the ring: all that a buffer holds, in the order in which it was written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from rlnb_widgets import BufferExplorer
from tensordict import TensorDict, TensorDictBase

from rlnb.data import LazyTensorStorage, TensorDictReplayBuffer

from .asking import ask, fail, require, right
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
    title="The oldest first",
    prompt="""
        Write `oldest_first(buffer)`: all that the buffer holds, as one TensorDict, in the order in which it was
        written. The oldest row comes first. The buffer has one dimension, and may be part filled, just full, or written
        around several times. It is only looked at.
    """,
    stub="""
        def oldest_first(buffer):
            # buffer[:] is what it holds, by index
            # buffer.write_count: rows that were ever written;
            # buffer.storage.max_size: rows there is room for
            ...
    """,
    hints=[
        "Where is the seam? The oldest row lies where the next one would go, and rows before it are newer than "
        "those behind.",
        "`write_count` grows without end, and the cursor goes round. What is left of 23 rows in a ring of 10?",
        "With `cursor = buffer.write_count % buffer.storage.max_size`, put `data[cursor:]` and `data[:cursor]` "
        "together with `torch.cat`. While the buffer is part filled, one of the two is empty, and that is fine.",
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
            says="The newest row is first",
        ),
        instead(OLDEST_FIRST, of="% buffer", put="- buffer", says="is there a seam yet"),
        instead(
            OLDEST_FIRST,
            of="buffer.write_count % buffer.storage.max_size",
            put="max(buffer.write_count - buffer.storage.max_size, 0)",
            says="around more than once",
        ),
        instead(OLDEST_FIRST, of="% buffer.storage.max_size", put="// 2", says="seam lies elsewhere"),
        instead(
            OLDEST_FIRST,
            of="% buffer.storage.max_size",
            put="% buffer.storage.max_size - 1",
            says="one row too early",
        ),
        instead(
            OLDEST_FIRST,
            of="% buffer.storage.max_size",
            put="% buffer.storage.max_size + 1",
            says="one row too late",
        ),
        instead(
            OLDEST_FIRST,
            of="data[cursor:], data[:cursor]",
            put="data[-cursor:], data[:-cursor]",
            says="as many rows from the end",
        ),
        WrongAnswer(
            "def oldest_first(buffer): return buffer.sample(len(buffer))",
            says="A sample draws some rows twice",
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
            "def oldest_first(buffer): return buffer[:]['number'].sort().values", says="and a TensorDict is wanted"
        ),
    ],
    setup="import torch",
)  # fmt: skip
def oldest_first(oldest_first: Callable[..., Any]) -> Outcome:
    """Ask about rings in every state; rows carry the number with which they were written."""
    for writes in WRITES:
        buffer = _written(writes)
        before = buffer[:].clone(), buffer.write_count
        got = ask(oldest_first, buffer, may_change=True)
        require(
            buffer.write_count == before[1] and bool((buffer[:] == before[0]).all()),
            "It changed the buffer, which is only to be looked at.",
        )
        require(isinstance(got, TensorDictBase), f"It gave a `{type(got).__name__}`, and a TensorDict is wanted.")
        _compare(got, buffer, writes)
    buffer = _written(WRITES[0])
    return right(
        "The index says where a row lies, and the cursor says how old it is. In the picture it is chronological order, "
        "which the explorer gives with the key `o`.",
        BufferExplorer(buffer, order="chronological"),
    )


def _written(writes: list[int]) -> TensorDictReplayBuffer:
    """A buffer that was written so many rows at a time."""
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(ROOM))
    number = torch.arange(sum(writes))
    for part in number.split(writes):
        buffer.extend(TensorDict({"number": part}, [len(part)]))
    return buffer


def _compare(got: TensorDictBase, buffer: TensorDictReplayBuffer, writes: list[int]) -> None:
    """Name the mistake behind an order of rows that is not the right one."""
    total, held, by_index = sum(writes), len(buffer), buffer[:]["number"].tolist()
    wanted = list(range(total - held, total))
    require("number" in got, 'The entry `"number"` of the rows is missing in what it gave.')
    numbers: list[int] = got["number"].flatten().tolist()
    if numbers == wanted:
        return
    cursor = total % ROOM
    state = f"{total} rows were written into a buffer with room for {ROOM}, numbered as they came. "
    said = f"{state}It gave {', '.join(map(str, numbers))}. "
    picture = BufferExplorer(buffer)
    if len(numbers) != held:
        fail(f"{said}These are {len(numbers)} of the {held} rows that it holds.", picture)
    if len(set(numbers)) != held:
        fail(f"{said}A sample draws some rows twice, and others not at all.", picture)
    if numbers == wanted[::-1]:
        fail(f"{said}The newest row is first.", picture)
    if total < ROOM:
        fail(f"{said}This buffer is part filled: is there a seam yet?", picture)
    known = {
        "They come one row too early: is the row before the cursor the oldest?": (cursor - 1) % held,
        "They come one row too late: is the row behind the cursor the oldest?": (cursor + 1) % held,
        "That is the order by index. Where is the seam?": 0,
    }
    if len(writes) > 2 and numbers == by_index:
        fail(f"{said}This buffer was written around more than once. Where is its cursor now?", picture)
    for what, first in known.items():
        if numbers == by_index[first:] + by_index[:first]:
            fail(said + what, picture)
    if numbers == by_index[-cursor:] + by_index[:-cursor]:
        fail(f"{said}It takes as many rows from the end as there are before the cursor.", picture)
    fail(f"{said}The seam lies elsewhere.", picture)

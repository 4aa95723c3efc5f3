"""Exercise of lesson 29 on resuming: a training loop that continues from its last checkpoint after a crash."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict

from rlnb.data import LazyTensorStorage, PrioritizedSampler, TensorDictReplayBuffer

from .asking import ask, fail, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .verdict import Outcome

ROUNDS, EVERY, ROWS = 20, 5, 4
#: Room for 12 rounds: what is older has been written over.
ROOM = 48
#: In which rounds the process ends: before the first checkpoint, behind one, and twice after the ring went round.
CRASHES = ([3], [10], [7, 18])

TRAIN = """
    def train(buffer, work, folder):
        done = 0
        if folder.exists():
            buffer.loads(folder)
            done = buffer.write_count // 4
        for i in range(done, 20):
            work(buffer, i)
            if (i + 1) % 5 == 0:
                buffer.dumps(folder)
"""


@exercise(
    title="Continue after a crash",
    prompt="""
        Write `train(buffer, work, folder)`. It works through 20 rounds, numbered from 0: `work(buffer, i)` does round
        `i`, which writes four rows, samples, and sets priorities. After every five rounds, save the buffer in `folder`,
        a `Path` that does not exist at first.

        The process may be killed in any round. Then `train` is called again, with a new, empty buffer and the same
        folder. It must continue after the last checkpoint, and end with the same buffer as without a crash.
    """,
    stub="""
        def train(buffer, work, folder):
            # buffer.write_count: number of rows written so far; a round writes 4
            for i in range(20):
                work(buffer, i)
            ...
    """,
    hints=[
        "Three questions: is there a checkpoint? How many rounds does it hold? After which rounds do you save one?",
        "`folder.exists()` tells whether there is one, because a failed `dumps` leaves no new folder behind. After "
        "`loads`, the buffer tells how many rounds were done.",
        "Use `done = buffer.write_count // 4` after `buffer.loads(folder)`; loop over `range(done, 20)`; call "
        "`buffer.dumps(folder)` if `(i + 1) % 5 == 0`, after the work.",
    ],
    solution=TRAIN,
    wrong=[
        instead(TRAIN, of="buffer.loads(folder)", put="pass", says="with an empty buffer"),
        instead(TRAIN, of="range(done, 20)", put="range(20)", says="that it already holds"),
        instead(TRAIN, of="buffer.write_count // 4", put="len(buffer) // 4", says="has room for 12 rounds"),
        instead(TRAIN, of="buffer.write_count // 4", put="buffer.write_count // 4 + 1", says="It skipped round 10"),
        instead(TRAIN, of="buffer.write_count // 4", put="buffer.write_count", says="it did nothing"),
        instead(TRAIN, of="if folder.exists():", put="if True:", says="At the first call"),
        instead(TRAIN, of="(i + 1) % 5", put="i % 5", says="after 1, 6, 11, 16 rounds"),
        instead(TRAIN, of="        if (i + 1) % 5 == 0:\n            buffer.dumps(folder)", put="", says="never saved"),
        instead(TRAIN, of="        if (i + 1) % 5 == 0:\n            ", put="    ", says="after 20 rounds"),
        instead(TRAIN, of="if (i + 1) % 5 == 0:\n            ", put="", says="after 1, 2, 3, 4, 5, 6"),
        instead(TRAIN, of="        done =", put="        buffer.sample()\n        done =", says="depend on each draw"),
        WrongAnswer(
            TRAIN.replace("buffer.loads", "buffer.storage.loads").replace("buffer.dumps", "buffer.storage.dumps"),
            says="only the storage",
        ),
        WrongAnswer(
            """
            def train(buffer, work, folder):
                done = 0
                if folder.exists():
                    buffer.loads(folder)
                    done = buffer.write_count // 4
                try:
                    for i in range(done, 20):
                        work(buffer, i)
                        if (i + 1) % 5 == 0:
                            buffer.dumps(folder)
                except BaseException:
                    buffer.dumps(folder)
                    raise
            """,
            says="runs no `finally`",
        ),
    ],
)
def train(train: Callable[..., Any]) -> Outcome:
    """Train without a crash, and with some; compare rounds, saves and what the buffers hold and draw."""
    reference = _Run(train)
    reference.go()
    _check_first(reference)
    for crashes in CRASHES:
        run = _Run(train)
        for crash in [*crashes, None]:
            run.go(crash)
        _compare(run, reference, crashes)
    drawn = reference.buffer.sample()["index"].tolist()
    return right(
        f"Killed in rounds {', '.join(map(str, CRASHES[-1]))}, it still ends with the same rows, priorities and "
        f"cursor. It even draws the same rows next, {drawn}, because its generator was saved as well. At most five "
        "rounds are lost and done again."
    )


class _Crash(BaseException):
    """Ends a process; no ``except Exception`` of the learner's catches it."""


class _Watched(TensorDictReplayBuffer):
    """A buffer that notes after how many rounds it was saved."""

    def __init__(self, run: _Run) -> None:
        super().__init__(
            storage=LazyTensorStorage(ROOM),
            sampler=PrioritizedSampler(ROOM, alpha=0.7, beta=0.5),
            batch_size=8,
            generator=torch.Generator().manual_seed(0),
        )
        self.run, self.loaded = run, False

    def loads(self, path: Any) -> None:
        super().loads(path)
        self.loaded = True

    def dumps(self, path: Any) -> None:
        if self.run.crashed:
            fail(
                "It saved after the process had been killed. A killed process runs no `finally` and no `except`: what "
                "is not saved by then is lost."
            )
        self.run.saved.append(self.write_count // ROWS)
        super().dumps(path)


class _Run:
    """Calls of a learner's loop with one folder, each with a new buffer, until the process ends or all is done."""

    def __init__(self, train: Callable[..., Any]) -> None:
        self.train = train
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "checkpoint"
        self.calls: list[list[int]] = []
        self.saved: list[int] = []
        self.last: int | None = None  # what the checkpoint held when the last call began, in rounds
        self.crash: int | None = None
        self.crashed = False
        self.buffer: Any = None

    def go(self, crash: int | None = None) -> None:
        """Call the loop, and end it in a round."""
        self.buffer, self.crash, self.crashed = _Watched(self), crash, False
        self.last = self.saved[-1] if self.saved else None
        self.calls.append([])
        try:
            ask(self.train, self.buffer, self.work, self.path, may_change=True)
        except _Crash:
            return
        except FileNotFoundError:
            # What the error says has the folder's name in it, which is another one each time.
            require(self.saved, "At the first call there is no checkpoint yet, but it tried to load one.")
            raise

    def work(self, buffer: Any, i: int) -> None:
        """Do a round: write rows, sample, and set priorities."""
        if i == self.crash:
            self.crashed = True
            raise _Crash
        self.calls[-1].append(i)
        buffer.extend(TensorDict({"step": torch.arange(ROWS * i, ROWS * (i + 1))}, [ROWS]))
        sample = buffer.sample()
        buffer.update_priority(sample["index"], 1.0 + (sample["step"] * 37 + i) % 11)


def _check_first(run: _Run) -> None:
    """Require all rounds and the saves of a run without a crash."""
    rounds = list(range(ROUNDS))
    require(run.calls == [rounds], f"Without a crash, expected the rounds 0 to {ROUNDS - 1}, got {run.calls[0]}.")
    wanted = list(range(EVERY, ROUNDS + 1, EVERY))
    alone = "It saved only the storage. The writer, the sampler and the generator belong to the buffer as well."
    require(run.saved or not run.path.exists(), alone)
    require(run.saved, "It has never saved the buffer with `dumps`.")
    saved = ", ".join(map(str, run.saved))
    require(
        run.saved == wanted, f"Expected a checkpoint after every {EVERY} rounds, but it saved after {saved} rounds."
    )


def _compare(run: _Run, reference: _Run, crashes: list[int]) -> None:
    """Say what went differently from a run without a crash."""
    said = f"Killed in round {' and again in round '.join(map(str, crashes))}, and called once more. "
    held, did = run.last or 0, run.calls[-1]
    wanted = list(range(held, ROUNDS))
    if did != wanted:
        _explain_rounds(said, held, did, run.buffer.loaded)
    got, right_one = run.buffer, reference.buffer
    require(torch.equal(got[:]["step"], right_one[:]["step"]), f"{said}The buffer holds other rows than without it.")
    priorities = [one.sampler.state_dict()["priorities"] for one in (got, right_one)]
    what = (
        f"{said}The rows are right, but the priorities differ from those of a run without a crash. They depend on each "
        "draw: what did you draw in between, or not load?"
    )
    require(torch.equal(*priorities), what)


def _explain_rounds(said: str, held: int, did: list[int], loaded: bool) -> None:
    """Name the mistake behind the rounds of the last call."""
    if not did:
        fail(f"{said}The checkpoint held {held} rounds of {ROUNDS}, but it did nothing.")
    if did[0] == 0:
        began = f"{said}The checkpoint held {held} rounds. It started at round 0 again, "
        fail(
            began + ("and wrote rows that it already holds." if loaded else "with an empty buffer: nothing was loaded.")
        )
    if did[0] < held:
        rounds = ROOM // ROWS
        fail(
            f"{said}The checkpoint held {held} rounds, but it continued with round {did[0]}. The buffer has room for "
            f"{rounds} rounds: it does not hold all the rows ever written."
        )
    missing = ", ".join(str(i) for i in range(held, did[0]))
    fail(f"{said}The checkpoint held {held} rounds, but it continued with round {did[0]}. It skipped round {missing}.")

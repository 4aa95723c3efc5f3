"""Measured trace of a batched environment: what each env did, and when."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

#: Actions of an env whose times are recorded: it starts a step or reset, has stepped, has been reset, has written its
#: row.
MOMENTS = ("told", "stepped", "reset", "written")


@dataclass(frozen=True)
class Turn:
    """One step or reset of a batch. Times are nanoseconds of ``time.perf_counter_ns``, which all processes share."""

    what: str  # "step" or "reset"
    which: tuple[int, ...]  # indices of the envs that took part
    start: int  # when the batch began
    stop: int  # when the batch had all results
    moments: np.ndarray  # times of the actions of each env, [num_workers, 4], by MOMENTS; 0: it did not take place


@dataclass
class BatchTrace:
    """Steps and resets of a batch (``name`` is its class) in order, as recorded by ``env.tracing()``.

    Example:
        >>> BatchTrace("SerialEnv", num_workers=2)
        BatchTrace(SerialEnv, num_workers=2, steps=0, resets=0)
    """

    name: str
    num_workers: int
    turns: list[Turn] = field(default_factory=list)

    def __repr__(self) -> str:
        steps = sum(turn.what == "step" for turn in self.turns)
        resets = len(self.turns) - steps
        return f"BatchTrace({self.name}, num_workers={self.num_workers}, steps={steps}, resets={resets})"

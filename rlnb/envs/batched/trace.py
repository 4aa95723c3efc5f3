"""What the envs of a batch did and when, measured."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

#: The moments that are noted of an env: it is told to act, has stepped, has been reset, has written its row.
MOMENTS = ("told", "stepped", "reset", "written")


@dataclass(frozen=True)
class Turn:
    """One step or reset of a batch.

    Args:
        what: "step" or "reset".
        which: the envs that took part.
        start: when the batch began, in nanoseconds of ``time.perf_counter_ns``, which all processes share.
        stop: when it had all results.
        moments: of each env, ``[num_workers, 4]``, see :data:`MOMENTS`; 0 where nothing of the kind happened.
    """

    what: str
    which: tuple[int, ...]
    start: int
    stop: int
    moments: np.ndarray


@dataclass
class BatchTrace:
    """The turns of a batch, in order.

    Args:
        name: of the batch's class.
        num_workers: how many envs it has.
        turns: what happened.
    """

    name: str
    num_workers: int
    turns: list[Turn] = field(default_factory=list)

    def __repr__(self) -> str:
        steps = sum(turn.what == "step" for turn in self.turns)
        resets = len(self.turns) - steps
        return f"BatchTrace({self.name}, num_workers={self.num_workers}, steps={steps}, resets={resets})"


__all__ = ["MOMENTS", "BatchTrace", "Turn"]

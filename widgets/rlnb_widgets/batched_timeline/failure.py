"""Report of a failed worker: its number, the failed call, and its traceback with short paths."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import rlnb

_WHO = re.compile(r"Workers? (\d+(?:, \d+)*) of (\d+)\b")
_WHAT = re.compile(
    r"failed in ([\w.]+(?: \d+)?):|in the middle of ([\w.]+(?: \d+)?)\.|did not finish ([\w.]+(?: \d+)?) within"
)
_FRAME = re.compile(r'^  File "([^"]*)"(, line \d+.*)$')
_MARK = "\n\nIn the worker:\n"
_MOST_LINES = 60
_PACKAGE = Path(rlnb.__file__).parent


@dataclass(frozen=True)
class TracebackLine:
    """A line of a traceback, with its paths shortened."""

    text: str  #: the line
    own: bool  #: whether the line is of code outside of rlnb, or the error itself: where to look first


@dataclass(frozen=True)
class Failure:
    """How a worker failed."""

    workers: tuple[int, ...]  #: indices of the workers that the error names
    what: str  #: the failed call, such as "step" or "batch 3"; empty if the error does not name it
    headline: str  #: first line of the error
    lines: tuple[TracebackLine, ...] = ()  #: traceback of the worker; empty if it was killed or hangs
    step: int = 0  #: number of steps, or of batches of a collector, that were finished
    of: int = 0  #: number of envs or workers; 0 if the error does not name it


def failure_of(error: BaseException, step: int = 0) -> Failure:
    r"""Read an error of a :class:`~rlnb.envs.ParallelEnv`, raised after ``step`` finished steps, or of a collector.

    Example:
        >>> text = "Worker 1 of 4 failed in step: ValueError: no\n\nIn the worker:\nValueError: no"
        >>> found = failure_of(RuntimeError(text))
        >>> found.workers, found.what, found.lines
        ((1,), 'step', (TracebackLine(text='ValueError: no', own=True),))
    """
    headline, _, traceback = str(error).partition(_MARK)
    who, what = _WHO.search(headline), _WHAT.search(headline)
    workers = tuple(map(int, who[1].split(", "))) if who else ()
    doing = next(filter(None, what.groups()), "") if what else ""
    return Failure(workers, doing, " ".join(headline.split()), _lines(traceback), step, int(who[2]) if who else 0)


def _lines(traceback: str) -> tuple[TracebackLine, ...]:
    found, own = [], True
    for text in traceback.rstrip("\n").split("\n") if traceback.strip() else []:
        frame = _FRAME.match(text)
        if frame:
            place = _short(frame[1])
            own = not place.startswith("rlnb/")
            text = f'  File "{place}"{frame[2]}'
        elif not text.startswith("  "):
            own = not text.startswith("Traceback")
        found.append(TracebackLine(text, own))
    if len(found) > _MOST_LINES:
        # Both ends matter most: where the worker was called, and where it raised.
        cut = TracebackLine(f"  ... {len(found) - _MOST_LINES} lines ...", False)
        found = [*found[: _MOST_LINES // 3], cut, *found[len(found) - 2 * _MOST_LINES // 3 :]]
    return tuple(found)


def _short(path: str) -> str:
    """Return the path of a file without the folders that differ between machines."""
    parts = path.replace("\\", "/").split("/")
    if any(part.startswith("ipykernel_") for part in parts):
        return "a cell of the notebook"
    if "rlnb" in parts[:-1]:
        last = len(parts) - 1 - parts[::-1].index("rlnb")
        # A learner's folder, such as a clone of the repository, may have this name too.
        if _PACKAGE.joinpath(*parts[last + 1 :]).is_file():
            return "/".join(parts[last:])
    return "/".join(parts[-2:]) if len(parts) > 2 else path

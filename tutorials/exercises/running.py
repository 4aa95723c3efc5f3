"""Run a check over a learner's code: fixed randomness, a time limit, bounded output, the line an error came from."""

from __future__ import annotations

import ctypes
import inspect
import io
import linecache
import random
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import CodeType, FrameType
from typing import Any

_AGAIN_SECONDS = 0.5


class TimeLimit(BaseException):
    """Raised inside code that ran for too long; no ``except Exception`` of the learner's catches it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise :class:`TimeLimit` in this thread when the block runs for longer.

    An asynchronous exception needs no signal, so that it works on every platform and in every thread; it arrives
    at the next Python instruction, not within a long call into C, and a bare ``except:`` in a loop can outlive it: it
    is sent again, and eaten again. Checks use it where :func:`~exercises.apart.run_apart` does not work.

    Args:
        seconds: the limit.

    Yields:
        Nothing.
    """
    thread, lock = ctypes.c_ulong(threading.get_ident()), threading.Lock()
    done, sent = threading.Event(), threading.Event()

    def send() -> None:
        sent.set()
        ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(TimeLimit))

    def watch() -> None:
        wait = seconds
        while not done.wait(wait):
            wait = _AGAIN_SECONDS
            with lock:
                if not done.is_set():
                    send()

    threading.Thread(target=watch, name="exercise-time-limit", daemon=True).start()
    try:
        try:
            yield
        finally:
            done.set()
    except TimeLimit:
        done.set()  # it may have come in the very moment of the line above
        raise
    finally:
        # One that was sent and has not arrived must not arrive later. To withdraw it is not enough: CPython would look
        # for it at every jump from then on, and where instructions are traced, forever. So another takes its place.
        with lock, suppress(TimeLimit):
            if sent.is_set():
                send()
                while True:
                    pass


@contextmanager
def fixed_randomness(seed: int = 0) -> Iterator[None]:
    """Seed the random generators in use for a block, and give them their old state back.

    Args:
        seed: the seed of ``random``, of numpy's and of torch's global generators (the latter two where imported).

    Yields:
        Nothing.
    """
    numpy: Any = sys.modules.get("numpy")
    torch: Any = sys.modules.get("torch")
    states = (random.getstate(), numpy and numpy.random.get_state(), torch and torch.get_rng_state())
    random.seed(seed)
    if numpy:
        numpy.random.seed(seed)
    if torch:
        torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(states[0])
        if numpy:
            numpy.random.set_state(states[1])
        if torch:
            torch.set_rng_state(states[2])


def learners_line(error: BaseException, *, deepest: bool = False) -> str | None:
    """Say where in the learner's cell an error came from.

    What runs in ``__main__`` below a check is the learner's: a notebook's cells do, and no library does.

    Args:
        error: what was raised.
        deepest: count it only when the error was raised on that very line, and not in something it called.

    Returns:
        For example ``"line 3 of your cell: `return td.sum()`"``, or ``None`` when no line of the learner's had a part.
    """
    frames = list(traceback.walk_tb(error.__traceback__))
    return _learners(frames, deepest)


def learners_place(frame: FrameType) -> str | None:
    """Say where in the learner's cell the code of a frame stands; see :func:`learners_line`.

    Args:
        frame: the innermost frame that runs.

    Returns:
        As :func:`learners_line` does.
    """
    return _learners(list(traceback.walk_stack(frame))[::-1])


def _learners(frames: list[tuple[FrameType, int]], deepest: bool = False) -> str | None:
    theirs = [i for i, (frame, _) in enumerate(frames) if frame.f_globals.get("__name__") == "__main__"]
    if not theirs or (deepest and theirs[-1] != len(frames) - 1):
        return None
    frame, line = frames[theirs[-1]]
    text = shortened(linecache.getline(frame.f_code.co_filename, line).strip(), 120)
    return f"line {line} of your cell" + (f": `{text}`" if text else "")


class BoundedText(io.TextIOBase):
    """What a learner's code prints: the first lines are kept, the others counted, and it cannot be closed.

    Example:
        >>> out = BoundedText()
        >>> for i in range(10):
        ...     print(i, file=out)
        >>> out.text().splitlines()[-2:]
        ['7', '(and 2 more lines)']
    """

    _LINES, _WIDTH, _HEAD = 8, 300, 10_000  # a warning of torch has 260 characters

    def __init__(self) -> None:
        super().__init__()
        self._head, self._feeds, self._open = "", 0, False

    def writable(self) -> bool:
        """Say that it takes text."""
        return True

    def write(self, text: str) -> int:
        """Take text; returns its length, as every stream does."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if text:
            self._head += text[: self._HEAD - len(self._head)]
            self._feeds += text.count("\n")
            self._open = text[-1] != "\n"
        return len(text)

    def close(self) -> None:
        """Do nothing: a learner's ``sys.stdout.close()`` closes nobody's output."""

    def text(self) -> str:
        """Return the first lines and how many more there were; empty when nothing was printed."""
        lines = [shortened(line, self._WIDTH) for line in self._head.split("\n")[: self._LINES]]
        left = self._feeds + self._open - self._LINES
        return "\n".join([*lines, f"(and {left:,} more lines)"] if left > 0 else lines).rstrip("\n")


def shortened(text: str, most: int) -> str:
    """Cut a text and say how much is missing."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def unchanged(answer: Any, stub: str) -> bool:
    """Whether a function or class is still the stub's, by its compiled code and where it stands in its text.

    Args:
        answer: what the learner handed in.
        stub: source of the stub.

    Returns:
        True when it has code and each piece of it is in the stub as well.
    """
    known = {_fingerprint(code) for code in _nested(compile(stub, "<stub>", "exec", dont_inherit=True))}
    codes = list(_codes_of(answer))
    return bool(codes) and all(_fingerprint(code) in known for code in codes)


def _codes_of(answer: Any) -> Iterator[CodeType]:
    """The code objects that a function, a class or an instance's class was written in."""
    if inspect.isroutine(answer):
        members = [answer]
    else:
        members = list(vars(answer if isinstance(answer, type) else type(answer)).values())
    for member in members:
        code = getattr(getattr(member, "fget", None) or getattr(member, "__func__", member), "__code__", None)
        if isinstance(code, CodeType):
            yield code


def _nested(code: CodeType) -> Iterator[CodeType]:
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield const
            yield from _nested(const)


def _fingerprint(code: CodeType) -> tuple[Any, ...]:
    """What tells one piece of code from another; the positions tell ``...`` from ``return None``."""
    first = code.co_firstlineno
    places = tuple((line and line - first, column) for line, _, column, _ in code.co_positions())
    consts = tuple(_fingerprint(const) if isinstance(const, CodeType) else repr(const) for const in code.co_consts)
    return code.co_name, code.co_code, consts, code.co_names, code.co_varnames, places

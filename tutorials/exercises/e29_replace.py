"""Exercise of lesson 29 on replacing a file atomically: it stays whole, whenever the process ends."""

from __future__ import annotations

import builtins
import io
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from .asking import ask, fail, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .verdict import Outcome

OLD, PIECES = b"the old weights, all of them", (b"the new ", b"weights, ", b"all of them")
NEW = b"".join(PIECES)

REPLACE = """
    import os


    def replace_file(path, write):
        partial = path.with_name(path.name + ".partial")
        try:
            write(partial)
            os.replace(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
"""


@exercise(
    title="Replace a file atomically",
    prompt="""
        The weights of a policy are saved in a separate file, which is not safe by itself. Write
        `replace_file(path, write)`: `write(p)` creates the file `p` and writes it piece by piece. At the end, the new
        content is in `path`, a `Path`. At *every moment* before, `path` holds either all of the old content or all of
        the new. If `write` raises, `path` is unchanged, no other file remains in the folder, and the error reaches the
        caller. The old file may not exist.
    """,
    stub="""
        def replace_file(path, write):
            # os.replace(source, target), after import os, replaces a file
            # in a single operation
            ...
    """,
    hints=[
        "Where can you write a partial file so that nobody reads it as the whole? `path.with_name(...)` is another "
        "name in the same folder.",
        "Write everything to the other file first, then call `os.replace`. What should happen if the writing fails?",
        "Put `write(partial)` and `os.replace(partial, path)` in a `try`; add `except BaseException:` with "
        "`partial.unlink(missing_ok=True)` and `raise`.",
    ],
    solution=REPLACE,
    wrong=[
        WrongAnswer("def replace_file(path, write): write(path)", says="has lost the old"),
        WrongAnswer("def replace_file(path, write): pass", says="still has the old content"),
        instead(
            REPLACE,
            of="os.replace(partial, path)",
            put="path.unlink(missing_ok=True)\n        partial.rename(path)",
            says="there is no file",
        ),
        instead(
            REPLACE,
            of="os.replace(partial, path)",
            put="shutil.copy(partial, path)\n        partial.unlink()",
            says="an empty file",
        ),
        instead(
            REPLACE,
            of="os.replace(partial, path)",
            put="shutil.copy(partial, path.with_suffix('.2'))\n        os.replace(partial, path)",
            says="Other files remain in the folder",
        ),
        instead(REPLACE, of="        partial.unlink(missing_ok=True)\n", put="", says="left behind"),
        instead(REPLACE, of="\n        raise", put="", says="the error is lost"),
        instead(REPLACE, of="os.replace(partial, path)", put="os.replace(path, partial)", says="gone from"),
        instead(
            REPLACE,
            of="path.with_name(path.name + '.partial')".replace("'", '"'),
            put="pathlib.Path(tempfile.mkdtemp()) / path.name",
            says="on another disk",
        ),
        WrongAnswer(
            """
            def replace_file(path, write):
                old = path.read_bytes() if path.exists() else None
                try:
                    write(path)
                except BaseException:
                    path.unlink() if old is None else path.write_bytes(old)
                    raise
            """,
            says="runs no `except`",
        ),
        WrongAnswer(
            """
            def replace_file(path, write):
                partial = path.with_name(path.name + ".partial")
                try:
                    write(partial)
                finally:
                    os.replace(partial, path)
            """,
            says="half of the new content",
        ),
        WrongAnswer(
            """
            def replace_file(path, write):
                partial = path.with_name(path.name + ".partial")
                partial.write_bytes(path.read_bytes())
                write(partial)
                os.replace(partial, path)
            """,
            says="no old file",
        ),
    ],
    setup="import os, pathlib, shutil, tempfile",
)
def replace_file(replace_file: Callable[..., Any]) -> Outcome:
    """Look at the file around each operation while it is replaced; then have the writing fail."""
    for old in (OLD, None):
        try:
            moments = _watched(replace_file, old)
        except FileNotFoundError:
            require(old is None, "It looks for a file that does not exist. Check the order of the operations.")
            fail("When no old file exists, it still looks for one and fails.")
        _check_moments(moments, lambda: _failed(replace_file, OLD)[0].get("policy.pt") == OLD)
    for old in (OLD, None):
        _check_failure(replace_file, old)
    return right(
        "The check read the file before and after each operation. Up to one moment it holds all of the old content, "
        "from then on all of the new, even if the process is killed. If the power fails, the new content may still be "
        "in memory, unless `os.fsync` has written it to the disk. `dumps` does both."
    )


#: What a file holds at a moment; None if it is not there.
Content = bytes | None

#: What makes, changes, moves or deletes files; pathlib, shutil and tempfile call these, too.
_OPERATIONS = (
    (builtins, "open"),
    (io, "open"),
    *((os, name) for name in ("open", "replace", "rename", "remove", "unlink", "link", "truncate")),
)


def _watched(replace_file: Callable[..., Any], old: Content) -> list[Content]:
    """Replace a file, and read it before and after each operation and each piece that is written meanwhile."""
    with _folder(old) as path:
        moments = [old]

        def look() -> None:
            moments.append(_read(path))

        def write(target: Any) -> None:
            _check_place(Path(target), path)
            with Path(target).open("wb", buffering=0) as file:
                for piece in PIECES:
                    file.write(piece)
                    look()

        with _looking(look):
            ask(replace_file, path, write)
        others = sorted(other.name for other in path.parent.iterdir() if other != path)
        moments.append(_read(path))
        if moments[-1] is None and others:
            fail(f"In the end the file is gone from its place. The folder holds {others}.")
        if moments[-1] == NEW and all(moment in (OLD, NEW, None) for moment in moments):
            require(not others, f"Other files remain in the folder: {others}.")
    return moments


@contextmanager
def _looking(look: Callable[[], None]) -> Iterator[None]:
    """Call a function around each operation on files."""
    inside = False

    def watching(operation: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            nonlocal inside
            if inside:  # to look is an operation itself
                return operation(*args, **kwargs)
            inside = True
            try:
                look()
                return operation(*args, **kwargs)
            finally:
                look()
                inside = False

        return watched

    with ExitStack() as patches:
        for module, name in _OPERATIONS:
            patches.enter_context(mock.patch.object(module, name, watching(getattr(module, name))))
        yield


@contextmanager
def _folder(old: Content) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder).resolve() / "policy.pt"
        if old is not None:
            path.write_bytes(old)
        yield path


def _read(path: Path) -> Content:
    return path.read_bytes() if path.exists() else None


def _check_place(target: Path, path: Path) -> None:
    what = (
        "It writes to another folder. That may be on another disk, from where a file cannot be moved in a single "
        "operation."
    )
    require(path.parent in target.resolve().parents, what)


def _check_moments(moments: list[Content], mends: Callable[[], bool]) -> None:
    """Require all of the old, and then all of the new.

    Args:
        moments: what the file held, one moment after the other.
        mends: says whether the old content is put back if the writing fails.
    """
    bad = [moment for moment in moments if moment not in (moments[0], NEW)]
    if None in bad:
        fail(
            "Between two operations there is no file at all. A process killed then leaves neither the old nor the "
            "new content."
        )
    if any(bad):
        half = f"For a moment the file holds `{max(filter(None, bad)).decode()}`. "
        if mends():
            fail(f"{half}It restores the old content after an error, but a killed process runs no `except`.")
        fail(f"{half}A process killed then has lost the old content without having the new.")
    require(not bad, "For a moment there is an empty file in place of the old one. Which call opens it for writing?")
    require(moments[-1] == NEW, "In the end the file still has the old content.")


def _check_failure(replace_file: Callable[..., Any], old: Content) -> None:
    """Fail after the first piece, and look at what is left."""
    left, told = _failed(replace_file, old)
    same = left.pop("policy.pt", None) == old
    require(same, "When `write` raises after its first piece, half of the new content takes the place of the old.")
    require(not left, f"When `write` raises, files are left behind in the folder: {sorted(left)}.")
    require(told, "When `write` raises, the error is lost: the caller believes that the new content is there.")


def _failed(replace_file: Callable[..., Any], old: Content) -> tuple[dict[str, bytes], bool]:
    """What is in the folder after the disk was full, by name, and whether the error went on."""

    def write(target: Any) -> None:
        Path(target).write_bytes(PIECES[0])
        raise OSError("No space left on device")

    told = False
    with _folder(old) as path:
        try:
            ask(replace_file, path, write)
        except OSError as error:
            told = "No space left" in str(error)
        return {file.name: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}, told

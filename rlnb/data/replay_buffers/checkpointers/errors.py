"""Error texts that several modules of checkpoints share."""

from __future__ import annotations

from pathlib import PurePath

KEPT = "Nothing was changed."
AGAIN = "Fix: load another copy, or save the buffer again with dumps."


def name_of(path: PurePath) -> str:
    """Return the name of a file with its folder, without the folders above."""
    return "/".join(path.parts[-2:])


def missing(path: PurePath) -> str:
    """Text for a part of a checkpoint that is missing."""
    return f"The checkpoint is not complete: {name_of(path)!r} is missing. {KEPT} {AGAIN}"


def damaged(path: PurePath) -> str:
    """Text for a file whose content has changed since it was written."""
    return (
        f"The file {name_of(path)!r} of the checkpoint was altered or damaged: its content does not fit its checksum. "
        f"{KEPT} {AGAIN}"
    )


def unreadable(path: PurePath, cause: BaseException) -> str:
    """Text for a file whose checksum is right and whose content makes no sense."""
    reason = str(cause).splitlines()[0] if str(cause) else type(cause).__name__
    return f"{name_of(path)!r} of the checkpoint does not read as one ({reason}). {KEPT} {AGAIN}"


def other_storage(name: str, storage: object, needed: str) -> str:
    """Text for a storage that a checkpointer cannot save."""
    return (
        f"A {name} saves {needed}, and the storage is a {type(storage).__name__}. "
        "Fix: storage.checkpointer = None gives the storage its own checkpointer back."
    )

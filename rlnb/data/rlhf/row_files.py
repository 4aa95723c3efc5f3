"""Append-only files of fixed-size rows, one for each entry, that become a memory-mapped TensorDict when complete."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tensordict import MemoryMappedTensor, TensorDict

_STATE, ABOUT = "state.json", "tokenized.json"


class RowFiles:
    """A table that is written in chunks, and goes on after its last complete chunk when it is opened again.

    The files are written with ordinary writes, not through a memory map: on a full disk a write fails with an error,
    while a memory map would end the process with a signal.

    Args:
        folder: where the files are while the table is incomplete.
        about: what the rows are made from, as plain values. A table of something else is started anew.
        total: how many rows the complete table has.

    Attributes:
        rows: how many rows are written.
    """

    def __init__(self, folder: Path, about: Mapping[str, Any], total: int) -> None:
        self.folder, self.total = folder, total
        self.about = dict(about)
        self.rows = 0
        self._columns: dict[str, tuple[str, list[int]]] = {}
        try:
            state = json.loads((folder / _STATE).read_text())
            kept = state if [state["about"], state["total"]] == [self.about, total] else None
        except (OSError, ValueError, KeyError, TypeError):
            kept = None
        if kept is None:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        else:
            self.rows, self._columns = kept["rows"], kept["columns"]

    def append(self, data: Mapping[str, torch.Tensor]) -> None:
        """Write a chunk of rows.

        Raises:
            ValueError: If the rows differ in keys, shape or dtype from those before; nothing is written.
            OSError: If the disk is full. The chunks before are kept.
        """
        found = {key: (str(value.dtype).removeprefix("torch."), list(value.shape[1:])) for key, value in data.items()}
        if self.rows and found != {key: (dtype, shape) for key, (dtype, shape) in self._columns.items()}:
            raise ValueError(
                f"Rows {self.rows} and following are {_shown(found)}, and those before are {_shown(self._columns)}. "
                "All rows of a memory-mapped dataset have one shape. Fix: a tokenizer_fn that pads to max_length."
            )
        self._columns = found
        length = len(next(iter(data.values())))
        try:
            for key, value in data.items():
                rows = value.contiguous().numpy()
                with self._path(key).open("r+b" if self._path(key).exists() else "w+b") as file:
                    file.seek(self.rows * rows[:1].nbytes)
                    file.truncate()  # what an interrupted chunk left
                    file.write(rows.data)
            self._note(self.rows + length)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise OSError(
                errno.ENOSPC,
                f"The disk is full: {self.rows} of {self.total} rows are tokenized, and kept in {str(self.folder)!r}. "
                "Fix: free some space and call again; it goes on from there",
            ) from error

    def finish(self, folder: Path) -> None:
        """Move the complete table to its place, as a memory-mapped TensorDict."""
        entries = {}
        for key, (dtype, shape) in self._columns.items():
            size = torch.Size([self.rows, *shape])
            entries[key] = MemoryMappedTensor.from_filename(str(self._path(key)), getattr(torch, dtype), size)
        TensorDict(entries, [self.rows]).memmap(str(self.folder))  # writes the description beside the files
        (self.folder / ABOUT).write_text(json.dumps(self.about, indent=1))
        (self.folder / _STATE).unlink()
        os.replace(self.folder, folder)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.memmap"

    def _note(self, rows: int) -> None:
        state = {"about": self.about, "total": self.total, "rows": rows, "columns": self._columns}
        partial = self.folder / "state.partial"
        partial.write_text(json.dumps(state))
        os.replace(partial, self.folder / _STATE)
        self.rows = rows


def _shown(columns: Mapping[str, tuple[str, list[int]]]) -> str:
    return ", ".join(f"{key!r} {dtype} {shape}" for key, (dtype, shape) in columns.items())

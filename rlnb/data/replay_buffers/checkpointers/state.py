"""The states of samplers, writers and buffers, saved in a folder."""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rlnb.data.replay_buffers.checkpointers.files import read_document, write_document
from rlnb.data.replay_buffers.checkpointers.folder import loading, saving
from rlnb.data.replay_buffers.checkpointers.plain import Encoder, decode
from rlnb.data.replay_buffers.faults import checkpoints as faults

# What reading a file can raise that has the right checksum and was made by hand.
SENSELESS = (LookupError, TypeError, ValueError, AttributeError, RuntimeError, AssertionError, ArithmeticError)


def write_state(folder: Path, name: str, state: Any) -> None:
    """Write a state.

    Args:
        folder: where to.
        name: what the names of the files begin with.
        state: plain values and tensors.

    Raises:
        TypeError: if it holds something else.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_document(folder / f"{name}.json", Encoder(folder, name).encode(state, (name,)))


def read_state(folder: Path, name: str) -> Any:
    """Read what :func:`write_state` wrote.

    Args:
        folder: where from.
        name: what the names of the files begin with.

    Returns:
        The state.

    Raises:
        ValueError: if a file is missing, damaged, or makes no sense.
    """
    path = folder / f"{name}.json"
    content = read_document(path)
    try:
        return decode(content, folder, name)
    except ValueError as error:
        if "checkpoint" in str(error):
            raise
        raise ValueError(faults.unreadable(path, error)) from error
    except SENSELESS as error:
        raise ValueError(faults.unreadable(path, error)) from error


class Stateful(ABC):
    """What has a state that can be saved in a folder: samplers and writers."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return the state, as plain values and tensors."""

    @abstractmethod
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned."""

    def dumps(self, path: str | os.PathLike[str]) -> None:
        """Save the state in a folder, in place of one that was saved there before.

        Args:
            path: of the folder.

        Raises:
            OSError: if it cannot be written; what was there before is kept.
        """
        with saving(path) as folder:
            save_component(self, folder, "state")

    def loads(self, path: str | os.PathLike[str]) -> None:
        """Load what :meth:`dumps` saved.

        Args:
            path: of the folder.

        Raises:
            FileNotFoundError: if nothing was saved there.
            ValueError: if it is damaged or of something else; nothing was changed then.
        """
        with loading(path) as folder:
            state = read_component(self, folder, "state", [getattr(self, "_storage", None)])
        self.load_state_dict(state)


def save_component(component: Stateful, folder: Path, name: str) -> None:
    """Write the state of a sampler or a writer, and what it is of.

    Args:
        component: the sampler or writer.
        folder: where to.
        name: what the names of the files begin with.
    """
    write_state(folder, name, {"of": type(component).__name__, "state": component.state_dict()})


def read_component(component: Stateful, folder: Path, name: str, apart: Iterable[Any] = ()) -> Any:
    """Read the state of a sampler or a writer, and try it on a copy.

    Args:
        component: that shall load the state; it is not changed.
        folder: where from.
        name: what the names of the files begin with.
        apart: what the component knows and need not be copied with it: storages.

    Returns:
        The state, which the component takes.

    Raises:
        ValueError: if a file is damaged, or the state is of something else.
    """
    saved = read_state(folder, name)
    try:
        kind, state = saved["of"], saved["state"]
        if kind != type(component).__name__ and state.keys() != component.state_dict().keys():
            raise ValueError(faults.other_component(name, kind, type(component).__name__))
        copy.deepcopy(component, {id(part): part for part in apart}).load_state_dict(state)
    except SENSELESS as error:
        if isinstance(error, ValueError) and "Fix:" in str(error):
            raise
        raise ValueError(faults.unreadable(folder / f"{name}.json", error)) from error
    return state

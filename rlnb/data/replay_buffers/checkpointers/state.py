"""States of samplers, writers and buffers, saved in the folder of a checkpoint."""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rlnb.data.replay_buffers.checkpointers import errors
from rlnb.data.replay_buffers.checkpointers.files import read_document, write_document
from rlnb.data.replay_buffers.checkpointers.folder import loading, saving
from rlnb.data.replay_buffers.checkpointers.plain import Encoder, decode

# What reading a document can raise that somebody else wrote.
SENSELESS = (LookupError, TypeError, ValueError, AttributeError, RuntimeError, AssertionError, ArithmeticError)


def write_values(folder: Path, name: str, values: Any) -> None:
    """Write plain values and tensors: the document ``name.json``, and a ``.memmap`` file for each tensor."""
    folder.mkdir(parents=True, exist_ok=True)
    write_document(folder / f"{name}.json", Encoder(folder, name).encode(values, (name,)))


def read_values(folder: Path, name: str) -> Any:
    """Read what :func:`write_values` wrote; raises ``ValueError`` for what makes no sense."""
    path = folder / f"{name}.json"
    content = read_document(path)
    try:
        return decode(content, folder, name)
    except SENSELESS as error:
        raise explained(path, error) from error


def explained(path: Path, error: BaseException) -> ValueError:
    """Return an error that says what to do about a document that makes no sense, unless the given one does."""
    if isinstance(error, ValueError) and "Fix:" in str(error):
        return error
    return ValueError(errors.unreadable(path, error))


def write_state(folder: Path, name: str, state: Any) -> None:
    """Write the plain values and tensors of a state, such as that of the "sampler", into a checkpoint."""
    write_values(folder / "state", name, state)


def read_state(folder: Path, name: str) -> Any:
    """Read what :func:`write_state` wrote; raises ``ValueError`` for what makes no sense."""
    return read_values(folder / "state", name)


class Stateful(ABC):
    """Base of samplers and writers: their state can be saved in a folder."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return the state, as plain values and tensors."""

    @abstractmethod
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned."""

    def dumps(self, path: str | os.PathLike[str]) -> None:
        """Save the state in a folder, in place of one that was saved there before.

        Args:
            path: Folder of the checkpoint.

        Raises:
            OSError: If it cannot be written; the old checkpoint is kept.
        """
        with saving(path) as folder:
            save_component(self, folder, "component")

    def loads(self, path: str | os.PathLike[str]) -> None:
        """Load what :meth:`dumps` saved.

        Args:
            path: Folder of the checkpoint.

        Raises:
            FileNotFoundError: If there is no checkpoint.
            ValueError: If it is damaged or belongs to something else. Nothing is changed then.
        """
        with loading(path) as folder:
            state = read_component(self, folder, "component", [getattr(self, "_storage", None)])
        self.load_state_dict(state)


def save_component(component: Stateful, folder: Path, name: str) -> None:
    """Write the state of a sampler or writer, and the name of its class, into a checkpoint."""
    write_state(folder, name, {"of": type(component).__name__, "state": component.state_dict()})


def read_component(component: Stateful, folder: Path, name: str, apart: Iterable[Any] = ()) -> Any:
    """Read the state of a sampler or writer, and try it on a copy.

    Args:
        component: The sampler or writer that is to load the state; it is not changed.
        folder: Folder of the checkpoint.
        name: What it is to its buffer, such as "sampler".
        apart: What the component refers to and need not be copied with it: storages.

    Returns:
        The state, which the component can load.

    Raises:
        ValueError: If a file is damaged, or the state belongs to something else.
    """
    saved = read_state(folder, name)
    try:
        kind, state = saved["of"], saved["state"]
        own = type(component).__name__
        if kind != own and state.keys() != component.state_dict().keys():
            raise ValueError(
                f"The checkpoint has the state of a {kind}, and the {name} is a {own}. {errors.KEPT} "
                f"Fix: make the buffer with {name}={kind}(...)."
            )
        copy.deepcopy(component, {id(part): part for part in apart}).load_state_dict(state)
    except SENSELESS as error:
        raise explained(folder / "state" / f"{name}.json", error) from error
    return state

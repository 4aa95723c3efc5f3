"""Base class of samplers and writers, whose state is saved with a buffer or on its own."""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rlnb.data.replay_buffers.checkpointers.files import KEPT, reading, write_values
from rlnb.data.replay_buffers.checkpointers.folder import loading, saving


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

        Raises:
            OSError: If it cannot be written; the old checkpoint is kept.
        """
        with saving(path) as folder:
            save_component(self, folder, "component")

    def loads(self, path: str | os.PathLike[str]) -> None:
        """Load what :meth:`dumps` saved in a folder.

        Raises:
            FileNotFoundError: If there is no checkpoint.
            ValueError: If it is damaged or belongs to something else. Nothing is changed then.
        """
        with loading(path) as folder:
            state = read_component(self, folder, "component", [getattr(self, "_storage", None)])
        self.load_state_dict(state)


def save_component(component: Stateful, folder: Path, name: str) -> None:
    """Write the state of a sampler or writer, and the name of its class, into a checkpoint."""
    write_values(folder / "state" / f"{name}.json", {"of": type(component).__name__, "state": component.state_dict()})


def read_component(component: Stateful, folder: Path, name: str, apart: Iterable[Any] = ()) -> Any:
    """Read the state of a sampler or writer, and raise ``ValueError`` if a copy of it cannot load that state.

    ``apart`` is what the component refers to and need not be copied with it: storages.
    """
    with reading(folder / "state" / f"{name}.json") as saved:
        kind, state, own = saved["of"], saved["state"], type(component).__name__
        if kind != own and state.keys() != component.state_dict().keys():
            raise ValueError(
                f"The checkpoint has the state of a {kind}, and the {name} is a {own}. {KEPT} "
                f"Fix: make the buffer with {name}={kind}(...)."
            )
        copy.deepcopy(component, {id(part): part for part in apart}).load_state_dict(state)
    return state

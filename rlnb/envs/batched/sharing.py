"""Pickling for other processes: functions go by value where they must, and tensors in shared memory stay shared."""

from __future__ import annotations

import io
import pickle
from typing import Any

import cloudpickle
import torch


class _Pickler(cloudpickle.Pickler):
    """Leaves shared tensors out, and keeps them in a list."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.tensors: list[torch.Tensor] = []

    def persistent_id(self, obj: Any) -> int | None:
        if not isinstance(obj, torch.Tensor) or not obj.is_shared():
            return None
        self.tensors.append(obj)
        return len(self.tensors) - 1


class _Unpickler(pickle.Unpickler):
    """Puts the shared tensors back."""

    def __init__(self, file: io.BytesIO, tensors: list[torch.Tensor]) -> None:
        super().__init__(file)
        self.tensors = tensors

    def persistent_load(self, pid: int) -> torch.Tensor:
        return self.tensors[pid]


def dump(content: Any) -> tuple[bytes, list[torch.Tensor]]:
    """Pickle something for another process.

    Args:
        content: anything; functions and classes of a notebook or script will do.

    Returns:
        The pickle, and the tensors in shared memory that it refers to. ``multiprocessing`` hands those on as they are.

    Example:
        >>> pickled, tensors = dump({"shared": torch.zeros(1).share_memory_(), "own": torch.ones(1)})
        >>> tensors, load(pickled, tensors)["shared"] is tensors[0]
        ([tensor([0.])], True)
    """
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(content)
    return file.getvalue(), pickler.tensors


def load(pickled: bytes, tensors: list[torch.Tensor]) -> Any:
    """Unpickle what :func:`dump` pickled.

    Args:
        pickled: the pickle.
        tensors: those that came with it.

    Returns:
        The content.
    """
    return _Unpickler(io.BytesIO(pickled), tensors).load()


__all__ = ["dump", "load"]

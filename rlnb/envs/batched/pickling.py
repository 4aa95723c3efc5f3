"""Pickling for worker processes: functions by value, tensors in shared memory by reference, Gymnasium's registry."""

from __future__ import annotations

import contextlib
import functools
import io
import pickle
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import cloudpickle
import torch


class _Pickler(cloudpickle.Pickler):
    """Replaces shared tensors with their index in a list."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.tensors: list[torch.Tensor] = []

    def persistent_id(self, obj: Any) -> int | None:
        # A lazy parameter has no memory yet, and cannot be asked whether it is shared.
        if not isinstance(obj, torch.Tensor) or torch.nn.parameter.is_lazy(obj) or not obj.is_shared():
            return None
        self.tensors.append(obj)
        return len(self.tensors) - 1


class _Unpickler(pickle.Unpickler):
    """Replaces the indices of shared tensors with the tensors."""

    def __init__(self, file: io.BytesIO, tensors: list[torch.Tensor]) -> None:
        super().__init__(file)
        self.tensors = tensors

    def persistent_load(self, pid: int) -> torch.Tensor:
        return self.tensors[pid]


def dump(content: Any) -> tuple[bytes, list[torch.Tensor]]:
    """Pickle an object for another process by cloudpickle, except for the tensors in shared memory.

    Those are returned in a list, because ``multiprocessing`` passes them by reference.

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
    """Unpickle the result of :func:`dump`."""
    return _Unpickler(io.BytesIO(pickled), tensors).load()


def dump_registered() -> dict[str, bytes]:
    """Pickle the specs that were added to Gymnasium's registry, by id: only a fork would inherit them.

    A spec that cannot be pickled is left out.
    """
    gymnasium = sys.modules.get("gymnasium")
    found = {}
    for name, spec in [] if gymnasium is None else list(gymnasium.registry.items()):
        if not str(spec.entry_point).startswith("gymnasium.envs."):
            with contextlib.suppress(Exception):  # pickling runs code of the spec
                found[name] = cloudpickle.dumps(spec)
    return found


def load_registered(pickled: dict[str, bytes]) -> None:
    """Add the result of :func:`dump_registered` to Gymnasium's registry, except for ids that it has already.

    A spec that cannot be unpickled is left out: making its env then raises Gymnasium's own error.
    """
    if not pickled:
        return
    import gymnasium

    for name, spec in pickled.items():
        if name not in gymnasium.registry:
            with contextlib.suppress(Exception):  # such as a module that cannot be imported here
                gymnasium.registry[name] = pickle.loads(spec)


def find_unpicklable(content: Any, path: str) -> tuple[str, Any]:
    """Find the innermost part of an object that cannot be pickled, and the path that leads to it.

    Args:
        content: an object that cannot be pickled.
        path: its name.

    Example:
        >>> import threading
        >>> path, part = find_unpicklable({"name": "policy", "locks": [threading.Lock()]}, "options")
        >>> path, type(part).__name__
        ("options['locks'][0]", 'lock')
    """
    seen = {id(content)}
    while True:
        for name, part in _parts(content):
            if id(part) not in seen and not _is_picklable(part):
                path, content = path + name, part
                seen.add(id(part))
                break
        else:
            return path, content


def _parts(content: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object consists of, each with the text that follows the object's name."""
    if isinstance(content, Mapping):
        yield from ((f"[{key!r}]", value) for key, value in content.items())
    elif isinstance(content, (list, tuple)):
        yield from ((f"[{i}]", value) for i, value in enumerate(content))
    elif isinstance(content, types.FunctionType):
        cells = zip(content.__code__.co_freevars, content.__closure__ or (), strict=True)
        yield from ((f"'s variable {name!r}", cell.cell_contents) for name, cell in cells)
        globals_ = (
            (name, content.__globals__[name]) for name in content.__code__.co_names if name in content.__globals__
        )
        yield from ((f"'s variable {name!r}", value) for name, value in globals_)
    elif isinstance(content, types.MethodType):
        yield ".__self__", content.__self__
    elif isinstance(content, functools.partial):
        yield from ((".func", content.func), (".args", content.args), (".keywords", content.keywords))
    else:
        if isinstance(content, torch.nn.Module):
            yield from ((f".{name}", module) for name, module in content.named_children())
        yield from ((f".{name}", value) for name, value in getattr(content, "__dict__", {}).items())


def _is_picklable(content: Any) -> bool:
    try:
        dump(content)
    except Exception:
        return False
    return True

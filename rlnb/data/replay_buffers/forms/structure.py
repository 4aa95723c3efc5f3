"""Containers, shapes and dtypes read from plain values that somebody else may have written, without running code."""

from __future__ import annotations

import collections
import math
from collections.abc import Callable
from typing import Any

import torch

_LISTS: dict[str, Callable[[list[Any]], Any]] = {"list": list, "tuple": tuple, "deque": collections.deque}
_DICTS: dict[str, Callable[[Any], Any]] = {"dict": dict, "OrderedDict": collections.OrderedDict}
_FACTORIES: dict[str, type] = {kind.__name__: kind for kind in (dict, float, int, list, set, str, tuple)}
_KEYS = (str, int, float, bool, type(None))
# The dtypes that torch can copy, gather and write by index. Quantized ones and those below one byte cannot.
_DTYPES = [
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float16", "bfloat16"),
    *("float32", "float64", "complex32", "complex64", "complex128"),
]
STORABLE = {getattr(torch, name): name for name in _DTYPES if hasattr(torch, name)}
_MOST = 1 << 48  # no tensor has more elements
_MOST_DIMS = 64


def describe_structure(template: Any) -> Any:
    """Describe the containers of a PyTree, which has ``None`` in place of each leaf, in plain values.

    Raises ``NotImplementedError`` for a container that only code can make, which is never run to read a file.

    Example:
        >>> describe_structure((None, {"a": None}))
        {'kind': 'tuple', 'items': [None, {'kind': 'dict', 'items': [['a', None]]}]}
    """
    if template is None:
        return None
    kind = type(template).__name__
    if type(template) is collections.defaultdict:
        factory = template.default_factory
        if factory is None or factory in _FACTORIES.values():
            name = None if factory is None else factory.__name__
            return {"kind": kind, "factory": name, "items": _describe_items(template)}
    elif type(template) is _DICTS.get(kind):
        return {"kind": kind, "items": _describe_items(template)}
    elif type(template) is _LISTS.get(kind):
        more = {"maxlen": template.maxlen} if kind == "deque" else {}
        return {"kind": kind, **more, "items": [describe_structure(item) for item in template]}
    raise NotImplementedError(f"a {kind} cannot be made from a file")


def _describe_items(template: dict[Any, Any]) -> list[list[Any]]:
    return [[key, describe_structure(item)] for key, item in template.items()]


def read_structure(plain: Any) -> Any:
    """Make what :func:`describe_structure` described.

    Raises ``ValueError``, ``TypeError`` or ``KeyError`` for a description that makes no sense.

    Example:
        >>> read_structure(describe_structure((None, {"a": None})))
        (None, {'a': None})
    """
    if plain is None:
        return None
    kind, items = plain["kind"], plain["items"]
    if type(items) is not list or type(kind) is not str:
        raise ValueError("the containers of the data are not described as such")
    if kind in _LISTS:
        made = [read_structure(item) for item in items]
        if kind == "deque" and plain["maxlen"] is not None:
            return collections.deque(made, read_shape([plain["maxlen"]])[0])
        return _LISTS[kind](made)
    pairs = [(_read_key(key), read_structure(item)) for key, item in items]
    if kind == "defaultdict":
        factory = plain["factory"]
        return collections.defaultdict(None if factory is None else _FACTORIES[factory], pairs)
    if kind not in _DICTS:
        raise ValueError(f"the data is held by a {kind[:60]!r}, which cannot be made from a file")
    return _DICTS[kind](pairs)


def _read_key(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(map(_read_key, key))
    if type(key) not in _KEYS:
        raise ValueError(f"a key of the data is a {type(key).__name__}, which cannot be made from a file")
    return key


def read_shape(sizes: Any) -> torch.Size:
    """Read the shape of a tensor from a list; raises ``ValueError`` if no tensor could have it.

    Example:
        >>> read_shape([3, 2])
        torch.Size([3, 2])
    """
    if not isinstance(sizes, (list, tuple)) or len(sizes) > _MOST_DIMS:
        raise ValueError("a shape is not a list of sizes")
    if any(type(size) is not int or not 0 <= size < _MOST for size in sizes) or math.prod(sizes) >= _MOST:
        raise ValueError(f"no tensor has the shape {str(list(sizes))[:60]}")
    return torch.Size(sizes)


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name of a dtype, such as "float32"."""
    return str(dtype).removeprefix("torch.")


def dtype_named(name: str) -> torch.dtype:
    """Return the dtype of a name; raises ``ValueError`` if there is none that can be stored.

    Example:
        >>> dtype_named("float32")
        torch.float32
    """
    found = vars(torch).get(name) if isinstance(name, str) else None
    if not isinstance(found, torch.dtype) or found not in STORABLE:
        raise ValueError(f"there is no dtype {str(name)[:60]!r}")
    return found


def empty_tensor(shape: Any, dtype: str) -> torch.Tensor:
    """Make a tensor that takes no memory; raises ``ValueError`` if none could have this shape and dtype."""
    return torch.empty((), dtype=dtype_named(dtype)).expand(read_shape(shape))

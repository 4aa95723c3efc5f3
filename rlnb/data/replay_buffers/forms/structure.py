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
    """Describe the containers of a PyTree in plain values.

    Args:
        template: the PyTree, with None in place of each leaf.

    Returns:
        Plain values; :func:`read_structure` reads them.

    Raises:
        NotImplementedError: If a container is not a list, tuple, dictionary, ``OrderedDict``, ``defaultdict`` or
            ``deque``. Only code can make it, and code is never run to read a file.

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
            return {"kind": kind, "factory": name, "items": _described_items(template)}
    elif type(template) is _DICTS.get(kind):
        return {"kind": kind, "items": _described_items(template)}
    elif type(template) is _LISTS.get(kind):
        more = {"maxlen": template.maxlen} if kind == "deque" else {}
        return {"kind": kind, **more, "items": [describe_structure(item) for item in template]}
    raise NotImplementedError(f"a {kind} cannot be made from a file")


def _described_items(template: dict[Any, Any]) -> list[list[Any]]:
    return [[key, describe_structure(item)] for key, item in template.items()]


def read_structure(plain: Any) -> Any:
    """Make the containers of a PyTree from their description.

    Args:
        plain: what :func:`describe_structure` returned.

    Returns:
        The containers, with None in place of each leaf.

    Raises:
        ValueError: If it names another container, or makes no sense; it may also be a ``TypeError`` or ``KeyError``.

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
    """Read the shape of a tensor.

    Args:
        sizes: a list or tuple of integers.

    Returns:
        The shape.

    Raises:
        ValueError: If a size is not an integer, is negative, or if no memory could hold such a tensor.

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
    """Return the name of a dtype, which :func:`dtype_named` reads.

    Args:
        dtype: The dtype.

    Returns:
        The name.

    Example:
        >>> dtype_name(torch.float32)
        'float32'
    """
    return str(dtype).removeprefix("torch.")


def dtype_named(name: str) -> torch.dtype:
    """Find a dtype.

    Args:
        name: such as "float32".

    Returns:
        The dtype.

    Raises:
        ValueError: If torch has no dtype of that name, or none that can be stored.

    Example:
        >>> dtype_named("float32")
        torch.float32
    """
    found = vars(torch).get(name) if isinstance(name, str) else None
    if not isinstance(found, torch.dtype) or found not in STORABLE:
        raise ValueError(f"there is no dtype {str(name)[:60]!r}")
    return found

"""Forms read from descriptions that somebody else may have written: nothing named there is imported or called."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch.utils import _pytree as pytree

_CONTAINERS = {
    *("builtins.dict", "builtins.list", "builtins.tuple", "collections.OrderedDict", "collections.defaultdict"),
    *("collections.deque", "collections.namedtuple", "torch.Size"),
}
_FACTORIES = {"dict", "float", "int", "list", "set", "str", "tuple"}


def read_structure(text: str) -> pytree.TreeSpec:
    """Read the structure of a PyTree.

    ``torch`` imports the modules that such a text names, for the factories of dictionaries and for keys that are
    enumerations. Only what needs no import is let through.

    Args:
        text: what ``treespec_dumps`` wrote.

    Returns:
        The structure.

    Raises:
        ValueError: if it is none, or needs an import.

    Example:
        >>> read_structure(pytree.treespec_dumps(pytree.tree_structure((1, {"a": 2})))).num_leaves
        2
    """
    protocol, root = json.loads(text)
    if protocol != 1:
        raise ValueError(f"the structure of the data has the unknown protocol {protocol!r}")
    _check(root)
    return pytree.treespec_loads(text)


def _check(node: Any) -> None:
    kind, context = node["type"], node["context"]
    if kind is None:
        return
    if kind not in _CONTAINERS:
        raise ValueError(f"the data is held by a {kind!r}, which cannot be made from a file")
    if "__enum__" in json.dumps(context):
        raise ValueError("a key of the data is an enumeration, which cannot be made from a file")
    if kind == "collections.defaultdict":
        factory = context["default_factory_module"], context["default_factory_name"]
        if factory[0] != "builtins" or factory[1] not in _FACTORIES:
            raise ValueError(f"a defaultdict of {'.'.join(map(str, factory))} cannot be made from a file")
    for child in node["children_spec"]:
        _check(child)


def dtype_named(name: str) -> torch.dtype:
    """Find a dtype.

    Args:
        name: such as "float32".

    Returns:
        The dtype.

    Raises:
        ValueError: if there is none of that name.

    Example:
        >>> dtype_named("float32")
        torch.float32
    """
    found = vars(torch).get(name) if isinstance(name, str) else None
    if not isinstance(found, torch.dtype):
        raise ValueError(f"there is no dtype {name!r}")
    return found

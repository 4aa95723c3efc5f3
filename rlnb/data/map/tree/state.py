"""State dicts of trees, and trees as plain TensorDicts.

The state dict of a tensorclass cannot hold children that differ in a Python value, such as their ids.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase, is_non_tensor

from rlnb._tensordict import raw_entries
from rlnb.data.ted.columns import alike
from rlnb.data.ted.keys import nested_dict
from rlnb.data.ted.leaves import leaf_keys

if TYPE_CHECKING:
    from rlnb.data.map.tree.node import Tree

_TENSORS, _OTHERS, _CHILDREN = "_tensordict", "_non_tensordict", "subtree"
_BATCH, _DEVICE = "__batch_size", "__device"


def state_of(tree: Tree, keep_vars: bool) -> OrderedDict[str, Any]:
    """Collect the state of a node, or of a stack of nodes, and of its subtree; see :meth:`Tree.state_dict`.

    The state of a stack has that of each member under ``"0"``, ``"1"`` and so on.
    """
    if tree.batch_dims:
        return OrderedDict((str(place), state_of(node, keep_vars)) for place, node in enumerate(tree.unbind(0)))
    tensors: OrderedDict[str, Any] = OrderedDict()
    others: OrderedDict[str, Any] = OrderedDict()
    for name in _names(tree):
        value = getattr(tree, name)
        if name == _CHILDREN:
            tensors[name] = state_of(value, keep_vars)
        elif isinstance(value, (torch.Tensor, TensorDictBase)):
            tensors[name] = _state(value, keep_vars)
        else:
            others[name] = value
    return OrderedDict([(_TENSORS, tensors), (_OTHERS, others), (_BATCH, tree.batch_size)])


def _state(value: Any, keep_vars: bool) -> Any:
    """The state of an entry. TensorDict's own state dict leaves out non-tensor data."""
    if isinstance(value, TensorDictBase) and not is_non_tensor(value):
        entries = OrderedDict((name, _state(below, keep_vars)) for name, below in raw_entries(value).items())
        return OrderedDict([*entries.items(), (_BATCH, value.batch_size), (_DEVICE, value.device)])
    return value.detach() if isinstance(value, torch.Tensor) and not keep_vars else value


def _entry(state: Any) -> Any:
    """Undo :func:`_state`."""
    if not isinstance(state, Mapping):
        return state
    entries = {name: _entry(below) for name, below in state.items() if name not in (_BATCH, _DEVICE)}
    return TensorDict(entries, state[_BATCH], device=state[_DEVICE])


def flattened(state: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten a nested state into one dictionary, whose names join the nested names with dots.

    Example:
        >>> flattened({"a": {"b": 1}, "c": 2})
        {'a.b': 1, 'c': 2}
    """
    found: dict[str, Any] = {}
    for name, value in state.items():
        if isinstance(value, Mapping) and value:
            found.update(flattened(value, f"{prefix}{name}."))
        else:
            found[prefix + name] = value
    return found


def unflattened(state: Mapping[str, Any]) -> dict[str, Any]:
    """Undo :func:`flattened`."""
    return nested_dict({tuple(name.split(".")): value for name, value in state.items()})


def load_state(tree: Tree, state: Mapping[str, Any], strict: bool, assign: bool) -> None:
    """Load a state into a node or a stack of nodes; see :meth:`Tree.load_state_dict`."""
    _assert_state(tree, state, strict)
    _load(tree, state, assign)


def _fields(tree: Tree) -> list[str]:
    return [field.name for field in dataclasses.fields(type(tree)) if field.name != "_parent"]


def _names(tree: Tree) -> list[str]:
    """The fields that have a value."""
    return [name for name in _fields(tree) if getattr(tree, name) is not None]


def _assert_state(tree: Tree, state: Mapping[str, Any], strict: bool) -> None:
    if set(state) != {_TENSORS, _OTHERS, _BATCH}:
        names = list(state)
        found = (", ".join(map(repr, names[:4])) or "none") + (", ..." if len(names) > 4 else "")
        raise RuntimeError(
            'The state of a node must have the entries "_tensordict", "_non_tensordict" and "__batch_size", got: '
            f"{found}. Fix: pass a dictionary from tree.state_dict(), with from_flatten=True if it was made with "
            "flatten=True."
        )
    there, given = set(_names(tree)), {*state[_TENSORS], *state[_OTHERS]}
    if strict and there != given:
        differences = [("the node", given - there), ("the state", there - given)]
        parts = [f"{what} lacks {', '.join(map(repr, sorted(names)))}" for what, names in differences if names]
        raise RuntimeError(
            f"Node and state have different fields: {' and '.join(parts)}. "
            "Fix: tree.load_state_dict(state, strict=False), which loads the fields that the state has."
        )


def _load(tree: Tree, state: Mapping[str, Any], assign: bool) -> None:
    for name, value in state[_TENSORS].items():
        old = getattr(tree, name)
        if name == _CHILDREN:
            _load_children(tree, value, assign)
        elif isinstance(value, Mapping):
            fresh = _entry(value)
            if not assign and isinstance(old, TensorDictBase) and _alike(old, fresh):
                old.update_(fresh)
            else:
                setattr(tree, name, fresh if assign else fresh.clone())
        elif not assign and alike(old, value):
            old.copy_(value)
        else:
            setattr(tree, name, value if assign else value.clone())
    for name, value in state[_OTHERS].items():
        if getattr(tree, name) != value:
            setattr(tree, name, value)


def _load_children(tree: Tree, states: Mapping[str, Any], assign: bool) -> None:
    if tree.num_children == len(states):
        for child, state in zip(tree.subtree.unbind(0), states.values(), strict=True):
            _load(child, state, assign)
        return
    children = []
    for state in states.values():
        child = type(tree)(batch_size=state[_BATCH])
        _load(child, state, assign)
        children.append(child._tensordict)
    tree.subtree = type(tree)._from_tensordict(LazyStackedTensorDict(*children, stack_dim=0))


def _alike(old: TensorDictBase, new: TensorDictBase) -> bool:
    """Whether two TensorDicts have the same entries, all of them tensors, with the same shapes and dtypes."""
    keys = leaf_keys(old)
    same = old.batch_size == new.batch_size and set(keys) == set(leaf_keys(new))
    return same and all(alike(old.get(key), new.get(key)) for key in keys)


def as_tensordict(tree: Tree, retain_none: bool) -> TensorDictBase:
    """Copy a node, or a stack of nodes, and its subtree to plain TensorDicts; see :meth:`Tree.to_tensordict`."""
    if isinstance(tree._tensordict, LazyStackedTensorDict):
        nodes = [as_tensordict(node, retain_none) for node in tree.unbind(tree._tensordict.stack_dim)]
        return LazyStackedTensorDict(*nodes, stack_dim=tree._tensordict.stack_dim)
    result = TensorDict(batch_size=tree.batch_size, device=tree.device)
    for name in _fields(tree):
        value = getattr(tree, name)
        if name == _CHILDREN and value is not None:
            result.set(name, as_tensordict(value, retain_none))
        elif isinstance(value, TensorDictBase):
            result.set(name, value.to_tensordict())
        elif isinstance(value, torch.Tensor):
            result.set(name, value.clone())
        elif value is not None or retain_none:
            result.set_non_tensor(name, value)
    return result

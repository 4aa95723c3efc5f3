"""The state of a tree as nested dictionaries, and back.

A tensorclass's own state dict has no place for children that differ in a Python value, such as their ids.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase, is_non_tensor

from rlnb._tensordict import raw_entries
from rlnb.data.map.tree import faults
from rlnb.data.ted.leaves import leaf_keys

if TYPE_CHECKING:
    from rlnb.data.map.tree.node import Tree

    # A tensorclass gets most of its methods from its decorator.
    _Container: Any
else:
    _Container = object

_TENSORS, _OTHERS, _CHILDREN = "_tensordict", "_non_tensordict", "subtree"
_BATCH, _DEVICE = "__batch_size", "__device"


def state_of(tree: Tree, keep_vars: bool) -> OrderedDict[str, Any]:
    """The state of a node and of all below it.

    Args:
        tree: the node, or a stack of nodes.
        keep_vars: whether tensors keep their graph.

    Returns:
        For a node its tensors, TensorDicts and children under ``"_tensordict"`` and its other values under
        ``"_non_tensordict"``. For a stack the state of each member, under ``"0"``, ``"1"`` and so on.
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
    """The state of an entry. That of TensorDict itself leaves out what is no tensor."""
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


def flat(state: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Put a nested state into one dictionary.

    Args:
        state: what :func:`state_of` returned.
        prefix: put before each name.

    Returns:
        The values, by the names on the way to them with dots between.

    Example:
        >>> flat({"a": {"b": 1}, "c": 2})
        {'a.b': 1, 'c': 2}
    """
    found: dict[str, Any] = {}
    for name, value in state.items():
        if isinstance(value, Mapping) and value:
            found.update(flat(value, f"{prefix}{name}."))
        else:
            found[prefix + name] = value
    return found


def nested(state: Mapping[str, Any]) -> dict[str, Any]:
    """Undo :func:`flat`.

    Args:
        state: names with dots between their parts.

    Returns:
        Nested dictionaries.

    Example:
        >>> nested({"a.b": 1, "c": 2})
        {'a': {'b': 1}, 'c': 2}
    """
    found: dict[str, Any] = {}
    for name, value in state.items():
        *above, last = name.split(".")
        level = found
        for part in above:
            level = level.setdefault(part, {})
        level[last] = value
    return found


def load_state(tree: Tree, state: Mapping[str, Any], strict: bool, assign: bool) -> None:
    """Take a state over, into the tensors that are there where they fit.

    Args:
        tree: a node, or a stack of nodes.
        state: what :func:`state_of` returned.
        strict: whether the node must have the fields of the state, and no others.
        assign: whether to take the tensors of the state instead of their values.

    Raises:
        RuntimeError: if it is the state of something else, or with ``strict`` the fields differ. Nothing is loaded
            then.
    """
    _assert_state(tree, state, strict)
    _load(tree, state, assign)


def _names(tree: Tree) -> list[str]:
    names = [field.name for field in dataclasses.fields(type(tree)) if field.name != "_parent"]
    return [name for name in names if getattr(tree, name) is not None]


def _assert_state(tree: Tree, state: Mapping[str, Any], strict: bool) -> None:
    if set(state) != {_TENSORS, _OTHERS, _BATCH}:
        raise RuntimeError(faults.not_a_state(list(state)))
    if strict:
        there, given = set(_names(tree)), {*state[_TENSORS], *state[_OTHERS]}
        if there != given:
            raise RuntimeError(faults.other_fields(sorted(given - there), sorted(there - given)))


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
        elif not assign and isinstance(old, torch.Tensor) and old.shape == value.shape and old.dtype == value.dtype:
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
    """Whether values can be written over others."""
    keys = leaf_keys(old)
    if old.batch_size != new.batch_size or set(keys) != set(leaf_keys(new)):
        return False
    pairs = [(old.get(key), new.get(key)) for key in keys]
    return all(
        isinstance(one, torch.Tensor)
        and isinstance(other, torch.Tensor)
        and (one.shape, one.dtype) == (other.shape, other.dtype)
        for one, other in pairs
    )


def as_tensordict(tree: Tree, retain_none: bool) -> TensorDictBase:
    """Copy a node, and all below it, to plain TensorDicts.

    Args:
        tree: the node, or a stack of nodes.
        retain_none: whether fields without a value become entries.

    Returns:
        A TensorDict; for a lazy stack of nodes a lazy stack.
    """
    if isinstance(tree._tensordict, LazyStackedTensorDict):
        nodes = [as_tensordict(node, retain_none) for node in tree.unbind(tree._tensordict.stack_dim)]
        return LazyStackedTensorDict(*nodes, stack_dim=tree._tensordict.stack_dim)
    result = TensorDict(batch_size=tree.batch_size, device=tree.device)
    names = [field.name for field in dataclasses.fields(type(tree)) if field.name != "_parent"]
    for name in names:
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


class Stateful(_Container):
    """The part of :class:`Tree` that turns it into dictionaries."""

    @classmethod
    def from_pytree(
        cls,
        pytree: Any,
        *,
        batch_size: torch.Size | None = None,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
    ) -> Any:
        """Make a node of a dictionary of its fields.

        Args:
            pytree: the fields by name.
            batch_size: of the node.
            auto_batch_size: whether to find the batch size.
            batch_dims: how many dimensions to find.

        Returns:
            The node.
        """
        options: dict[str, Any] = {} if batch_dims is None else {"batch_dims": batch_dims}
        data = TensorDict.from_pytree(pytree, batch_size=batch_size, auto_batch_size=auto_batch_size, **options)
        # What kind of container it was is no field of a node.
        return cls.from_tensordict(data.exclude("_pytree_type"))

    def to_tensordict(self, *, retain_none: bool | None = True) -> TensorDictBase:
        """Copy the node, and all below it, to plain TensorDicts.

        Args:
            retain_none: whether fields without a value become entries that hold None.

        Returns:
            A TensorDict; :meth:`from_tensordict` makes a tree of it again.
        """
        return as_tensordict(self, bool(retain_none))

    def state_dict(
        self, destination: Any = None, prefix: str = "", keep_vars: bool = False, flatten: bool = False
    ) -> dict[str, Any]:
        """The state of the node and of all below it.

        Args:
            destination: a dictionary to write to; None for a new one.
            prefix: put before each name.
            keep_vars: whether tensors keep their graph.
            flatten: whether to put all into one dictionary, with dots between the names on the way to a value.

        Returns:
            Tensors, TensorDicts and children under ``"_tensordict"``, other values under ``"_non_tensordict"``.
        """
        found = state_of(self, keep_vars)
        state = {prefix + name: value for name, value in (flat(found) if flatten else found).items()}
        if destination is None:
            return state
        destination.update(state)
        return destination

    def load_state_dict(
        self, state_dict: dict[str, Any], strict: bool = True, assign: bool = False, from_flatten: bool = False
    ) -> Any:
        """Take a state over, into the tensors that are there where they fit.

        Args:
            state_dict: what :meth:`state_dict` returned.
            strict: whether the node must have the fields of the state, and no others.
            assign: whether to take the tensors themselves instead of their values.
            from_flatten: whether the state was asked for with ``flatten=True``.

        Returns:
            This node.

        Raises:
            RuntimeError: if it is the state of something else, or with ``strict`` the fields differ.
        """
        load_state(self, nested(state_dict) if from_flatten else state_dict, strict, assign)
        return self

"""Helpers for Composites: inference of a spec from data, and exclusive keys of lazy stacks."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import LazyStackedTensorDict, NonTensorData, NonTensorStack, TensorDictBase, is_tensor_collection

from rlnb._tensordict import raw_entries
from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.non_tensor import NonTensor
from rlnb.data.specs.stacked import LazyStack
from rlnb.data.specs.stacked_composite import StackedComposite, stack_specs
from rlnb.data.specs.unbounded import Unbounded


def make_composite_from_td(
    data: TensorDictBase, *, unsqueeze_null_shapes: bool = True, dynamic_shape: bool = False
) -> Composite:
    """Return the spec of a TensorDict: ``Unbounded`` for each tensor, ``NonTensor`` for other data.

    Args:
        data: the TensorDict, or an instance of a tensorclass. A lazy stack becomes a stack of specs.
        unsqueeze_null_shapes: whether a tensor without dims gets the shape ``(1,)``, like rewards and flags.
        dynamic_shape: whether the last dim of each tensor is of variable size (-1), unless it is a batch dim.

    Raises:
        TypeError: If ``data`` is not a TensorDict.

    Example:
        >>> from tensordict import TensorDict
        >>> data = TensorDict({"observation": torch.zeros(3), "next": {"reward": torch.zeros(1)}})
        >>> spec = make_composite_from_td(data)
        >>> spec["next", "reward"].shape, spec.is_in(data)
        (torch.Size([1]), True)
    """
    if not _is_dict_like(data):
        raise TypeError(
            f"make_composite_from_td: expected a TensorDict, got a {type(data).__name__}. "
            "Wrap tensors: TensorDict({...}, batch_size=...)."
        )
    inner = getattr(data, "_tensordict", data)
    if isinstance(inner, LazyStackedTensorDict):
        # In the stack, a tensor without dims has one.
        parts = [
            make_composite_from_td(part, unsqueeze_null_shapes=False, dynamic_shape=dynamic_shape)
            for part in data.unbind(inner.stack_dim)
        ]
        stacked: Composite = stack_specs(parts, inner.stack_dim)
        return stacked
    entries: dict[str, TensorSpec] = {}
    for name, value in raw_entries(data).items():
        if isinstance(value, (NonTensorData, NonTensorStack)):
            example = value.data if isinstance(value, NonTensorData) else _first_of(value)
            entries[name] = NonTensor(value.batch_size, value.device, example_data=example)
        elif _is_dict_like(value):
            entries[name] = make_composite_from_td(
                value, unsqueeze_null_shapes=unsqueeze_null_shapes, dynamic_shape=dynamic_shape
            )
        elif value.is_nested:
            entries[name] = stack_specs([Unbounded(t.shape, device=t.device, dtype=t.dtype) for t in value.unbind()])
        else:
            shape = value.shape if len(value.shape) or not unsqueeze_null_shapes else torch.Size((1,))
            if dynamic_shape and len(shape) > data.ndim:
                shape = torch.Size((*shape[:-1], -1))
            entries[name] = Unbounded(shape, device=value.device, dtype=value.dtype)
    data_cls = None if isinstance(data, TensorDictBase) else type(data)
    return Composite(entries, shape=data.batch_size, device=data.device, data_cls=data_cls)


def _is_dict_like(value: Any) -> bool:
    return is_tensor_collection(value) and not isinstance(value, (NonTensorData, NonTensorStack))


def _first_of(value: Any) -> Any:
    return _first_of(value.unbind(0)[0]) if isinstance(value, NonTensorStack) else value.data


def consolidate_spec(
    spec: Composite, recurse_through_entries: bool = True, recurse_through_stack: bool = True
) -> Composite:
    """Return the spec without exclusive keys: members that lack a key of another member get an empty entry for it.

    The dims of an empty entry after the batch dims have size 0. An entry without such dims (a single number, a one-hot
    vector, data that is not a tensor) is copied as it is. A nested Composite keeps its batch size and gets empty
    entries.

    Args:
        spec: the spec, which is not changed.
        recurse_through_entries: whether to include nested Composites.
        recurse_through_stack: whether to include lazy stacks in the members of lazy stacks.

    Example:
        >>> from rlnb.data import Unbounded
        >>> spec = torch.stack([Composite(a=Unbounded(3)), Composite(a=Unbounded(3), b=Unbounded(2))])
        >>> consolidate_spec(spec)[0]["b"].shape
        torch.Size([0])
        >>> check_no_exclusive_keys(spec), check_no_exclusive_keys(consolidate_spec(spec))
        (False, True)
    """
    new = spec.clone()
    _consolidate(new, recurse_through_entries, recurse_through_stack)
    return new


def _consolidate(spec: Composite, entries: bool, stack: bool) -> None:
    if not isinstance(spec, StackedComposite):
        for part in spec.values() if entries else ():
            if isinstance(part, Composite):
                _consolidate(part, entries, stack)
        return
    if stack:
        for member in spec.specs:
            _consolidate(member, entries, stack)
    every = {name: member[name] for member in reversed(spec.specs) for name in member.keys()}  # noqa: SIM118 - iteration is over rows
    for member in spec.specs:
        for name, part in every.items():
            if name not in member:
                member.set(name, None if part is None else _emptied(part, member.ndim))
    if entries:
        for part in _stacked_entries(spec):
            _consolidate(part, entries, stack)


def _stacked_entries(spec: StackedComposite) -> list[StackedComposite]:
    """List the nested Composites that all members have and that can be stacked."""
    found = []
    for name in spec.keys():  # noqa: SIM118 - iteration is over rows
        parts = [member[name] for member in spec.specs]
        if all(isinstance(part, Composite) and part.shape == parts[0].shape for part in parts):
            found.append(spec[name])
    return found


def _emptied(spec: TensorSpec, batch_dims: int) -> TensorSpec:
    """Return the spec with size 0 in the dims after the batch dims."""
    new = spec.clone()
    if isinstance(new, StackedComposite):
        members = [_emptied(member, member.ndim) for member in new.specs]
        return StackedComposite(*members, dim=new.stack_dim)  # type: ignore[arg-type]  # members of Composites are Composites
    if isinstance(new, Composite):
        for name, part in new.items():
            if part is not None:
                new.set(name, _emptied(part, new.ndim))
        return new
    free = spec.ndim - spec._event_dims - batch_dims
    # A lazy stack cannot be empty: it has at least one member.
    if isinstance(spec, LazyStack) or free <= 0:
        return new
    empty: TensorSpec = spec[(*[slice(None)] * batch_dims, *[slice(0, 0)] * free)]
    return empty


def check_no_exclusive_keys(spec: TensorSpec, recurse: bool = True) -> bool:
    """Return whether every member of a lazy stack, and with ``recurse`` of the nested ones, has the keys of all others.

    Args:
        spec: any spec. One that is neither a Composite nor a stack of them has no keys, so the answer is True.
        recurse: whether to look at nested Composites too.

    Example:
        >>> spec = torch.stack([Composite(a=None), Composite(a=None, b=None)])
        >>> check_no_exclusive_keys(spec)
        False
    """
    if not isinstance(spec, Composite):
        return True
    parts: list[Any] = list(spec.specs) if isinstance(spec, StackedComposite) else []
    if isinstance(spec, StackedComposite):
        if any(spec.exclusive_keys()):
            return False
        parts += _stacked_entries(spec)
    else:
        parts += list(spec.values())
    return not recurse or all(check_no_exclusive_keys(part) for part in parts if part is not None)


def contains_lazy_spec(spec: TensorSpec) -> bool:
    """Return whether the spec is, or contains, a lazy stack.

    Args:
        spec: any spec. Entries of Composites and members of Choices are looked at too.

    Example:
        >>> from rlnb.data import Categorical
        >>> contains_lazy_spec(Composite(a=torch.stack([Categorical(2), Categorical(3)])))
        True
    """
    if isinstance(spec, LazyStack):
        return True
    parts = spec.values() if isinstance(spec, Composite) else getattr(spec, "choices", ())
    return any(contains_lazy_spec(part) for part in parts if part is not None)

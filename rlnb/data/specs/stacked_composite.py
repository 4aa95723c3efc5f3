"""StackedComposite, the spec of a lazy stack of TensorDicts whose specs differ; and ``torch.stack`` of specs."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from tensordict import lazy_stack

from rlnb._text import printable
from rlnb.data.specs import tensordicts
from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite, Lock, check_is_spec
from rlnb.data.specs.keys import MISSING, KeyList, SpecKeyError, as_path
from rlnb.data.specs.non_tensor import NonTensor
from rlnb.data.specs.normalize import Device
from rlnb.data.specs.stacked import LazyStack, Stacked
from rlnb.data.specs.variable import fits_shape, shape_text
from rlnb.data.specs.violations import Frame, Violation
from rlnb.data.ted.keys import NestedKey, as_key


class StackedComposite(LazyStack, Composite):
    """A lazy stack of Composites of one shape that differ in their keys or entries. ``torch.stack`` creates it.

    Its keys are those that all members have. The others are *exclusive* and are read from the member:
    ``spec[0]["x"]``. An entry is the stack of the members' entries: dense if they are equal, else a ``Stacked`` (in
    which differing sizes show as -1) or a StackedComposite. Values are lazy stacks (``tensordict.lazy_stack``) with one
    TensorDict for each member.

    Writing an entry writes a part of it to each member, and locking locks the members. For Python and NumPy, a value is
    a tuple with one dictionary for each member.

    Args:
        *specs: the members, which must have the same shape.
        dim: the position of the stack's dim in the shape.

    Raises:
        ValueError: If there are no members, or their shapes differ.

    Example:
        >>> from rlnb.data import Bounded, Unbounded
        >>> walker = Composite(observation=Bounded(-1, 1, shape=(3,)))
        >>> flyer = Composite(observation=Bounded(-1, 1, shape=(5,)), height=Unbounded(1))
        >>> spec = torch.stack([walker, flyer])
        >>> spec.keys(), spec["observation"].shape, spec[1].keys()
        (['observation'], torch.Size([2, -1]), ['observation', 'height'])
        >>> spec.rand()[1]["height"].shape
        torch.Size([1])
    """

    _data_cls = None
    _as_tuple = None
    step_mdp_static = False

    def __init__(self, *specs: Composite, dim: int) -> None:
        for i, spec in enumerate(specs):
            if not isinstance(spec, Composite):
                raise ValueError(
                    f"torch.stack needs specs of one kind: number 0 is {type(specs[0]).__name__}, number {i} is "
                    f"{type(spec).__name__}."
                )
            if spec.shape != specs[0].shape:
                raise ValueError(
                    f"torch.stack needs Composites of one shape: number 0 has {shape_text(specs[0].shape)}, number {i} "
                    f"has {shape_text(spec.shape)}. Expand them first: spec.expand(...)."
                )
        self._set_members(specs, dim)
        self._dtype = None

    # Reading ------------------------------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        first, *others = (member._names() for member in self._members)
        return [name for name in first if all(name in names for names in others)]

    def _child(self, name: str) -> Any:
        parts = [member._child(name) for member in self._members]
        if any(part is MISSING for part in parts):
            return MISSING
        if all(part is None for part in parts):
            return None
        kinds = [type(part).__name__ for part in parts]
        if any(isinstance(part, Composite) for part in parts):
            # Always a stack of the members' own entries, so that a write reaches them.
            if all(isinstance(part, Composite) for part in parts):
                return self._restacked(parts, self._stack_dim)
        elif len(set(kinds)) == 1:
            return torch.stack(parts, self._stack_dim)
        raise ValueError(
            f"{name!r} has specs of different kinds in the members ({', '.join(kinds)}), which cannot be stacked. "
            f"Read it from a member: spec[0][{name!r}]."
        )

    def keys(self, include_nested: bool = False, leaves_only: bool = False, **options: Any) -> list[NestedKey]:
        """List the keys that all members have, in the first member's order; see ``Composite.keys``."""
        first, *others = (member.keys(include_nested, leaves_only, **options) for member in self._members)
        return KeyList(key for key in first if all(key in keys for keys in others))

    def items(self, include_nested: bool = False, leaves_only: bool = False, **options: Any) -> Any:
        """List pairs of key and stacked spec; see ``keys`` for the arguments."""
        return [(key, self[key]) for key in self.keys(include_nested, leaves_only, **options)]

    def values(self, include_nested: bool = False, leaves_only: bool = False, **options: Any) -> list[Any]:
        """List the stacked specs; see ``keys`` for the arguments."""
        return [self[key] for key in self.keys(include_nested, leaves_only, **options)]

    def exclusive_keys(self) -> list[list[str]]:
        """List for each member the keys that not all members have.

        Example:
            >>> torch.stack([Composite(x=None), Composite(x=None, y=None)]).exclusive_keys()
            [[], ['y']]
        """
        shared = set(self._names())
        return [[name for name in member._names() if name not in shared] for member in self._members]

    def __contains__(self, key: object) -> bool:
        return all(key in member for member in self._members)

    def is_empty(self, recurse: bool = False) -> bool:
        """Return whether no member has keys; with ``recurse``, nested Composites that are empty do not count."""
        return all(member.is_empty(recurse) for member in self._members)

    def __getitem__(self, index: Any) -> Any:
        """Return the stacked spec at a key. Any other index applies to the batch dims.

        Raises:
            KeyError: If not all members have the key.
            IndexError: If the index has more dims than the batch size.
        """
        return Composite.__getitem__(self, index)

    def _no_key(self, key: Any) -> SpecKeyError:
        having = [i for i, member in enumerate(self._members) if key in member]
        error = super()._no_key(key)
        if not having:
            return error
        text = str(error).partition(" Did you mean")[0]
        return SpecKeyError(f"{text} Only the members {having} have it: spec[{having[0]}][{key!r}].")

    # Writing and locking ------------------------------------------------------------------------------------------

    def _put(self, path: tuple[str, ...], spec: Any, full: tuple[str, ...]) -> None:
        if isinstance(spec, Mapping):
            spec = Composite(spec, shape=self._shape)
        if spec is not None:
            check_is_spec(spec, full)
        if spec is not None and spec.shape[: self.ndim] != self._shape:
            raise ValueError(
                f"{as_key(full)!r}: expected a shape that begins with {shape_text(self._shape)}, the shape of the "
                f"stack, got {shape_text(spec.shape)} ({type(spec).__name__}). Give the spec a batch dimension: "
                f"spec.expand({', '.join(map(str, (*self._shape, *spec.shape)))}); or write to one member: "
                f"spec[0].set({as_key(full)!r}, ...)."
            )
        parts = [None] * len(self._members) if spec is None else spec.unbind(self._stack_dim)
        # Tried on copies first, so that all members change or none.
        for member, part in zip(self._members, parts, strict=True):
            member.clone()._put(path, part, full)
        for member, part in zip(self._members, parts, strict=True):
            member._put(path, part, full)

    def __delitem__(self, key: NestedKey) -> None:
        """Remove a key from all members that have it; at least one must have it."""
        path = as_path(key)
        self._check_unlocked_to(path, f"delete {as_key(path)!r}")
        having = [member for member in self._members if key in member]
        if not having:
            raise self._no_key(key)
        for member in having:
            member._take(path)

    def _take(self, path: tuple[str, ...]) -> Any:
        taken = self.get(as_key(path))
        for member in self._members:
            member._take(path)
        return taken

    def _adopt(self, other: Any) -> None:
        for member, new in zip(self._members, other._members, strict=True):
            member._adopt(new)

    def _become(self, other: Any) -> None:
        for member, new in zip(self._members, other._members, strict=True):
            member._become(new)
        self._set_members(self._members, self._stack_dim)

    def _filtered(self, keep: Any, keep_empty: bool, prefix: tuple[str, ...] = ()) -> Self:
        return self._restacked([m._filtered(keep, keep_empty, prefix) for m in self._members], self._stack_dim)

    def empty(self) -> Self:
        """Return a stack of the same shape without keys."""
        return self._restacked([member.empty() for member in self._members], self._stack_dim)

    @property
    def is_locked(self) -> bool:
        """Whether any of the members refuses writes."""
        return any(member.is_locked for member in self._members)

    def _set_lock(self, locked: bool, recurse: bool, owner: Lock | None = None) -> None:
        for member in self._members:
            member._set_lock(locked, recurse, owner)

    def _check_can_unlock(self) -> None:
        for member in self._members:
            member._check_can_unlock()

    def _check_unlocked_to(self, path: tuple[str, ...], action: str) -> None:
        for member in self._members:
            member._check_unlocked_to(path, action)

    # Values -------------------------------------------------------------------------------------------------------

    def _join(self, values: list[Any], lead: int) -> Any:
        return lazy_stack(values, lead + self._stack_dim)

    def _parts(self, value: Any, at: int) -> Sequence[Any] | None:
        size = value.batch_size
        return value.unbind(at) if at < len(size) and size[at] == len(self._members) else None

    def _split(self, value: Any, frame: Frame) -> tuple[Sequence[Any] | None, Frame]:
        """Return the members' values, as ``_parts`` does, and the frame with the leading sizes of ``value``."""
        if frame.lead is None:
            frame = frame.bind(self._shape, value.batch_size)
        return self._parts(value, frame.stack_position(self._stack_dim)), frame

    def _accepts(self, value: Any, lead: torch.Size | None) -> bool:
        if not self._is_data(value):
            return False
        parts, frame = self._split(value, Frame(lead))
        if parts is None or (lead is None and len(value.batch_size) != len(frame.lead or ()) + self.ndim):
            return False
        return all(spec._accepts(part, frame.lead) for spec, part in zip(self._members, parts, strict=True))

    def _violations(self, value: Any, key: tuple[str, ...], frame: Frame) -> list[Violation]:
        if not self._is_data(value):
            return [tensordicts.wrong_type(value, None, key)]
        got = value.batch_size
        expected = frame.expected(self._shape, got)
        parts, frame = self._split(value, frame)
        if parts is None or not fits_shape(got if not key else got[: len(expected)], expected):
            fix = "Stack one TensorDict for each member: tensordict.lazy_stack([...], dim)."
            return [Violation(key, "shape", f"(batch size) {shape_text(expected)}", str(list(got)), fix=fix)]
        return self._member_violations(parts, key, frame)

    def _parts_and_lead(self, value: Any) -> tuple[Sequence[Any] | None, int]:
        parts, frame = self._split(value, Frame())
        return parts, len(frame.lead or ())

    def _members_of(self, value: Any, call: str) -> tuple[Sequence[Any], int]:
        if not self._is_data(value):
            raise TypeError(f"StackedComposite.{call}: " + self._messages(value)[0])
        return super()._members_of(value, call)

    def adapt(self, value: Any) -> Any:
        """Return ``value`` with each member's part adapted, or ``value`` itself if nothing changes."""
        parts, lead = self._parts_and_lead(value) if self._is_data(value) else (None, 0)
        if parts is None:
            return value
        adapted = [spec.adapt(part) for spec, part in zip(self._members, parts, strict=True)]
        return value if all(map(operator.is_, adapted, parts)) else self._join(adapted, lead)

    def _projection(self, value: Any) -> list[tuple[Any, NestedKey, Any]]:
        parts, lead = self._members_of(value, "project")
        pairs = list(zip(self._members, parts, strict=True))
        changes: list[tuple[Any, NestedKey, Any]] = [c for spec, part in pairs for c in spec._projection(part)]
        if not changes or getattr(value, "stack_dim", None) == lead + self._stack_dim:
            return changes  # the parts of such a lazy stack are its members themselves
        fixed = [part.copy() for part in parts]
        for spec, part in zip(self._members, fixed, strict=True):
            spec.project(part)
        joined = self._join(fixed, lead)
        return [(value, key, joined.get(key)) for key in joined.keys(True, True)]

    @property
    def _gives_tuple(self) -> bool:
        return True

    def encode(self, val: Any, *, check: bool = True, ignore_device: bool = False) -> Any:
        """Convert a list with one dictionary for each member, or a TensorDict, to a lazy stack."""
        values = self._members_of(val, "encode")[0] if self._is_data(val) else val
        encoded = self._encoded(values, check=check, ignore_device=ignore_device)
        sizes = {tuple(part.batch_size) for part in encoded}
        if len(sizes) > 1:
            raise ValueError(
                f"StackedComposite.encode: the members' values have different batch sizes: {sorted(sizes)}."
            )
        return self._join(encoded, encoded[0].ndim - self.ndim + 1)

    def type_check(self, value: Any, key: Any = None, selected_keys: Any = None) -> None:
        """Raise unless each entry has the dtype of its spec; see ``Composite.type_check``."""
        if key is not None:
            self[key].type_check(value, key)
            return
        for spec, part in zip(self._members, self._members_of(value, "type_check")[0], strict=True):
            spec.type_check(part, selected_keys=selected_keys)

    # Shape and device ---------------------------------------------------------------------------------------------

    def _check_size(self, size: torch.Size, prefix: tuple[str, ...]) -> None:
        at = self._stack_dim
        if len(size) <= at or size[at] != len(self._members):
            raise ValueError(
                f"expected a batch size with {len(self._members)} at dim {at}, where the members are stacked, got "
                f"{list(size)}."
            )
        for member in self._members:
            member._check_size(size[:at] + size[at + 1 :], prefix)

    def _set_size(self, size: torch.Size) -> None:
        for member in self._members:
            member._set_size(size[: self._stack_dim] + size[self._stack_dim + 1 :])
        self._set_members(self._members, self._stack_dim)

    @property
    def device(self) -> torch.device | None:
        """The device of all entries; None if the members differ, or have none. May be assigned."""
        devices = {member.device for member in self._members}
        return devices.pop() if len(devices) == 1 else None

    @device.setter
    def device(self, device: Device) -> None:
        self._check_unlocked(f"set its device to {device}")
        for member in self._members:
            member.device = device

    def _clear_device(self) -> None:
        for member in self._members:
            member._clear_device()

    __hash__ = Composite.__hash__

    # Text ---------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        fields = "".join(f"\n{_entry(name, self._shown(name))}," for name in self._names()).rstrip(",")
        parts = f"fields={{{_indent(fields)}}},\n{self._exclusive_text()},"
        about = f"device={self.device},\nshape={self._shape},\nstack_dim={self._stack_dim})"
        return "StackedComposite(" + _indent(f"\n{parts}\n{about}")

    def repr_exclusive_keys(self) -> str:
        """Return the part of the repr that shows the entries which not all members have."""
        return _indent("\n" + self._exclusive_text()).removeprefix("\n")

    def _exclusive_text(self) -> str:
        exclusive = ""
        for i, (names, member) in enumerate(zip(self.exclusive_keys(), self._members, strict=True)):
            if names:
                lines = "".join(f"\n{_entry(name, repr(member[name]))}," for name in names).rstrip(",")
                exclusive += f"\n{i} ->{_indent(lines)},"
        return f"exclusive_fields={{{_indent(exclusive.rstrip(','))}}}"

    def _shown(self, name: str) -> str:
        try:
            return repr(self._child(name))
        except ValueError:
            return "<" + ", ".join(type(member[name]).__name__ for member in self._members) + ">"


def _entry(name: str, text: str) -> str:
    return f"{printable(name, one_line=True)}: {text}"


def _indent(text: str) -> str:
    return text.replace("\n", "\n    ")


def stack_specs(specs: Sequence[TensorSpec], dim: int = 0) -> Any:
    """Stack leaf specs of one class, or Composites of one shape, along a new dim, like ``torch.stack``.

    Returns a spec of their class if they are equal; a ``Stacked`` or ``StackedComposite`` otherwise.

    Example:
        >>> from rlnb.data import Categorical
        >>> stack_specs([Categorical(3), Categorical(3)]).shape
        torch.Size([2])
        >>> stack_specs([Categorical(3), Categorical(4)])
        StackedCategorical(
            shape=torch.Size([2]), device=cpu, dtype=torch.int64, domain=discrete)
    """
    if not specs:
        raise ValueError("torch.stack needs at least one spec, got none.")
    first, others = specs[0], specs[1:]
    if all(_stacks_densely(first, other) for other in others):
        return first._stack(others, dim)
    lazy: Any = StackedComposite if isinstance(first, Composite) else Stacked
    return lazy(*specs, dim=dim)


def _stacks_densely(first: Any, other: Any) -> bool:
    """Return whether the stack of two specs is a spec of the same class with one more dim.

    The example data of ``NonTensor`` is not compared: the stack gets that of the first spec.
    """
    if type(first) is not type(other):
        return False
    if isinstance(first, NonTensor):
        return bool(first == other._with(example_data=first.example_data))
    if not isinstance(first, Composite) or isinstance(first, LazyStack):
        return bool(first == other)
    about = ("shape", "device", "data_cls", "_gives_tuple")
    return (
        all(getattr(first, name) == getattr(other, name) for name in about)
        and set(first.keys()) == set(other.keys())
        and all(_stacks_densely(first[key], other[key]) for key in first.keys())  # noqa: SIM118 - iteration is over rows
    )

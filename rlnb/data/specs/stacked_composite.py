"""StackedComposite: a lazy stack of Composites that differ."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from tensordict import lazy_stack

from rlnb._text import printable
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.normalize import Key
from rlnb.data.specs.stacked_keys import StackedKeys
from rlnb.data.specs.variable import fits_shape, shape_text
from rlnb.data.specs.violations import Frame, Violation


class StackedComposite(StackedKeys):
    """Composites of one shape side by side that differ in their keys or entries. ``torch.stack`` makes it.

    Its keys are those that all members have; the others are *exclusive*, and are read from the member:
    ``spec[0]["x"]``. An entry is the stack of the members' entries: dense where they are equal, else a `Stacked`, where
    differing sizes show as -1, or a StackedComposite. Values are lazy stacks (``tensordict.lazy_stack``), each part as
    its member says.

    Writing writes into the members, one part of the spec each. Python and numpy see a tuple with one dictionary for
    each member.

    Args:
        *specs: the members, of one shape.
        dim: where the stack's dim is in the shape.

    Raises:
        ValueError: there are no members, or their shapes differ.

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
    step_mdp_static = False
    _as_tuple = None

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

    # Values -------------------------------------------------------------------------------------------------------

    @property
    def _gives_tuple(self) -> bool:
        return True

    def _join(self, values: list[Any], lead: int) -> Any:
        return lazy_stack(values, lead + self._stack_dim)

    def _parts(self, value: Any, at: int) -> Sequence[Any] | None:
        size = value.batch_size
        return value.unbind(at) if at < len(size) and size[at] == len(self._members) else None

    def _bound(self, value: Any, frame: Frame) -> Frame:
        return frame.bind(self._shape, value.batch_size) if frame.lead is None else frame

    def _accepts(self, value: Any, lead: torch.Size | None) -> bool:
        if not self._is_data(value):
            return False
        frame = self._bound(value, Frame(lead))
        assert frame.lead is not None
        expected = frame.expected(self._shape, value.batch_size)
        if lead is None and len(value.batch_size) != len(expected):
            return False
        parts = self._parts(value, frame.stack_position(self._stack_dim))
        if parts is None:
            return False
        return all(spec._accepts(part, frame.lead) for spec, part in zip(self._members, parts, strict=True))

    def _violations(self, value: Any, key: tuple[str, ...], frame: Frame) -> list[Violation]:
        if not self._is_data(value):
            return [self._wrong_type(value, key)]
        got = value.batch_size
        expected = frame.expected(self._shape, got)
        frame = self._bound(value, frame)
        parts = self._parts(value, frame.stack_position(self._stack_dim))
        if parts is None or not fits_shape(got if not key else got[: len(expected)], expected):
            fix = "Stack one TensorDict for each member: tensordict.lazy_stack([...], dim)."
            return [Violation(key, "shape", f"(batch size) {shape_text(expected)}", str(list(got)), fix=fix)]
        return self._member_violations(parts, key, frame)

    def _members_of(self, value: Any, call: str) -> tuple[Sequence[Any], int]:
        """Take a TensorDict apart, and say how many leading dims it has."""
        if not self._is_data(value):
            raise TypeError(f"StackedComposite.{call}: " + self._complaints(value)[0])
        frame = self._bound(value, Frame(None))
        assert frame.lead is not None
        parts = self._parts(value, frame.stack_position(self._stack_dim))
        if parts is None:
            raise ValueError(f"StackedComposite.{call}: " + self._complaints(value)[0])
        return parts, len(frame.lead)

    def adapt(self, value: Any) -> Any:
        """Return ``value`` with each member's part adapted; ``value`` itself when that changes nothing."""
        frame = self._bound(value, Frame(None)) if self._is_data(value) else Frame(None)
        parts = None if frame.lead is None else self._parts(value, frame.stack_position(self._stack_dim))
        if parts is None or frame.lead is None:
            return value
        adapted = [spec.adapt(part) for spec, part in zip(self._members, parts, strict=True)]
        return value if all(map(operator.is_, adapted, parts)) else self._join(adapted, len(frame.lead))

    def project(self, val: Any) -> Any:
        """Project each member's part in place, and return ``val``; see `Composite.project`.

        Raises:
            KeyError: a key of a member is missing.
            TypeError: ``val`` is no TensorDict, or an entry has the wrong type.
            ValueError: a shape does not fit.
        """
        return super().project(val)

    def _projection(self, value: Any) -> list[tuple[Any, Key, Any]]:
        parts, lead = self._members_of(value, "project")
        pairs = list(zip(self._members, parts, strict=True))
        changes: list[tuple[Any, Key, Any]] = [c for spec, part in pairs for c in spec._projection(part)]
        if not changes or getattr(value, "stack_dim", None) == lead + self._stack_dim:
            return changes  # the parts of such a lazy stack are its members themselves
        fixed = [part.copy() for part in parts]
        for spec, part in zip(self._members, fixed, strict=True):
            spec.project(part)
        joined = self._join(fixed, lead)
        return [(value, key, joined.get(key)) for key in joined.keys(True, True)]

    def encode(self, val: Any, *, check: bool = True, ignore_device: bool = False) -> Any:
        """Turn a list with one dictionary for each member into a lazy stack.

        Args:
            val: a list or tuple of what the members' ``encode`` takes, or a TensorDict.
            check: whether to raise for a value outside the domain.
            ignore_device: whether to leave tensors on the device where they are.

        Raises:
            ValueError: there are more or fewer values than members, or one does not fit.
        """
        values = self._members_of(val, "encode")[0] if self._is_data(val) else self._values_for_members(val)
        encoded = [
            spec.encode(part, check=check, ignore_device=ignore_device)
            for spec, part in zip(self._members, values, strict=True)
        ]
        sizes = {tuple(part.batch_size) for part in encoded}
        if len(sizes) > 1:
            raise ValueError(
                f"StackedComposite.encode: the members' values have different batch sizes: {sorted(sizes)}."
            )
        return self._join(encoded, encoded[0].ndim - self.ndim + 1)

    def to_numpy(self, val: Any, safe: bool | None = True) -> tuple[Any, ...]:
        """Turn a TensorDict into a tuple with one dictionary for each member.

        Args:
            val: a TensorDict of the spec.
            safe: whether to raise for one that is not in the spec.

        Raises:
            ValueError: the TensorDict is not in the spec.
        """
        if safe:
            self._check_fits(val, "to_numpy")
        parts, _ = self._members_of(val, "to_numpy")
        return tuple(spec.to_numpy(part, safe=False) for spec, part in zip(self._members, parts, strict=True))

    def type_check(self, value: Any, key: Any = None, selected_keys: Any = None) -> None:
        """Raise unless each entry has its spec's dtype.

        Args:
            value: a TensorDict, or one entry of it when ``key`` is given.
            key: the key of that entry.
            selected_keys: the keys of this level to look at; None for all.

        Raises:
            KeyError: a key is missing.
            TypeError: a dtype differs.
        """
        if key is not None:
            self[key].type_check(value, key)
            return
        for spec, part in zip(self._members, self._members_of(value, "type_check")[0], strict=True):
            spec.type_check(part, selected_keys=selected_keys)

    # Shape --------------------------------------------------------------------------------------------------------

    def _refuse_size(self, size: torch.Size, prefix: tuple[str, ...]) -> None:
        at = self._stack_dim
        if len(size) <= at or size[at] != len(self._members):
            raise ValueError(
                f"expected a batch size with {len(self._members)} at dim {at}, where the members are stacked, got "
                f"{list(size)}."
            )
        for member in self._members:
            member._refuse_size(size[:at] + size[at + 1 :], prefix)

    def _set_size(self, size: torch.Size) -> None:
        for member in self._members:
            member._set_size(size[: self._stack_dim] + size[self._stack_dim + 1 :])
        self._set_members(self._members, self._stack_dim)

    def __repr__(self) -> str:
        fields = "".join(f"\n{_entry(name, self._shown(name))}," for name in self._names()).rstrip(",")
        parts = f"fields={{{_indent(fields)}}},\n{self._exclusive_text()},"
        about = f"device={self.device},\nshape={self._shape},\nstack_dim={self._stack_dim})"
        return "StackedComposite(" + _indent(f"\n{parts}\n{about}")

    def repr_exclusive_keys(self) -> str:
        """Return the part of the text that shows the entries which not all members have."""
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


__all__ = ["StackedComposite"]

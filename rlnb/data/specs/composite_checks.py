"""CompositeChecks: whether a TensorDict fits a Composite, what is wrong with it, and its projection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from tensordict import NonTensorData, NonTensorStack, TensorDictBase, is_tensor_collection

from rlnb._tensordict import raw_entries
from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite_keys import SpecKeyError, unknown_key
from rlnb.data.specs.composite_shapes import CompositeShapes
from rlnb.data.specs.normalize import Key
from rlnb.data.specs.variable import fits_shape, shape_text
from rlnb.data.specs.violations import Frame, Violation, format_key


class CompositeChecks(CompositeShapes):
    """The checking side of `Composite`."""

    _data_cls: type | None

    def _is_data(self, value: Any) -> bool:
        """Whether ``value`` is a TensorDict, or of the tensorclass that the Composite describes."""
        if self._data_cls is not None:
            return isinstance(value, self._data_cls)
        return isinstance(value, TensorDictBase) or (
            is_tensor_collection(value) and not isinstance(value, (NonTensorData, NonTensorStack))
        )

    def _accepts(self, value: Any, lead: torch.Size | None) -> bool:
        if not self._is_data(value):
            return False
        got, own = value.batch_size, self._shape
        if lead is None:
            extra = len(got) - len(own)
            if extra < 0 and len(got) and _names_enough(got, own, True):
                extra, own = 0, own[: len(got)]
            if extra < 0 or (got[extra:] != own and not fits_shape(got[extra:], own)):
                return False
            lead = got[:extra]
        else:
            expected = lead + own if lead else own
            begin = got[: len(expected)]
            if len(begin) < len(expected) and len(begin) > len(lead):
                expected = expected[: len(begin)]
            if begin != expected and not fits_shape(begin, expected):
                return False
        entries = _entries(value)
        if entries is None:
            rows = self._row_specs(value, Frame(lead))
            return rows is not None and all(spec._accepts(row, frame.lead) for spec, row, frame in rows)
        for key, spec in self._specs.items():
            if spec is not None and (key not in entries or not spec._accepts(entries[key], lead)):
                return False
        return True

    def _row_specs(self, value: Any, frame: Frame) -> list[tuple[Self, Any, Frame]] | None:
        """Pair each row of a lazy stack without a common form with its spec and frame; None when it has too many dims.

        Args:
            value: the stack, whose batch size fits.
            frame: the leading and time dims of ``value``.
        """
        at, lead = _stack_dim(value), torch.Size(()) if frame.lead is None else frame.lead
        rows = value.unbind(at)
        if at < len(lead):
            inner = Frame(lead[:at] + lead[at + 1 :], frame.time_at, frame.steps)
            return [(self, row, inner) for row in rows]
        if frame.time_at is not None and at == len(lead) + frame.time_at:
            return [(self, row, Frame(lead)) for row in rows]
        own = at - len(lead) - (frame.time_at is not None and at > len(lead) + frame.time_at)
        if own >= self.ndim:
            return None
        inner = frame.of_member(own)
        which = [0 if self._shape[own] == -1 else i for i in range(len(rows))]
        index = (slice(None),) * own
        return [(self._indexed((*index, i)), row, inner) for i, row in zip(which, rows, strict=True)]

    def _violations(self, value: Any, key: tuple[str, ...], frame: Frame) -> list[Violation]:
        if not self._is_data(value):
            return [self._wrong_type(value, key)]
        found = []
        got = value.batch_size
        expected = frame.expected(self._shape, got)
        # A nested TensorDict may name more of its dims than its spec does, or fewer; the data's root decides its own.
        fewer = len(got) > len(frame.lead or ()) and _names_enough(got, expected, not key)
        if not fewer and not fits_shape(got if not key else got[: len(expected)], expected):
            fix = f"Set it: td.batch_size = {shape_text(expected)}."
            found.append(Violation(key, "shape", f"(batch size) {shape_text(expected)}", str(list(got)), fix=fix))
        elif frame.lead is None:
            frame = frame.bind(self._shape, got)
        entries = _entries(value)
        if entries is None:
            rows = None if found else self._row_specs(value, frame)
            if rows is None:
                fix = "Stack TensorDicts that have the same entries."
                found = found or [Violation(key, "type", "a TensorDict with one form", "a lazy stack", fix=fix)]
                return found
            return [f.in_member(i) for i, (spec, row, at) in enumerate(rows) for f in spec._violations(row, key, at)]
        for name, spec in self._specs.items():
            if spec is None:
                continue
            if name in entries:
                found.extend(spec._violations(entries[name], (*key, name), frame))
            else:
                found.append(self._missing((*key, name), spec, frame, got))
        return found + self._extra(entries, key)

    def _wrong_type(self, value: Any, key: tuple[str, ...]) -> Violation:
        if self._data_cls is None:
            fix = "Wrap the tensors: TensorDict({...}, batch_size=...)."
            return Violation(key, "type", "TensorDict", type(value).__name__, fix=fix)
        name = self._data_cls.__name__
        fix = f"Make it one: {name}.from_tensordict(td), or {name}(..., batch_size=...)."
        return Violation(key, "type", name, type(value).__name__, fix=fix)

    def _extra(self, entries: Mapping[str, Any], key: tuple[str, ...]) -> list[Violation]:
        """List the entries that the spec does not have."""
        legal = ", ".join(map(repr, self._names())) or "no keys"
        found = []
        for name in entries:
            if name not in self:
                fix = f"Remove it, or add it to the spec: spec[{format_key((*key, name))!r}] = ..."
                found.append(Violation((*key, name), "extra", legal, type(entries[name]).__name__, fix=fix))
        return found

    def _missing(self, key: tuple[str, ...], spec: TensorSpec, frame: Frame, got: torch.Size) -> Violation:
        shape = shape_text(frame.expected(spec.shape, got if frame.lead is None else frame.lead + spec.shape))
        if isinstance(spec, CompositeShapes):
            expected = f"a TensorDict of batch size {shape}"
        elif spec.dtype is None:
            expected = f"non-tensor data of batch size {shape}"
        else:
            expected = f"a tensor of shape {shape} and dtype {spec.dtype}"
        return Violation(key, "missing", expected, "nothing", fix="Write it before returning the data.")

    def adapt(self, value: Any) -> Any:
        """Return ``value`` with each entry adapted; ``value`` itself when that changes nothing. See `TensorSpec`."""
        entries = _entries(value) if self._is_data(value) else None
        if entries is None:
            return value
        known = {key: spec for key, spec in self._specs.items() if spec is not None and key in entries}
        adapted = {key: spec.adapt(entries[key]) for key, spec in known.items()}
        changed = {key: new for key, new in adapted.items() if new is not entries[key]}
        result = value.copy() if changed else value
        for key, new in changed.items():
            result.set(key, new)
        return result

    def project(self, val: Any) -> Any:
        """Project each entry in place, and return ``val``.

        An entry that is in the domain stays the same tensor; another one is replaced by a new tensor. Keys that the
        spec does not know are kept.

        Args:
            val: a TensorDict of batch size ``[..., *spec.shape]``.

        Raises:
            KeyError: a key of the spec is missing.
            RuntimeError: the TensorDict is locked.
            TypeError: an entry has the wrong type.
            ValueError: an entry has the wrong shape. Nothing is changed then, nor in the other cases.
        """
        for data, key, new in self._projection(val):
            data.set(key, new)
        return val

    def _projection(self, value: Any) -> list[tuple[Any, Key, Any]]:
        """List what `project` writes: the TensorDict, the key in it, and the new entry."""
        if not self._is_data(value):
            raise TypeError("Composite.project: " + self._complaints(value)[0])
        entries = _entries(value)
        if entries is None:
            return self._projection_of_rows(value)
        changes: list[tuple[Any, Key, Any]] = []
        for key, spec in self._specs.items():
            if spec is None:
                continue
            if key not in entries:
                raise unknown_key(key, list(entries), "the data")
            if isinstance(spec, CompositeChecks):
                changes += named(key, spec._projection, entries[key])
            elif (new := named(key, spec.project, entries[key])) is not entries[key]:
                changes.append((value, key, new))
        return changes

    def _projection_of_rows(self, value: Any) -> list[tuple[Any, Key, Any]]:
        extra = value.ndim - self.ndim
        rows = self._row_specs(value, Frame(value.batch_size[:extra])) if extra >= 0 else None
        if rows is None:
            raise ValueError("Composite.project: " + self._complaints(value)[0])
        # The rows are the members of the lazy stack themselves.
        return [change for spec, row, _ in rows for change in spec._projection(row)]

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
            spec = self[key]
            if spec is not None:
                spec.type_check(value, key)
            return
        entries = raw_entries(value)
        for name, spec in self._specs.items():
            if spec is None or (selected_keys is not None and name not in selected_keys):
                continue
            if name not in entries:
                raise unknown_key(name, list(entries), "the data")
            if isinstance(spec, CompositeShapes):
                spec.type_check(entries[name])
            else:
                spec.type_check(entries[name], name)


def _names_enough(got: torch.Size, expected: torch.Size, is_root: bool) -> bool:
    """Whether a batch size leaves out trailing dims of ``expected``, which the entries have; at the root, of size 1."""
    left_out = expected[len(got) :]
    return bool(left_out) and fits_shape(got, expected[: len(got)]) and (not is_root or set(left_out) == {1})


def _entries(value: Any) -> Mapping[str, Any] | None:
    """Return the entries of a TensorDict; None for a lazy stack whose rows have no common form."""
    try:
        return raw_entries(value)
    except (AttributeError, RuntimeError, TypeError, ValueError):
        if _stack_dim(value) is None:
            raise
        return None


def _stack_dim(value: Any) -> Any:
    return getattr(getattr(value, "_tensordict", value), "stack_dim", None)


def named(key: Key, call: Callable[[Any], Any], value: Any) -> Any:
    """Call, and put the key in front of what an error says.

    Example:
        >>> named("a", int, "x")
        Traceback (most recent call last):
        ValueError: a: invalid literal for int() with base 10: 'x'
    """
    try:
        return call(value)
    except (SpecKeyError, TypeError, ValueError) as error:
        raise type(error)(f"{key}: {error}") from None

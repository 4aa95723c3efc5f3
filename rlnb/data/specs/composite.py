"""Composite: a spec of a TensorDict, one spec for each key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Self

import torch
from tensordict import TensorDict, TensorDictBase, is_tensor_collection

from rlnb._tensordict import fast_tensordict, raw_entries
from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite_shapes import CompositeShapes
from rlnb.data.specs.normalize import Device, Key, Shape, as_device, as_size
from rlnb.data.specs.violations import Frame, Violation, format_key


class Composite(CompositeShapes):
    """A spec of a TensorDict: a spec for each key, nested as deep as the data.

    Args:
        *args: at most one mapping from keys to specs. A key is a name or a tuple of names, a spec is a spec, a mapping
            (a nested Composite), or None (a key of which nothing is said).
        shape: the batch size that all entries lead with.
        batch_size: another name of ``shape``.
        device: where all entries live; they are moved there. None: where each of them is.
        **kwargs: more specs by name.

    Raises:
        ValueError: an entry does not lead with ``shape``.
        TypeError: an entry is no spec.

    Example:
        >>> from rlnb.data import Bounded, OneHot
        >>> spec = Composite(observation=Bounded(-1, 1, shape=(3,)), agent={"action": OneHot(2)})
        >>> spec.rand((5,))["agent", "action"].shape
        torch.Size([5, 2])
        >>> spec.keys(include_nested=True, leaves_only=True)
        ['observation', ('agent', 'action')]
    """

    def __init__(
        self,
        *args: Mapping[Any, Any],
        shape: Shape | None = None,
        batch_size: Shape | None = None,
        device: Device = None,
        **kwargs: Any,
    ) -> None:
        if len(args) > 1 or (args and not isinstance(args[0], (Mapping, Composite))):
            raise TypeError("Composite takes one mapping from keys to specs, and more specs as keyword arguments.")
        if shape is not None and batch_size is not None and as_size(shape) != as_size(batch_size):
            raise ValueError(f"Composite got shape={shape} and batch_size={batch_size}: they are one thing, give one.")
        size = shape if shape is not None else batch_size
        self._shape = as_size(() if size is None else size)
        self._device = None if device is None else as_device(device)
        self._dtype = None
        self._locked = False
        self._specs: dict[str, TensorSpec | None] = {}
        for source in (*args, kwargs):
            for key, spec in source.items():
                self.set(key, spec)

    def _nested(self, specs: Mapping[Any, Any]) -> Self:
        return type(self)(specs, shape=self._shape, device=self._device)

    @property
    def domain(self) -> str:
        """``"composite"``."""
        return "composite"

    @property
    def space(self) -> None:
        """None: each entry has its own."""
        return None

    @property
    def batch_size(self) -> torch.Size:
        """The batch size that all entries lead with (another name of ``shape``)."""
        return self._shape

    def rand(self, shape: Shape = ()) -> TensorDict:
        """Draw a TensorDict, one leaf after the other.

        ``rand((T,))`` draws all ``T`` rows of the first leaf before the second: each leaf keeps the sequential order of
        draws, the Composite as a whole does not.

        Args:
            shape: sizes in front of the spec's shape.

        Returns:
            A TensorDict of batch size ``[*shape, *spec.shape]``.
        """
        extra = shape if shape == () else as_size(shape)
        drawn = {key: spec.rand(extra) for key, spec in self._specs.items() if spec is not None}
        return fast_tensordict(drawn, self._size(shape), self._device)

    def zero(self, shape: Shape = ()) -> TensorDict:
        """Make a TensorDict filled with zeros, batch size ``[*shape, *spec.shape]``."""
        extra = shape if shape == () else as_size(shape)
        blank = {key: spec.zero(extra) for key, spec in self._specs.items() if spec is not None}
        return fast_tensordict(blank, self._size(shape), self._device)

    def one(self, shape: Shape = ()) -> TensorDict:
        """Make a TensorDict filled with ones, batch size ``[*shape, *spec.shape]``."""
        extra = shape if shape == () else as_size(shape)
        blank = {key: spec.one(extra) for key, spec in self._specs.items() if spec is not None}
        return fast_tensordict(blank, self._size(shape), self._device)

    def _accepts(self, value: Any, lead: torch.Size | None) -> bool:
        if not isinstance(value, TensorDictBase):
            return False
        got = value.batch_size
        if lead is None:
            extra = len(got) - len(self._shape)
            if extra < 0 or got[extra:] != self._shape:
                return False
            lead = got[:extra]
        elif got[: len(lead) + len(self._shape)] != (lead + self._shape if lead else self._shape):
            return False
        entries = raw_entries(value)
        for key, spec in self._specs.items():
            if spec is not None and (key not in entries or not spec._accepts(entries[key], lead)):
                return False
        return True

    def _violations(self, value: Any, key: tuple[str, ...], frame: Frame) -> list[Violation]:
        if not isinstance(value, TensorDictBase):
            fix = "Wrap the tensors: TensorDict({...}, batch_size=...)."
            return [Violation(key, "type", "TensorDict", type(value).__name__, fix=fix)]
        found = []
        got = value.batch_size
        expected = frame.expected(self._shape, got)
        # A nested TensorDict may name more of its dims than its spec does; the data's root decides its own.
        if got != expected and (not key or got[: len(expected)] != expected):
            fix = f"Set it: td.batch_size = {list(expected)}."
            found.append(Violation(key, "shape", f"(batch size) {list(expected)}", str(list(got)), fix=fix))
        elif frame.lead is None:
            frame = frame.bind(self._shape, got)
        entries = raw_entries(value)
        for name, spec in self._specs.items():
            if spec is None:
                continue
            if name in entries:
                found.extend(spec._violations(entries[name], (*key, name), frame))
            else:
                found.append(self._missing((*key, name), spec, frame, got))
        legal = ", ".join(map(repr, self._specs)) or "no keys"
        for name in entries:
            if name not in self._specs:
                fix = f"Remove it, or add it to the spec: spec[{format_key((*key, name))!r}] = ..."
                kind = type(entries[name]).__name__
                found.append(Violation((*key, name), "extra", legal, kind, fix=fix))
        return found

    def _missing(self, key: tuple[str, ...], spec: TensorSpec, frame: Frame, got: torch.Size) -> Violation:
        shape = list(frame.expected(spec.shape, got if frame.lead is None else frame.lead + spec.shape))
        if isinstance(spec, Composite):
            expected = f"a TensorDict of batch size {shape}"
        elif spec.dtype is None:
            expected = f"non-tensor data of batch size {shape}"
        else:
            expected = f"a tensor of shape {shape} and dtype {spec.dtype}"
        return Violation(key, "missing", expected, "nothing", fix="Write it before returning the data.")

    def project(self, value: TensorDictBase) -> TensorDictBase:
        """Return ``value`` with each entry projected; ``value`` itself when all of them are in the domain.

        Keys that the spec does not know are kept.

        Args:
            value: a TensorDict of batch size ``[..., *spec.shape]``.

        Raises:
            KeyError: a key of the spec is missing.
            TypeError: an entry has the wrong type.
            ValueError: an entry has the wrong shape.
        """
        if not isinstance(value, TensorDictBase):
            raise TypeError("Composite.project: " + self._complaints(value)[0])
        entries = raw_entries(value)
        changed = {}
        for key, spec in self._specs.items():
            if spec is None:
                continue
            if key not in entries:
                raise self._unknown(key, list(entries), "the data")
            new = _named(key, spec.project, entries[key])
            if new is not entries[key]:
                changed[key] = new
        if not changed:
            return value
        result = value.copy()
        for key, new in changed.items():
            result.set(key, new)
        return result

    def encode(self, value: Any, *, check: bool = True) -> TensorDict:
        """Turn a (nested) dictionary of numbers, lists, arrays or tensors into a TensorDict.

        Args:
            value: a mapping or a TensorDict with exactly the keys of the spec; or a tuple, for keys ``"0", "1", ...``.
            check: whether to raise for a value outside the domain.

        Returns:
            A TensorDict of batch size ``[..., *spec.shape]``.

        Raises:
            KeyError: a key is missing or unknown.
            TypeError: ``value`` is no mapping.
            ValueError: an entry does not fit, or entries differ in their leading dims.
        """
        if isinstance(value, tuple):
            value = {str(i): part for i, part in enumerate(value)}
        if not isinstance(value, Mapping) and not is_tensor_collection(value):
            raise TypeError(
                f"Composite.encode: expected a dictionary with the keys {list(self._specs)}, got a "
                f"{type(value).__name__}."
            )
        entries = value if isinstance(value, Mapping) else raw_entries(value)
        for key in entries:
            if key not in self._specs:
                raise self._unknown(key, list(self._specs), "the spec")
        for key, spec in self._specs.items():
            if spec is not None and key not in entries:
                raise self._unknown(key, list(entries), "the data")
        known = {key: spec for key, spec in self._specs.items() if spec is not None}
        telling = {key: spec for key, spec in known.items() if _has_tensors(spec)}
        encoded = {key: _named(key, partial(spec.encode, check=check), entries[key]) for key, spec in telling.items()}
        lead = self._common_lead(encoded)
        for key in known.keys() - telling.keys():
            # Without a tensor in it, an entry's leading dims are those of the others.
            whole = known[key].expand(*lead, *known[key].shape)
            encoded[key] = _named(key, partial(whole.encode, check=check), entries[key])
        return fast_tensordict({key: encoded[key] for key in known}, lead + self._shape, self._device)

    def _common_lead(self, encoded: Mapping[str, Any]) -> torch.Size:
        lead = None
        for key, value in encoded.items():
            extra = value.shape[: value.ndim - self[key].ndim]
            if lead is not None and extra != lead:
                raise ValueError(
                    f"Composite.encode: {key}: expected the leading dimensions {list(lead)} of the entries before it, "
                    f"got {list(extra)}. Give all entries the same batch dimensions."
                )
            lead = extra
        return torch.Size(()) if lead is None else lead

    def to_numpy(self, value: TensorDictBase, *, check: bool = True) -> Any:
        """Turn a TensorDict of the spec into what a Gymnasium environment takes.

        Args:
            value: a TensorDict of the spec.
            check: whether to raise for one that is not in the spec.

        Returns:
            A nested dictionary; a tuple where the keys are ``"0", "1", ...`` (Gymnasium's ``Tuple``).

        Raises:
            ValueError: the TensorDict is not in the spec.
        """
        if check and not self.is_in(value):
            raise ValueError("Composite.to_numpy: " + self._complaints(value)[0])
        entries = raw_entries(value)
        numbers = {
            key: spec.to_numpy(entries[key], check=False) for key, spec in self._specs.items() if spec is not None
        }
        return tuple(numbers.values()) if is_tuple_keys(list(numbers)) else numbers

    def type_check(self, value: Any, key: Any = None) -> None:
        """Raise unless each entry has its spec's dtype.

        Args:
            value: a TensorDict, or one entry of it when ``key`` is given.
            key: the key of that entry.

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
            if spec is None:
                continue
            if name not in entries:
                raise self._unknown(name, list(entries), "the data")
            if isinstance(spec, Composite):
                spec.type_check(entries[name])
            else:
                spec.type_check(entries[name], name)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._specs))

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is type(self)
            and isinstance(other, Composite)
            and (self._shape, self._device) == (other._shape, other._device)
            and self._specs == other._specs
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        lines = [f"{key}: {spec!r}".replace("\n", "\n    ") for key, spec in self._specs.items()]
        if not lines:
            return f"Composite(device={self._device}, shape={self._shape})"
        lines += [f"device={self._device}", f"shape={self._shape}"]
        return "Composite(\n    " + ",\n    ".join(lines) + ")"


def _has_tensors(spec: TensorSpec | None) -> bool:
    if isinstance(spec, Composite):
        return any(_has_tensors(part) for part in spec.values())
    return spec is not None and spec.dtype is not None


def is_tuple_keys(keys: list[str]) -> bool:
    """Whether the keys are exactly ``"0", "1", ...`` in order, as those of a Gymnasium ``Tuple`` are.

    Example:
        >>> is_tuple_keys(["0", "1"]), is_tuple_keys(["a"]), is_tuple_keys([])
        (True, False, False)
    """
    return bool(keys) and keys == [str(i) for i in range(len(keys))]


def _named(key: Key, call: Callable[[Any], Any], value: Any) -> Any:
    """Call, and put the key in front of what an error says."""
    try:
        return call(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{key}: {error}") from None

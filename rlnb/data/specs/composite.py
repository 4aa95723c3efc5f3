"""Composite: a spec of a TensorDict, one spec for each key."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self

import torch
from tensordict import TensorDict, is_tensor_collection, is_tensorclass

from rlnb._tensordict import fast_tensordict, raw_entries
from rlnb._text import printable
from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite_checks import CompositeChecks, named
from rlnb.data.specs.composite_keys import unknown_key
from rlnb.data.specs.enumeration import combinations
from rlnb.data.specs.normalize import Device, Shape, as_device, as_lead, as_size
from rlnb.data.specs.variable import blank_size


class Composite(CompositeChecks):
    """A spec of a TensorDict: a spec for each key, nested as deep as the data.

    Args:
        *args: at most one mapping from keys to specs. A key is a name or a tuple of names, a spec is a spec, a mapping
            (a nested Composite), or None (a key of which nothing is said).
        shape: the batch size that all entries lead with.
        batch_size: another name of ``shape``.
        device: where all entries live; they are moved there. None: where each of them is.
        data_cls: the tensorclass that the values are instances of; None for TensorDicts.
        step_mdp_static: marks data that stays as it is from one step to the next, for ``keys`` to find. Such data is
            not written under ``"next"``, so that `step_mdp` carries it on as it does all entries of the root.
        names: only None: the dims of a Composite have no names.
        **kwargs: more specs by name.

    Raises:
        KeyError: ``data_cls`` has no field of an entry's name.
        ValueError: an entry does not lead with ``shape``.
        TypeError: an entry is no spec, or ``data_cls`` is no tensorclass.

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
        data_cls: type | None = None,
        step_mdp_static: bool = False,
        names: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> None:
        if names is not None and not isinstance(names, (TensorSpec, Mapping)) and any(names):
            raise NotImplementedError(
                f"Composite(names={list(names)}): the dims of a Composite have no names. Name those of the data: "
                "td = spec.rand(); td.names = [...]."
            )
        if isinstance(names, (TensorSpec, Mapping)):
            kwargs["names"] = names  # an entry of that name
        if len(args) > 1 or (args and not isinstance(args[0], (Mapping, Composite))):
            raise TypeError("Composite takes one mapping from keys to specs, and more specs as keyword arguments.")
        if shape is not None and batch_size is not None and as_size(shape) != as_size(batch_size):
            raise ValueError(f"Composite got shape={shape} and batch_size={batch_size}: they are one thing, give one.")
        size = shape if shape is not None else batch_size
        self._shape = as_size(() if size is None else size)
        self._device = None if device is None else as_device(device)
        self._dtype = None
        self._locked = False
        self.step_mdp_static = bool(step_mdp_static)
        self._as_tuple: bool | None = None
        self._data_cls = _checked_data_cls(data_cls)
        self._specs: dict[str, TensorSpec | None] = {}
        for source in (*args, kwargs):
            for key, spec in source.items():
                self.set(key, spec)

    def _put(self, path: tuple[str, ...], spec: Any, full: tuple[str, ...]) -> None:
        if self._data_cls is not None:
            fields = [field.name for field in dataclasses.fields(self._data_cls)]
            if path[0] not in fields:
                raise unknown_key(path[0], fields, f"the tensorclass {self._data_cls.__name__}")
        super()._put(path, spec, full)

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
    def data_cls(self) -> type | None:
        """The tensorclass that the values are instances of; None for TensorDicts."""
        return self._data_cls

    @property
    def _gives_tuple(self) -> bool:
        """Whether values become a tuple for Gymnasium: by how the spec was made, else by its keys."""
        keys = [key for key, spec in self._specs.items() if spec is not None]
        if self._as_tuple is False:
            return False
        return is_tuple_keys(keys) if keys else bool(self._as_tuple)

    def rand(self, shape: Shape | None = ()) -> Any:
        """Draw a TensorDict, one leaf after the other.

        ``rand((T,))`` draws all ``T`` rows of the first leaf before the second: each leaf keeps the sequential order of
        draws, the Composite as a whole does not.

        Args:
            shape: sizes in front of the spec's shape.

        Returns:
            A TensorDict, or an instance of ``data_cls``, of batch size ``[*shape, *spec.shape]``.
        """
        return self._filled("rand", shape)

    def zero(self, shape: Shape | None = ()) -> Any:
        """Make a TensorDict filled with zeros, batch size ``[*shape, *spec.shape]``."""
        return self._filled("zero", shape)

    def one(self, shape: Shape | None = ()) -> Any:
        """Make a TensorDict filled with ones, batch size ``[*shape, *spec.shape]``."""
        return self._filled("one", shape)

    def rand_update(self, val: Any) -> Any:
        """Write random values into a TensorDict, which keeps its other entries.

        Args:
            val: the TensorDict, of batch size ``[..., *spec.shape]``.

        Returns:
            ``val``.

        Example:
            >>> from rlnb.data import Unbounded
            >>> data = TensorDict({"other": torch.zeros(2)}, [2])
            >>> sorted(Composite(a=Unbounded(3)).zeros_update(data).keys())
            ['a', 'other']
        """
        return self._updated("rand", val)

    def zeros_update(self, val: Any) -> Any:
        """Write zeros into a TensorDict, which keeps its other entries; see `rand_update`."""
        return self._updated("zero", val)

    def ones_update(self, val: Any) -> Any:
        """Write ones into a TensorDict, which keeps its other entries; see `rand_update`."""
        return self._updated("one", val)

    def _updated(self, how: str, data: Any) -> Any:
        extra = len(data.batch_size) - self.ndim
        return data.update(getattr(self, how)(data.batch_size[: max(extra, 0)]))

    def _filled(self, how: str, shape: Shape | None) -> Any:
        extra = as_lead(shape)
        values = {key: getattr(spec, how)(extra) for key, spec in self._specs.items() if spec is not None}
        return self._wrapped(values, self._size(shape))

    def _wrapped(self, entries: dict[str, Any], batch_size: torch.Size) -> Any:
        data = fast_tensordict(entries, batch_size, self._device)
        return data if self._data_cls is None else self._data_cls.from_tensordict(data)  # type: ignore[attr-defined]  # a tensorclass

    def cardinality(self, use_mask: bool = False) -> int | float:
        """Return how many values there are: the product of the entries' numbers; 1 when there are none.

        Args:
            use_mask: whether to count only what the masks of choices leave.

        Example:
            >>> from rlnb.data import Categorical
            >>> Composite(a=Categorical(3), b=Categorical(2)).cardinality()
            6
        """
        return math.prod(spec.cardinality(use_mask) for spec in self._specs.values() if spec is not None)

    def enumerate(self, use_mask: bool = False) -> Any:
        """List all values, stacked along a new first dim; the last entry changes fastest.

        Args:
            use_mask: whether to list only what the masks of choices leave.

        Returns:
            A TensorDict of batch size ``[cardinality, *spec.shape]``.

        Raises:
            ValueError: there are endlessly many, or too many to list.
        """
        known = {key: spec for key, spec in self._specs.items() if spec is not None}
        chosen = combinations([spec.cardinality(use_mask) for spec in known.values()], "a Composite")
        entries = {key: spec.enumerate(use_mask)[chosen[:, i]] for i, (key, spec) in enumerate(known.items())}
        return self._wrapped(entries, torch.Size((len(chosen), *blank_size(self._shape))))

    def encode(self, val: Any, *, check: bool = True, ignore_device: bool = False) -> Any:
        """Turn a (nested) dictionary of numbers, lists, arrays or tensors into a TensorDict.

        Args:
            val: a mapping or a TensorDict with exactly the keys of the spec; or a tuple, for keys ``"0", "1", ...``.
            check: whether to raise for a value outside the domain.
            ignore_device: whether to leave tensors on the device where they are.

        Returns:
            A TensorDict, or an instance of ``data_cls``, of batch size ``[..., *spec.shape]``.

        Raises:
            KeyError: a key is missing or unknown.
            TypeError: ``val`` is no mapping.
            ValueError: an entry does not fit, or entries differ in their leading dims.
        """
        if isinstance(val, tuple):
            val = {str(i): part for i, part in enumerate(val)}
        if not isinstance(val, Mapping) and not is_tensor_collection(val):
            raise TypeError(
                f"Composite.encode: expected a dictionary with the keys {list(self._specs)}, got a "
                f"{type(val).__name__}."
            )
        # A TensorDict is a Mapping too, but iterates its rows.
        entries = raw_entries(val) if is_tensor_collection(val) else val
        for key in entries:
            if key not in self._specs:
                raise unknown_key(key, list(self._specs), "the spec")
        for key, spec in self._specs.items():
            if spec is not None and key not in entries:
                raise unknown_key(key, list(entries), "the data")
        known = {key: spec for key, spec in self._specs.items() if spec is not None}
        telling = {key: spec for key, spec in known.items() if _has_tensors(spec)}
        options = {"check": check, "ignore_device": ignore_device}
        encoded = {key: named(key, partial(spec.encode, **options), entries[key]) for key, spec in telling.items()}
        lead = self._common_lead(encoded)
        for key in known.keys() - telling.keys():
            # Without a tensor in it, an entry's leading dims are those of the others.
            whole = known[key].expand(*lead, *known[key].shape)
            encoded[key] = named(key, partial(whole.encode, **options), entries[key])
        return self._wrapped({key: encoded[key] for key in known}, lead + self._batch_of(encoded, len(lead)))

    def _batch_of(self, encoded: Mapping[str, Any], lead: int) -> torch.Size:
        """Return the spec's shape with its variable dims as they are in the data."""
        if -1 not in self._shape:
            return self._shape
        sizes = [_plain_shape(value)[lead : lead + self.ndim] for value in encoded.values()]
        return torch.Size(sizes[0]) if sizes else blank_size(self._shape)

    def _common_lead(self, encoded: Mapping[str, Any]) -> torch.Size:
        lead = None
        for key, value in encoded.items():
            shape = _plain_shape(value)
            extra = torch.Size(shape[: len(shape) - self[key].ndim])
            if lead is not None and extra != lead:
                raise ValueError(
                    f"Composite.encode: {key}: expected the leading dimensions {list(lead)} of the entries before it, "
                    f"got {list(extra)}. Give all entries the same batch dimensions."
                )
            lead = extra
        return torch.Size(()) if lead is None else lead

    def to_numpy(self, val: Any, safe: bool | None = True) -> Any:
        """Turn a TensorDict of the spec into what a Gymnasium environment takes.

        Args:
            val: a TensorDict of the spec.
            safe: whether to raise for one that is not in the spec.

        Returns:
            A nested dictionary; a tuple where the keys are ``"0", "1", ...`` (Gymnasium's ``Tuple``).

        Raises:
            ValueError: the TensorDict is not in the spec.
        """
        if safe and not self.is_in(val):
            raise ValueError("Composite.to_numpy: " + self._complaints(val)[0])
        entries = raw_entries(val)
        numbers = {
            key: spec.to_numpy(entries[key], safe=False) for key, spec in self._specs.items() if spec is not None
        }
        return tuple(numbers.values()) if self._gives_tuple else numbers

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is type(self)
            and isinstance(other, Composite)
            and (self._shape, self._device, self._data_cls) == (other._shape, other._device, other._data_cls)
            and self._gives_tuple == other._gives_tuple
            and self._specs == other._specs
        )

    def __hash__(self) -> int:
        """The identity: entries may change, so that a Composite is the key of a dictionary only as this very object."""
        return id(self)

    def __repr__(self) -> str:
        named = ((printable(key, one_line=True), spec) for key, spec in self._specs.items())
        lines = [f"{key}: {spec!r}".replace("\n", "\n    ") for key, spec in named]
        about = [f"device={self._device}", f"shape={self._shape}"]
        if self._data_cls is not None:
            about.append(f"data_cls={self._data_cls.__name__}")
        if not lines:
            return f"Composite({', '.join(about)})"
        lines += about
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


def _plain_shape(value: Any) -> tuple[int, ...]:
    """Return the shape of a value; a nested tensor, which has none, is as its first member with a dim for the stack."""
    if isinstance(value, torch.Tensor) and value.is_nested:
        first = value.unbind()[0].shape
        return (*first, 1)
    return tuple(value.shape)


def _checked_data_cls(data_cls: type | None) -> type | None:
    if data_cls is None or data_cls is TensorDict:
        return None
    if not (isinstance(data_cls, type) and is_tensorclass(data_cls)):
        raise TypeError(f"data_cls must be a tensorclass, got {data_cls!r}. Decorate the class with @tensorclass.")
    return data_cls

"""Composite: the spec of a TensorDict, one spec for each key."""

from __future__ import annotations

import copy
import dataclasses
import math
import weakref
from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence, ValuesView
from typing import Any, Self

import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict, TensorDictBase, is_tensor_collection, is_tensorclass

from rlnb._tensordict import fast_tensordict, raw_entries
from rlnb._text import printable
from rlnb.data.specs import tensordicts
from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.keys import MISSING, KeyList, SpecKeyError, as_path, unknown_key
from rlnb.data.specs.normalize import Device, Shape, as_device, as_lead, as_size, as_sizes, leading_index
from rlnb.data.specs.sampling import combinations
from rlnb.data.specs.tensordicts import encode_entries, prefix_errors
from rlnb.data.specs.variable import TensorMap, blank_size, map_size, shape_text
from rlnb.data.specs.violations import Frame, Violation, format_key
from rlnb.data.ted.keys import NestedKey, as_key


class Lock:
    """Whether a Composite refuses writes, and the locks of the Composites that were locked together with it."""

    def __init__(self) -> None:
        self.locked = False
        self._owners: tuple[weakref.ref[Lock], ...] = ()

    def set(self, locked: bool, owner: Lock | None = None) -> None:
        """Lock or unlock; ``owner`` is the lock of the Composite that holds this one, if they are locked together."""
        self.locked = locked
        if not locked:
            self._owners = ()
        elif owner is not None and all(ref() is not owner for ref in self._owners):
            self._owners = (*self._owners, weakref.ref(owner))

    def check_can_unlock(self) -> None:
        """Raise a ``RuntimeError`` if an owner is still locked."""
        self._owners = tuple(ref for ref in self._owners if (owner := ref()) is not None and owner.locked)
        if self._owners:
            raise RuntimeError(
                "cannot unlock this Composite: the one that holds it is still locked, and must not change. Unlock that "
                "one, which unlocks this one too: spec.unlock_()."
            )

    def __getstate__(self) -> dict[str, Any]:
        # Weak references cannot be pickled, and a copy has no owner.
        return {**self.__dict__, "_owners": ()}


class Composite(TensorSpec):
    """The spec of a TensorDict: one spec for each key, nested like the data.

    Args:
        *args: at most one mapping from keys to specs. A key is a name or a tuple of names. A spec may also be a mapping
            (a nested Composite), or None (a key whose value may be anything).
        shape: the batch size, with which the shapes of all entries begin.
        batch_size: alias of ``shape``.
        device: the device of all entries, which are moved there. None leaves each entry on its own device.
        data_cls: the tensorclass of the values; None for TensorDicts.
        step_mdp_static: marks data that does not change from step to step, for ``keys`` to find. Such data is not
            written under ``"next"``, so that ``step_mdp`` carries it over like all entries of the root.
        names: must be None or all None: the dims of a Composite have no names.
        **kwargs: more specs by name.

    Raises:
        KeyError: If ``data_cls`` has no field with the name of an entry.
        ValueError: If the shape of an entry does not begin with ``shape``.
        TypeError: If an entry is not a spec, or ``data_cls`` is not a tensorclass.

    Example:
        >>> from rlnb.data import Bounded, OneHot
        >>> spec = Composite(observation=Bounded(-1, 1, shape=(3,)), agent={"action": OneHot(2)})
        >>> spec.rand((5,))["agent", "action"].shape
        torch.Size([5, 2])
        >>> spec.keys(include_nested=True, leaves_only=True)
        ['observation', ('agent', 'action')]
    """

    _specs: dict[str, TensorSpec | None]
    _data_cls: type | None
    _lock: Lock
    #: Whether the spec was made from a Gymnasium ``Tuple`` (True) or ``Dict`` (False); None if from neither.
    _as_tuple: bool | None
    step_mdp_static: bool

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
        if isinstance(names, (TensorSpec, Mapping)):
            kwargs["names"] = names  # an entry of that name
        elif names is not None and any(names):
            raise NotImplementedError(
                f"Composite(names={list(names)}): the dims of a Composite have no names. Name those of the data: "
                "td = spec.rand(); td.names = [...]."
            )
        if len(args) > 1 or (args and not isinstance(args[0], (Mapping, Composite))):
            raise TypeError("Composite takes one mapping from keys to specs, and more specs as keyword arguments.")
        if shape is not None and batch_size is not None and as_size(shape) != as_size(batch_size):
            raise ValueError(
                f"Composite got shape={shape} and batch_size={batch_size}, which are two names of one argument. Give "
                "only one of them."
            )
        if data_cls is TensorDict:
            data_cls = None
        if data_cls is not None and not (isinstance(data_cls, type) and is_tensorclass(data_cls)):
            raise TypeError(f"data_cls must be a tensorclass, got {data_cls!r}. Decorate the class with @tensorclass.")
        size = shape if shape is not None else batch_size
        self._shape = as_size(() if size is None else size)
        self._device = None if device is None else as_device(device)
        self._dtype = None
        self._lock = Lock()
        self.step_mdp_static = bool(step_mdp_static)
        self._as_tuple = None
        self._data_cls = data_cls
        self._specs = {}
        for source in (*args, kwargs):
            for key, spec in source.items():
                self.set(key, spec)

    @property
    def domain(self) -> str:
        """``"composite"``."""
        return "composite"

    @property
    def space(self) -> None:
        """None: each entry has its own space."""
        return None

    @property
    def data_cls(self) -> type | None:
        """The tensorclass of the values; None for TensorDicts."""
        return self._data_cls

    # Reading ------------------------------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        """List the keys of this level."""
        return list(self._specs)

    def _child(self, name: str) -> Any:
        """Return the spec of one key of this level, or MISSING."""
        return self._specs.get(name, MISSING)

    def _known_specs(self) -> dict[str, TensorSpec]:
        """Return the entries of this level that have a spec."""
        return {name: spec for name, spec in self._specs.items() if spec is not None}

    def keys(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        *,
        is_leaf: Callable[[type], bool] | None = None,
        step_mdp_static_only: bool = False,
    ) -> list[NestedKey]:
        """List the keys in insertion order.

        Args:
            include_nested: whether to include the keys of nested Composites, as tuples, before the Composite's own.
            leaves_only: whether to leave out the Composites themselves.
            is_leaf: returns whether a spec of the given class is a leaf, whose entries are not listed. By default,
                every spec but a Composite is one.
            step_mdp_static_only: whether to list only the keys of specs that are ``step_mdp_static``.

        Example:
            >>> from rlnb.data import Composite, Unbounded
            >>> spec = Composite(a=Unbounded(1), b=Composite(c=Unbounded(2)))
            >>> spec.keys(), spec.keys(True), spec.keys(True, True)
            (['a', 'b'], ['a', ('b', 'c'), 'b'], ['a', ('b', 'c')])
        """
        found = KeyList()
        options = {"is_leaf": is_leaf, "step_mdp_static_only": step_mdp_static_only}
        for name, spec in self._specs.items():
            nested = isinstance(spec, Composite) and (is_leaf is None or not is_leaf(type(spec)))
            if include_nested and nested:
                found.extend((name, *as_path(key)) for key in spec.keys(True, leaves_only, **options))  # type: ignore[union-attr]  # nested
            static = isinstance(spec, Composite) and spec.step_mdp_static
            if not (nested and leaves_only) and (static or not step_mdp_static_only):
                found.append(name)
        return found

    def items(self, include_nested: bool = False, leaves_only: bool = False, **options: Any) -> Any:
        """List pairs of key and spec; see ``keys`` for the arguments."""
        if not include_nested and not leaves_only and not options:
            return ItemsView(self._specs)
        return [(key, self[key]) for key in self.keys(include_nested, leaves_only, **options)]

    def values(self, include_nested: bool = False, leaves_only: bool = False, **options: Any) -> Any:
        """List the specs; see ``keys`` for the arguments."""
        if not include_nested and not leaves_only and not options:
            return ValuesView(self._specs)
        return [self[key] for key in self.keys(include_nested, leaves_only, **options)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._specs)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, key: object) -> bool:
        return self.get(key, MISSING) is not MISSING  # type: ignore[arg-type]  # any default will do

    def is_empty(self, recurse: bool = False) -> bool:
        """Return whether there are no keys; with ``recurse``, nested Composites that are empty do not count."""
        if not recurse:
            return not self._specs
        return all(isinstance(spec, Composite) and spec.is_empty(True) for spec in self.values())

    def get(self, key: NestedKey, default: Any = None) -> Any:
        """Return the spec at ``key``, a name or a tuple of names, or ``default`` if the key does not exist."""
        here: Any = self
        for name in as_path(key):
            here = here._child(name) if isinstance(here, Composite) else MISSING
            if here is MISSING:
                return default
        return here

    def __getitem__(self, index: Any) -> Any:
        """Return the spec at a key. Any other index applies to the batch dims of all entries.

        Raises:
            KeyError: If the key does not exist.
            IndexError: If the index has more dims than the batch size.
        """
        if isinstance(index, str):
            found = self._child(index)
        elif isinstance(index, tuple) and index and isinstance(index[0], (str, tuple)):
            found = self.get(index, MISSING)
        else:
            return self._indexed(index)
        if found is MISSING:
            raise self._no_key(index)
        return found

    def _no_key(self, key: Any) -> SpecKeyError:
        return unknown_key(key, self.keys(include_nested=True), "the spec")

    # Writing ------------------------------------------------------------------------------------------------------

    def set(self, key: NestedKey, spec: TensorSpec | Mapping[Any, Any] | None) -> Self:
        """Set the spec at ``key``, creating the Composites on the way.

        Args:
            key: a name, or a tuple of names for a nested entry.
            spec: the spec; a mapping for a nested Composite; None for a key whose value may be anything.

        Returns:
            The Composite itself.

        Raises:
            RuntimeError: If the Composite is locked.
            TypeError: If ``spec`` is not a spec.
            ValueError: If the shape of ``spec`` does not begin with that of the Composite.
        """
        path = as_path(key)
        self._check_unlocked_to(path, f"set {as_key(path)!r}")
        self._put(path, spec, path)
        return self

    def __setitem__(self, key: NestedKey, spec: TensorSpec | Mapping[Any, Any] | None) -> None:
        self.set(key, spec)

    def _put(self, path: tuple[str, ...], spec: Any, full: tuple[str, ...]) -> None:
        """Write ``spec`` at ``path`` below this level; ``full`` is the key that the user gave, for errors."""
        if self._data_cls is not None:
            fields = [field.name for field in dataclasses.fields(self._data_cls)]
            if path[0] not in fields:
                raise unknown_key(path[0], fields, f"the tensorclass {self._data_cls.__name__}")
        here, rest = self._child(path[0]), path[1:]
        if rest and isinstance(here, Composite):
            here._put(rest, spec, full)
        else:
            self._specs[path[0]] = self._as_entry(full, {as_key(rest): spec} if rest else spec)

    def _as_entry(self, path: tuple[str, ...], spec: Any) -> TensorSpec | None:
        """Check ``spec`` and return it as an entry of this level, with its batch size and on its device."""
        if isinstance(spec, Mapping):
            spec = type(self)(spec, shape=self._shape, device=self._device)
        if spec is None:
            return None
        check_is_spec(spec, path)
        if spec.shape[: self.ndim] != self._shape and isinstance(spec, Composite):
            spec = spec._with_leading(self._shape)
        if spec.shape[: self.ndim] != self._shape:
            raise ValueError(
                f"{as_key(path)!r}: expected a shape that begins with {list(self._shape)}, the shape of the Composite, "
                f"got {list(spec.shape)} ({type(spec).__name__}). Give the spec a batch dimension: "
                f"spec.expand({', '.join(map(str, (*self._shape, *spec.shape)))})."
            )
        if self._device is not None and spec.device != self._device:
            return spec.to(self._device)
        return spec

    def _with_leading(self, size: torch.Size) -> Self:
        """Return a copy whose batch size begins with ``size``, or this Composite itself if its entries do not fit."""
        if self._shape != size[: self.ndim]:
            return self
        leads = [spec.shape[: len(size)] == size for spec in self.values(True, True) if spec is not None]
        if all(leads):
            new = self.clone()
            new._set_size(size)
            return new
        return self if self.ndim or any(leads) else self.expand(size)

    def update(self, other: Mapping[Any, Any] | Composite) -> Self:
        """Set all entries of ``other``, merging nested Composites, and return the Composite itself.

        Raises:
            RuntimeError: If the Composite is locked.
            ValueError: If the shape of a spec does not begin with that of the Composite. Nothing is changed then.
        """
        self._check_unlocked("update it")
        draft = self.clone()
        for key, spec in other.items():
            here = draft.get(key)
            if isinstance(here, Composite) and isinstance(spec, (Composite, Mapping)):
                here.update(spec)
            else:
                draft.set(key, spec)
        self._adopt(draft)
        return self

    def _adopt(self, other: Self) -> None:
        """Take over the entries of ``other``, a modified clone of this Composite."""
        self._specs = other._specs

    def pop(self, key: NestedKey, default: Any = MISSING) -> Any:
        """Remove a key and return its spec, or ``default`` if it does not exist.

        Raises:
            KeyError: If the key does not exist and there is no default.
            RuntimeError: If the Composite is locked.
        """
        path = as_path(key)
        self._check_unlocked_to(path, f"delete {as_key(path)!r}")
        if key not in self:
            if default is not MISSING:
                return default
            raise self._no_key(key)
        return self._take(path)

    def _take(self, path: tuple[str, ...]) -> Any:
        """Remove the spec at ``path``, which must exist, and return it."""
        return self._child(path[0])._take(path[1:]) if len(path) > 1 else self._specs.pop(path[0])

    def __delitem__(self, key: NestedKey) -> None:
        self.pop(key)

    # Locking ------------------------------------------------------------------------------------------------------

    @property
    def is_locked(self) -> bool:
        """Whether writes are refused."""
        return self._lock.locked

    @property
    def locked(self) -> bool:
        """Whether writes are refused (alias of ``is_locked``)."""
        return self.is_locked

    def lock_(self, recurse: bool = True) -> Self:
        """Refuse writes until ``unlock_``; with ``recurse``, in nested Composites too."""
        self._set_lock(True, recurse)
        return self

    def unlock_(self, recurse: bool = True) -> Self:
        """Allow writes again; with ``recurse``, in nested Composites too.

        Raises:
            RuntimeError: If the Composite was locked with one that holds it and that is still locked.
        """
        self._check_can_unlock()
        self._set_lock(False, recurse)
        return self

    def _check_can_unlock(self) -> None:
        self._lock.check_can_unlock()

    def _set_lock(self, locked: bool, recurse: bool, owner: Lock | None = None) -> None:
        self._lock.set(locked, owner)
        for spec in self._specs.values():
            if recurse and isinstance(spec, Composite):
                spec._set_lock(locked, recurse, self._lock)

    def _check_unlocked(self, action: str) -> None:
        if self.is_locked:
            raise RuntimeError(
                f"cannot {action}: this Composite is locked, because its owner (such as an environment) relies on it. "
                "Change a copy, spec.clone(), or unlock it first: spec.unlock_()."
            )

    def _check_unlocked_to(self, path: tuple[str, ...], action: str) -> None:
        """Raise if this Composite, or a nested one on the way to ``path``, is locked."""
        self._check_unlocked(action)
        here = self._child(path[0]) if len(path) > 1 else None
        if isinstance(here, Composite):
            here._check_unlocked_to(path[1:], action)

    # Subsets of keys ----------------------------------------------------------------------------------------------

    def select(self, *keys: NestedKey, strict: bool = True) -> Self:
        """Return a Composite with these keys only, in the spec's own order.

        Args:
            *keys: names, or tuples of names for nested entries.
            strict: whether to raise ``KeyError`` for a key that does not exist. Otherwise it is skipped.
        """
        paths = self._paths(keys, strict)
        return self._filtered(lambda path: any(path[: len(p)] == p for p in paths), keep_empty=False)

    def exclude(self, *keys: NestedKey, strict: bool = False) -> Self:
        """Return a Composite without these keys; see ``select`` for the arguments."""
        paths = self._paths(keys, strict)
        return self._filtered(lambda path: not any(path[: len(p)] == p for p in paths), keep_empty=True)

    def _paths(self, keys: tuple[NestedKey, ...], strict: bool) -> list[tuple[str, ...]]:
        for key in keys:
            if strict and key not in self:
                raise self._no_key(key)
        return [as_path(key) for key in keys]

    def _filtered(self, keep: Any, keep_empty: bool, prefix: tuple[str, ...] = ()) -> Self:
        new = self.clone()
        for name in self._names():
            path, spec = (*prefix, name), self._child(name)
            if isinstance(spec, Composite) and not spec.is_empty():
                part = spec._filtered(keep, keep_empty, path)
                if not part.is_empty() or (keep_empty and keep(path)):
                    new._specs[name] = part
                    continue
            elif keep(path):
                continue
            del new._specs[name]
        return new

    def empty(self) -> Self:
        """Return a Composite of the same shape and device without keys."""
        return self._rebuilt(self._shape, {})

    def separates(self, *keys: NestedKey, default: TensorSpec | None = None) -> Self | None:
        """Move some keys out of this Composite into a new one, which is returned; None if it would be empty.

        Missing keys are skipped, or get the spec ``default`` in the new Composite.

        Raises:
            RuntimeError: If the Composite is locked.

        Example:
            >>> from rlnb.data import Composite, Unbounded
            >>> spec = Composite(observation=Unbounded(3), reward=Unbounded(1))
            >>> spec.separates("reward").keys(), spec.keys()
            (['reward'], ['observation'])
        """
        for key in keys:
            self._check_unlocked_to(as_path(key), f"separate {as_key(as_path(key))!r} from it")
        new = self.empty()
        for key in keys:
            if key in self or default is not None:
                new.set(key, self.get(key, default))
        for key in keys:
            self.pop(key, None)
        return None if new.is_empty() else new

    # Values -------------------------------------------------------------------------------------------------------

    def rand(self, shape: Shape | None = ()) -> Any:
        """Draw a TensorDict, or an instance of ``data_cls``, of batch size ``[*shape, *spec.shape]``.

        ``rand((T,))`` draws all ``T`` rows of the first leaf before the second: each leaf keeps the sequential order of
        draws, but the Composite as a whole does not.
        """
        return self._filled("rand", shape)

    def zero(self, shape: Shape | None = ()) -> Any:
        """Return a TensorDict filled with zeros, of batch size ``[*shape, *spec.shape]``."""
        return self._filled("zero", shape)

    def one(self, shape: Shape | None = ()) -> Any:
        """Return a TensorDict filled with ones, of batch size ``[*shape, *spec.shape]``."""
        return self._filled("one", shape)

    def rand_update(self, val: Any) -> Any:
        """Write random values into the TensorDict ``val``, of batch size ``[..., *spec.shape]``, and return it.

        Example:
            >>> from rlnb.data import Unbounded
            >>> data = TensorDict({"other": torch.zeros(2)}, [2])
            >>> sorted(Composite(a=Unbounded(3)).zeros_update(data).keys())
            ['a', 'other']
        """
        return self._updated("rand", val)

    def zeros_update(self, val: Any) -> Any:
        """Write zeros into a TensorDict, which keeps its other entries; see ``rand_update``."""
        return self._updated("zero", val)

    def ones_update(self, val: Any) -> Any:
        """Write ones into a TensorDict, which keeps its other entries; see ``rand_update``."""
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
        """Return the number of distinct values: the product over the entries; see ``TensorSpec.cardinality``.

        Example:
            >>> from rlnb.data import Categorical
            >>> Composite(a=Categorical(3), b=Categorical(2)).cardinality()
            6
        """
        return math.prod(spec.cardinality(use_mask) for spec in self._known_specs().values())

    def enumerate(self, use_mask: bool = False) -> Any:
        """List all values in a TensorDict of shape ``[cardinality, *spec.shape]``; see ``TensorSpec.enumerate``."""
        known = self._known_specs()
        chosen = combinations([spec.cardinality(use_mask) for spec in known.values()], "a Composite")
        entries = {key: spec.enumerate(use_mask)[chosen[:, i]] for i, (key, spec) in enumerate(known.items())}
        return self._wrapped(entries, torch.Size((len(chosen), *blank_size(self._shape))))

    # Checks -------------------------------------------------------------------------------------------------------

    def _is_data(self, value: Any) -> bool:
        """Return whether ``value`` is a TensorDict, or an instance of the tensorclass that the Composite describes."""
        if self._data_cls is not None:
            return isinstance(value, self._data_cls)
        return isinstance(value, TensorDictBase) or (
            is_tensor_collection(value) and not isinstance(value, (NonTensorData, NonTensorStack))
        )

    def _accepts(self, value: Any, lead: torch.Size | None) -> bool:
        if not self._is_data(value):
            return False
        lead = tensordicts.leading_sizes(value.batch_size, self._shape, lead)
        if lead is None:
            return False
        entries = tensordicts.read_entries(value)
        if entries is None:
            rows = self._rows_of(value, Frame(lead))
            return rows is not None and all(spec._accepts(row, frame.lead) for spec, row, frame in rows)
        for key, spec in self._specs.items():
            if spec is not None and (key not in entries or not spec._accepts(entries[key], lead)):
                return False
        return True

    def _rows_of(self, value: Any, frame: Frame) -> list[tuple[Self, Any, Frame]] | None:
        """Pair each row of a ragged lazy stack with its spec and frame; None if they cannot be paired."""
        rows = tensordicts.ragged_rows(value, self._shape, frame)
        if rows is None:
            return None
        return [(self if index is None else self._indexed(index), row, inner) for index, row, inner in rows]

    def _violations(self, value: Any, key: tuple[str, ...], frame: Frame) -> list[Violation]:
        if not self._is_data(value):
            return [tensordicts.wrong_type(value, self._data_cls, key)]
        found, frame = tensordicts.batch_size_violation(value.batch_size, self._shape, key, frame)
        entries = tensordicts.read_entries(value)
        if entries is not None:
            return found + tensordicts.entry_violations(self._specs, entries, key, frame, value.batch_size)
        rows = None if found else self._rows_of(value, frame)
        if rows is None:
            fix = "Stack TensorDicts that have the same entries."
            return found or [Violation(key, "type", "a dense TensorDict", "a ragged lazy stack", fix=fix)]
        return [f.in_member(i) for i, (spec, row, at) in enumerate(rows) for f in spec._violations(row, key, at)]

    def type_check(self, value: Any, key: Any = None, selected_keys: Any = None) -> None:
        """Raise unless each entry has the dtype of its spec.

        Args:
            value: a TensorDict, or its entry ``key``.
            key: the key of the entry, if ``value`` is one.
            selected_keys: the keys of this level to check; None for all.

        Raises:
            KeyError: If a key is missing.
            TypeError: If a dtype differs.
        """
        if key is not None:
            spec = self[key]
            if spec is not None:
                spec.type_check(value, key)
            return
        entries = raw_entries(value)
        for name, spec in self._known_specs().items():
            if selected_keys is not None and name not in selected_keys:
                continue
            if name not in entries:
                raise unknown_key(name, list(entries), "the data")
            if isinstance(spec, Composite):
                spec.type_check(entries[name])
            else:
                spec.type_check(entries[name], name)

    def adapt(self, value: Any) -> Any:
        """Return ``value`` with each entry adapted, or ``value`` itself if nothing changes; see ``TensorSpec``."""
        entries = tensordicts.read_entries(value) if self._is_data(value) else None
        if entries is None:
            return value
        adapted = {key: spec.adapt(entries[key]) for key, spec in self._known_specs().items() if key in entries}
        changed = {key: new for key, new in adapted.items() if new is not entries[key]}
        result = value.copy() if changed else value
        for key, new in changed.items():
            result.set(key, new)
        return result

    def project(self, val: Any) -> Any:
        """Project each entry of a TensorDict in place, and return it.

        An entry that is in the domain stays the same tensor; any other is replaced by a new tensor. Keys that are not
        in the spec are kept.

        Raises:
            KeyError: If a key of the spec is missing.
            RuntimeError: If the TensorDict is locked.
            TypeError: If an entry has the wrong type.
            ValueError: If an entry has the wrong shape. ``val`` is not changed when an error is raised.
        """
        for data, key, new in self._projection(val):
            data.set(key, new)
        return val

    def _projection(self, value: Any) -> list[tuple[Any, NestedKey, Any]]:
        """List what ``project`` writes: the TensorDict, the key in it, and the new entry."""
        if not self._is_data(value):
            raise TypeError("Composite.project: " + self._messages(value)[0])
        entries = tensordicts.read_entries(value)
        if entries is None:
            extra = value.ndim - self.ndim
            rows = self._rows_of(value, Frame(value.batch_size[:extra])) if extra >= 0 else None
            if rows is None:
                raise ValueError("Composite.project: " + self._messages(value)[0])
            # The rows are the members of the lazy stack themselves, so that they can be written to.
            return [change for spec, row, _ in rows for change in spec._projection(row)]
        changes: list[tuple[Any, NestedKey, Any]] = []
        for key, spec in self._known_specs().items():
            if key not in entries:
                raise unknown_key(key, list(entries), "the data")
            if isinstance(spec, Composite):
                changes += prefix_errors(key, spec._projection, entries[key])
            elif (new := prefix_errors(key, spec.project, entries[key])) is not entries[key]:
                changes.append((value, key, new))
        return changes

    # Conversion ---------------------------------------------------------------------------------------------------

    @property
    def _gives_tuple(self) -> bool:
        """Whether Gymnasium sees values as tuples: decided by the space the spec was made from, else by its keys."""
        if self._as_tuple is False:
            return False
        keys = list(self._known_specs())
        return keys == [str(i) for i in range(len(keys))] if keys else bool(self._as_tuple)

    def encode(self, val: Any, *, check: bool = True, ignore_device: bool = False) -> Any:
        """Convert a nested dictionary of numbers or arrays to a TensorDict or ``data_cls``, ``[..., *spec.shape]``.

        Args:
            val: a mapping or a TensorDict with exactly the keys of the spec; or a tuple, for keys ``"0", "1", ...``.
            check: whether to raise for a value outside the domain.
            ignore_device: whether to leave tensors on their current device.

        Raises:
            KeyError: If a key is missing or unknown.
            TypeError: If ``val`` is not a mapping.
            ValueError: If an entry does not fit, or entries differ in their leading dims.
        """
        if isinstance(val, tuple):
            val = {str(i): part for i, part in enumerate(val)}
        if not isinstance(val, Mapping) and not is_tensor_collection(val):
            raise TypeError(
                f"Composite.encode: expected a dictionary with the keys {list(self._specs)}, got {type(val).__name__}."
            )
        # A TensorDict is a Mapping too, but iterates over its rows.
        entries = raw_entries(val) if is_tensor_collection(val) else val
        for key in entries:
            if key not in self._specs:
                raise unknown_key(key, list(self._specs), "the spec")
        known = self._known_specs()
        for key in known:
            if key not in entries:
                raise unknown_key(key, list(entries), "the data")
        encoded, size = encode_entries(known, self._shape, entries, check=check, ignore_device=ignore_device)
        return self._wrapped(encoded, size)

    def to_numpy(self, val: Any, safe: bool | None = True) -> Any:
        """Convert a TensorDict to a nested dictionary, or to a tuple if the keys are ``"0", "1", ...``.

        Args:
            val: a TensorDict of the spec.
            safe: whether to raise for a TensorDict that is not in the spec.

        Raises:
            ValueError: If the TensorDict is not in the spec.
        """
        if safe and not self.is_in(val):
            raise ValueError("Composite.to_numpy: " + self._messages(val)[0])
        entries = raw_entries(val)
        numbers = {key: spec.to_numpy(entries[key], safe=False) for key, spec in self._known_specs().items()}
        return tuple(numbers.values()) if self._gives_tuple else numbers

    # Shape and device ---------------------------------------------------------------------------------------------

    def _rebuilt(self, shape: torch.Size, specs: dict[str, TensorSpec | None]) -> Self:
        """Return an unlocked copy with another shape and other entries."""
        new = copy.copy(self)
        new._shape, new._specs, new._lock = shape, specs, Lock()
        return new

    def _map_specs(self, shape: torch.Size, change: Callable[[TensorSpec], TensorSpec]) -> Self:
        """Return an unlocked copy with another shape and each entry changed."""
        return self._rebuilt(shape, {key: None if s is None else change(s) for key, s in self._specs.items()})

    def clone(self) -> Self:
        """Return an independent, unlocked copy."""
        return self._map_specs(self._shape, lambda spec: spec.clone())

    @property
    def shape(self) -> torch.Size:
        """The batch size, with which the shapes of all entries begin. Assigning it does not change the entries."""
        return self._shape

    @shape.setter
    def shape(self, shape: Shape) -> None:
        size = as_size(shape)
        self._check_unlocked(f"set its batch size to {list(size)}")
        self._check_size(size, ())
        self._set_size(size)

    @property
    def batch_size(self) -> torch.Size:
        """The batch size (alias of ``shape``)."""
        return self._shape

    @batch_size.setter
    def batch_size(self, shape: Shape) -> None:
        self.shape = shape

    def _check_size(self, size: torch.Size, prefix: tuple[str, ...]) -> None:
        for name, spec in self._known_specs().items():
            path = (*prefix, name)
            if isinstance(spec, Composite):
                spec._check_size(size, path)
            elif spec.shape[: len(size)] != size:
                raise ValueError(
                    f"{format_key(path)}: expected a shape that begins with {list(size)}, the new batch size of the "
                    f"Composite, got {list(spec.shape)}. Set a batch size with which the shapes of all entries "
                    "begin, or expand the Composite: spec.expand(...)."
                )

    def _set_size(self, size: torch.Size) -> None:
        for spec in self._specs.values():
            # A nested Composite may have more batch dims than its owner.
            if isinstance(spec, Composite) and spec.shape[: len(size)] != size:
                spec._set_size(size)
        self._shape = size

    def _become(self, other: TensorSpec) -> None:
        assert isinstance(other, Composite)
        self._check_unlocked("change its dims or dtypes")
        self._shape, self._specs = other._shape, other._specs

    def _with_variable(self, dim: int) -> Self:
        size = torch.Size((*self._shape[:dim], -1, *self._shape[dim + 1 :]))
        return self._map_specs(size, lambda spec: spec._with_variable(dim))

    @property
    def device(self) -> torch.device | None:
        """The device of all entries; None if each has its own. Assigning it moves the entries."""
        return self._device

    @device.setter
    def device(self, device: Device) -> None:
        self._check_unlocked(f"set its device to {device}")
        if device is None:
            self._clear_device()
        else:
            moved = self.to(as_device(device))
            self._device = moved._device
            self._adopt(moved)

    def _clear_device(self) -> None:
        self._device = None
        for spec in self._specs.values():
            if isinstance(spec, Composite):
                spec._clear_device()

    def clear_device_(self) -> Self:
        """Set the device to None, here and in nested Composites. The leaves stay on their devices."""
        self.device = None
        return self

    def to(self, dest: torch.dtype | Device) -> Self:
        """Return the spec with its entries on another device, or its floating entries in another floating dtype.

        As with ``torch.nn.Module.to``, integers and booleans keep their dtype.

        Raises:
            TypeError: If the dtype is not a floating one.
        """
        if isinstance(dest, torch.dtype):
            if not dest.is_floating_point:
                raise TypeError(f"Composite.to changes floating entries only, got {dest}. Change the entry itself.")
            return self._map_specs(self._shape, lambda spec: spec.to(dest) if _has_floats(spec) else spec.clone())
        device = as_device(dest)
        # Cloned first: `to` returns a leaf that is there already as it is, and its mask would be shared.
        new = self._map_specs(self._shape, lambda spec: spec.clone().to(device))
        new._device = device
        return new

    def expand(self, *shape: Any) -> Self:
        """Return the spec with batch dims added or stretched, in each entry too; see ``TensorSpec.expand``."""
        sizes = as_sizes(shape)
        try:
            size = map_size(lambda tensor: tensor.expand(sizes), self._shape)
        except RuntimeError:
            raise ValueError(
                f"Composite of shape {shape_text(self._shape)} does not expand to {list(sizes)}: the new shape must "
                f"end with {shape_text(self._shape)}, where only dims of size 1 may change."
            ) from None
        return self._map_specs(size, lambda spec: spec.expand(*size, *spec.shape[self.ndim :]))

    def _squeezed(self, dim: int) -> Self:
        if self._shape[dim] != 1:
            return self
        return self._map_specs(self._shape[:dim] + self._shape[dim + 1 :], lambda spec: spec.squeeze(dim))

    def _unsqueezed(self, dim: int) -> Self:
        return self._map_specs(
            torch.Size((*self._shape[:dim], 1, *self._shape[dim:])), lambda spec: spec.unsqueeze(dim)
        )

    def _mapped(self, fn: TensorMap) -> Self:
        return self._map_specs(map_size(fn, self._shape), lambda spec: spec._mapped(fn))

    def _indexed(self, index: Any) -> Self:
        """Index the batch dims of all entries."""
        parts = leading_index(index, self.ndim)
        return self._map_specs(map_size(lambda tensor: tensor[parts], self._shape), lambda spec: spec[parts])

    # Equality and text --------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is type(self)
            and isinstance(other, Composite)
            and (self._shape, self._device, self._data_cls) == (other._shape, other._device, other._data_cls)
            and self._gives_tuple == other._gives_tuple
            and self._specs == other._specs
        )

    def __hash__(self) -> int:
        return id(self)  # the entries may change, so that only this very object is the same key

    def __repr__(self) -> str:
        named = ((printable(key, one_line=True), spec) for key, spec in self._specs.items())
        lines = [f"{key}: {spec!r}".replace("\n", "\n    ") for key, spec in named]
        about = [f"device={self._device}", f"shape={self._shape}"]
        if self._data_cls is not None:
            about.append(f"data_cls={self._data_cls.__name__}")
        return "Composite(\n    " + ",\n    ".join(lines + about) + ")" if lines else f"Composite({', '.join(about)})"


def check_is_spec(value: Any, path: tuple[str, ...]) -> None:
    """Raise a ``TypeError`` unless ``value``, the new entry at ``path``, is a spec."""
    if not isinstance(value, TensorSpec):
        raise TypeError(f"{as_key(path)!r}: expected a spec, a mapping of specs or None, got {type(value).__name__}.")


def _has_floats(spec: TensorSpec) -> bool:
    return isinstance(spec, Composite) or (spec.dtype is not None and spec.dtype.is_floating_point)

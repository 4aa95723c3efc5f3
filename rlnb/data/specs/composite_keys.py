"""CompositeKeys: a Composite as a nested dictionary that can be locked."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import ItemsView, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, Self

import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.normalize import Key, as_key, as_path

if TYPE_CHECKING:
    from rlnb.data.specs.composite import Composite

_RAISE = object()


class SpecKeyError(KeyError):
    """A key that is not there. Unlike a bare ``KeyError`` it prints its text without quotes."""

    def __str__(self) -> str:
        return str(self.args[0])


class CompositeKeys(TensorSpec):
    """The dictionary side of `Composite`: keys, reading, writing, locking."""

    _specs: dict[str, TensorSpec | None]
    _locked: bool

    def keys(self, include_nested: bool = False, leaves_only: bool = False) -> list[Key]:
        """List the keys, in the order in which they were set.

        Args:
            include_nested: whether to list the keys of nested Composites too, as tuples, before the Composite's own.
            leaves_only: whether to leave the Composites themselves out.

        Example:
            >>> from rlnb.data import Composite, Unbounded
            >>> spec = Composite(a=Unbounded(1), b=Composite(c=Unbounded(2)))
            >>> spec.keys(), spec.keys(True), spec.keys(True, True)
            (['a', 'b'], ['a', ('b', 'c'), 'b'], ['a', ('b', 'c')])
        """
        found: list[Key] = []
        for name, spec in self._specs.items():
            nested = isinstance(spec, CompositeKeys)
            if include_nested and isinstance(spec, CompositeKeys):
                found.extend((name, *as_path(key)) for key in spec.keys(True, leaves_only))
            if not (nested and leaves_only):
                found.append(name)
        return found

    def items(self, include_nested: bool = False, leaves_only: bool = False) -> Any:
        """List pairs of key and spec; see `keys` for the arguments."""
        if not include_nested and not leaves_only:
            return ItemsView(self._specs)
        return [(key, self[key]) for key in self.keys(include_nested, leaves_only)]

    def values(self, include_nested: bool = False, leaves_only: bool = False) -> Any:
        """List the specs; see `keys` for the arguments."""
        if not include_nested and not leaves_only:
            return ValuesView(self._specs)
        return [self[key] for key in self.keys(include_nested, leaves_only)]

    def __len__(self) -> int:
        return len(self._specs)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, key: object) -> bool:
        return self.get(key, _RAISE) is not _RAISE  # type: ignore[arg-type]

    def is_empty(self, recurse: bool = False) -> bool:
        """Whether there are no keys.

        Args:
            recurse: whether Composites that are empty themselves count as nothing.
        """
        if not recurse:
            return not self._specs
        return all(isinstance(spec, CompositeKeys) and spec.is_empty(True) for spec in self._specs.values())

    def get(self, key: Key, default: Any = None) -> Any:
        """Return the spec at ``key``, or ``default`` when there is none.

        Args:
            key: a name, or a tuple of names for a nested one.
            default: what to return otherwise.
        """
        here: Any = self
        for name in as_path(key):
            if not isinstance(here, CompositeKeys) or name not in here._specs:
                return default
            here = here._specs[name]
        return here

    def __getitem__(self, index: Any) -> Any:
        """Return the spec at a key; any other index goes to the batch dims of all entries.

        Raises:
            KeyError: there is no such key.
            IndexError: the index has more dims than the batch size.
        """
        if isinstance(index, str):
            found = self._specs.get(index, _RAISE)
        elif isinstance(index, tuple) and index and isinstance(index[0], (str, tuple)):
            found = self.get(index, _RAISE)
        else:
            return self._indexed(index)
        if found is _RAISE:
            raise self._unknown(index, self.keys(include_nested=True), "the spec")
        return found

    @abstractmethod
    def _indexed(self, index: Any) -> Self:
        """Index the batch dims of all entries."""

    @abstractmethod
    def _nested(self, specs: Mapping[Any, Any]) -> Self:
        """Make a Composite of the same shape and device."""

    @staticmethod
    def _unknown(key: Any, legal: list[Any], where: str) -> SpecKeyError:
        names = ", ".join(map(repr, legal)) or "no keys"
        return SpecKeyError(f"no key {key!r} in {where}, which has {names}.")

    def set(self, key: Key, spec: TensorSpec | Mapping[Any, Any] | None) -> Self:
        """Put a spec at ``key``, making the Composites on the way there.

        Args:
            key: a name, or a tuple of names for a nested one.
            spec: the spec; a mapping for a nested Composite; None for a key of which nothing is said.

        Returns:
            The Composite.

        Raises:
            RuntimeError: the Composite is locked.
            TypeError: it is no spec.
            ValueError: the spec does not lead with the Composite's shape.
        """
        path = as_path(key)
        owner: CompositeKeys = self
        for depth, name in enumerate(path):
            owner._refuse_if_locked(f"set {as_key(path)!r}")
            here, rest = owner._specs.get(name), path[depth + 1 :]
            if not rest or not isinstance(here, CompositeKeys):
                break
            owner = here
        owner._specs[name] = owner._fitted(path, {as_key(rest): spec} if rest else spec)
        return self

    def _fitted(self, path: tuple[str, ...], spec: Any) -> TensorSpec | None:
        if isinstance(spec, Mapping):
            spec = self._nested(spec)
        if spec is None:
            return None
        if not isinstance(spec, TensorSpec):
            raise TypeError(
                f"{as_key(path)!r}: expected a spec, a mapping of specs or None, got a {type(spec).__name__}."
            )
        if spec.shape[: self.ndim] != self._shape:
            raise ValueError(
                f"{as_key(path)!r}: expected a shape that begins with {list(self._shape)}, the shape of the Composite, "
                f"got {list(spec.shape)} ({type(spec).__name__}). Give the spec a batch dimension: "
                f"spec.expand({', '.join(map(str, (*self._shape, *spec.shape)))})."
            )
        if self._device is not None and spec.device != self._device:
            return spec.to(self._device)
        return spec

    def __setitem__(self, key: Key, spec: TensorSpec | Mapping[Any, Any] | None) -> None:
        self.set(key, spec)

    def update(self, other: Mapping[Any, Any] | Composite) -> Self:
        """Set all entries of ``other``; nested Composites are merged.

        Args:
            other: a Composite, or a mapping from keys to specs.

        Returns:
            The Composite.

        Raises:
            RuntimeError: the Composite is locked.
            ValueError: a spec does not lead with the Composite's shape. Nothing is changed then.
        """
        self._refuse_if_locked("update it")
        draft = self.clone()
        for key, spec in other.items():
            here = draft.get(key)
            if isinstance(here, CompositeKeys) and isinstance(spec, (CompositeKeys, Mapping)):
                here.update(spec)  # type: ignore[arg-type]
            else:
                draft.set(key, spec)
        self._specs = draft._specs
        return self

    def pop(self, key: Key, default: Any = _RAISE) -> Any:
        """Remove a key and return its spec.

        Args:
            key: a name, or a tuple of names for a nested one.
            default: what to return when there is no such key; without it that is an error.

        Raises:
            KeyError: there is no such key.
            RuntimeError: the Composite is locked.
        """
        path = as_path(key)
        self._refuse_if_locked(f"delete {as_key(path)!r}")
        if key not in self:
            if default is not _RAISE:
                return default
            raise self._unknown(key, self.keys(include_nested=True), "the spec")
        owner = self.get(as_key(path[:-1])) if len(path) > 1 else self
        owner._refuse_if_locked(f"delete {as_key(path)!r}")
        return owner._specs.pop(path[-1])

    def __delitem__(self, key: Key) -> None:
        self.pop(key)

    def select(self, *keys: Key, strict: bool = True) -> Self:
        """Return a Composite with these keys only, in the spec's own order.

        Args:
            *keys: names, or tuples of names for nested ones.
            strict: whether an unknown key is an error.

        Raises:
            KeyError: there is no such key (with ``strict``).
        """
        paths = self._known_paths(keys, strict)
        return self._filtered(lambda path: any(path[: len(p)] == p for p in paths), keep_empty=False)

    def exclude(self, *keys: Key, strict: bool = False) -> Self:
        """Return a Composite without these keys.

        Args:
            *keys: names, or tuples of names for nested ones.
            strict: whether an unknown key is an error.

        Raises:
            KeyError: there is no such key (with ``strict``).
        """
        paths = self._known_paths(keys, strict)
        return self._filtered(lambda path: not any(path[: len(p)] == p for p in paths), keep_empty=True)

    def _known_paths(self, keys: tuple[Key, ...], strict: bool) -> list[tuple[str, ...]]:
        for key in keys:
            if strict and key not in self:
                raise self._unknown(key, self.keys(include_nested=True), "the spec")
        return [as_path(key) for key in keys]

    def _filtered(self, keep: Any, keep_empty: bool, prefix: tuple[str, ...] = ()) -> Self:
        new = self.clone()
        for name, spec in self._specs.items():
            path = (*prefix, name)
            if isinstance(spec, CompositeKeys) and len(spec):
                part = spec._filtered(keep, keep_empty, path)
                if len(part) or (keep_empty and keep(path)):
                    new._specs[name] = part
                    continue
            elif keep(path):
                continue
            del new._specs[name]
        return new

    @property
    def is_locked(self) -> bool:
        """Whether writing is refused."""
        return self._locked

    def lock_(self) -> Self:
        """Refuse writes, here and in nested Composites, until `unlock_`."""
        return self._set_lock(True)

    def unlock_(self) -> Self:
        """Allow writes again, here and in nested Composites."""
        return self._set_lock(False)

    def _set_lock(self, locked: bool) -> Self:
        self._locked = locked
        for spec in self._specs.values():
            if isinstance(spec, CompositeKeys):
                spec._set_lock(locked)
        return self

    def _refuse_if_locked(self, action: str) -> None:
        if self._locked:
            raise RuntimeError(
                f"cannot {action}: this Composite is locked, so that it stays what its owner (an environment, say) was "
                "built with. Change a copy, spec.clone(), or unlock it first: spec.unlock_()."
            )

    @property
    def dtype(self) -> torch.dtype | None:
        """None: each entry has its own."""
        return None

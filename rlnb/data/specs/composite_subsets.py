"""CompositeSubsets: a Composite with some of its keys only."""

from __future__ import annotations

from typing import Any, Self

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite_keys import CompositeKeys
from rlnb.data.specs.normalize import Key, as_key, as_path


class CompositeSubsets(CompositeKeys):
    """The part of `Composite` that picks keys."""

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
                raise self._no_key(key)
        return [as_path(key) for key in keys]

    def _filtered(self, keep: Any, keep_empty: bool, prefix: tuple[str, ...] = ()) -> Self:
        new = self.clone()
        for name in self._names():
            path, spec = (*prefix, name), self._child(name)
            if isinstance(spec, CompositeSubsets) and not spec.is_empty():
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
        new = self.clone()
        for name in new._names():
            new._take((name,))
        return new

    def separates(self, *keys: Key, default: TensorSpec | None = None) -> Self | None:
        """Move some keys out of this Composite into a new one.

        Args:
            *keys: names, or tuples of names for nested ones. Those that are not there are passed over.
            default: the spec to put at such a key instead.

        Returns:
            The Composite of the moved keys; None when it would have none.

        Raises:
            RuntimeError: the Composite is locked.

        Example:
            >>> from rlnb.data import Composite, Unbounded
            >>> spec = Composite(observation=Unbounded(3), reward=Unbounded(1))
            >>> spec.separates("reward").keys(), spec.keys()
            (['reward'], ['observation'])
        """
        for key in keys:
            self._refuse_below(as_path(key), f"separate {as_key(as_path(key))!r} from it")
        new = self.empty()
        for key in keys:
            if key in self or default is not None:
                new.set(key, self.get(key, default))
        for key in keys:
            self.pop(key, None)
        return None if new.is_empty() else new

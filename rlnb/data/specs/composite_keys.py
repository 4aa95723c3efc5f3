"""CompositeKeys: a Composite as a nested dictionary that can be locked."""

from __future__ import annotations

import difflib
import weakref
from abc import abstractmethod
from collections.abc import Callable, ItemsView, Mapping, Sequence, ValuesView
from typing import TYPE_CHECKING, Any, Self

import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.normalize import Key, as_key, as_path

if TYPE_CHECKING:
    from rlnb.data.specs.composite import Composite

#: Stands for "nothing there" where None means a key without a spec.
MISSING: Any = object()


class SpecKeyError(KeyError):
    """A key that is not there. Unlike a bare ``KeyError`` it prints its text without quotes."""

    def __str__(self) -> str:
        return str(self.args[0])


class KeyList(list[Key]):
    """Keys in order. A tuple of one name is the name: ``("a",) in keys`` if ``"a"`` is."""

    def __contains__(self, key: object) -> bool:
        return super().__contains__(as_key(as_path(key)) if _is_key(key) else key)


def _is_key(key: Any) -> bool:
    return isinstance(key, str) or (isinstance(key, tuple) and bool(key) and all(map(_is_key, key)))


def unknown_key(key: Any, legal: Sequence[Any], where: str) -> SpecKeyError:
    """Return the error for a key that ``where`` does not have: the legal ones, and the one that was probably meant.

    Example:
        >>> print(unknown_key("acton", ["observation", "action"], "the spec"))
        no key 'acton' in the spec, which has 'observation', 'action'. Did you mean 'action'?
    """
    names = ", ".join(map(repr, legal)) or "no keys"
    text = f"no key {key!r} in {where}, which has {names}."
    spelled = {_spelled(known): known for known in legal}
    near = difflib.get_close_matches(_spelled(key), spelled, n=1, cutoff=0.75)
    if not near:
        # The right name at the wrong depth is as common as a slip of the pen.
        last = _spelled(key).rpartition("/")[-1]
        near = [text for text in spelled if text.rpartition("/")[-1] == last][:1]
    return SpecKeyError(f"{text} Did you mean {spelled[near[0]]!r}?" if near else text)


def _spelled(key: Any) -> str:
    return "/".join(as_path(key)) if isinstance(key, (str, tuple)) else str(key)


class CompositeKeys(TensorSpec):
    """The dictionary side of `Composite`: keys, reading, writing, locking."""

    _specs: dict[str, TensorSpec | None]
    _locked: bool
    step_mdp_static: bool
    #: The Composites above this one that were locked with it.
    _owners: tuple[weakref.ref[CompositeKeys], ...] = ()

    def _names(self) -> list[str]:
        """List the keys of this level."""
        return list(self._specs)

    def _child(self, name: str) -> Any:
        """Return the spec of one key of this level, MISSING when there is none."""
        return self._specs.get(name, MISSING)

    def keys(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        *,
        is_leaf: Callable[[type], bool] | None = None,
        step_mdp_static_only: bool = False,
    ) -> list[Key]:
        """List the keys, in the order in which they were set.

        Args:
            include_nested: whether to list the keys of nested Composites too, as tuples, before the Composite's own.
            leaves_only: whether to leave the Composites themselves out.
            is_leaf: whether a spec of a class counts as a leaf, which is not gone into. None: all but Composites do.
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
            nested = isinstance(spec, CompositeKeys) and (is_leaf is None or not is_leaf(type(spec)))
            if include_nested and nested:
                found.extend((name, *as_path(key)) for key in spec.keys(True, leaves_only, **options))  # type: ignore[union-attr]  # nested
            static = isinstance(spec, CompositeKeys) and spec.step_mdp_static
            if not (nested and leaves_only) and (static or not step_mdp_static_only):
                found.append(name)
        return found

    def items(self, include_nested: bool = False, leaves_only: bool = False, **options: Any) -> Any:
        """List pairs of key and spec; see `keys` for the arguments."""
        if not include_nested and not leaves_only and not options:
            return ItemsView(self._specs)
        return [(key, self[key]) for key in self.keys(include_nested, leaves_only, **options)]

    def values(self, include_nested: bool = False, leaves_only: bool = False, **options: Any) -> Any:
        """List the specs; see `keys` for the arguments."""
        if not include_nested and not leaves_only and not options:
            return ValuesView(self._specs)
        return [self[key] for key in self.keys(include_nested, leaves_only, **options)]

    def __len__(self) -> int:
        return len(self._specs)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, key: object) -> bool:
        return self.get(key, MISSING) is not MISSING  # type: ignore[arg-type]  # any default will do

    def is_empty(self, recurse: bool = False) -> bool:
        """Whether there are no keys.

        Args:
            recurse: whether Composites that are empty themselves count as nothing.
        """
        if not recurse:
            return not self._specs
        return all(isinstance(spec, CompositeKeys) and spec.is_empty(True) for spec in self.values())

    def get(self, key: Key, default: Any = None) -> Any:
        """Return the spec at ``key``, or ``default`` when there is none.

        Args:
            key: a name, or a tuple of names for a nested one.
            default: what to return otherwise.
        """
        here: Any = self
        for name in as_path(key):
            here = here._child(name) if isinstance(here, CompositeKeys) else MISSING
            if here is MISSING:
                return default
        return here

    def __getitem__(self, index: Any) -> Any:
        """Return the spec at a key; any other index goes to the batch dims of all entries.

        Raises:
            KeyError: there is no such key.
            IndexError: the index has more dims than the batch size.
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

    @abstractmethod
    def _led_by(self, size: torch.Size) -> Self:
        """Return a copy whose batch size leads with ``size``, this Composite itself if that cannot be."""

    @abstractmethod
    def _indexed(self, index: Any) -> Self:
        """Index the batch dims of all entries."""

    @abstractmethod
    def _nested(self, specs: Mapping[Any, Any]) -> Self:
        """Make a Composite of the same shape and device."""

    def _no_key(self, key: Any) -> SpecKeyError:
        return unknown_key(key, self.keys(include_nested=True), "the spec")

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
        self._refuse_below(path, f"set {as_key(path)!r}")
        self._put(path, spec, path)
        return self

    def _put(self, path: tuple[str, ...], spec: Any, full: tuple[str, ...]) -> None:
        """Write at ``path`` from here; ``full`` is the key that the caller gave, for errors."""
        here, rest = self._child(path[0]), path[1:]
        if rest and isinstance(here, CompositeKeys):
            here._put(rest, spec, full)
        else:
            self._specs[path[0]] = self._fitted(full, {as_key(rest): spec} if rest else spec)

    def _fitted(self, path: tuple[str, ...], spec: Any) -> TensorSpec | None:
        if isinstance(spec, Mapping):
            spec = self._nested(spec)
        if spec is None:
            return None
        if not isinstance(spec, TensorSpec):
            raise TypeError(
                f"{as_key(path)!r}: expected a spec, a mapping of specs or None, got a {type(spec).__name__}."
            )
        if spec.shape[: self.ndim] != self._shape and isinstance(spec, CompositeKeys):
            spec = spec._led_by(self._shape)
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
                here.update(spec)  # type: ignore[arg-type]  # both are Composites
            else:
                draft.set(key, spec)
        self._adopt(draft)
        return self

    def _adopt(self, other: Self) -> None:
        """Take over the entries of ``other``, a changed clone of this Composite."""
        self._specs = other._specs

    def pop(self, key: Key, default: Any = MISSING) -> Any:
        """Remove a key and return its spec.

        Args:
            key: a name, or a tuple of names for a nested one.
            default: what to return when there is no such key; without it that is an error.

        Raises:
            KeyError: there is no such key.
            RuntimeError: the Composite is locked.
        """
        path = as_path(key)
        self._refuse_below(path, f"delete {as_key(path)!r}")
        if key not in self:
            if default is not MISSING:
                return default
            raise self._no_key(key)
        return self._take(path)

    def _take(self, path: tuple[str, ...]) -> Any:
        """Remove the spec at ``path``, which is there, and return it."""
        return self._child(path[0])._take(path[1:]) if len(path) > 1 else self._specs.pop(path[0])

    def __delitem__(self, key: Key) -> None:
        self.pop(key)

    @property
    def is_locked(self) -> bool:
        """Whether writing is refused."""
        return self._locked

    @property
    def locked(self) -> bool:
        """Whether writing is refused (another name of ``is_locked``)."""
        return self.is_locked

    def lock_(self, recurse: bool = True) -> Self:
        """Refuse writes until `unlock_`.

        Args:
            recurse: whether nested Composites refuse them too.
        """
        self._set_lock(True, recurse)
        return self

    def unlock_(self, recurse: bool = True) -> Self:
        """Allow writes again.

        Args:
            recurse: whether nested Composites allow them too.

        Raises:
            RuntimeError: the Composite was locked with one that holds it and is locked still.
        """
        self._refuse_unlocking()
        self._set_lock(False, recurse)
        return self

    def _refuse_unlocking(self) -> None:
        self._owners = tuple(ref for ref in self._owners if (owner := ref()) is not None and owner.is_locked)
        if self._owners:
            raise RuntimeError(
                "cannot unlock this Composite: it was locked with the one that holds it, which would then change though"
                " it is locked. Unlock that one, which unlocks this one too: spec.unlock_()."
            )

    def _set_lock(self, locked: bool, recurse: bool, owner: CompositeKeys | None = None) -> None:
        self._locked = locked
        if owner is not None and locked and all(ref() is not owner for ref in self._owners):
            self._owners = (*self._owners, weakref.ref(owner))
        elif not locked:
            self._owners = ()
        for spec in self._specs.values():
            if recurse and isinstance(spec, CompositeKeys):
                spec._set_lock(locked, recurse, self)

    def __getstate__(self) -> dict[str, Any]:
        # Weak references cannot be pickled, and a copy is held by nobody.
        return {**self.__dict__, "_owners": ()}

    def _refuse_if_locked(self, action: str) -> None:
        if self.is_locked:
            raise RuntimeError(
                f"cannot {action}: this Composite is locked, so that it stays what its owner (an environment, say) was "
                "built with. Change a copy, spec.clone(), or unlock it first: spec.unlock_()."
            )

    def _refuse_below(self, path: tuple[str, ...], action: str) -> None:
        """Raise if this Composite, or one on the way to ``path``, is locked."""
        self._refuse_if_locked(action)
        here = self._child(path[0]) if len(path) > 1 else None
        if isinstance(here, CompositeKeys):
            here._refuse_below(path[1:], action)

    @property
    def dtype(self) -> torch.dtype | None:
        """None: each entry has its own."""
        return None

"""StackedKeys: a lazy stack of Composites as a nested dictionary of the keys that all members have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.composite_keys import MISSING, KeyList, SpecKeyError
from rlnb.data.specs.lazy_stack import LazyStack
from rlnb.data.specs.normalize import Device, Key, as_key, as_path
from rlnb.data.specs.variable import shape_text


class StackedKeys(LazyStack, Composite):
    """The dictionary side of `StackedComposite`: reading, writing and locking go to the members."""

    # Keys ---------------------------------------------------------------------------------------------------------

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
                return self._again(parts, self._stack_dim)
        elif len(set(kinds)) == 1:
            return torch.stack(parts, self._stack_dim)
        raise ValueError(
            f"{name!r} is of different kinds in the members ({', '.join(kinds)}), so that there is no one spec for it. "
            f"Read it from a member: spec[0][{name!r}]."
        )

    def keys(self, include_nested: bool = False, leaves_only: bool = False, **options: Any) -> list[Key]:
        """List the keys that all members have, in the first one's order.

        Args:
            include_nested: whether to list the keys of nested Composites too, as tuples, before the Composite's own.
            leaves_only: whether to leave the Composites themselves out.
            **options: the other arguments of `Composite.keys`.
        """
        first, *others = (member.keys(include_nested, leaves_only, **options) for member in self._members)
        return KeyList(key for key in first if all(key in keys for keys in others))

    def items(self, include_nested: bool = False, leaves_only: bool = False, **options: Any) -> list[tuple[Key, Any]]:
        """List pairs of key and stacked spec; see `keys` for the arguments."""
        return [(key, self[key]) for key in self.keys(include_nested, leaves_only, **options)]

    def values(self, include_nested: bool = False, leaves_only: bool = False, **options: Any) -> list[Any]:
        """List the stacked specs; see `keys` for the arguments."""
        return [self[key] for key in self.keys(include_nested, leaves_only, **options)]

    def exclusive_keys(self) -> list[list[str]]:
        """List for each member the keys that not all members have.

        Example:
            >>> torch.stack([Composite(x=None), Composite(x=None, y=None)]).exclusive_keys()
            [[], ['y']]
        """
        shared = set(self._names())
        return [[name for name in member._names() if name not in shared] for member in self._members]

    def __len__(self) -> int:
        return LazyStack.__len__(self)

    def __contains__(self, key: object) -> bool:
        return all(key in member for member in self._members)

    def is_empty(self, recurse: bool = False) -> bool:
        """Whether no member has keys.

        Args:
            recurse: whether Composites that are empty themselves count as nothing.
        """
        return all(member.is_empty(recurse) for member in self._members)

    def __getitem__(self, index: Any) -> Any:
        """Return the stacked spec at a key; any other index goes to the batch dims.

        Raises:
            KeyError: there is no such key in all members.
            IndexError: the index has more dims than the batch size.
        """
        return Composite.__getitem__(self, index)

    def _no_key(self, key: Any) -> SpecKeyError:
        having = [i for i, member in enumerate(self._members) if key in member]
        error = Composite._no_key(self, key)
        if not having:
            return error
        text = str(error).partition(" Did you mean")[0]
        return SpecKeyError(f"{text} Of the members only {having} have it: spec[{having[0]}][{key!r}].")

    # Writing ------------------------------------------------------------------------------------------------------

    @property
    def is_locked(self) -> bool:
        """Whether writing is refused, by any of the members."""
        return any(member.is_locked for member in self._members)

    def _set_lock(self, locked: bool, recurse: bool, owner: Any = None) -> None:
        for member in self._members:
            member._set_lock(locked, recurse, owner)

    def _refuse_unlocking(self) -> None:
        for member in self._members:
            member._refuse_unlocking()

    def _refuse_below(self, path: tuple[str, ...], action: str) -> None:
        for member in self._members:
            member._refuse_below(path, action)

    def _put(self, path: tuple[str, ...], spec: Any, full: tuple[str, ...]) -> None:
        if isinstance(spec, Mapping):
            spec = Composite(spec, shape=self._shape)
        if spec is not None and not isinstance(spec, TensorSpec):
            raise TypeError(
                f"{as_key(full)!r}: expected a spec, a mapping of specs or None, got a {type(spec).__name__}."
            )
        self._refuse_shape(spec, full)
        count = len(self._members)
        parts = [None] * count if spec is None else spec.unbind(self._stack_dim)
        # All members or none: what one of them refuses is seen on copies.
        for member, part in zip(self._members, parts, strict=True):
            member.clone()._put(path, part, full)
        for member, part in zip(self._members, parts, strict=True):
            member._put(path, part, full)

    def _refuse_shape(self, spec: TensorSpec | None, path: tuple[str, ...]) -> None:
        if spec is not None and spec.shape[: self.ndim] != self._shape:
            raise ValueError(
                f"{as_key(path)!r}: expected a shape that begins with {shape_text(self._shape)}, the shape of the "
                f"stack, got {shape_text(spec.shape)} ({type(spec).__name__}). Give the spec a batch dimension: "
                f"spec.expand({', '.join(map(str, (*self._shape, *spec.shape)))}); or write to one member: "
                f"spec[0].set({as_key(path)!r}, ...)."
            )

    def __delitem__(self, key: Key) -> None:
        """Remove a key from the members that have it, one of them at least."""
        path = as_path(key)
        self._refuse_below(path, f"delete {as_key(path)!r}")
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

    def _filtered(self, keep: Any, keep_empty: bool, prefix: tuple[str, ...] = ()) -> Self:
        return self._again([m._filtered(keep, keep_empty, prefix) for m in self._members], self._stack_dim)

    def empty(self) -> Self:
        """Return a stack of the same shape without keys."""
        return self._again([member.empty() for member in self._members], self._stack_dim)

    @property
    def device(self) -> torch.device | None:
        """Where all entries live; None where the members differ, or do not say. Setting it moves them."""
        return LazyStack.device.fget(self)  # type: ignore[attr-defined]  # a property, called for its base

    @device.setter
    def device(self, device: Device) -> None:
        self._refuse_if_locked(f"set its device to {device}")
        for member in self._members:
            member.device = device

    def _forget_device(self) -> None:
        for member in self._members:
            member._forget_device()

    __hash__ = Composite.__hash__

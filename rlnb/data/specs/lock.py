"""Lock of a Composite against writes, which remembers the locked Composites that hold it."""

from __future__ import annotations

import weakref
from typing import Any


class Lock:
    """Whether a Composite refuses writes, and the locks of the Composites that were locked together with it.

    Example:
        >>> lock = Lock()
        >>> lock.set(True)
        >>> lock.locked
        True
    """

    def __init__(self) -> None:
        self.locked = False
        self._owners: tuple[weakref.ref[Lock], ...] = ()

    def set(self, locked: bool, owner: Lock | None = None) -> None:
        """Lock or unlock.

        Args:
            locked: whether to refuse writes.
            owner: the lock of the Composite that holds this one, if they are locked together.
        """
        self.locked = locked
        if not locked:
            self._owners = ()
        elif owner is not None and all(ref() is not owner for ref in self._owners):
            self._owners = (*self._owners, weakref.ref(owner))

    def check_can_unlock(self) -> None:
        """Raise if an owner is still locked.

        Raises:
            RuntimeError: If a Composite that was locked together with this one is still locked.
        """
        self._owners = tuple(ref for ref in self._owners if (owner := ref()) is not None and owner.locked)
        if self._owners:
            raise RuntimeError(
                "cannot unlock this Composite: the one that holds it is still locked, and must not change. Unlock that "
                "one, which unlocks this one too: spec.unlock_()."
            )

    def __getstate__(self) -> dict[str, Any]:
        # Weak references cannot be pickled, and a copy has no owner.
        return {**self.__dict__, "_owners": ()}
